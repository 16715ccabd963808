"""The conditions stage: decides what the status of each VPA object should say, whenever that changes.

It works on whole clusters; each belongs to the partition of its name. VPA objects that another recommender serves are left alone.
The source has judged whether an object can be served, and says so in `VpaChanged.unsupported`. Of a workload that a policy of
ours sizes, without a VPA, an event says whether a loop of OOM kills goes on there, and why.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from agents.engine.tables.chunked_state import PartedState, StatePart
from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Decided, DeferredRecords, Recorded, Turn
from agents.logic import governing_policies
from agents.logic.conditions import condition_rules
from agents.logic.conditions.condition_rules import TargetKnowledge
from agents.logic.conditions.targeted_workloads import DecidedRequests, TargetIndex
from agents.logic.governing_policies import Policies, PolicyRecord, TargetedVpas
from agents.logic.resources.target_caps import TargetBound
from schemas.bounds import MOST_ON_ONE_TARGET
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.decisions.vpa_conditions import DecidedCondition, MemoryLimitFound, VpaConditionsDecided
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.sources import SourceReported
from schemas.ids import DecisionId
from schemas.names import Place, Workload, cluster_of
from schemas.policies.vertical import ContainerPolicy, VerticalPolicyChanged, VerticalPolicyRemoved
from schemas.policies.vpa import VpaChanged, VpaRemoved
from schemas.units import Seconds


@dataclass(frozen=True, slots=True)
class LimitedWorkload:
    """What was said of a workload, and since when that is so."""

    since: datetime
    bound: TargetBound


@dataclass(frozen=True, slots=True)
class LimitChange:
    """What is new of a workload.

    `limited` is None where nothing keeps memory from it any more, `policy` where none governs it.
    """

    workload: str
    limited: LimitedWorkload | None
    policy: PolicyRecord | None


class LimitedWorkloads:
    """The workloads of one partition."""

    def __init__(self, targets: TargetIndex) -> None:
        self._targets = targets
        self._policies = Policies()
        self._said: ObjectTable[LimitedWorkload] = ObjectTable("limited", LimitedWorkload, 16)
        self._all = False

    def tables(self) -> tuple[StatePart, ...]:
        """All tables."""
        return (self._policies.table, self._said)

    def loaded(self) -> None:
        """A chunk was loaded."""
        self._policies.loaded()

    def ingest_policy(self, recorded: Recorded) -> None:
        """Take in a policy of ours; of any other record there is nothing to know."""
        if isinstance(recorded.event, VerticalPolicyChanged | VerticalPolicyRemoved):
            self._policies.take(recorded)
            # A policy may name any number of workloads, so all that are killed in a loop are looked at again.
            self._all = True

    def changes(
        self, workloads: Collection[str], clusters: Collection[str], targeted: Container[str], heartbeat: Seconds, at: datetime
    ) -> list[LimitChange]:
        """What is new of these workloads and of those of these clusters, in order; after a change of a policy, of all.

        `heartbeat`: the recommender's, in seconds; `at`: now.
        """
        everything, self._all = self._all, False
        looping = {*self._targets.killed(), *self._said}
        touched = {key for key in looping if everything or key in workloads or cluster_of(key) in clusters}
        changes = (self._change(key, governed=key in targeted, heartbeat=heartbeat, at=at) for key in sorted(touched))
        return [change for change in changes if change is not None]

    def _change(self, workload: str, *, governed: bool, heartbeat: Seconds, at: datetime) -> LimitChange | None:
        # What a VPA targets is left to its status.
        governing = None if governed else self._policies.of(workload)
        bound = None
        if governing is not None:
            bound = self._targets.loop(workload, governing.policy, heartbeat, at)
        before = self._said.get(workload)
        if bound is None:
            return None if self._said.remove(workload) is None else LimitChange(workload, None, governing)
        if before is not None and before.bound == bound:
            return None
        limited = LimitedWorkload(at.replace(microsecond=0) if before is None else before.since, bound)
        self._said.upsert(workload, limited)
        return LimitChange(workload, limited, governing)


NAME = "conditions"
PROGRAM = 8
"""Counts changes of this capability's code that change what is decided. Its settings are the recommender's."""


class RecommenderSettings(Protocol):
    """What this stage needs to know of the recommender: its name, and how often it decides everything again."""

    @property
    def recommender(self) -> str:
        """The name under which VPAs are served."""

    @property
    def heartbeat(self) -> Seconds:
        """The time of events after which a recommendation is decided again even if nothing changed."""


class RecommenderRules(Protocol):
    """The recommender's settings in force: of the log, else of this process."""

    @property
    def settings(self) -> RecommenderSettings:
        """The settings in force."""

    @property
    def table(self) -> StatePart:
        """The table that holds them."""

    def ingest(self, records: Iterable[Recorded]) -> None:
        """Take in the policies of a turn."""


