"""The name of an event in an explanation, and the numbers that matter there.

Only a scrape's rows of the workload in question count. Numbers are shortened for reading; `exact_amounts` has every digit.
"""

from collections.abc import Mapping, Sequence
from functools import singledispatch

from agents.logic.guards.guard_records import advised
from agents.why import leak_texts, scaling_texts
from schemas import times, units
from schemas.bounds import AMOUNT_LIMIT
from schemas.catalogue import Event
from schemas.decisions.plan_attestations import PLANS, PlansAttested
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, LastOomKill, OomSource, RequestsRecommended
from schemas.decisions.vpa_conditions import VpaConditionsDecided
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.sources import SourceReported
from schemas.facts.usage import CheckpointSeen, ContainerOOMKilled, MetricsScraped
from schemas.names import Amounts
from schemas.outcomes import ActionFinished, AdmittedAmounts, ObjectWritten, StatusWritten
from schemas.policies.control import ControlChanged, RevertEnded, RevertRequested, StageRulesChanged
from schemas.policies.limit_ranges import LimitRangeChanged, LimitRangeRemoved
from schemas.policies.vertical import ContainerPolicy, VerticalPolicyChanged, VerticalPolicyRemoved
from schemas.policies.vpa import VpaChanged, VpaRemoved

Numbers = dict[str, object]
_RECOMMENDED_AMOUNTS = ("lower", "target", "upper", "uncapped")

_WHAT: Mapping[type, str] = {
    RequestsRecommended: "requests recommended",
    ResizePlanned: "resize planned",
    EvictionPlanned: "eviction planned",
    UpdateRefused: "update refused",
    MetricsScraped: "usage scraped",
    ContainerOOMKilled: "container OOM-killed",
    PodChanged: "pod changed",
    PodDeleted: "pod deleted",
    VerticalPolicyChanged: "vertical policy set",
    VerticalPolicyRemoved: "vertical policy removed",
    CheckpointSeen: "checkpoint of a VPA seen",
    NodeChanged: "node changed",
    NodeRemoved: "node removed",
    SourceReported: "source at work",
    LimitRangeChanged: "limit range set",
    LimitRangeRemoved: "limit range removed",
    VpaChanged: "VPA set",
    VpaRemoved: "VPA removed",
    ControlChanged: "control changed",
    StageRulesChanged: "rules of a stage set",
    RevertRequested: "revert asked for",
    RevertEnded: "revert ended",
    ActionFinished: "action finished",
    VpaConditionsDecided: "conditions of a VPA decided",
    PlansAttested: "plans attested to",
    StatusWritten: "status of a VPA written",
    ObjectWritten: "object of an autoscaler written",
    **scaling_texts.WHAT,
}
_WORDS: Mapping[object, str] = {None: "not set", "": "not set", True: "yes", False: "no"}
# A status is kept equal to the newest decision, so it is no plan, and yet it has outcomes.
_CARRIED_OUT = (*PLANS, VpaConditionsDecided)


def what(event: Event) -> str:
    """The event's name in plain words."""
    # Of these the name depends on what they say.
    by_words = leak_texts.WHAT.get(type(event))
    return _WHAT[type(event)] if by_words is None else by_words(event)


def awaits_outcome(event: Event | None) -> bool:
    """Whether a consumer should carry it out, unlike a recommendation, a refusal or a fact."""
    return isinstance(event, _CARRIED_OUT)


def workload_of(event: Event) -> str | None:
    """The key of the workload that an event is about; None for events about many."""
    if isinstance(event, ActionFinished):
        return event.subject.workload or None
    workload = getattr(event, "workload", None)
    return None if workload is None else str(workload.key)


def numbers(event: Event, workload: str | None) -> Numbers:
    """The numbers of an event that count for `workload`."""
    if isinstance(event, MetricsScraped):
        return _scrape(event, workload)
    author = getattr(event, "by", None)
    return _numbers(event) if author is None else {**_numbers(event), "by": str(author)}


