"""The objects by which people ask for something: of each kind the one that changed last and who changed it, and modes at rest.

Whoever waits for a change of running pods looks for their mode, and `apply` in the cluster's row would say that changes are made.
"""

from collections.abc import Iterator, Mapping

from agents.commands.status.status_rows import StatusRow
from schemas.policies.ehpa import EhpaChanged, TimeSeriesPredictionChanged
from schemas.policies.vertical import UpdateMode
from schemas.policies.vpa import VpaChanged
from streams import reverse_log_reader
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.publishing.operator_log import OperatorLog

MOST = 256
"""Records of one partition that are looked at; every partition has a copy of each."""
MOST_IN_FORCE = 5_000
"""Records of a partition of the policies in force that are looked at, the newest; compaction leaves one for each object."""
SHOWN = 3
"""Names of those that have one mode."""
_Mirrored = VpaChanged | EhpaChanged | TimeSeriesPredictionChanged
_KINDS: Mapping[type[_Mirrored], str] = {
    VpaChanged: "VerticalPodAutoscaler",
    EhpaChanged: "EffectiveHorizontalPodAutoscaler",
    TimeSeriesPredictionChanged: "TimeSeriesPrediction",
}
_RESTING: Mapping[UpdateMode, str] = {
    UpdateMode.OFF: "running pods stay as they are, and new pods get nothing of what is recommended, either",
    UpdateMode.INITIAL: "running pods stay as they are, and new pods get what is recommended",
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


def resting(context: LogContext, recommender: str) -> Iterator[StatusRow]:
    """A row for each of the two modes that leave running pods alone, and who has it.

    `recommender` is the name under which VPAs are served. Raises LogUnavailable.
    """
    objects = {**_vpas(context, recommender), **_policies(context)}
    for mode, says in _RESTING.items():
        names = sorted(name for name, update_mode in objects.items() if update_mode is mode)
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            yield StatusRow("mode", mode.value, "at rest", f"{', '.join(names[:SHOWN])}{more}: {says}")


def _vpas(context: LogContext, recommender: str) -> dict[str, UpdateMode | None]:
    """The VPAs of this cluster that are served."""
    wire = context.topics.wire("policies-latest")
    if not has_topic(context.log, wire):
        return {}
    places = [(wire, partition) for partition in range(context.topics.partitions)]
    last = reverse_log_reader.last(context.log, places, MOST_IN_FORCE)
    # a key lies in one partition, so the order between partitions does not matter
    newest = {record.key: record for place in places for record in last[place]}
    # a removal is a record without a value, which compaction takes away later
    events = [context.codec.decode_or_none(record) for record in newest.values() if record.value is not None]
    vpas = (event for event in events if isinstance(event, VpaChanged) and event.cluster == context.cluster)
    return {f"VPA {vpa.namespace}/{vpa.name}": vpa.update_mode for vpa in vpas if vpa.served_by(recommender)}


def _policies(context: LogContext) -> dict[str, UpdateMode | None]:
    """Those whose target may name workloads of this cluster."""
    prefix = f"{context.cluster}/"
    return {
        f"policy '{target}'": policy.update_mode
        for target, policy in OperatorLog(context).policies().items()
        if target.startswith(prefix) or prefix.startswith(target.removesuffix("*"))
    }
