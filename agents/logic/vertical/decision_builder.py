"""Builds the recommender's decisions, with every number that a person needs to redo the sum.

Numbers are taken out of the arrays for all decisions of a turn at once. What is equal in every decision (the stage's settings) is
cited, not repeated.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import isnan
from typing import TypeVar

import numpy as np
import orjson

from agents.engine.tables.row_table import Floats, Indices
from agents.engine.turn import Decided, Turn
from agents.logic.governing_policies import PolicyRecord, body
from agents.logic.usage.buckets import Buckets, cpu_buckets, memory_buckets
from agents.logic.usage.container_usage import UsageSettings
from agents.logic.vertical.aggregated_usage import REACHED
from agents.logic.vertical.estimate_rules import MILLI, RuleExplanations, own_rules
from agents.logic.vertical.memory_leaks import LeakChange
from agents.logic.vertical.node_caps import NodeRoom
from agents.logic.vertical.recommended_amounts import AMOUNTS, Recommendation
from agents.logic.vertical.vertical_settings import ADAPTIVE, NAME, VerticalSettings
from schemas import plain_json, times
from schemas.decisions.recommendations import (
    Because,
    CitedRules,
    ContainerRecommendation,
    LastOomKill,
    MemoryLeak,
    MemoryLeakFound,
    OomSource,
    RequestsRecommended,
)
from schemas.facts.usage import ContainerOOMKilled
from schemas.ids import DecisionId
from schemas.names import Amounts, Place, Workload
from schemas.plain_json import JsonObject
from schemas.times import NEVER
from schemas.units import Bytes, Cores

A = TypeVar("A", Cores, Bytes)

_CPU_BUCKETS, _MEMORY_BUCKETS = cpu_buckets(UsageSettings().growth), memory_buckets(UsageSettings().growth)
_SCALES = np.array([MILLI if name.endswith("cpu") else 1.0 for name in AMOUNTS])


@dataclass(frozen=True, slots=True)
class IngestedOomKill:
    """The last OOM kill of a workload, its place in the log, and whether it raised a memory peak."""

    event: ContainerOOMKilled
    place: Place
    counted: bool

    @property
    def described(self) -> LastOomKill:
        """Its form in a decision."""
        kill = self.event
        return LastOomKill(kill.at, kill.pod, kill.container, kill.memory_request, self.counted, self.place)


@dataclass(frozen=True, slots=True)
class Grounds:
    """The grounds of the decision about one workload, apart from its usage. `places` are those of its usage and node."""

    policy: PolicyRecord | None
    oom: IngestedOomKill | None
    pods: int
    oom_source: OomSource
    places: tuple[Place, ...] = ()
    left_out: str = ""
    """What part of the workload's usage is merged or left out, with the bound."""
    floors: Mapping[str, object] = field(default_factory=dict)
    """The least memory of containers that were killed soon after their start."""
    leaks: tuple[MemoryLeak, ...] = ()
    """The containers that leak memory."""

    @property
    def cause(self) -> tuple[Place, ...]:
        """All places: policy, OOM kill, node and scrapes."""
        return (*(record.place for record in (self.policy, self.oom) if record), *self.places)


