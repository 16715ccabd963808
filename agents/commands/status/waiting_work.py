"""What waits, in rows of `ullage status`: groups that are out and pods without a node, evictions without a webhook, inputs.

That a group is out, a pod waits or an external expander does not answer is said every ten minutes, so fifteen are read.
Each consumer writes an outcome for each plan, even if it expired: plans that expired without one show a consumer that is missing.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from operator import attrgetter

from agents.commands.status import newest_records
from agents.commands.status.newest_records import NewestRecords
from agents.commands.status.status_rows import CONSUMERS, StatusRow, length
from agents.run import stage_topics
from schemas import times
from schemas.catalogue import CATALOGUE, parse_wire_name
from schemas.decisions.node_updates import (
    PODS_WAIT,
    BufferStatusPlanned,
    ExpanderAsked,
    NodeRemovalPlanned,
    NodeScalingHalted,
    RefusalCode,
    ScaleRefused,
    ScaleUpPlanned,
    SizeCorrectionPlanned,
    SoftTaintPlanned,
)
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.decisions.replica_plans import ReplicasPlanned, ScalingMode
from schemas.facts.update_facts import WebhookLeaseSeen
from schemas.outcomes import Action, ActionFinished
from schemas.policies.control import ControlChanged, Mode
from schemas.units import counted
from streams import clock_log, reverse_log_reader
from streams.clock_log import ClockReader
from streams.codec.event_codec import header
from streams.log.log_port import Log
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.sources import truncated_partition_filler
from streams.sources.truncated_partition_filler import TruncatedPartition
from streams.topics import CLOCK, Topics

_SAID_WITHIN = timedelta(minutes=15)
_TOPIC = "node-updates"


def rows(context: LogContext, now: datetime) -> Iterator[StatusRow]:
    """A row for each group that is out, and for a cluster in which nothing grows or shrinks. Raises LogUnavailable."""
    kinds = {CATALOGUE.of(kind).wire for kind in (NodeScalingHalted, ScaleRefused)}
    newest: dict[tuple[str, str], NodeScalingHalted] = {}
    waiting: dict[str, ScaleRefused] = {}
    passed_over: dict[str, ScaleRefused] = {}
    for record in newest_records.read(context.log, context.topics.wire(_TOPIC), now - _SAID_WITHIN).records:
        event = context.codec.decode_or_none(record) if header(record, "ce_type") in kinds else None
        if isinstance(event, ScaleRefused) and event.code in PODS_WAIT:
            waiting[event.subject.id] = event
        if isinstance(event, ScaleRefused) and event.code == RefusalCode.EXPANDER_FAILED:
            passed_over[event.cluster] = event
        if isinstance(event, NodeScalingHalted):
            key = event.cluster, event.group
            # by time, for partitions are read one after another
            newest[key] = max(event, newest.get(key, event), key=attrgetter("at"))
    for (cluster, group), halt in sorted(newest.items()):
        if halt.code and group:
            yield StatusRow("node group", group, "out", f"cluster '{cluster}'; {halt.code}: {halt.reason}", warns=True)
        elif halt.code:
            yield StatusRow("nodes", cluster, "halted", f"nothing grows or shrinks: {halt.reason}", warns=True)
    for cluster, refused in sorted(passed_over.items()):
        yield StatusRow("expander", cluster, "failing", f"{refused.reason}: the next expander of the list decides", warns=True)
    for _shape, refused in sorted(waiting.items()):
        subject = refused.subject
        what = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
        number = counted(refused.count, "pod") if refused.count else "pods"
        yield StatusRow("pods", what, "waiting", f"cluster '{refused.cluster}'; {number}: {refused.reason}", warns=True)


# Says that evictions wait for an admission webhook, by the newest fact about its Lease: without one nobody is evicted.
#
# It only matters for a cluster whose mode lets somebody act or plan. Only the end of a partition is read, some hours of it.


LOOKED_AT = 25_000
"""The last records of the cluster's partition among which the fact is looked for: `source kube` repeats it every three hours."""
_LEASES, _KIND = "pod-changes-by-cluster", "webhook-lease-seen"


def missing_webhooks(context: LogContext, control: ControlChanged | None) -> Iterator[StatusRow]:
    """A row while no webhook is at work in the configured cluster; none where nobody looks for one. Raises LogUnavailable."""
    if control is None or control.mode not in (Mode.PLAN, Mode.APPLY):
        return
    lease = _newest(context)
    if lease is not None and not lease.alive:
        says = f"no pod is evicted while no admission webhook is at work: {lease.reason}; start `ullage consumer webhook`"
        yield StatusRow("consumer", f"evictor in {context.cluster}", "waiting", says, warns=control.mode is Mode.APPLY)


def _newest(context: LogContext) -> WebhookLeaseSeen | None:
    log, (wire, partition) = context.log, context.cluster_partition(_LEASES)
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


# Inputs that the clock says were longer than they are now: the turns of their partitions wait, whatever else comes in.
#
# A log loses its end when a broker without all records becomes its leader, when a disk is lost, or when a topic is made anew.


MOST_ROWS = 10
"""Inputs that are named at most; the others are counted."""


def waiting_inputs(log: Log, topics: Topics) -> Iterator[StatusRow]:
    """A row for each of the first ones, and one with the number of others."""
    waiting = list(_lost(log, topics).values())
    for lost in waiting[:MOST_ROWS]:
        stages = ", ".join(stage.name for stage in stage_topics.ALL if lost.topic in stage.reads)
        says = f"{stages} wait: it ends at offset {lost.end.offset}, and the clock has seen it end at {lost.wanted}"
        yield StatusRow("input", f"{lost.topic}:{lost.partition}", "lost its end", says, warns=True)
    if len(waiting) > MOST_ROWS:
        yield StatusRow(
            "input", "others", "lost its end", f"{len(waiting) - MOST_ROWS} more inputs have lost their ends", warns=True
        )


def _lost(log: Log, topics: Topics) -> Mapping[tuple[str, int], TruncatedPartition]:
    if not has_topic(log, topics.wire(CLOCK)):
        return {}
    clock = ClockReader(log, topics)
    clock.catch_up()
    names = [name for name in stage_topics.input_topics() if has_topic(log, topics.wire(name))]
    return truncated_partition_filler.among(clock_log.ends_of(log, topics, names), clock.counted)


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


def unanswered_plans(
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
        # one answer to a later plan of the kind shows that its consumer is at work
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
