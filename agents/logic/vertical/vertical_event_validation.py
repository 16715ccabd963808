"""What is wrong with policies and facts about clusters: a sentence for each fault that no recommendation may rest on."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import UTC
from functools import lru_cache
from types import NoneType

from schemas import bounds, event_bounds
from schemas.catalogue import Event
from schemas.decisions.recommendations import CitedRules, LastOomKill, OomSource, RequestsRecommended
from schemas.facts.nodes import NodeChanged
from schemas.facts.sources import SourceReported
from schemas.ids import DecisionId
from schemas.names import Workload
from schemas.policies import vpa_annotations
from schemas.policies.limit_ranges import Limit, LimitRangeChanged
from schemas.policies.vertical import ContainerPolicy, StartupBoost, Tuning, VerticalPolicyChanged
from schemas.policies.vpa import VpaChanged


def reasons(event: Event) -> Iterator[str]:
    """Why an event must not be taken in; nothing for a good event, or one of another capability."""
    match event:
        case RequestsRecommended():
            yield from _recommendation(event)
        case VerticalPolicyChanged():
            yield from _policies(event.containers)
        case VpaChanged():
            yield from _vpa(event)
        case LimitRangeChanged():
            yield from _limits(event.limits)
        case NodeChanged():
            yield from bounds.amounts("allocatable", event.allocatable)
        case SourceReported():
            yield from bounds.at_least("period", event.period, 0.001)
        case _:
            pass


def _recommendation(event: RequestsRecommended) -> Iterator[str]:
    yield from _decision_id(event.id)
    for i, named in enumerate(event.containers):
        yield from bounds.recommended(f"containers[{i}].lower", named.lower)
        yield from bounds.recommended(f"containers[{i}].target", named.target)
        yield from bounds.recommended(f"containers[{i}].upper", named.upper)
        yield from bounds.recommended(f"containers[{i}].uncapped", named.uncapped)


def is_surely_good(event: Event) -> bool:
    """Whether a recommender's recommendation is within all bounds, and its bytes decode to an equal one.

    True means that every reader accepts it; after False a reader has to check.
    """
    if type(event) is not RequestsRecommended or not 0 <= len(event.containers) <= bounds.MOST_ENTRIES:
        return False
    for named in event.containers:
        if len(named.container) > bounds.MOST_TEXT:
            return False
        for amounts in (named.lower, named.target, named.upper, named.uncapped):
            cpu, memory = amounts.cpu, amounts.memory
            # By exact type: True and numpy's numbers pass isinstance and decode to something else.
            if cpu is not None and not (type(cpu) is float and 0.0 <= cpu <= bounds.MOST_RECOMMENDED_CORES):
                return False
            if memory is not None and not (type(memory) is int and 0 <= memory <= bounds.MOST_BYTES):
                return False
    # Parts that many recommendations share are checked once, so all of this costs a tenth of the checks that `reasons` makes.
    pods, kill, source = event.pods, event.last_oom, event.oom_source
    return (
        event.at.tzinfo is UTC
        and (kill is None or (kill.at.tzinfo is UTC and {type(kill.memory_request), type(kill.pod_limit)} <= {int, NoneType}))
        and (source is None or source.at is None or source.at.tzinfo is UTC)
        and event.at.year in bounds.YEARS
        and len(event.id) <= bounds.MOST_TEXT
        and len(event.other_recommender) <= bounds.MOST_TEXT
        and next(_decision_id(event.id), None) is None
        and (pods is None or (type(pods) is int and -bounds.MOST_NUMBER <= pods <= bounds.MOST_NUMBER))
        and _is_good_part(event.workload)
        and all(part is None or _is_good_part(part) for part in (kill, source, event.rules))
        and not event.leaks
    )


@lru_cache(maxsize=1 << 16)
def _is_good_part(part: Workload | LastOomKill | OomSource | CitedRules) -> bool:
    """Whether all fields of a part that many recommendations share are within bounds."""
    # The answer is kept for equal parts. Zones and kinds of numbers, in which equal parts may differ, are checked each time.
    return event_bounds.fault(part) is None and not (isinstance(part, Workload) and any(bounds.workload("workload", part)))


def _decision_id(text: str) -> Iterator[str]:
    try:  # stages compare recommendations by the turns in their ids
        turn = DecisionId.turn_of(text)
    except ValueError as error:
        yield f"id: {error}"
        return
    if not 0 <= turn <= bounds.LAST_SECOND * 1000:
        yield f"id is '{text}', and turn {turn} is no time that a clock of ours shows"


def _vpa(event: VpaChanged) -> Iterator[str]:
    if event.target_ref is not None:
        target = Workload(event.cluster, event.namespace, event.target_ref.kind, event.target_ref.name)
        yield from bounds.workload("workload", target)
    if event.min_replicas is not None and event.min_replicas <= 0:
        yield f"min_replicas is {event.min_replicas}; it must be above 0"
    if len(event.recommenders) > 1:
        yield f"recommenders are {', '.join(event.recommenders)}; there may be one at most"
    if event.selector is None and event.target_ref is not None and not event.unsupported:
        yield "there is no selector, and nothing that says why"
    yield from _policies(event.containers)
    yield from _boost("boost", event.boost)
    odd = vpa_annotations.fault(event.annotations)
    if odd is not None:
        yield odd


def _policies(entries: Sequence[ContainerPolicy]) -> Iterator[str]:
    for i, entry in enumerate(entries):
        path = f"containers[{i}]"
        yield from bounds.amounts(f"{path}.min_allowed", entry.min_allowed)
        yield from bounds.amounts(f"{path}.max_allowed", entry.max_allowed)
        odd = sorted(set(entry.controlled_resources or ()) - {"cpu", "memory"})
        if odd:
            yield f"{path}.controlled_resources names '{odd[0]}'; there are cpu and memory"
        yield from bounds.at_least(f"{path}.oom_ratio", entry.oom_ratio, 1.0)
        yield from bounds.at_least(f"{path}.oom_minimum", entry.oom_minimum, 0.0, bounds.MOST_BYTES)
        yield from bounds.at_least(f"{path}.memory_window", entry.memory_window, 1.0)
        yield from bounds.at_least(f"{path}.memory_windows", entry.memory_windows, 1.0)
        yield from _boost(f"{path}.boost", entry.boost)
        yield from _tuning(f"{path}.tuning", entry.tuning)
        if entry.policy not in (None, *vpa_annotations.POLICIES):
            yield f"{path}.policy is '{entry.policy}'; there are {' and '.join(vpa_annotations.POLICIES)}"


def _boost(path: str, boost: StartupBoost | None) -> Iterator[str]:
    if boost is not None:
        yield from bounds.number(f"{path}.factor", boost.factor, bounds.MOST_INT32)
        yield from bounds.number(f"{path}.quantity", boost.quantity, bounds.MOST_CORES)
        yield from bounds.number(f"{path}.duration", boost.duration, bounds.MOST_INT32)


def _limits(limits: Sequence[Limit]) -> Iterator[str]:
    for i, limit in enumerate(limits):
        for field in ("least", "most", "default_limits", "default_requests"):
            yield from bounds.amounts(f"limits[{i}].{field}", getattr(limit, field))
        for name, ratio in limit.ratios.items():
            yield from bounds.at_least(f"limits[{i}].ratios.{name}", ratio, 1.0)


def _tuning(path: str, tuning: Tuning) -> Iterator[str]:
    yield from bounds.amounts(f"{path}.minimum", tuning.minimum)
    for field in fields(tuning):
        if field.name.endswith("percentile"):
            yield from bounds.number(f"{path}.{field.name}", getattr(tuning, field.name), 1.0)
    for risk, (least, most) in (("risk_cpu", vpa_annotations.RISK_CPU), ("risk_oom", vpa_annotations.RISK_OOM)):
        yield from bounds.at_least(f"{path}.{risk}", getattr(tuning, risk), least, most)
    yield from bounds.number(f"{path}.margin", tuning.margin, vpa_annotations.MOST_MARGIN)
    yield from bounds.number(f"{path}.leak_growth", tuning.leak_growth, vpa_annotations.MOST_LEAK_GROWTH)
    yield from bounds.at_least(f"{path}.cpu_half_life", tuning.cpu_half_life, vpa_annotations.LEAST_HALF_LIFE)
    yield from bounds.at_least(f"{path}.memory_half_life", tuning.memory_half_life, vpa_annotations.LEAST_HALF_LIFE)
