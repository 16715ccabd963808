"""Builds the recommender's decisions, with every number that a person needs to redo the sum.

Numbers are taken out of the arrays for all decisions of a turn at once. What is equal in every decision (the stage's settings) is
cited, not repeated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from weakref import WeakValueDictionary

import numpy as np

from agents.engine.tables.row_table import Floats, Indices
from agents.engine.turn import Decided, Turn
from agents.logic.governing_policies import PolicyRecord, body
from agents.logic.vertical.decision_texts import BODY, amount_texts, json_text, policy_text, reason_texts
from agents.logic.vertical.estimate_rules import MILLI
from agents.logic.vertical.memory_leaks import LeakChange
from agents.logic.vertical.node_caps import NodeRoom
from agents.logic.vertical.recommended_amounts import AMOUNTS, Recommendation
from agents.logic.vertical.vertical_settings import ADAPTIVE, NAME, VerticalSettings
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
from schemas.plain_json import JsonObject, WrittenEvent, joined, quoted
from schemas.units import Bytes, Cores

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
        return LastOomKill(kill.at, kill.pod, kill.container, kill.memory_request, self.counted, self.place, kill.at_pod_limit)


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
        first = () if self.policy is None else (self.policy.place,)
        return (*first, *self.places) if self.oom is None else (*first, self.oom.place, *self.places)

    @property
    def other_recommender(self) -> str:
        """The recommender that the VPA names, if it is not ours."""
        return "" if self.policy is None else self.policy.policy.other_recommender

    @property
    def last_oom(self) -> LastOomKill | None:
        """The last OOM kill, as a decision describes it."""
        return None if self.oom is None else self.oom.described


@dataclass(frozen=True, slots=True)
class DecisionBuilder:
    """Builds the decisions of one turn of one partition. `cited`: the rules in force, None where the log has none."""

    partition: int
    turn: Turn
    settings: VerticalSettings
    cited: CitedRules | None

    def id_of(self, workload: str) -> str:
        """The id of the decision about one workload."""
        return str(DecisionId(NAME, self.partition, self.turn.number, "requests", workload))

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
            id=self.id_of(workload),
            at=self.turn.at,
            workload=_parsed(workload),
            containers=tuple(amounts),
            because=because,
            pods=grounds.pods,
            last_oom=grounds.last_oom,
            oom_source=grounds.oom_source,
            rules=self.cited,
            other_recommender=grounds.other_recommender,
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
        # Weak, because a cycle of batch and decision would keep all texts of a turn until cycles are looked for: a worker that is
        # far behind does that once in a million objects.
        self._made: WeakValueDictionary[int, DeferredRecommendation] = WeakValueDictionary()

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
        return UsageNumbers(self.done, self.places)

    def named(self, number: int) -> list[tuple[int, str]]:
        """The containers of a decision: the place of each in the batch, and its name."""
        return [(place, self.containers[place][1]) for place in range(self.begins[number], self.begins[number + 1])]

    @cached_property
    def _reasons(self) -> list[str]:
        """The grounds of each container, as the log has them, in the order of their names, as JSON has them."""
        reasons = reason_texts(self.done, self.builder.settings, self.places)
        return [f"{quoted(name)}:{text}" for (_, name), text in zip(self.containers, reasons, strict=True)]

    @cached_property
    def _rare_in_all(self) -> bool:
        return bool(self.builder.inline() or self.explained or self.builder.settings.policy or self.done.fault)

    def because_text(self, number: int) -> str:
        """The grounds of a decision, as the log has them."""
        grounds, begin = self.grounds[number], self.begins[number]
        containers = f"{{{','.join(self._reasons[begin : self.begins[number + 1]])}}}"
        policy = policy_text(grounds.policy)
        # Few have more to say, and to find out that there is nothing took longer than the rest.
        if self._rare_in_all or grounds.left_out or grounds.floors or self.numbers.cut_down(begin):
            others = {name: json_text(content) for name, content in self._rare(number, grounds).items()}
            return joined({"containers": containers, "policy": policy, **others})
        return f'{{"containers":{containers},"policy":{policy}}}'

    def _rare(self, number: int, grounds: Grounds) -> dict[str, object]:
        """What few decisions have among their grounds."""
        named = self.named(number)
        return {
            **self.builder.inline(),
            **self.numbers.node(named[0][0]),
            **self._decided_by(named),
            **({"left_out": grounds.left_out} if grounds.left_out else {}),
            **({"floors": grounds.floors} if grounds.floors else {}),
        }

    @cached_property
    def written(self) -> list[WrittenEvent]:
        """Each decision as the log has it: what its event would be written as, without building it."""
        builder, at, numbers = self.builder, self.builder.turn.at, self.numbers
        amounts = amount_texts(self.done, self.places, [name for _, name in self.containers])
        at_text, rules, prefix, made = json_text(at), json_text(builder.cited), builder.id_of(""), list[WrittenEvent]()
        prefix_text = json_text(prefix)[:-1]
        source: OomSource | None = None
        source_text = "null"
        for number, (subject, grounds) in enumerate(zip(self.subjects, self.grounds, strict=True)):
            if grounds.oom_source is not source:  # one object for all workloads of a cluster
                source, source_text = grounds.oom_source, json_text(grounds.oom_source)
            begin, (subject_text, workload) = self.begins[number], _subject_texts(subject)
            texts = (
                prefix_text + subject_text,
                at_text,
                workload,
                ",".join(amounts[begin : self.begins[number + 1]]),
                self.because_text(number),
                str(grounds.pods),
                "null" if grounds.oom is None else json_text(grounds.last_oom),
                source_text,
                rules,
                quoted(grounds.other_recommender) if grounds.policy is not None and grounds.policy.policy.foreign else '""',
                json_text(grounds.leaks) if grounds.leaks else "[]",
                json_text(numbers.nodes(begin)) if numbers.cut_down(begin) else "{}",
            )
            made.append(WrittenEvent(RequestsRecommended, prefix + subject, at, BODY.filled(texts).encode()))
        return made

    def _decided_by(self, named: Sequence[tuple[int, str]]) -> Mapping[str, object]:
        """The entry in `because` for policies written as code; nothing for the built-in estimator.

        `policy_grounds` has the numbers that a policy explains itself by.
        """
        grounds = {name: self.explained[place] for place, name in named if place in self.explained}
        policy = self.builder.settings.policy or (ADAPTIVE if grounds else "")
        fault = {"policy_fault": f"{self.done.fault}; the built-in estimator decided"} if self.done.fault else {}
        return {"decided_by": policy, **fault, **({"policy_grounds": grounds} if grounds else {})} if policy or fault else {}

    def amounts(self) -> Floats:
        """(containers, 6) The amounts named by AMOUNTS, in cores and bytes; NaN for none. This builds no decision."""
        return np.asarray(self.done.amounts[self.places] / _SCALES)


class DeferredRecommendation:
    """The decision about one workload of a batch, built on demand."""

    __slots__ = ("__weakref__", "_event", "_number", "_of", "cause", "subject", "turn")

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
        return self._event

    @property
    def written(self) -> WrittenEvent:
        """The same as a log has it."""
        return self._of.written[self._number]

    def _build(self) -> RequestsRecommended:
        of, number = self._of, self._number
        amounts = [of.numbers.container(place, name) for place, name in of.named(number)]

        # Most readers of decisions only read the amounts, so this text is written when it is first needed.
        def because() -> bytes:
            return of.because_text(number).encode()

        nodes = of.numbers.nodes(of.begins[number])
        return of.builder.event(self.subject, of.grounds[number], amounts, JsonObject(because), nodes)


class UsageNumbers:
    """The numbers of some containers of a recommendation as plain values, by their number among `places`.

    Columns become lists when the first of their numbers is asked for.
    """

    def __init__(self, done: Recommendation, places: Indices) -> None:
        self._done, self._places = done, places
        self._cut_down: list[bool] = [] if done.fit is None else done.fit.beyond[done.fit.pods[places]].tolist()

    def container(self, place: int, name: str) -> ContainerRecommendation:
        """The four amounts of a container: lower, target, upper and uncapped target."""
        cores, memory = self._amounts
        return ContainerRecommendation(name, *map(Amounts, cores[place], memory[place]))

    def cut_down(self, place: int) -> bool:
        """Whether a container's pod was cut down to a node."""
        return bool(self._cut_down) and self._cut_down[place]

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
    def _amounts(self) -> tuple[list[list[Cores | None]], list[list[Bytes | None]]]:
        """Cores and bytes of each container: lower, target, upper, uncapped; None for those that are unknown."""
        amounts, uncapped = self._done.amounts[self._places], self._done.uncapped[self._places]
        cores = np.column_stack([amounts[:, :3], uncapped[:, 0]]) / MILLI
        memory = np.column_stack([amounts[:, 3:], uncapped[:, 1]])
        whole = np.nan_to_num(memory).astype(np.int64)
        plain = cores.astype(object), whole.astype(object)
        for values, amounts_of in zip(plain, (cores, memory), strict=True):
            values[np.isnan(amounts_of)] = None
        return plain[0].tolist(), plain[1].tolist()


@lru_cache(maxsize=1 << 16)
def _parsed(workload: str) -> Workload:
    return Workload.parse(workload)


@lru_cache(maxsize=1 << 16)
def _subject_texts(workload: str) -> tuple[str, str]:
    """A workload's key as JSON, without the quotation mark at its beginning, and the workload itself."""
    return json_text(workload)[1:], json_text(_parsed(workload))