@dataclass(frozen=True, slots=True)
class DecisionBuilder:
    """Builds the decisions of one turn of one partition. `cited`: the rules in force, None where the log has none."""

    partition: int
    turn: Turn
    settings: VerticalSettings
    cited: CitedRules | None

    def event(
        self,
        workload: str,
        grounds: Grounds,
        amounts: Sequence[ContainerRecommendation],
        because: Because,
        nodes: Mapping[str, str] | None = None,
    ) -> RequestsRecommended:
        """The decision about one workload. `nodes`: those that it was cut down to, by resource."""
        return RequestsRecommended(
            id=str(DecisionId(NAME, self.partition, self.turn.number, "requests", workload)),
            at=self.turn.at,
            workload=_parsed(workload),
            containers=tuple(amounts),
            because=because,
            pods=grounds.pods,
            last_oom=None if grounds.oom is None else grounds.oom.described,
            oom_source=grounds.oom_source,
            rules=self.cited,
            other_recommender="" if grounds.policy is None else grounds.policy.policy.other_recommender,
            leaks=grounds.leaks,
            nodes=nodes or {},
        )

    def leak(self, change: LeakChange, leak: MemoryLeak, cause: tuple[Place, ...]) -> Decided:
        """The decision that a container leaks, or no longer does."""
        ident = DecisionId(NAME, self.partition, self.turn.number, "leak", change.key)
        event = MemoryLeakFound(str(ident), self.turn.at, _parsed(change.workload), leak, change.over, change.again)
        return Decided("memory-leaks", change.workload, event, cause)

    def nothing(self, workload: str, grounds: Grounds) -> list[Decided]:
        """The decision that nothing is recommended for a workload, for its own topic and its cluster's."""
        event = self.event(workload, grounds, (), {**self.inline(), "containers": {}, "policy": body(grounds.policy)})
        # The updater needs a cluster's recommendations in one partition, so each goes to a second topic under another key.
        topics = (("recommendations", workload), ("recommendations-by-cluster", event.workload.cluster))
        return [Decided(topic, key, event, grounds.cause) for topic, key in topics]

    def inline(self) -> dict[str, object]:
        """The settings themselves, if there is no record to cite."""
        if self.cited is not None:
            return {}
        # Without a record to cite, the decision itself has to say what it was made by.
        return {"settings": {name: getattr(self.settings, name) for name in VerticalSettings.__dataclass_fields__}}


class RecommendationBatch:
    """The announcements of one turn about many workloads, each decision built on demand.

    `places`: the positions of the announced containers in the recommendation; those of a workload are adjacent.
    """

    def __init__(self, builder: DecisionBuilder, done: Recommendation, places: Indices) -> None:
        self.builder, self.done, self.places = builder, done, places
        of = done.of
        numbers = of.workload[places]
        begins = np.append(0, (numbers[1:] != numbers[:-1]).nonzero()[0] + 1)
        self.begins: list[int] = [*begins.tolist(), len(places)]
        self.subjects = of.workload_names(numbers[begins])
        self.containers = [of.names[member] for member in of.members[places].tolist()]
        """Workload and name of each container."""
        self.grounds: Sequence[Grounds] = ()
        """Of each subject; set once, before a decision is asked for."""
        self.explained: Mapping[int, Mapping[str, object]] = {}
        """By number among `places`, what a policy written as code says of its grounds; set once as well."""
        self._made: dict[int, DeferredRecommendation] = {}

    @property
    def turn(self) -> int:
        """The number of the turn."""
        return self.builder.turn.number

    def decision(self, number: int) -> "DeferredRecommendation":
        """The decision about `subjects[number]`."""
        # Two topics take each decision, and both are to have the same object, so that it is built once.
        deferred = self._made.get(number)
        if deferred is None:
            deferred = self._made[number] = DeferredRecommendation(self, number)
        return deferred

    @cached_property
    def numbers(self) -> "UsageNumbers":
        """The numbers of each container as plain values."""
        return UsageNumbers(self.done, self.builder.settings, self.places)

    def decided_by(self, names: Sequence[str], places: Sequence[int]) -> Mapping[str, object]:
        """The entry in `because` for policies written as code; nothing for the built-in estimator.

        `names` are the containers at `places` of the batch. `policy_grounds` has the numbers that a policy explains itself by.
        """
        grounds = {name: self.explained[place] for name, place in zip(names, places, strict=True) if place in self.explained}
        policy = self.builder.settings.policy or (ADAPTIVE if grounds else "")
        fault = {"policy_fault": f"{self.done.fault}; the built-in estimator decided"} if self.done.fault else {}
        return {"decided_by": policy, **fault, **({"policy_grounds": grounds} if grounds else {})} if policy or fault else {}

    def amounts(self) -> Floats:
        """(containers, 6) The amounts named by AMOUNTS, in cores and bytes; NaN for none. This builds no decision."""
        return np.asarray(self.done.amounts[self.places] / _SCALES)


