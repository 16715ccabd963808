"""The node groups that are out now, and pods for which nothing is done. Both are said every ten minutes; fifteen are read."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from agents.commands.status import newest_records
from agents.commands.status.status_rows import StatusRow
from schemas.catalogue import CATALOGUE
from schemas.decisions.node_updates import NodeScalingHalted, ScaleRefused
from schemas.decisions.scale_refusal_codes import PODS_WAIT
from streams.codec.event_codec import header
from streams.log_context import LogContext

_SAID_WITHIN = timedelta(minutes=15)
_TOPIC = "node-updates"


def rows(context: LogContext, now: datetime) -> Iterator[StatusRow]:
    """A row for each group that is out, and for a cluster in which nothing grows or shrinks. Raises LogUnavailable."""
    kinds = {CATALOGUE.of(said).wire for said in (NodeScalingHalted, ScaleRefused)}
    newest: dict[tuple[str, str], NodeScalingHalted] = {}
    waiting: dict[str, ScaleRefused] = {}
    for record in newest_records.read(context.log, context.topics.wire(_TOPIC), now - _SAID_WITHIN).records:
        event = context.codec.decode_or_none(record) if header(record, "ce_type") in kinds else None
        if isinstance(event, ScaleRefused) and event.code in PODS_WAIT:
            waiting[event.subject.id] = event
        if isinstance(event, NodeScalingHalted):
            key = event.cluster, event.group
            newest[key] = max(event, newest.get(key, event), key=lambda said: said.at)
    for (cluster, group), said in sorted(newest.items()):
        if said.code and group:
            yield StatusRow("node group", group, "out", f"cluster '{cluster}'; {said.code}: {said.reason}", warns=True)
        elif said.code:
            yield StatusRow("nodes", cluster, "halted", f"nothing grows or shrinks: {said.reason}", warns=True)
    for _shape, refused in sorted(waiting.items()):
        subject = refused.subject
        what = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
        number = f"{refused.count} pods" if refused.count else "pods"
        yield StatusRow("pods", what, "waiting", f"cluster '{refused.cluster}'; {number}: {refused.reason}", warns=True)
