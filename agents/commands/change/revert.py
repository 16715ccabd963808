"""Runs `ullage revert`: requests that what was applied since a moment is undone, and ends such a revert.

The outcomes show what was applied, and the log has what each workload's owner had asked for before. The request goes into the
log, and the updater plans for it as for any other change: under the same guards and budgets, in place. Until the revert ends,
neither the updater nor the webhook applies recommendations to the workload.

A change is done by a resize, by an eviction whose successor gets other amounts, or by the admission of a new pod. What the owner
asked for is what the newest admitted pod had before its patch; else the note of the pod that was changed first; else what that
pod requested before our first change to it, also if that was long before. It is never an earlier figure of our own.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from agents.commands.change.operator_session import operator_session
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output_table import TextForm
from agents.why.event_descriptions import amount
from schemas import times
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.facts.pods import PodChanged
from schemas.names import Amounts, Place, Workload
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from schemas.policies.control import Mode, RevertEnded, RevertRequested
from streams import compacted_copy, log_range
from streams.codec import event_codec
from streams.errors import BadInput
from streams.log_context import LogContext
from streams.publishing import source_reports
from streams.publishing.operator_log import OperatorLog
from streams.topics import RULES

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


def owners_amounts_since(context: LogContext, cluster: str, begin: datetime) -> list[OwnersAmounts]:
    """The workloads of the cluster that were changed since then, by key. Raises LogUnavailable."""
    # a pod that carries no note of its admission may have been changed before `begin`, too: the first plan about it ever shows
    acts = _acts(context, begin)
    first = {plan.plan.workload.key: plan for plan in _first_plans(context, cluster, acts.decisions, begin)}
    unnoted = {
        plan.plan.pod.uid: plan.fact.created for plan in first.values() if plan.fact is not None and plan.fact.admitted is None
    }
    earliest = {plan.plan.pod.uid: plan for plan in _earlier(context, cluster, unnoted, begin)}
    owners_by_workload = {key: _of_plan(earliest.get(plan.plan.pod.uid, plan)) for key, plan in first.items()}
    # last, so that they win: their notes have what the owner's template said then
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


_AGO = re.compile(r"(\d+)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_AS_IT_IS = "as it is"


def run(settings: Settings, *, since: str, workloads: str, reason: str, form: TextForm = "table") -> None:
    """Request the revert of what was applied since then, if the cluster's mode is apply; print it in any case."""
    with operator_session(settings) as (operator, at):
        source_reports.require_cluster(operator.context, settings.cluster.name)
        begin = _moment(since, at)
        changed = [
            RevertRequested(at, owners.workload, begin, owners.requests, owners.limits, reason)
            for owners in owners_amounts_since(operator.context, settings.cluster.name, begin)
        ]
        # filtered when all are known, for a refusal names what would have matched
        requests = [revert for revert in changed if _matches(revert, workloads)]
        if changed and not requests:
            raise BadInput(f"nothing was applied to '{workloads}' since {begin:%Y-%m-%d %H:%M:%S} UTC, but to {_names(changed)}")
        control = operator.control(settings.cluster.name)
        acts = control is not None and control.in_force_at(at).mode is Mode.APPLY
        if acts:
            operator.publish(*requests)
    lines = [_line(revert) for revert in requests]
    if any(before.cpu is None or before.memory is None for revert in requests for before in revert.requests.values()):
        lines.append(f"{_AS_IT_IS}: nothing was requested before, and no request of a running pod can be taken away")
    if not requests:
        last = f"nothing was applied to '{workloads}' since {begin:%Y-%m-%d %H:%M:%S} UTC"
    elif acts:
        last = "asked for: `ullage plan` shows how far it is, and `ullage revert --end` lets recommendations count again"
    else:
        last = f"only printed: the mode of cluster '{settings.cluster.name}' is not apply"
    whole = {
        "since": times.rfc3339(begin),
        "asked_for": acts and bool(requests),
        "workloads": [_object(revert) for revert in requests],
    }
    output_table.print_text(form, [*lines, last], whole)


def end(settings: Settings, *, workloads: str, form: TextForm = "table") -> None:
    """End the reverts in force of these workloads."""
    with operator_session(settings) as (operator, at):
        source_reports.require_cluster(operator.context, settings.cluster.name)
        reverts = [revert for revert in in_force(operator) if revert.workload.cluster == settings.cluster.name]
        ended = [RevertEnded(at, revert.workload) for revert in reverts if _matches(revert, workloads)]
        if reverts and not ended:
            raise BadInput(f"no revert is in force for '{workloads}', but for {_names(reverts)}")
        operator.publish(*ended)
    text = [f"{revert.workload.key}: recommendations count again" for revert in ended]
    none = f"no revert is in force for '{workloads}'"
    output_table.print_text(form, text or [none], {"ended": [revert.workload.key for revert in ended]})


def in_force(operator: OperatorLog) -> list[RevertRequested]:
    """The reverts in force, of all clusters."""
    context = operator.context
    reverts: dict[str, RevertRequested] = {}
    for record in compacted_copy.read_present(context.log, context.topics, RULES):
        event = context.codec.decode_or_none(record)
        if isinstance(event, RevertRequested):
            reverts[event.key] = event
        elif isinstance(event, RevertEnded):
            reverts.pop(event.key, None)
    return [reverts[key] for key in sorted(reverts)]


def _moment(text: str, now: datetime) -> datetime:
    """`30m`, `2h`, or a time with an offset from UTC. Raises BadInput."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    # without an offset it would be read in the time zone of whoever types it
    if moment is None or moment.tzinfo is None:
        raise BadInput(f"--since '{text}' is neither a time ago like 90s, 30m, 2h or 1d, nor one like 2026-01-05T12:00:00Z")
    return moment


def _matches(revert: RevertRequested, pattern: str) -> bool:
    return fnmatchcase(workload_name(revert), pattern)


def _names(reverts: Iterable[RevertRequested]) -> str:
    """As the pattern must match them, so that a name that is spelt otherwise does not look like success."""
    return ", ".join(map(workload_name, reverts))


def workload_name(revert: RevertRequested) -> str:
    """As people name its workload: `shop/Deployment/cart`."""
    return f"{revert.workload.namespace}/{revert.workload.kind}/{revert.workload.name}"


def _object(revert: RevertRequested) -> dict[str, object]:
    """For programs, in cores and bytes."""
    amounts = {"requests": revert.requests, "limits": revert.limits}
    both = {what: {name: {"cpu": a.cpu, "memory": a.memory} for name, a in sorted(of.items())} for what, of in amounts.items()}
    return {"workload": revert.workload.key, **both}


def _line(revert: RevertRequested) -> str:
    amounts = "; ".join(
        f"{name} {amount(_AS_IT_IS, cpu=before.cpu)} / {amount(_AS_IT_IS, memory=before.memory)}"
        for name, before in sorted(revert.requests.items())
    )
    return f"{workload_name(revert)}  back to {amounts}"
