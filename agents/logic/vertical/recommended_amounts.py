"""The recommendation for many containers at once: estimate, round, bound; and what of it was announced last."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import ColumnSpec, Floats, Indices, RowKey, RowTable
from agents.logic.usage.container_usage import ContainerUsage
from agents.logic.usage.pod_index import PodIndex
from agents.logic.vertical.aggregated_usage import Evidence, gather, history_of
from agents.logic.vertical.container_index import ContainerIndex, MemberSelection
from agents.logic.vertical.estimate_rules import MILLI, PLACE, Estimate, cap, clamp, confidence, estimate, rounded
from agents.logic.vertical.memory_floors import MemoryFloors
from agents.logic.vertical.memory_leaks import MemoryLeaks
from agents.logic.vertical.node_caps import NodeFit, NodeIndex, fit
from agents.logic.vertical.policy_amounts import JudgedContainers, overruled, seen
from agents.logic.vertical.policy_code import CodePolicy, EvidenceColumns, PolicyLookup, explained
from agents.logic.vertical.policy_feed import PolicyFeed, PolicyStates
from agents.logic.vertical.vertical_settings import ADAPTIVE, VerticalSettings

AMOUNTS = ("lower_cpu", "target_cpu", "upper_cpu", "lower_memory", "target_memory", "upper_memory")
"""The amounts of a container after rounding and bounds, in millicores and bytes; NaN where none is recommended."""

_TARGETS = (1, 4)


@dataclass(frozen=True, slots=True)
class EstimationRules:
    """The rules of the estimate.

    `floors`: the least memory of containers that are killed in a loop; `leaks`: the most of those that leak. `nodes` are those
    that pods must fit, `pods` those that are there. `policy` decides for every container, `chosen` for those whose rules ask for
    it; without them the built-in estimator decides. `feed` has what they remember.
    """

    settings: VerticalSettings
    floors: MemoryFloors | None = None
    leaks: MemoryLeaks | None = None
    nodes: NodeIndex | None = None
    pods: PodIndex = field(default_factory=PodIndex)
    policy: CodePolicy | None = None
    chosen: CodePolicy | None = None
    feed: PolicyFeed | None = None

    def deciding(self, these: MemberSelection) -> Iterator[tuple[CodePolicy, Indices]]:
        """The policies as code that decide, and the places of their containers."""
        asks = these.rules[:, PLACE["adaptive"]] > 0.0
        if self.policy is not None:
            others = np.flatnonzero(~asks) if self.chosen is not None else np.arange(len(asks))
            yield self.policy, others
        if self.chosen is not None and asks.any():
            yield self.chosen, np.flatnonzero(asks)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Containers in the order of `of`; `amounts` has one column for each of AMOUNTS, `uncapped` CPU and memory.

    `fit` says how pods were cut down to nodes, where they are. `fault` says why a policy written as code could not decide, and
    the built-in estimator did.
    """

    of: MemberSelection
    evidence: Evidence
    cpu: Estimate
    memory: Estimate
    amounts: Floats
    uncapped: Floats
    fit: NodeFit | None
    fault: str = ""

    def moved(self, places: Indices, published: Floats, step: float) -> NDArray[np.bool_]:
        """For each of these places: is the target another than `published`, or did a bound move by `step` of itself?"""
        amounts = self.amounts[places]
        unknown = np.isnan(amounts)
        # The usual case, without the masks of the general one.
        if not unknown.any() and not np.isnan(published).any():
            allowed = np.abs(published * step)
            allowed[:, _TARGETS] = 0.0
            return np.asarray((np.abs(amounts - published) > allowed).any(axis=1))
        present = ~unknown
        change = np.where(
            present & ~np.isnan(published), np.abs(amounts - published), np.where(present == np.isnan(published), np.inf, 0.0)
        )
        allowed = np.nan_to_num(np.abs(published) * step)
        allowed[:, _TARGETS] = 0.0
        return np.asarray((change > allowed).any(axis=1))


def recommend(usage: ContainerUsage, members: ContainerIndex, these: MemberSelection, rules: EstimationRules) -> Recommendation:
    """The recommendation for all these members at once."""
    return _concluded(usage, members, these, gather(usage, these, partial(_parts, members, these)), rules)