def because(event: Event) -> Mapping[str, object]:
    """What a decision rests on, in typed fields or in words; nothing for events that are no decisions."""
    grounds: Mapping[str, object] = getattr(event, "because", {})
    if isinstance(event, ResizePlanned | EvictionPlanned | UpdateRefused) and event.recommendation:
        return {**grounds, "recommendation": event.recommendation}
    # What has fields of its own stands beside `because` in the record; an explanation shows both as one.
    if not isinstance(event, RequestsRecommended) or event.oom_source is None:
        return grounds
    bounds = {entry.container: f"{_amounts(entry.lower)} to {_amounts(entry.upper)}" for entry in event.containers}
    return {
        **grounds,
        "bounds": bounds,
        "pods": event.pods,
        "last_oom": _last_oom(event.last_oom),
        "oom_source": _oom_source(event.oom_source),
        **({"leaks": {leak.container: leak_texts.at_length(leak) for leak in event.leaks}} if event.leaks else {}),
    }


def _last_oom(kill: LastOomKill | None) -> Mapping[str, object] | None:
    if kill is None:
        return None
    return {
        "at": times.rfc3339(kill.at),
        "pod": kill.pod.name,
        "uid": kill.pod.uid,
        "container": kill.container,
        "memory_request": kill.memory_request,
        "counted": kill.counted,
        "place": str(kill.place),
        **({"pod_limit": kill.pod_limit} if kill.pod_limit is not None else {}),
    }


def _oom_source(source: OomSource) -> Mapping[str, object]:
    if source.at is None:
        return {"state": source.state.value}
    return {"state": source.state.value, "source": source.source, "at": times.rfc3339(source.at)}


def _rows_of(event: MetricsScraped, workload: str | None) -> list[int]:
    return [i for i, key in enumerate(event.workloads) if workload in (None, key)]


def _scrape(event: MetricsScraped, workload: str | None) -> Numbers:
    rows = _rows_of(event, workload)
    numbers: Numbers = {"rows": len(rows), "of": workload or "all workloads"}
    if rows:
        numbers["highest cpu"] = amount(cpu=max(float(event.cores[i]) for i in rows))
        numbers["highest memory"] = amount(memory=max(float(event.memory[i]) for i in rows))
    return numbers


@singledispatch
def _numbers(event: object) -> Numbers:
    # The dispatch is for the kinds below; tables of other files serve the rest.
    others = (scaling_texts.NUMBERS, leak_texts.NUMBERS)
    describe = next((numbers[type(event)] for numbers in others if type(event) in numbers), None)
    if describe is None:
        raise TypeError(f"an explanation has no words for a {type(event).__name__}")
    return describe(event)


@_numbers.register
def _(event: RequestsRecommended) -> Numbers:
    targets = {c.container: _amounts(c.target) for c in event.containers}
    other = event.other_recommender
    served = {"served by": f"'{other}', another recommender: nobody acts on this"} if other else {}
    return {"workload": event.workload.key, **served, "target": targets}


@_numbers.register
def _(event: ResizePlanned) -> Numbers:
    requests = {name: f"{_amounts(event.expect.get(name, Amounts()))} to {_amounts(a)}" for name, a in event.requests.items()}
    return {"pod": event.pod.name, "requests": requests}


@_numbers.register
def _(event: EvictionPlanned | PodDeleted) -> Numbers:
    return {"pod": event.pod.name}


@_numbers.register
def _(event: UpdateRefused) -> Numbers:
    return {"pod": event.pod.name, "guard": event.guard, "reason": advised(event.guard, event.reason)}


@_numbers.register
def _(event: ContainerOOMKilled) -> Numbers:
    limit, request = (amount(memory=m) for m in (event.memory_limit, event.memory_request))
    return {"pod": event.pod.name, "container": event.container, "limit": limit, "request": request}


@_numbers.register
def _(event: PodChanged) -> Numbers:
    return {
        "pod": event.pod.name,
        "phase": str(event.phase),
        "requests": {c.name: _amounts(c.requests) for c in event.containers},
    }


