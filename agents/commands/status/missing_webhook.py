"""Says that evictions wait for an admission webhook, by the newest fact about its Lease: without one nobody is evicted.

It only matters for a cluster whose mode lets somebody act or plan. Only the end of a partition is read, some hours of it.
"""

from collections.abc import Iterator

from agents.commands.status.status_rows import StatusRow
from schemas.catalogue import parse_wire_name
from schemas.facts.webhook_leases import WebhookLeaseSeen
from schemas.policies.control import ControlChanged, Mode
from streams import reverse_log_reader
from streams.codec.event_codec import header
from streams.log_context import LogContext
from streams.log_range import has_topic

LOOKED_AT = 25_000
"""The last records of the cluster's partition among which the fact is looked for: `source kube` repeats it every three hours."""
_TOPIC, _KIND = "pod-changes-by-cluster", "webhook-lease-seen"


def rows(context: LogContext, control: ControlChanged | None) -> Iterator[StatusRow]:
    """A row while no webhook is at work in the configured cluster; none where nobody looks for one. Raises LogUnavailable."""
    if control is None or control.mode not in (Mode.PLAN, Mode.APPLY):
        return
    seen = _newest(context)
    if seen is not None and not seen.alive:
        says = f"no pod is evicted while no admission webhook is at work: {seen.reason}; start `ullage consumer webhook`"
        yield StatusRow("consumer", f"evictor in {context.cluster}", "waiting", says, warns=control.mode is Mode.APPLY)


def _newest(context: LogContext) -> WebhookLeaseSeen | None:
    log, (wire, partition) = context.log, context.cluster_partition(_TOPIC)
    if not has_topic(log, wire):
        return None
    end = log.end(wire, partition)
    begin = max(log.begin(wire, partition), end - LOOKED_AT)
    for record in reverse_log_reader.backwards(log, {(wire, partition): (begin, end)}):
        if (parse_wire_name(header(record, "ce_type") or "") or ("",))[0] == _KIND:
            event = context.codec.decode_or_none(record)
            if isinstance(event, WebhookLeaseSeen) and event.cluster == context.cluster:
                return event
    return None