def reconsider(usage: ContainerUsage, members: ContainerIndex, done: Recommendation, rules: EstimationRules) -> Recommendation:
    """The same members and the same evidence, judged by other rules."""
    return _concluded(usage, members, done.of, done.evidence, rules)


def known_of(usage: ContainerUsage, members: ContainerIndex, settings: VerticalSettings, wanted: Indices) -> EvidenceColumns:
    """What is known of these members now, as a policy sees it."""
    these = members.alone(wanted)
    parts = partial(_parts, members, these)

    @cache
    def evidence() -> Evidence:
        return gather(usage, these, parts)

    history = history_of(usage, these.single) if these.all_single else _history(evidence())
    estimates, in_place = cache(lambda: judge(evidence(), these, settings)), these.rules[:, PLACE["in_place"]] > 0.0
    judged = JudgedContainers(these.single, parts, history, _minimum(these, *_pod_minimum(settings)), estimates, in_place)
    return seen(usage, judged, np.arange(len(wanted)))


def grounds_of(
    usage: ContainerUsage, members: ContainerIndex, done: Recommendation, places: Indices, by: EstimationRules
) -> Mapping[int, Mapping[str, object]]:
    """What policies as code say of their grounds, by number among these places of a recommendation; nothing after a fault."""
    grounds: dict[int, Mapping[str, object]] = {}
    if by.feed is None or done.fault:
        return grounds
    for policy, deciding in by.deciding(done.of):
        numbers = np.flatnonzero(np.isin(places, deciding)) if policy.explain is not None else np.zeros(0, np.int64)
        if not len(numbers):
            continue
        state, remembered = by.feed.remembered(policy, done.of.members[places[numbers]])
        judged = _judged(done.of, members, done.evidence, done.cpu, done.memory)
        explanation = explained(policy, seen(usage, judged, places[numbers[remembered]]), state)
        for i, number in enumerate(numbers[remembered].tolist()):
            grounds[number] = {name: column[i] for name, column in explanation.items()}
    return grounds


def _judged(
    these: MemberSelection, members: ContainerIndex, evidence: Evidence, cpu: Estimate, memory: Estimate
) -> JudgedContainers:
    minimum, in_place = np.array([cpu.minimum, memory.minimum]), these.rules[:, PLACE["in_place"]] > 0.0
    parts = partial(_parts, members, these)
    return JudgedContainers(these.single, parts, _history(evidence), minimum, lambda: (cpu, memory), in_place)


def _history(of: Evidence) -> tuple[Floats, Floats, Floats]:
    return of.first, of.last, of.count


def _parts(members: ContainerIndex, these: MemberSelection, place: int) -> Sequence[int]:
    return members.rows(int(these.members[place]))


def _concluded(
    usage: ContainerUsage, members: ContainerIndex, these: MemberSelection, evidence: Evidence, by: EstimationRules
) -> Recommendation:
    settings, fault = by.settings, ""
    cpu, memory = judge(evidence, these, settings)
    for policy, asking in by.deciding(these):
        # What a policy could not take in makes all that it remembers doubtful in this turn.
        if by.feed is None or by.feed.fault:
            fault = fault or ("" if by.feed is None else by.feed.fault)
            continue
        state, remembered = by.feed.remembered(policy, these.members[asking])
        judged = _judged(these, members, evidence, cpu, memory)
        cpu, memory, policy_fault = overruled(usage, judged, policy, state, asking[remembered])
        fault = fault or policy_fault
    if by.floors is not None:
        # Before rounding and bounds: an owner's maximum wins over a floor.
        memory = by.floors.bounded(memory, members, these)
    before = _rounded(cpu, memory, these, settings)
    wanted = _wanted(evidence, these, settings)
    if not wanted.all():
        before[~wanted.repeat(3, axis=1)] = np.nan
    amounts, cut = before, None
    if by.leaks is not None:
        # Before the bounds of the policy: an owner's minimum wins over the bound of a leak, and so does a floor.
        amounts = by.leaks.bounded(amounts, members, these, () if by.floors is None else by.floors.table)
    amounts = amounts.copy() if these.bounds is None else cap(amounts, *these.bounds)
    if by.nodes is not None:
        amounts, cut = fit(amounts, these, by.nodes, by.pods)
    amounts = order_columns(amounts)
    return Recommendation(these, evidence, cpu, memory, amounts, before[:, _TARGETS], cut, fault)