@dataclass(frozen=True, slots=True)
class VpaRecord:
    """The newest version of a VPA object, and its place in the log."""

    event: VpaChanged
    place: Place


@dataclass(frozen=True, slots=True)
class LastConditions:
    """The last decision about a VPA object: the parts whose change makes a new decision."""

    uid: str
    generation: int
    conditions: tuple[DecidedCondition, ...]
    containers: tuple[ContainerRecommendation, ...] | None


class VpaConditions(PartedState):
    """The state of one partition. `partition_of` gives the partition of a cluster's name or of a workload's key."""

    def __init__(self, rules: RecommenderRules, partition: int, partition_of: Callable[[str], int]) -> None:
        self.partition = partition
        self._rules, self._partition_of = rules, partition_of
        self._settings = rules.settings
        self.vpas: ObjectTable[VpaRecord] = ObjectTable("vpas", VpaRecord, 64, shares=(VpaChanged, ContainerPolicy))
        self.decided: ObjectTable[LastConditions] = ObjectTable(
            "decided", LastConditions, 64, shares=(ContainerRecommendation,), come_shared=True
        )
        self.targets = TargetIndex(partition_of)
        self.limited = LimitedWorkloads(self.targets)
        self._targeted: TargetedVpas | None = None
        self._touched: set[str] = set()
        self._touched_targets: set[str] = set()
        super().__init__(rules.table, self.vpas, self.decided, *self.targets.tables(), *self.limited.tables())

    def step(self, turn: Turn) -> Sequence[Decided]:
        """Take a turn in; decide about every VPA object that it may concern."""
        self.scatter(turn)
        self._ingest_policies(turn)
        for recorded in turn.of("cluster-changes"):
            # `cluster-changes` is written to every partition, so most of its records are about clusters of others.
            if isinstance(recorded.event, SourceReported) and self._owns(recorded.event.cluster):
                self.targets.ingest_source(recorded.event, turn.number)
        self.targets.note_silence(turn.number)
        self.targets.forget_ended(turn.at)
        for recorded in turn.of("pod-changes-by-cluster"):
            if isinstance(recorded.event, PodChanged | PodDeleted):
                self.targets.ingest_pod(recorded.event)
        for part in turn.parts("recommendations-by-cluster"):
            if isinstance(part, DeferredRecords):
                self._ingest_batch(part)
            else:
                self._ingest_requests(part)
        # After the pods, because what is said of a pod counts where it is known to be killed.
        for recorded in turn.of("pod-updates"):
            if isinstance(recorded.event, UpdateRefused | ResizePlanned | EvictionPlanned):
                self.targets.ingest_update(recorded.event)
        workloads, clusters = self.targets.take_changed()
        workloads, self._touched_targets = workloads | self._touched_targets, set()
        touched = self._take_touched(workloads, clusters)
        limits = self.limited.changes(workloads, clusters, self._by_target, self._settings.heartbeat, turn.at)
        return [
            *(decided for key in touched for decided in self._decide(turn, key)),
            *(self._limit(turn, change) for change in limits),
        ]

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place."""
        super().load(chunk, data)
        self.targets.loaded()
        self.limited.loaded()
        self._targeted = None
        self._settings = self._rules.settings

    def _ingest_policies(self, turn: Turn) -> None:
        before = self._settings.recommender, self._settings.heartbeat
        self._rules.ingest(turn.of("rules"))
        for recorded in turn.of("rules"):
            self.limited.ingest_policy(recorded)
        self._settings = self._rules.settings
        # Another name serves other objects, and another heartbeat withdraws at another time, so every VPA is looked at again.
        if (self._settings.recommender, self._settings.heartbeat) != before:
            self._touched.update(self.vpas)
            self._targeted = None
        for recorded in turn.of("policies"):
            event = recorded.event
            if isinstance(event, VpaChanged) and self._owns(event.cluster):
                self._replace(event.key, VpaRecord(event, recorded.place))
            elif isinstance(event, VpaRemoved) and self._owns(event.cluster):
                self._replace(event.key, None)

    def _ingest_requests(self, recorded: Recorded) -> None:
        """Take in a recommendation."""
        event = recorded.event
        if isinstance(event, RequestsRecommended):
            workload, number = event.workload.key, DecisionId.turn_of(event.id)
            if self.targets.hear(workload, number, targeted=self._by_target, heartbeat=self._settings.heartbeat):
                self.targets.ingest_requests(event, number, recorded.place)

    def _ingest_batch(self, records: DeferredRecords) -> None:
        """Take in recommendations, which are only built if they are kept."""
        number, heartbeat = records.batch.turn, self._settings.heartbeat
        kept = self.targets.hear_all(records.subjects, number, targeted=self._by_target, heartbeat=heartbeat)
        # A record of a batch is decoded when it is asked for, and most are not.
        for position in kept:
            event = records[position].event
            if isinstance(event, RequestsRecommended):
                self.targets.ingest_requests(event, number, records[position].place)

    def _replace(self, key: str, new: VpaRecord | None) -> None:
        """Replace the VPA object. Other VPAs on its targets may govern them now, or no longer."""
        targeted, old = self._by_target, self.vpas.get(key)
        if old is not None:
            targeted.remove(old.event)
            self.vpas.remove(key)
        if new is not None:
            targeted.add(new.event)
            self.vpas.upsert(key, new)
        self._touched.add(key)
        for target in {record.event.target for record in (old, new) if record is not None}:
            self._touched_targets.add(target)
            # One VPA more pushes the last of those that are looked at out of the bound, and has to be told to it.
            pushed_out = targeted.at(target, MOST_ON_ONE_TARGET)
            self._touched.update(() if pushed_out is None else (pushed_out,))

    def _take_touched(self, workloads: Collection[str], clusters: Collection[str]) -> list[str]:
        """The keys of VPA objects to look at, in order. The known state of these workloads and clusters may have changed."""
        touched, self._touched = self._touched, set()
        for workload in workloads:
            # All of them and not only the one that governs, for each says how things stand with its target.
            touched.update(self._by_target.of(workload, MOST_ON_ONE_TARGET))
        if clusters:
            touched |= {key for key, vpa in self.vpas.items() if vpa.event.target and vpa.event.cluster in clusters}
        return sorted(touched)

    def _decide(self, turn: Turn, key: str) -> Iterator[Decided]:
        """The decision about one VPA object, if there is anything new to say."""
        record, before = self.vpas.get(key), self.decided.get(key)
        # Gone, or another recommender's now: what we said of it no longer holds.
        if record is None or not record.event.served_by(self._settings.recommender):
            if before is not None:
                self.decided.remove(key)
                cluster, namespace, name = key.split("/")
                about = (cluster, namespace, name, before.uid, before.generation)
                yield self._decided(VpaConditionsDecided(self._id(turn, key), turn.at, *about, (), (), {}, withdrawn=True))
            return
        vpa = record.event
        target, requests = self._knowledge(vpa, turn.at)
        containers = None if target.containers is None else condition_rules.shown(vpa, target.containers)
        former = before.conditions if before is not None and before.uid == vpa.uid else ()
        conditions = condition_rules.conditions(vpa, replace(target, containers=containers), former, turn.at)
        last = LastConditions(vpa.uid, vpa.generation, conditions, containers)
        # A status that says the same again would be a write to the API server for nothing.
        if last == before:
            return
        self.decided.upsert(key, last)
        event = VpaConditionsDecided(
            id=self._id(turn, key),
            at=turn.at,
            cluster=vpa.cluster,
            namespace=vpa.namespace,
            name=vpa.name,
            uid=vpa.uid,
            generation=vpa.generation,
            conditions=conditions,
            containers=containers,
            because=_because(vpa, target),
            recommendation=requests.id if requests is not None and containers else "",
        )
        yield self._decided(event, *((requests.place,) if requests is not None and containers else ()), record.place)

    def _limit(self, turn: Turn, change: LimitChange) -> Decided:
        """What is said of a workload without a VPA."""
        governing, limited, key = change.policy, change.limited, change.workload
        since, texts = (turn.at, ("", "")) if limited is None else (limited.since, (limited.bound.reason, limited.bound.clause))
        because: dict[str, object] = {"policy": governing_policies.body(governing)}
        about = (Workload.parse(key), since, *texts, because)
        event = MemoryLimitFound(self._id(turn, key, "memory-limit"), turn.at, *about, over=limited is None)
        return Decided("vpa-conditions", key, event, () if governing is None else (governing.place,))

    def _id(self, turn: Turn, key: str, kind: str = "conditions") -> str:
        return str(DecisionId(NAME, self.partition, turn.number, kind, key))

    def _decided(self, event: VpaConditionsDecided, *cause: Place) -> Decided:
        return Decided("vpa-conditions", event.key, event, cause)

    def _knowledge(self, vpa: VpaChanged, at: datetime) -> tuple[TargetKnowledge, DecidedRequests | None]:
        """The known state of a VPA's target, and the recommendation behind it."""
        heartbeat = self._settings.heartbeat
        if self._is_crowded_out(vpa):
            return TargetKnowledge(0, (), crowded=True), None
        governing = self._governing(vpa.target)
        if governing is None or governing.key != vpa.key:
            rival = "" if governing is None else f"{governing.namespace}/{governing.name}"
            return TargetKnowledge(0, (), rival), None
        pods, containers = self.targets.count(vpa.target, heartbeat), self.targets.containers(vpa.target, heartbeat)
        bound = self.targets.loop(vpa.target, vpa, heartbeat, at)
        blind = self.targets.blind_since(vpa.cluster)
        return TargetKnowledge(pods, containers, bound=bound, blind_since=blind), self.targets.live_requests(
            vpa.target, heartbeat
        )

    def _is_crowded_out(self, vpa: VpaChanged) -> bool:
        """Whether so many VPAs with its target come before it that it is ignored."""
        targeted = self._by_target
        return targeted.at(vpa.target, MOST_ON_ONE_TARGET) is not None and targeted.place(vpa) >= MOST_ON_ONE_TARGET

    def _governing(self, target: str) -> VpaChanged | None:
        """The VPA that governs a workload; None without a target."""
        key = self._by_target.governing(target)
        record = None if key is None else self.vpas.get(key)
        return None if record is None else record.event

    @property
    def _by_target(self) -> TargetedVpas:
        if self._targeted is None:
            self._targeted = TargetedVpas(self._settings.recommender)
            for record in self.vpas.values():
                self._targeted.add(record.event)
        return self._targeted

    def _owns(self, cluster: str) -> bool:
        """Whether the cluster's records are in this partition. Broadcast topics bring those of all clusters."""
        return self._partition_of(cluster) == self.partition


def _because(vpa: VpaChanged, target: TargetKnowledge) -> dict[str, object]:
    governed = {"governed_by": target.rival} if target.rival else {}
    limited = {"memory_limited": target.bound.reason} if target.bound is not None else {}
    return {"target": vpa.target or "none", "pods": "unknown" if target.pods is None else target.pods, **governed, **limited}
