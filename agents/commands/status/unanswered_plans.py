"""Plans that were for a consumer to carry out and got no outcome: a missing consumer shows in plans that it leaves undone.

Each consumer writes an outcome for each plan, even if it expired. So expired plans in a cluster in mode apply, without any
outcome of their kind since, need attention.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from agents.commands.status import newest_records
from agents.commands.status.newest_records import NewestRecords
from agents.commands.status.status_rows import CONSUMERS, StatusRow, length
from schemas import times
from schemas.catalogue import parse_wire_name
from schemas.decisions.node_updates import (
    BufferStatusPlanned,
    ExpanderAsked,
    NodeRemovalPlanned,
    ScaleUpPlanned,
    SizeCorrectionPlanned,
    SoftTaintPlanned,
)
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.decisions.replica_plans import ReplicasPlanned, ScalingMode
from schemas.outcomes import Action, ActionFinished
from schemas.policies.control import ControlChanged, Mode
from streams.codec.event_codec import header
from streams.log_context import LogContext

LATE = timedelta(minutes=10)
"""After a plan has expired; a resize is followed for some minutes before its outcome is there."""
_TOPICS = ("pod-updates", "node-updates", "replica-plans")
_KINDS = {
    "resize-planned": Action.RESIZE,
    "eviction-planned": Action.EVICT,
    "scale-up-planned": Action.SCALE_UP,
    "node-removal-planned": Action.REMOVE_NODE,
    "soft-taint-planned": Action.SOFT_TAINT,
    "buffer-status-planned": Action.BUFFER_STATUS,
    "expander-asked": Action.ASK_EXPANDER,
    "size-correction-planned": Action.CORRECT_SIZE,
    "replicas-planned": Action.SCALE,
}
_NodePlan = ScaleUpPlanned | SizeCorrectionPlanned | NodeRemovalPlanned | SoftTaintPlanned | BufferStatusPlanned | ExpanderAsked
_Plan = ResizePlanned | EvictionPlanned | _NodePlan | ReplicasPlanned
_Group = tuple[str, Action]


def rows(
    context: LogContext, outcomes: NewestRecords, now: datetime, control_of: Callable[[str], ControlChanged | None]
) -> Iterator[StatusRow]:
    """A row for each cluster and kind of act with such plans; with all outcomes of the last hour. Raises LogUnavailable."""
    since = times.from_ms(outcomes.complete_ms)  # an outcome that was not read is not missing
    answered: dict[tuple[str, Action], datetime] = {}
    for record in outcomes.records:
        event = context.codec.decode_or_none(record)
        if isinstance(event, ActionFinished):
            key = event.subject.cluster, event.action
            answered[key] = max(event.at, answered.get(key, event.at))
    controls: dict[str, ControlChanged | None] = {}
    late: dict[_Group, list[_Plan]] = {}
    for group, plan in _expired(context, since, now):
        cluster, action = group
        newest_control = controls[cluster] if cluster in controls else controls.setdefault(cluster, control_of(cluster))
        control = newest_control if newest_control is None else newest_control.in_force_at(plan.at)
        applied = control is not None and control.mode is Mode.APPLY and not control.paused and control.at <= plan.at
        if applied and answered.get((cluster, action), since) < plan.at:
            late.setdefault(group, []).append(plan)
    for (cluster, action), plans in sorted(late.items()):
        consumer, age = CONSUMERS[action], length((now - max(plan.at for plan in plans)).total_seconds())
        says = f"{len(plans)} {action} plans without an outcome, the newest {age} old: is `ullage consumer {consumer}` at work?"
        yield StatusRow("consumer", f"{consumer} in {cluster}", "silent", says, warns=True)


def _expired(context: LogContext, since: datetime, now: datetime) -> Iterator[tuple[_Group, _Plan]]:
    """Plans since a moment that expired some time ago and were for one of our consumers."""
    for name in _TOPICS:
        for record in newest_records.read(context.log, context.topics.wire(name), since).records:
            kind, _ = parse_wire_name(header(record, "ce_type") or "") or ("", 0)
            plan = context.codec.decode_or_none(record) if kind in _KINDS else None
            if not isinstance(plan, _Plan) or plan.expires + LATE > now:
                continue
            if not isinstance(plan, ReplicasPlanned) or plan.carried_out_by is ScalingMode.DIRECT:
                yield (plan.subject.cluster, _KINDS[kind]), plan