def judge(evidence: Evidence, these: MemberSelection, settings: VerticalSettings) -> tuple[Estimate, Estimate]:
    """CPU and memory before rounding, both in one go: the first axis of each array is the resource."""
    minimum = _minimum(these, *_pod_minimum(settings))
    history = (evidence.first, evidence.last, evidence.count)
    stacked, sure = np.empty((3, 2, len(evidence.first))), np.empty((2, len(evidence.first)))
    for i, interval in enumerate((settings.cpu_confidence, settings.memory_confidence)):
        # Confidence rests on CPU samples for memory too, as upstream's does.
        sure[i] = sure[0] if i and interval == settings.cpu_confidence else confidence(*history, interval)
    for i, (cpu, memory) in enumerate(zip(evidence.cpu, evidence.memory, strict=True)):
        np.multiply(cpu, MILLI, out=stacked[i, 0])
        stacked[i, 1] = memory
    amounts = estimate(stacked, sure, margin=these.rules[:, PLACE["margin"]], minimum=minimum)
    both = [
        Estimate((percentiles[0], percentiles[1], percentiles[2]), sure[i], minimum[i], *(amount[i] for amount in amounts))
        for i, percentiles in enumerate((evidence.cpu, evidence.memory))
    ]
    return both[0], both[1]


def _pod_minimum(settings: VerticalSettings) -> tuple[float, float]:
    """Millicores and bytes."""
    return settings.pod_minimum_cpu * MILLI, float(settings.pod_minimum_memory)


@lru_cache(maxsize=4)
def _minimum(these: MemberSelection, millicores: float, memory: float) -> Floats:
    """(2, members) The least millicores and bytes of each container: its own, else its share of its pod's."""
    own = np.stack([these.rules[:, PLACE["minimum_cpu"]], these.rules[:, PLACE["minimum_memory"]]])
    return clamp(np.where(np.isnan(own), np.array([[millicores], [memory]]) / these.siblings, own))


def _rounded(cpu: Estimate, memory: Estimate, these: MemberSelection, settings: VerticalSettings) -> Floats:
    """All six amounts, rounded, with one column for each of AMOUNTS; CPU to whole cores where that is wanted."""
    amounts = np.empty((len(cpu.target), len(AMOUNTS)))
    for first, resource, step in ((0, cpu, settings.round_cpu), (3, memory, settings.round_memory)):
        for column, amount in enumerate((resource.lower, resource.target, resource.upper), first):
            amounts[:, column] = rounded(amount, step)
    if (whole := these.whole_cores) is not None:
        amounts[:, :3] = np.where(whole[:, None], np.ceil(amounts[:, :3] / MILLI) * MILLI, amounts[:, :3])
    return amounts


def _wanted(evidence: Evidence, these: MemberSelection, settings: VerticalSettings) -> NDArray[np.bool_]:
    """(members, 2) Which resources are recommended: controlled ones with a sample."""
    if settings.recommend_unseen:
        return these.controlled
    seen = np.empty((len(evidence.count), 2), np.bool_)
    seen[:, 0], seen[:, 1] = evidence.count > 0.0, evidence.peaks > 0.0
    return np.asarray(these.controlled & seen)


def deciding_rules(
    settings: VerticalSettings, policy_of: PolicyLookup, floors: MemoryFloors, leaks: MemoryLeaks
) -> tuple[EstimationRules, EstimationRules, PolicyStates]:
    """The rules of what decides and of what is in shadow, and what the policies among them remember.

    `adaptive` decides where a container's rules ask for it, be it by the settings or by a policy of its own.
    """
    adaptive = policy_of(ADAPTIVE)
    others = [policy_of("" if name == ADAPTIVE else name) for name in (settings.policy, settings.shadow_policy)]
    decides = EstimationRules(settings, floors, leaks, policy=others[0], chosen=adaptive)
    # A shadow is for every container, also for those that a rule gives to another policy.
    shadow = replace(decides, chosen=None, policy=adaptive if settings.shadow_policy == ADAPTIVE else others[1])
    return decides, shadow, PolicyStates(policy for policy in (adaptive, *others) if policy is not None)