@_numbers.register
def _(event: VerticalPolicyChanged) -> Numbers:
    rest = {**_entries(event.containers), **_through(event)}
    return {"target": event.target, "version": event.version, "mode": str(event.update_mode), **rest}


@_numbers.register
def _(event: VerticalPolicyRemoved) -> Numbers:
    return {"target": event.target, **_through(event)}


@_numbers.register
def _(event: CheckpointSeen) -> Numbers:
    return {"vpa": event.vpa, "container": event.container, "samples": event.count}


@_numbers.register
def _(event: VpaChanged) -> Numbers:
    ref, mode = event.target_ref, event.update_mode
    rest = {"generation": event.generation, "mode": str(mode or "unset"), **_entries(event.containers)}
    return {"vpa": event.key, "target": f"{ref.kind}/{ref.name}" if ref else "none", **rest}


@_numbers.register
def _(event: VpaRemoved) -> Numbers:
    return {"vpa": event.key}


@_numbers.register
def _(event: NodeChanged) -> Numbers:
    return {"node": event.node, "allocatable": _amounts(event.allocatable), "schedulable": event.schedulable}


@_numbers.register
def _(event: NodeRemoved) -> Numbers:
    return {"node": event.node}


@_numbers.register
def _(event: SourceReported) -> Numbers:
    return {"source": event.source, "sees": list(event.sees), **({"but": list(event.lacks)} if event.lacks else {})}


@_numbers.register
def _(event: LimitRangeChanged) -> Numbers:
    return {
        "limit range": event.key,
        "limits": {str(limit.type): f"{_amounts(limit.least)} to {_amounts(limit.most)}" for limit in event.limits},
    }


@_numbers.register
def _(event: LimitRangeRemoved) -> Numbers:
    return {"limit range": event.key}


@_numbers.register
def _(event: ControlChanged) -> Numbers:
    control = {"mode": str(event.mode), "paused": event.paused, "budget": event.budget, "reason": event.reason}
    schedules = {"schedules": [str(schedule) for schedule in event.schedules]} if event.schedules else {}
    return {**control, **schedules, **_through(event)}


def _through(event: ControlChanged | VerticalPolicyChanged | VerticalPolicyRemoved) -> Numbers:
    return {"through": event.through} if event.through else {}


@_numbers.register
def _(event: RevertRequested) -> Numbers:
    requests = {name: _amounts(amounts) for name, amounts in event.requests.items()}
    return {"workload": event.workload.key, "requests": requests, "reason": event.reason or "none given"}


@_numbers.register
def _(event: RevertEnded) -> Numbers:
    return {"workload": event.workload.key}


@_numbers.register
def _(event: StageRulesChanged) -> Numbers:
    return {"stage": event.stage, "program": event.program, "version": event.version, "settings": len(event.settings)}


@_numbers.register
def _(event: ActionFinished) -> Numbers:
    detail = {"detail": str(event.detail)} if event.detail else {}
    return {
        "action": str(event.action),
        "result": str(event.result),
        **detail,
        "subject": str(event.subject),
        **({} if event.admitted is None else _admitted(event.admitted)),
        "reason": event.reason,
    }


def _admitted(admitted: AdmittedAmounts) -> Numbers:
    """What the webhook sets in a new pod; a resize and an eviction have theirs in the decision."""
    changes = {
        kind: {
            container.name: f"{_amounts(before)} to {_amounts(after)}" for container, before, after in amounts if before != after
        }
        for kind, amounts in (
            ("requests", [(container, container.requests_before, container.requests) for container in admitted.containers]),
            ("limits", [(container, container.limits_before, container.limits) for container in admitted.containers]),
        )
    }
    return {kind: texts for kind, texts in changes.items() if texts}


@_numbers.register
def _(event: VpaConditionsDecided) -> Numbers:
    if event.withdrawn:
        return {"vpa": event.key, "withdrawn": True}
    texts = {condition.type.value: f"{condition.status.value} ({condition.message})" for condition in event.conditions}
    conditions = {name: text.removesuffix(" ()") for name, text in texts.items()}
    targets = {entry.container: _amounts(entry.target) for entry in event.containers or ()}
    shown = "as it stands in the object" if event.containers is None else targets
    return {"vpa": event.key, "generation": event.generation, "conditions": conditions, "target": shown}


