"""The objects of the cluster by which people ask for something: of each kind the one that changed last, and who changed it."""

from collections.abc import Iterator, Mapping

from agents.commands.status.status_rows import StatusRow
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.time_series_prediction import TimeSeriesPredictionChanged
from schemas.policies.vpa import VpaChanged
from streams import reverse_log_reader
from streams.log_context import LogContext
from streams.log_range import has_topic

MOST = 256
"""Records of one partition that are looked at; every partition has a copy of each."""
_Mirrored = VpaChanged | EhpaChanged | TimeSeriesPredictionChanged
_KINDS: Mapping[type[_Mirrored], str] = {
    VpaChanged: "VerticalPodAutoscaler",
    EhpaChanged: "EffectiveHorizontalPodAutoscaler",
    TimeSeriesPredictionChanged: "TimeSeriesPrediction",
}


def rows(context: LogContext) -> Iterator[StatusRow]:
    """A row for each kind of which an object of the cluster changed lately. Raises LogUnavailable."""
    partition = (context.topics.wire("policies"), 0)
    if not has_topic(context.log, partition[0]):
        return
    newest: dict[type[_Mirrored], _Mirrored] = {}
    for record in reverse_log_reader.last(context.log, [partition], MOST)[partition]:
        event = context.codec.decode_or_none(record)
        if isinstance(event, _Mirrored) and event.cluster == context.cluster:
            newest[type(event)] = event
    for kind, name in _KINDS.items():
        if (event := newest.get(kind)) is not None:
            by = "the object does not say by whom" if event.by is None else f"by {event.by}"
            yield StatusRow("objects", name, "mirrored", f"the last that changed is {event.namespace}/{event.name}, {by}")