def feed_of(
    decides: EstimationRules, shadow: EstimationRules, usage: ContainerUsage, members: ContainerIndex, states: PolicyStates
) -> PolicyFeed:
    """What shows usage to the policies that remember something."""
    everywhere = {rules.policy.reference: rules.policy for rules in (decides, shadow) if rules.policy is not None}
    chosen = decides.chosen
    return PolicyFeed(
        usage,
        members,
        states,
        [policy for policy in everywhere.values() if policy.observe is not None],
        # It must not be shown a sample twice where it also sees every container.
        None if chosen is None or chosen.reference in everywhere else chosen,
        partial(known_of, usage, members, decides.settings),
        asked=decides.settings.policy == ADAPTIVE,
    )


_COLUMNS = {**{name: ColumnSpec(default=np.nan) for name in AMOUNTS}, "policy": ColumnSpec(np.int64)}


class Announced:
    """The amounts last announced, by workload and container, and the number of the policy that was in force then."""

    def __init__(self) -> None:
        self.table = RowTable("said", _COLUMNS)
        self.members: ContainerIndex
        """Set once; both know each other's rows."""

    def policy(self, members: Indices) -> Indices:
        """The policy under which each member was announced; -1 if it was not."""
        rows = self.members.numbers["announced"][members]
        if not len(self.table):
            return np.full(len(members), -1, np.int64)
        return np.where(rows >= 0, self.table.whole("policy")[rows], -1)

    def news(self, done: Recommendation, places: Indices, bounds_step: float) -> NDArray[np.bool_]:
        """Which places have other amounts than announced, or some for the first time, or some under another policy.

        Each of these places has a recommendation.
        """
        members = done.of.members[places]
        rows = self.members.numbers["announced"][members]
        if not len(self.table):
            return np.ones(len(places), np.bool_)
        before = np.column_stack([self.table.floats(name)[rows] for name in AMOUNTS])
        governed = self.members.numbers["policy"][members] != self.policy(members)
        # Any change of a target is new. A bound must have moved by a step, because bounds move with every sample.
        return np.asarray((rows < 0) | governed | done.moved(places, before, bounds_step))

    def remember(self, done: Recommendation, places: Indices) -> None:
        """The amounts at these places of a recommendation are announced."""
        members = done.of.members[places]
        rows = self.members.numbers["announced"][members]
        for new in (rows < 0).nonzero()[0].tolist():
            member = int(members[new])
            rows[new] = self.members.numbers["announced"][member] = self.table.add(self.members.names[member])
        for column, name in enumerate(AMOUNTS):
            self.table[name][rows] = done.amounts[places, column]
        self.table["policy"][rows] = self.members.numbers["policy"][members]
        self.table.touch(rows)

    def has(self, workload: str) -> bool:
        """Whether the last announcement has a recommendation."""
        return any(self.members.numbers["announced"][member] >= 0 for _, member in self.members.containers(workload))

    def withdraw(self, workload: str) -> None:
        """Nothing is recommended for this workload any more."""
        for name, member in self.members.containers(workload):
            if (workload, name) in self.table:
                self.table.free((workload, name))
                self.members.numbers["announced"][member] = -1
        self.table.freed.clear()

    def forget(self, containers: Sequence[RowKey]) -> set[str]:
        """These containers (workload, name) are gone; the workloads that lost an announced recommendation."""
        lost = [key for key in containers if key in self.table]
        for key in lost:
            self.table.free(key)
        self.table.freed.clear()
        return {workload for workload, _ in lost}


def order_columns(amounts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bounds that enclose their targets, for (n, 6) amounts: lower bound, target and upper bound of CPU, then of memory.

    In place; NaN stays NaN. It is `target_caps.ordered` in columns.
    """
    targets = amounts[:, 1::3]
    np.minimum(amounts[:, 0::3], targets, out=amounts[:, 0::3])
    np.maximum(amounts[:, 2::3], targets, out=amounts[:, 2::3])
    return amounts