class DeferredRecommendation:
    """The decision about one workload of a batch, built on demand."""

    __slots__ = ("_event", "_number", "_of", "cause", "subject", "turn")

    def __init__(self, of: RecommendationBatch, number: int) -> None:
        self._of, self._number, self.subject, self.turn = of, number, of.subjects[number], of.turn
        self.cause = of.grounds[number].cause
        """The places it rests on."""
        self._event: RequestsRecommended | None = None

    @property
    def event(self) -> RequestsRecommended:
        """The event; built once."""
        if self._event is None:
            self._event = self._build()
            # The batch holds this decision, and a cycle of the two would keep all texts of the turn until cycles are looked for:
            # a worker that is far behind does that once in a million objects.
            del self._of
        return self._event

    def _build(self) -> RequestsRecommended:
        of, grounds = self._of, self._of.grounds[self._number]
        places = range(of.begins[self._number], of.begins[self._number + 1])
        names = [of.containers[place][1] for place in places]

        # Most readers of decisions only read the amounts, so this text is written when it is first needed.
        def because() -> bytes:
            content = {
                **of.builder.inline(),
                "containers": {name: of.numbers.reasons(place) for name, place in zip(names, places, strict=True)},
                "policy": body(grounds.policy),
                **of.numbers.node(places[0]),
                **of.decided_by(names, places),
                **({"left_out": grounds.left_out} if grounds.left_out else {}),
                **({"floors": grounds.floors} if grounds.floors else {}),
            }
            return plain_json.dumps(content)

        amounts = [of.numbers.container(place, name) for name, place in zip(names, places, strict=True)]
        return of.builder.event(self.subject, grounds, amounts, JsonObject(because), of.numbers.nodes(places[0]))


class UsageNumbers:
    """The numbers of some containers of a recommendation as plain values, by their number among `places`.

    Columns become lists when the first of their numbers is asked for.
    """

    def __init__(self, done: Recommendation, settings: VerticalSettings, places: Indices) -> None:
        self._done, self._places = done, places
        self._own = own_rules(settings)

    def container(self, place: int, name: str) -> ContainerRecommendation:
        """The four amounts of a container: lower, target, upper and uncapped target."""
        cores, memory = self._amounts
        return ContainerRecommendation(name, *map(Amounts, cores[place], memory[place]))

    def reasons(self, place: int) -> orjson.Fragment:
        """The numbers under the amounts of a container, as `_layout` has them."""
        # The texts of a thousand containers are made a column at a time, and put into their layout by one `%`.
        return orjson.Fragment(self._layouts[place] % self._columns[place])

    def node(self, place: int) -> dict[str, object]:
        """The node that a container's pod was cut down to, and the pod's sums that exceed it; empty for a pod that fits."""
        room, cut = self._cut(place)
        if room is None:
            return {}
        return {"node": {"node": room.name, "cpu": room.cpu, "memory": room.memory, "cut": cut, "place": str(room.place)}}

    def nodes(self, place: int) -> Mapping[str, str]:
        """The same node by name, for each resource whose targets were cut down to it."""
        room, cut = self._cut(place)
        return {} if room is None else {resource: room.name for resource in ("cpu", "memory") if f"target_{resource}" in cut}

    def _cut(self, place: int) -> tuple[NodeRoom | None, Mapping[str, float]]:
        fit, within = self._done.fit, int(self._places[place])
        room = None if fit is None else fit.node(within)
        if fit is None or room is None:
            return None, {}
        sums = dict(zip(AMOUNTS, fit.sums[fit.pods[within]].tolist(), strict=True))
        cpu = {name: amount / MILLI for name, amount in sums.items() if name.endswith("cpu") and amount > room.cpu * MILLI}
        memory = {name: amount for name, amount in sums.items() if name.endswith("memory") and amount > room.memory}
        return room, {**cpu, **memory}

    @cached_property
    def _amounts(self) -> "tuple[list[list[Cores | None]], list[list[Bytes | None]]]":
        """Cores and bytes of each container: lower, target, upper, uncapped."""
        amounts, uncapped = self._done.amounts[self._places], self._done.uncapped[self._places]
        cores = np.column_stack([amounts[:, :3], uncapped[:, 0]]) / MILLI
        memory = np.column_stack([amounts[:, 3:], uncapped[:, 1]])
        return _known(cores, Cores), _known(memory, lambda amount: Bytes(int(amount)))

    @cached_property
    def _layouts(self) -> list[str]:
        """The layout of each container. Nearly all have the same rules, and those that are equal share one."""
        rules, layouts = self._done.of.rules[self._places], dict[bytes, str]()
        rows = [row.tobytes() for row in rules]
        for place, row in enumerate(rows):
            if row not in layouts:
                layouts[row] = plain_json.dumps(_layout(self._own.differing(rules[place].tolist()))).decode()
        return [layouts[row] for row in rows]

    @cached_property
    def _columns(self) -> list[tuple[str, ...]]:
        """The numbers of each container as texts, in the order in which its layout, with its names sorted, wants them."""
        done, places = self._done, self._places
        evidence = done.evidence
        columns = [
            *_resource_columns(done, 0, places, _CPU_BUCKETS),
            list(map(_time, evidence.first[places].tolist())),
            list(map(_time, evidence.last[places].tolist())),
            *_resource_columns(done, 1, places, _MEMORY_BUCKETS),
            _texts(evidence.count[places].astype(np.int64)),
        ]
        return list(zip(*columns, strict=True))


