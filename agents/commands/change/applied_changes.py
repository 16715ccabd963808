"""What was applied to workloads since a moment, and what their owners had asked for before, according to the log.

A change is done by a resize, by an eviction whose successor gets other amounts, or by the admission of a new pod. What the owner
asked for is what the newest admitted pod had before its patch; else the note of the pod that was changed first; else what that
pod requested before our first change to it, also if that was long before. It is never an earlier figure of our own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.facts.pods import PodChanged
from schemas.names import Amounts, Place, Workload
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from streams import log_range
from streams.codec import event_codec
from streams.log_context import LogContext

_PLANNED_BEFORE = timedelta(hours=1)
"""How much older than its outcome a plan may be."""
_Plan = ResizePlanned | EvictionPlanned


@dataclass(frozen=True, slots=True)
class OwnersAmounts:
    """What a workload's owner had asked for, by container."""

    workload: Workload
    requests: dict[str, Amounts] = field(default_factory=dict)
    limits: dict[str, Amounts] = field(default_factory=dict)


@dataclass(slots=True)
class _Acts:
    """What consumers did since a moment: decisions that were carried out, and the newest admission of each workload."""

    decisions: set[str] = field(default_factory=set)
    admissions: dict[str, ActionFinished] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _FirstPlan:
    """The first plan about a workload or a pod, and the pod as it was then if the log still has that."""

    plan: _Plan
    fact: PodChanged | None


def since(context: LogContext, cluster: str, begin: datetime) -> list[OwnersAmounts]:
    """The workloads of the cluster that were changed since then, by key. Raises LogUnavailable."""
    # a pod that carries no note of its admission may have been changed before `begin`, too: the first plan about it ever shows
    acts = _acts(context, begin)
    first = {plan.plan.workload.key: plan for plan in _first_plans(context, cluster, acts.decisions, begin)}
    unnoted = {
        plan.plan.pod.uid: plan.fact.created for plan in first.values() if plan.fact is not None and plan.fact.admitted is None
    }
    earliest = {plan.plan.pod.uid: plan for plan in _earlier(context, cluster, unnoted, begin)}
    owners_by_workload = {key: _of_plan(earliest.get(plan.plan.pod.uid, plan)) for key, plan in first.items()}
    for key, admission in acts.admissions.items():
        if admission.subject.cluster == cluster and admission.admitted is not None:
            owners = owners_by_workload.setdefault(key, OwnersAmounts(Workload.parse(key)))
            owners.requests.update({container.name: container.requests_before for container in admission.admitted.containers})
            owners.limits.update({container.name: container.limits_before for container in admission.admitted.containers})
    return [owners_by_workload[key] for key in sorted(owners_by_workload)]


def _acts(context: LogContext, begin: datetime) -> _Acts:
    acts = _Acts()
    for event, _ in _events(context, "outcomes", begin):
        if not isinstance(event, ActionFinished) or event.result is not Result.DONE:
            continue
        if event.action is Action.PATCH:
            acts.admissions[event.subject.workload] = event
        elif event.action in (Action.RESIZE, Action.EVICT) and event.detail is not OutcomeDetail.ALREADY_DONE:
            acts.decisions.add(event.decision)  # ALREADY_DONE: somebody else had done it
    return acts


def _first_plans(context: LogContext, cluster: str, done: set[str], begin: datetime) -> Iterator[_FirstPlan]:
    """The first plan of each workload that was carried out since then."""
    first: dict[str, tuple[_Plan, tuple[Place, ...]]] = {}
    for plan, causes in _plans(context, cluster, done, begin):
        earlier = first.get(plan.workload.key)
        if earlier is None or plan.at < earlier[0].at:
            first[plan.workload.key] = plan, causes
    for plan, causes in first.values():
        yield _FirstPlan(plan, _fact(context, plan, causes))


def _earlier(context: LogContext, cluster: str, created: dict[str, datetime], begin: datetime) -> Iterator[_FirstPlan]:
    """The first plan about each of these pods that was carried out before `begin`: it shows what was there before us."""
    oldest = min(created.values(), default=begin)
    if oldest >= begin:
        return
    first: dict[str, tuple[_Plan, tuple[Place, ...]]] = {}
    for plan, causes in _plans(context, cluster, _acts(context, oldest).decisions, oldest):
        earlier = first.get(plan.pod.uid)
        if plan.pod.uid in created and (earlier is None or plan.at < earlier[0].at):
            first[plan.pod.uid] = plan, causes
    for plan, causes in first.values():
        yield _FirstPlan(plan, _fact(context, plan, causes))


def _plans(context: LogContext, cluster: str, done: set[str], begin: datetime) -> Iterator[tuple[_Plan, tuple[Place, ...]]]:
    # an outcome since `begin` may belong to a plan from before it
    for event, causes in _events(context, "pod-updates", begin - _PLANNED_BEFORE):
        mine = isinstance(event, _Plan) and event.id in done and event.workload.cluster == cluster
        if isinstance(event, _Plan) and mine and event.recommendation:  # a revert's plan has none
            yield event, causes


def _of_plan(first: _FirstPlan) -> OwnersAmounts:
    """What the owner asked for, by the pod that was changed first."""
    plan, fact = first.plan, first.fact
    owners = OwnersAmounts(plan.workload, dict(plan.expect))
    if fact is not None:
        owners.limits.update({container.name: container.limits for container in fact.containers if container.name in plan.expect})
        # the webhook's note on the pod counts more than what it requested then, which may be a figure of ours
        for before in fact.owners_amounts:
            owners.requests[before.name], owners.limits[before.name] = before.requests, before.limits
    return owners


def _fact(context: LogContext, plan: _Plan, causes: tuple[Place, ...]) -> PodChanged | None:
    """The pod before the change, from the fact that the plan rests on."""
    for place in causes:
        # after retention the log answers with the first record that it still has
        records = context.log.poll({(place.topic, place.partition): place.offset}, limit=1)
        event = context.codec.decode_or_none(records[0]) if records and records[0].offset == place.offset else None
        if isinstance(event, PodChanged) and event.pod.uid == plan.pod.uid:
            return event
    return None


def _events(context: LogContext, topic: str, begin: datetime) -> Iterator[tuple[object, tuple[Place, ...]]]:
    for record in log_range.read_range(context.log, [context.topics.wire(topic)], since=begin):
        event = None if event_codec.is_of_a_clock(record) else context.codec.decode_or_none(record)
        if event is not None and event.at >= begin:
            yield event, tuple(event_codec.causes(record))