@_numbers.register
def _(event: StatusWritten) -> Numbers:
    return {"vpa": f"{event.namespace}/{event.name}", "result": str(event.result), "reason": event.reason}


@_numbers.register
def _(event: ObjectWritten) -> Numbers:
    what = f"{event.object_kind} {event.namespace}/{event.name} {event.change}"
    return {"object": what, "policy": event.policy, "result": str(event.result), "reason": event.reason}


def _entries(containers: Sequence[ContainerPolicy]) -> Numbers:
    """The bounds and policies that the entries for containers name."""
    least = {c.container: f"at least {_amounts(c.min_allowed)}" for c in containers if c.min_allowed != Amounts()}
    most = {c.container: f"at most {_amounts(c.max_allowed)}" for c in containers if c.max_allowed != Amounts()}
    policies = {c.container: c.policy for c in containers if c.policy}
    bounds = {name: ", ".join(filter(None, (least.get(name), most.get(name)))) for name in {**least, **most}}
    return {"bounds": bounds, **({"policies": policies} if policies else {})}


def _amounts(amounts: Amounts) -> str:
    return f"{amount(cpu=amounts.cpu)} / {amount(memory=amounts.memory)}"


def is_unbounded(*, cpu: float | None = None, memory: float | None = None) -> bool:
    """Is it no bound yet, but upstream's largest amount, which stands for an upper bound of which nothing is known?

    `cpu` in cores, `memory` in bytes.
    """
    return (cpu is not None and cpu * 1000 >= AMOUNT_LIMIT) or (memory is not None and memory >= AMOUNT_LIMIT)


def amount(unset: str = "not set", /, *, cpu: float | None = None, memory: float | None = None) -> str:
    """One amount in people's units (`schemas.units`); `unbounded` for what is no bound yet, `unset` for what is not set."""
    if is_unbounded(cpu=cpu, memory=memory):
        return "unbounded"
    if cpu is not None:
        return units.cpu_text(cpu)
    return unset if memory is None else units.bytes_text(memory)


def exact_amounts(event: Event, workload: str | None) -> Numbers:
    """The amounts of an event as the record has them, in cores and bytes, under the names that `numbers` shortens.

    Of a recommendation that is all four amounts of each container, of a scrape the highest use of the workload's rows.
    """
    if isinstance(event, RequestsRecommended):
        return {
            f"{entry.container} {name}": _exact(getattr(entry, name))
            for entry in event.containers
            for name in _RECOMMENDED_AMOUNTS
        }
    if isinstance(event, ResizePlanned):
        before = {f"{name} requested": _exact(amounts) for name, amounts in event.expect.items()}
        return {**before, **{f"{name} requests": _exact(amounts) for name, amounts in event.requests.items()}}
    if isinstance(event, ContainerOOMKilled):
        return {"limit": event.memory_limit, "request": event.memory_request, "used": event.memory_used}
    if isinstance(event, MetricsScraped):
        rows = _rows_of(event, workload)
        columns = {"highest cpu": event.cores, "highest memory": event.memory} if rows else {}
        return {name: max(float(column[i]) for i in rows) for name, column in columns.items()}
    return {}


def _exact(amounts: Amounts) -> Numbers:
    return {"cpu": amounts.cpu, "memory": amounts.memory}


def text(value: object, *, exact: bool = False) -> str:
    """A value for reading: mappings and lists written out, floats shortened unless they are to be `exact`."""
    if value is None or value == "" or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, float):
        return repr(value) if exact else f"{value:.6g}"
    if isinstance(value, ContainerRecommendation):
        return f"{value.container} {_amounts(value.target)}"
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{k} {text(v, exact=exact)}" for k, v in value.items()) + ")" if value else "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(text(v, exact=exact) for v in value) + "]"
    return str(value)
