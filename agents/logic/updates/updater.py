"""The updater: pods, recommendations, policies, control records and outcomes of whole clusters in; plans and refusals out.

Each interval of event time it looks at every pod of a workload that has a policy and a recommendation. A pod has at most one open
plan. A refusal is decided when its guard changes, not in each interval. The updater itself touches no pod.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from agents.engine.tables.chunked_state import PartedState
from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Decided, Turn
from agents.logic.governing_policies import Policies
from agents.logic.guards.budget import Headcount
from agents.logic.stage_rules import StageRules
from agents.logic.updates import plan_builder
from agents.logic.updates.candidate import Candidate, PodSituation, PriorityCache, candidate
from agents.logic.updates.update_guards import ClusterSituation, first_objection
from agents.logic.updates.update_settings import UpdateRules, UpdateSettings
from agents.logic.updates.updater_state import NO_HISTORY, OpenPlan, PodHistory, UpdaterState
from schemas import times
from schemas.facts.pods import PodPhase
from schemas.names import cluster_of
from schemas.policies.vpa import DEFAULT_RECOMMENDER

PROGRAM = 1
"""Counts changes of this capability's code that change what is decided."""

_ENDED = (PodPhase.SUCCEEDED, PodPhase.FAILED)


@dataclass(frozen=True, slots=True)
class TurnsTaken:
    """The first and the last turn that were taken."""

    first: int
    turn: int


