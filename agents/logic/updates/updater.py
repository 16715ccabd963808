"""The updater: pods, recommendations, policies, control records and outcomes of whole clusters in; plans and refusals out.

Each interval of event time it looks at every pod of a workload that has a policy and a recommendation. What cannot wait so long
it does in between: it gives more to a pod that is killed for lack of memory, and ends startup boosts. A pod has at most one open
plan. A refusal is decided for a workload and a guard, and not again in each interval. The updater itself touches no pod.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import repeat
from operator import attrgetter

from agents.engine.tables.chunked_state import PartedState
from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Decided, Turn
from agents.logic.governing_policies import Concerns, Policies, anywhere
from agents.logic.guards import shared_guards
from agents.logic.guards.shared_guards import Headcount
from agents.logic.stage_rules import StageRules
from agents.logic.updates import eviction_tolerance, plan_builder, startup_boosts, successor_nodes
from agents.logic.updates.candidate import Candidate, changes, disrupts
from agents.logic.updates.eviction_tolerance import PodsBefore, ReplicaCounts
from agents.logic.updates.missing_pods import MissingPods
from agents.logic.updates.plan_builder import IntervalRefusals
from agents.logic.updates.successor_nodes import FreeRooms, PlannedRequests
from agents.logic.updates.update_constraints import ClusterSituation
from agents.logic.updates.update_settings import NAME, SettingsCache, UpdateRules, UpdateSettings
from agents.logic.updates.updater_records import NO_HISTORY, LastPodFact, OpenPlan, PlansMade, PodHistory, PodRecord, TurnsTaken
from agents.logic.updates.updater_state import UpdaterState
from agents.logic.updates.workload_candidates import CandidateSearch, ClusterCandidates
from schemas import times
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.facts.pods import PodChanged, PodPhase
from schemas.names import cluster_of
from schemas.outcomes import Action
from schemas.policies.vpa import DEFAULT_RECOMMENDER


@dataclass(frozen=True, slots=True)
class OpenPlans:
    """How many open plans stop a container of a running pod, by workload and direct controller; and by budget.

    `down`: those of `groups` whose pods do not serve anyway.
    """

    groups: Counter[tuple[str, str]] = field(default_factory=Counter)
    down: Counter[tuple[str, str]] = field(default_factory=Counter)
    stopping: Counter[str] = field(default_factory=Counter)


class Updater(PartedState):
    """The state of one partition. `settings` are those in force; the log's rules win over those it was made with.

    `concerns`: whether a VPA can govern pods of this partition.
    """

    def __init__(
        self, settings: UpdateSettings, partition: int, recommender: str = DEFAULT_RECOMMENDER, concerns: Concerns = anywhere
    ) -> None:
        self.partition, self._own = partition, UpdateRules(**asdict(settings), recommender=recommender)
        self._concerns = concerns
        self._build(self._own)

    def _build(self, settings: UpdateRules) -> None:
        """Make the empty state that decides by these settings."""
        self.settings = settings
        self.rules = StageRules(NAME, self._own)
        self.policies = Policies(settings.recommender, self._concerns)
        self.clusters = UpdaterState(self.policies)
        self.turns: ObjectTable[TurnsTaken] = ObjectTable("marks", TurnsTaken, 1)
        self.missing = MissingPods(self.clusters)
        self._settings, self._search = SettingsCache(settings), CandidateSearch(self.clusters)
        super().__init__(*self.policies.tables(), self.turns, *self.clusters.tables(), *self.missing.tables(), self.rules.table)

    def step(self, turn: Turn) -> Sequence[Decided]:
        """Take a turn in; plan and refuse when an interval begins."""
        self.scatter(turn)
        self._follow_rules(turn)
        self.clusters.ingest(turn)
        self.clusters.judge_successors(self.advised, turn.number)
        taken = self.turns.get("") or TurnsTaken(turn.number, turn.number)
        self.turns.upsert("", replace(taken, turn=turn.number))
        due = self.clusters.boost_ends.due(taken.turn, turn.number, self.clusters.pods, self._boost_ends)
        interval = int(self.settings.interval * 1000)
        # Intervals are counted from the epoch, so that a restart or another partition does not move them.
        if turn.number // interval == taken.turn // interval:
            due |= self.clusters.killed()
            return self._between(turn, due) if due else []
        return self._decide(turn)

    def _boost_ends(self, uid: str) -> Sequence[int]:
        """When the startup boosts of a pod end."""
        pod = self.clusters.pods.get(uid)
        if pod is None or not pod.fact.boosted or not eviction_tolerance.is_there(pod.fact):
            return ()
        policy = self.policies.of(pod.fact.workload.key)
        return () if policy is None else startup_boosts.ends(pod.fact, self._history(uid), policy)

    def _between(self, turn: Turn, due: Collection[str]) -> list[Decided]:
        """Change pods between two intervals: those whose startup boost ends, and those that are killed for lack of memory."""
        # A container that dies soon after each start is killed several times in an interval. Pods that a guard holds back wait
        # for the next one, which says why.
        start = self._interval_start(turn.number)
        self.missing.note(turn.number)
        return [decision for cluster in self.candidates(due=due, since=start) for decision in self._plan(turn, cluster, None)]

    def _follow_rules(self, turn: Turn) -> None:
        """Decide by the rules that the log has from this turn on."""
        before = self.rules.cited
        self.rules.ingest(turn.of("rules"))
        settings = self.rules.settings
        if settings != self.settings:
            self.rebuild(partial(self._build, settings))
        if self.rules.cited != before:
            self.clusters.serve(settings.recommender)

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

    def _decide(self, turn: Turn) -> list[Decided]:
        """Look at every cluster."""
        self.clusters.forget_recommendations(turn.number - int(self.settings.recommendation_within * 1000))
        self.clusters.unpatched.forget(times.from_ms(turn.number))
        self._search.advice.prune(self.clusters.pods, self.clusters.pods_of)
        self.missing.note(turn.number)
        refusals = IntervalRefusals(self.clusters.refused)
        decided: list[Decided] = []
        for cluster in self.candidates():
            decided += self._plan(turn, cluster, refusals)
        for news in refusals.news(turn.number):
            refusal = plan_builder.refusal(news, turn, self.partition)
            decided.append(plan_builder.decided(refusal, news.candidate, news.situation))
        return decided

    @property
    def turn(self) -> int:
        """The last turn that was taken."""
        taken = self.turns.get("")
        return 0 if taken is None else taken.turn

    def candidates(
        self, *, fresh: bool = False, due: Collection[str] | None = None, since: int | None = None
    ) -> Iterator[ClusterCandidates]:
        """The pods to change now, of each cluster that has some; with `fresh` as if nothing had been planned for them yet.

        With `due` only those of these pods whose startup boost has ended or that need more memory to live; plans made in the
        interval that began with the turn `since` count for the rate.
        """
        concerns = None if due is None else {pod.fact.workload.key for uid in due if (pod := self.clusters.pods.get(uid))}
        self._search.quiet.follow(self.clusters.changed)
        taken = self.turns.get("") or TurnsTaken(0, 0)
        workloads: dict[str, list[str]] = {}
        for workload in sorted(self.clusters.pods_of) if self.policies else ():
            workloads.setdefault(cluster_of(workload), []).append(workload)
        for cluster, names in workloads.items():
            now = taken.turn
            loud = (workload for workload in names if self._is_loud(workload, now, concerns))
            candidates = [candidate for workload in loud for candidate in self._candidates(workload, now, fresh=fresh)]
            if due is not None:
                urgent = (candidate for candidate in candidates if candidate.situation.unboosts or candidate.rescue)
                candidates = [candidate for candidate in urgent if candidate.situation.pod.fact.pod.uid in due]
            if candidates:
                counts = {workload: self._count(workload) for workload in names}
                begun = OpenPlans() if fresh else self._count_plans(counts, now)
                total, namespaces = Headcount(), dict[str, Headcount]()
                absent = ((workload, Headcount(live=all_, missing=all_)) for workload, all_ in self.missing.of_no_pod(cluster))
                for workload, count in (*counts.items(), *absent):
                    total.add(count)
                    namespaces.setdefault(workload.split("/")[1], Headcount()).add(count)
                candidates.sort(key=attrgetter("order"))
                situation = self._situation(taken, cluster, total, planned=self._planned(cluster, since))
                beyond = shared_guards.beyond_shares(namespaces.values())
                situation = replace(situation, free=self._free(cluster, None if fresh else now), beyond_shares=beyond)
                concerned = {candidate.situation.workload for candidate in candidates}
                yield ClusterCandidates(
                    cluster,
                    situation,
                    candidates,
                    counts,
                    namespaces,
                    self.clusters.evictions,
                    self.missing.shortfalls,
                    self.clusters.unpatched,
                    {name: self._groups(name, begun) for name in concerned},
                    {name: self.clusters.constraints.budgets.of(name) for name in concerned},
                    {name.split("/")[1]: self.clusters.constraints.quotas_of(name) for name in concerned},
                    begun.stopping,
                )

    def _is_loud(self, workload: str, now: int, concerns: Collection[str] | None) -> bool:
        return not self._search.quiet.holds(workload, now) if concerns is None else workload in concerns

    def _planned(self, cluster: str, since: int | None) -> PlansMade:
        """The plans that were made for a cluster in the interval that began with a turn."""
        made = self.clusters.made.get(cluster)
        return made if made is not None and made.since == since else PlansMade(since or 0)

    def _interval_start(self, turn: int) -> int:
        return turn - turn % int(self.settings.interval * 1000)

    def _situation(self, taken: TurnsTaken, cluster: str, total: Headcount, *, planned: PlansMade) -> ClusterSituation:
        """What the guards know of a cluster besides the pod."""
        facts, daemons = self.clusters.facts.table.get(cluster), successor_nodes.daemons(self.clusters.pods_of, cluster)
        return ClusterSituation(
            now=taken.turn,
            first_turn=taken.first,
            facts=LastPodFact(taken.first) if facts is None else facts,
            control=self.clusters.control.get(cluster),
            cluster=total,
            workload=total,
            namespace=total,
            planned=planned,
            settings=self._settings.own,
            settings_of_all=self._settings.own,
            constraints=self.clusters.constraints,
            rules=self.rules.cited,
            rooms=self.clusters.constraints.rooms.of(cluster, daemons, taken.turn),
        )

    def _free(self, cluster: str, now: int | None) -> FreeRooms | None:
        """What a cluster's nodes have left. `now`: the turn in which evictions that are planned count; None if they do not."""
        if self._settings.own.other_autoscaler:
            return None
        nodes = self.clusters.constraints.rooms.nodes_of(cluster)

        def pods() -> Iterator[PodChanged]:
            return (pod.fact for pod in self.clusters.pods.values() if pod.fact.workload.cluster == cluster)

        def going() -> Iterator[tuple[PodChanged, PlannedRequests]]:
            for uid, history in sorted(self.clusters.histories.items()) if now is not None else ():
                pod = self.clusters.pods.get(uid)
                if pod is None or pod.fact.workload.cluster != cluster or pod.fact.leaving:
                    continue
                if now is not None and history.evicts and history.has_plan(now):
                    yield pod.fact, self._targets(pod)

        def owed() -> Iterator[tuple[PodChanged, PlannedRequests]]:
            for workload in self.missing.evicted_of_late(cluster, self.turn):
                pod = next(iter(self.clusters.pods_of.get(workload, {}).values()), None)
                missing = self.missing.count(workload).missing
                yield from () if pod is None else repeat((pod.fact, self._targets(pod)), missing)

        return FreeRooms(nodes, pods, going, owed)

    def _targets(self, pod: PodRecord) -> PlannedRequests:
        """What a pod's successor will request."""
        return {name: container.target for name, container in (self.advised(pod) or {}).items()}

    def _plan(self, turn: Turn, cluster: ClusterCandidates, refusals: IntervalRefusals | None) -> Iterator[Decided]:
        """Plan for the pods that no guard holds back; the others go to the refusals."""
        for candidate, situation, objection in cluster.judged():
            if objection is None:
                plan = plan_builder.plan(candidate, situation, turn, self.partition)
                self._remember(candidate, plan)
                yield plan_builder.decided(plan, candidate, situation)
            elif refusals is not None:
                refusals.add(candidate, situation, objection)

    def _candidates(self, workload: str, now: int, *, fresh: bool) -> list[Candidate]:
        """The pods of a workload that should be changed and have no plan."""
        settings = self._settings_of(workload)
        wanted = self.clusters.wanted(workload, now)
        return self._search.of(workload, now, wanted, settings, partial(self._history, fresh=fresh))

    def advised(self, pod: PodRecord) -> Mapping[str, ContainerRecommendation] | None:
        """What is recommended for a pod, by container, as admission gives it; None where nothing is."""
        return self._search.advised(pod, self._settings_of(pod.fact.workload.key))

    def _settings_of(self, workload: str) -> UpdateSettings:
        """The settings in force, and over them what the workload's policy says."""
        policy = self.policies.of(workload)
        return self._settings.own if policy is None else self._settings.of(policy.policy.guards)

    def _groups(self, workload: str, begun: OpenPlans) -> dict[str, ReplicaCounts]:
        """The pods of a workload by direct controller."""
        groups = self.missing.groups(workload, lambda controller: begun.groups[workload, controller])
        for name, counts in groups.items():
            counts.begun_down = begun.down[workload, name]
        return groups

    def _history(self, uid: str, *, fresh: bool = False) -> PodHistory:
        history = self.clusters.histories.get(uid) or NO_HISTORY
        return replace(history, plan=None, acted=None) if fresh else history

    def _count(self, workload: str) -> Headcount:
        """Count the pods of a workload that are there."""
        count = self._search.quiet.counted(workload)
        if count is None:
            count = self.missing.count(workload)
            self._search.quiet.count(workload, count)
        return count

    def _count_plans(self, counts: Mapping[str, Headcount], now: int) -> OpenPlans:
        """Count the pods with an open plan that stops a container: those that run, and those that go because of it."""
        # As in upstream, a resize that stops no container only counts in the interval in which it is planned: however long the
        # kubelet defers it, its pod serves, and others need not wait.
        plans, leaving = OpenPlans(), Counter[tuple[str, str]]()
        for uid, history in self.clusters.histories.items():
            pod = self.clusters.pods.get(uid) if history.disrupts(now) else None
            if pod is None or pod.fact.phase is not PodPhase.RUNNING or pod.fact.workload.key not in counts:
                continue
            workload, serving = pod.fact.workload.key, eviction_tolerance.serves(pod.fact)
            group = workload, pod.fact.controller
            if pod.fact.leaving:
                # A pod that leaves no longer belongs to its group, and it may take long.
                leaving[group] += history.plan is not None and now <= history.plan.expires
            else:
                plans.groups[group] += 1
                plans.down[group] += not serving
                counts[workload].acting += serving
                counts[workload].down -= not serving
            if history.plan is not None and not history.plan.done:
                # Of one that is done the budgets themselves say so.
                plans.stopping.update(budget.key for budget in self.clusters.constraints.budgets.of(workload))
        for (workload, controller), count in leaving.items():
            # Those that their controller misses count already.
            counts[workload].acting += max(0, count - self.missing.groups(workload)[controller].missing)
        return plans

    def _remember(self, planned: Candidate, plan: ResizePlanned | EvictionPlanned) -> None:
        situation = planned.situation
        opened = OpenPlan(
            plan.id,
            planned.action,
            shared_guards.last_turn(plan),
            expect=plan.expect,
            asks=changes(situation)[0],
            disrupts=disrupts(planned),
            unboosts=situation.unboosts,
            before=self.missing.before(situation.workload) if planned.action is Action.EVICT else PodsBefore(),
        )
        pod = situation.pod.fact
        requests = {container.name: container.requests for container in pod.containers}
        self.clusters.histories.upsert(pod.pod.uid, situation.history.with_plan(opened, situation.now, requests))
        cluster, since = cluster_of(situation.workload), self._interval_start(situation.now)
        self.clusters.made.upsert(cluster, self._planned(cluster, since).one_more(planned.action))