_HERE = orjson.Fragment("%s")
_RESOURCE: Mapping[str, object] = {
    "confidence": _HERE,
    "minimum": _HERE,
    "percentiles": {"lower": _HERE, "target": _HERE, "upper": _HERE},
    "reached": dict.fromkeys(map(str, REACHED), _HERE),
}


def _layout(differing: RuleExplanations) -> Mapping[str, object]:
    """Where each number stands.

    `reached` says how much was used in a share of the time, or more (of memory, of its daily peaks); old samples lose weight.
    `shares` (percentiles) and `margin` are there if a policy changes them from the settings, bounds if there are any. CPU is in
    cores, memory in bytes.
    """
    return {
        "samples": _HERE,
        "first": _HERE,
        "last": _HERE,
        "cpu": {**_RESOURCE, **differing.cpu},
        "memory": {**_RESOURCE, **differing.memory},
        **differing.container,
    }


def _resource_columns(done: Recommendation, resource: int, places: Indices, buckets: Buckets) -> Iterator[list[str]]:
    """Those of CPU (0) or memory (1), in the order of their sorted names."""
    estimate, scale = (done.cpu, MILLI) if resource == 0 else (done.memory, 1.0)
    yield _texts(estimate.confidence[places])
    yield _texts(estimate.minimum[places] / scale)
    yield from (_texts(percentile[places]) for percentile in estimate.percentiles)
    for _, ends in sorted(zip(map(str, REACHED), done.evidence.reached[resource], strict=True)):
        # A percentile is the end of its bucket; what was certainly reached is where that bucket starts.
        yield _texts(buckets.starts[np.maximum(np.searchsorted(buckets.starts, ends[places]) - 1, 0)])


def _texts(column: Floats | Indices) -> list[str]:
    """The numbers as JSON; `null` for NaN."""
    return plain_json.dumps(np.ascontiguousarray(column)).decode()[1:-1].split(",")


def _known(amounts: Floats, unit: Callable[[float], A]) -> list[list[A | None]]:
    """The amounts as plain values of their unit, row by row; None for those that are unknown."""
    return [[None if isnan(amount) else unit(amount) for amount in row] for row in amounts.tolist()]


@lru_cache(maxsize=4096)
def _time(seconds: float) -> str:
    return "null" if seconds == NEVER else f'"{times.rfc3339(times.from_seconds(seconds))}"'


@lru_cache(maxsize=1 << 16)
def _parsed(workload: str) -> Workload:
    return Workload.parse(workload)