class Updater(PartedState):
    """The state of one partition. `settings` are those in force; the log's rules win over those it was made with."""

    def __init__(self, settings: UpdateSettings, partition: int, recommender: str = DEFAULT_RECOMMENDER) -> None:
        self.partition, self._own = partition, UpdateRules(**asdict(settings), recommender=recommender)
        self._build(self._own)

    def _build(self, settings: UpdateRules) -> None:
        """Make the empty state that decides by these settings."""
        self.settings = settings
        self.rules = StageRules(plan_builder.NAME, self._own)
        self.policies = Policies(settings.recommender)
        self.clusters = UpdaterState(self.policies)
        self.turns: ObjectTable[TurnsTaken] = ObjectTable("marks", TurnsTaken, 1)
        self._priorities = PriorityCache()
        super().__init__(*self.policies.tables(), self.turns, *self.clusters.tables(), self.rules.table)

    def step(self, turn: Turn) -> Sequence[Decided]:
        """Take a turn in; plan and refuse when an interval begins."""
        self.scatter(turn)
        self._follow_rules(turn)
        self.clusters.ingest(turn)
        taken = self.turns.get("") or TurnsTaken(turn.number, turn.number)
        self.turns.upsert("", replace(taken, turn=turn.number))
        interval = int(self.settings.interval * 1000)
        if turn.number // interval == taken.turn // interval:
            return []
        return self._decide(turn, taken.first)

    def _follow_rules(self, turn: Turn) -> None:
        """Decide by the rules that the log has from this turn on."""
        self.rules.ingest(turn.of("policies"))
        settings = self.rules.settings
        if settings != self.settings:
            self.rebuild(partial(self._build, settings))

    def chunks(self) -> Iterable[str]:
        """Names of all chunks."""
        self.clusters.enter_recommendations()
        return super().chunks()

    def take_dirty(self) -> set[str]:
        """Names of the chunks changed since the last call."""
        self.clusters.enter_recommendations()
        return super().take_dirty()

    def dump(self, chunk: str) -> bytes:
        """The bytes of one chunk."""
        self.clusters.enter_recommendations()
        return super().dump(chunk)

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place."""
        super().load(chunk, data)
        self.clusters.loaded()
        self.policies.loaded()

    def _decide(self, turn: Turn, first_turn: int) -> list[Decided]:
        """Look at every cluster."""
        self.clusters.forget_recommendations(turn.number - int(self.settings.recommendation_within * 1000))
        if not self.policies:
            return []
        self._priorities.prune(self.clusters.pods, self.clusters.pods_of)
        decided: list[Decided] = []
        clusters: dict[str, list[str]] = {}
        for workload in sorted(self.clusters.pods_of):
            clusters.setdefault(cluster_of(workload), []).append(workload)
        for cluster, workloads in clusters.items():
            decided += self._decide_cluster(turn, first_turn, cluster, workloads)
        return decided

    def _decide_cluster(self, turn: Turn, first_turn: int, cluster: str, workloads: Sequence[str]) -> list[Decided]:
        """Put the candidates of all workloads of a cluster past the guards, the most urgent first."""
        found = [each for workload in workloads for each in self._candidates(workload, turn.number)]
        if not found:
            return []
        total = Headcount()
        counts = {workload: self._count(workload, turn.number, total) for workload in workloads}
        facts = self.clusters.facts.get(cluster)
        situation = ClusterSituation(
            now=turn.number,
            first_turn=first_turn,
            facts_seen=first_turn if facts is None else facts.seen,
            control=self.clusters.control.get(cluster),
            cluster=total,
            workload=total,
            planned=0,
            settings=self.settings,
            rules=self.rules.cited,
        )
        return self._judge(turn, situation, sorted(found, key=lambda each: each.order), counts)

    def _judge(
        self, turn: Turn, situation: ClusterSituation, found: Iterable[Candidate], counts: dict[str, Headcount]
    ) -> list[Decided]:
        decided = []
        for each in found:
            situation = replace(situation, workload=counts[each.situation.workload])
            objection = first_objection(each, situation)
            if objection is None:
                plan = plan_builder.plan(each, situation, turn, self.partition)
                decided.append(plan_builder.decided(plan, each, situation))
                self._remember(each, OpenPlan(plan.id, each.action, times.to_ms(plan.void_after)))
                situation.workload.acting += 1
                situation.cluster.acting += 1
                situation = replace(situation, planned=situation.planned + 1)
            elif each.situation.history.refused != objection.guard:
                refusal = plan_builder.refusal(each, situation, objection, turn, self.partition)
                decided.append(plan_builder.decided(refusal, each, situation))
                self._upsert(each.situation.pod.fact.pod.uid, replace(each.situation.history, refused=objection.guard))
        return decided

    def _candidates(self, workload: str, now: int) -> list[Candidate]:
        """The pods of a workload that should be changed and have no plan. A refusal of any other pod is over."""
        policy = self.policies.of(workload)
        recommended = None if policy is None else self.clusters.recommendation(workload)
        if policy is None or recommended is None:
            return []
        found = []
        for uid, pod in sorted(self.clusters.pods_of[workload].items()):
            history = self.clusters.histories.get(uid) or NO_HISTORY
            if pod.fact.phase in _ENDED or history.has_plan(now):
                continue
            priority = self._priorities.of(pod, recommended)
            each = candidate(PodSituation(now, workload, pod, recommended, policy, history, priority), self.settings)
            if each is not None:
                found.append(each)
            elif history.refused:
                self._upsert(uid, replace(history, refused=""))
        return found

    def _count(self, workload: str, now: int, total: Headcount) -> Headcount:
        """Count the pods of a workload, and add them to the total of their cluster."""
        count = Headcount()
        for uid, pod in self.clusters.pods_of[workload].items():
            if pod.fact.phase not in _ENDED:
                running = pod.fact.phase is PodPhase.RUNNING
                acting = (self.clusters.histories.get(uid) or NO_HISTORY).has_plan(now)
                count.count(running=running, acting=acting)
                total.count(running=running, acting=acting)
        return count

    def _remember(self, planned: Candidate, plan: OpenPlan) -> None:
        situation = planned.situation
        self._upsert(situation.pod.fact.pod.uid, replace(situation.history, plan=plan, acted=situation.now, refused=""))

    def _upsert(self, uid: str, history: PodHistory) -> None:
        self.clusters.histories.upsert(uid, history)
