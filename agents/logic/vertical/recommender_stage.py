"""The recommender: usage, pods, OOM kills and policies of one partition in; what workloads should request out.

A turn takes its records in and then looks at the workloads that are due. It announces a recommendation when it moved, after an
OOM kill at once, and again from time to time; a withdrawal is announced once. A workload with a VPA is judged by it, every other
one as if it had a VPA without settings.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from agents.engine.tables.chunked_state import PartedState
from agents.engine.tables.object_table import ObjectTable
from agents.engine.tables.row_table import Indices
from agents.engine.turn import BatchDecided, Decided, Turn
from agents.logic.governing_policies import Concerns, Policies, anywhere
from agents.logic.stage_rules import StageRules
from agents.logic.vertical.container_index import ContainerIndex, MemberSelection
from agents.logic.vertical.decision_builder import DecisionBuilder, Grounds, IngestedOomKill, RecommendationBatch
from agents.logic.vertical.memory_floors import MemoryFloors
from agents.logic.vertical.memory_leaks import LeakChange, MemoryLeaks
from agents.logic.vertical.node_caps import NodeIndex
from agents.logic.vertical.policy_code import PolicyLookup, only_built_in
from agents.logic.vertical.recommendation_schedule import DueEstimates, EarlyEstimates, LastTurn, Schedule, TurnSpan
from agents.logic.vertical.recommended_amounts import (
    Announced,
    Recommendation,
    deciding_rules,
    feed_of,
    grounds_of,
    recommend,
    reconsider,
)
from agents.logic.vertical.shadow_comparison import ShadowComparison
from agents.logic.vertical.usage_ingest import AggregateBounds, SourceHeartbeats, UsageIngest
from agents.logic.vertical.vertical_settings import NAME, VerticalSettings
from schemas.decisions.recommendations import OomSource
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.usage import CheckpointSeen, ContainerOOMKilled, MetricsScraped
from schemas.names import Place, cluster_of

_HOUR = 3_600_000
_MOST_CAUSES = 100
"""Scrapes that a decision names as its cause at most, the newest: a workload may have thousands of label sets."""
_CHANGING = ("rules", "policies", "pod-changes", "oom-events", "pod-metrics")
"""The inputs whose records may change what an estimate rests on; nodes count only where pods are fitted to them."""
_RETURNING = ("pod-changes", "pod-metrics")
"""The inputs by which the memory of a leak may be seen to come back."""
_ROUTES: Mapping[str, Callable[[str], str]] = {"recommendations": str, "recommendations-by-cluster": cluster_of}
"""The topics of a recommendation, and the key that it has there; `str` leaves a workload's key as it is."""


@dataclass(slots=True)
class _Ingested:
    """Workloads that a turn's records concern."""

    changed: set[str]
    """Their rules may have changed."""
    at_once: set[str]
    """They are judged in this turn: an OOM kill, their first pods, or the end of their last one."""
    lost: set[str]
    """A container of theirs that had a recommendation is gone."""
    leaks: list[LeakChange]
    """Leaks that were found or are over."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The result of a turn: announced amounts, and the workloads without a recommendation any more."""

    # Makes decisions of what follows, with the rules that were in force.
    builder: DecisionBuilder
    batch: RecommendationBatch | None
    withdrawn: Sequence[str]
    leaks: Sequence[LeakChange] = ()


class Recommender(PartedState):
    """The state of one partition. `settings` are those in force; the log's rules win over those it was made with.

    `policy_of` finds the policy written as code that the rules name; `concerns`: whether a VPA can target workloads of here.
    """

    def __init__(
        self, settings: VerticalSettings, partition: int, policy_of: PolicyLookup = only_built_in, concerns: Concerns = anywhere
    ) -> None:
        self.partition, self._own, self._policy_of, self._concerns = partition, settings, policy_of, concerns
        self._build(settings)

    def _build(self, settings: VerticalSettings) -> None:
        """Make the empty state that decides by these settings."""
        self.settings = settings
        self.floors, self.leaks = MemoryFloors(settings.oom_loop, settings.memory_expires), MemoryLeaks()
        self.estimation, self.shadow, self.states = deciding_rules(settings, self._policy_of, self.floors, self.leaks)
        self.rules = StageRules(NAME, self._own)
        self.policies = Policies(settings.recommender, self._concerns)
        self.intake = UsageIngest(settings, self.policies)
        self.usage = self.intake.usage
        self.announced = Announced()
        self.ooms: ObjectTable[IngestedOomKill] = ObjectTable("ooms", IngestedOomKill, 16)
        self.last: ObjectTable[LastTurn] = ObjectTable("marks", LastTurn, 1)
        self.nodes, self.sources = NodeIndex(), SourceHeartbeats()
        self.members = ContainerIndex(self.usage, self.announced.table, self.policies, settings)
        self.announced.members = self.members
        self.feed = feed_of(self.estimation, self.shadow, self.usage, self.members, self.states)
        nodes = self.nodes if settings.node_cap else None
        known = partial(replace, feed=self.feed, nodes=nodes, pods=self.intake.pods)
        self.estimation, self.shadow = known(self.estimation), known(self.shadow)
        self.bounds = self.intake.bounds = AggregateBounds(self.members, self.usage.aggregates.__contains__)
        self.schedule = Schedule(
            self.usage, self.members, announced_policy=self.announced.policy, nodes=self.nodes, settings=settings
        )
        self.early = EarlyEstimates(self.schedule, self.members, self._estimate)
        usage = (self.usage.aggregates, self.usage.containers, self.announced.table, self.intake.pods.table)
        tables = (*usage, self.ooms, self.floors.table, self.leaks.table, self.last, self.states)
        super().__init__(*tables, *self.policies.tables(), *self.nodes.tables(), self.sources.table, self.rules.table)
        self._loaded = False

    def step(self, turn: Turn) -> Sequence[Decided]:
        """Take a turn in; announce what moved."""
        conclusion = self.conclude(turn)
        return [] if conclusion is None else self._announced(turn, conclusion)

    def conclude(self, turn: Turn) -> Conclusion | None:
        """The same without decisions: for a driver that reads amounts alone. None if there is nothing to announce.

        The state is as after `step`.
        """
        self.scatter(turn)
        last = self.last.get("") or LastTurn(turn.number)
        turned = self._follow_rules(turn)
        span = TurnSpan(last.turn, turn.number)
        ingested = self._ingest(turn, last, turned)
        if len(self.leaks.table) and any(map(turn.of, _RETURNING)):
            ended = self.leaks.end(turn.number, self.intake.leak_end)
            ingested.leaks += ended
            ingested.at_once |= {change.workload for change in ended}
        if span.crosses_one(_HOUR):
            self.intake.expire(turn.number / 1000)
            ingested.at_once |= self.floors.review(turn.number, self.intake.most_used)
            reviewed = self.leaks.review(turn.number)
            ingested.leaks += [change for change in reviewed if not change.quiet]
            ingested.at_once |= {change.workload for change in reviewed}
            ingested.lost |= self._account()
        if (early := self._early(turn, span)) is not None:
            return self._conclude(turn, span, early, ingested) if len(early.workloads) else None
        due = self.schedule.due(span)
        if not len(due) and not ingested.at_once and not ingested.changed and not ingested.lost:
            return None
        selected = self.members.select(due, ingested.at_once)
        return self._conclude(turn, span, DueEstimates.whole(selected, self._estimate), ingested)

    def _early(self, turn: Turn, span: TurnSpan) -> DueEstimates | None:
        """The workloads that are due, if they were estimated together with those of other turns."""
        settings = self.settings
        # What was estimated ahead holds while nothing came that it rests on, and a policy as code is never asked ahead.
        changed = any(map(turn.of, _CHANGING)) or (settings.node_cap and len(turn.of("cluster-changes")) > 0)
        if changed or span.crosses_one(_HOUR) or self.estimation.policy is not None or settings.shadow_policy:
            self.early.forget()
            return None
        return self.early.due(span)

    def _estimate(self, selected: MemberSelection) -> Recommendation:
        return recommend(self.usage, self.members, selected, self.estimation)

    def _follow_rules(self, turn: Turn) -> frozenset[str]:
        """Decide by the log's rules from this turn on, and rebuild the indexes after a load.

        Returns the workloads whose VPA changes between ours and another recommender's by these rules.
        """
        before = self.rules.cited
        self.rules.ingest(turn.of("rules"))
        settings = self.rules.settings
        if settings != self.settings:
            self.rebuild(partial(self._build, settings))
        if self._loaded:
            self.states.forget_others()
        turned = frozenset[str]() if self.rules.cited == before else self.policies.serve(settings.recommender)
        self.intake.begin(turn.number)
        if self._loaded:
            self._loaded = False
            # Indexes are no part of a checkpoint: they follow from the tables.
            self.members.add(self.usage.aggregates.keys())
        return turned

    def _ingest(self, turn: Turn, last: LastTurn, turned: frozenset[str]) -> _Ingested:
        """Take everything of a turn in. `turned`: workloads whose VPA has another recommender now by new rules."""
        # Policies first, for they say how usage is counted. Deleted pods are forgotten last: an OOM kill of one still counts.
        changed = self._ingest_policies(turn, turned)
        self.nodes.ingest(turn.of("cluster-changes"), turn.number)
        self.sources.ingest(turn.of("cluster-changes"))
        at_once = changed & turned | self._ingest_pods(turn) | self._ingest_kills(turn)
        last = self._ingest_scrapes(turn, last)
        leaks = self.leaks.take(self.intake.rising(), self.announced.table, turn.number)
        at_once |= self._forget_pods(turn) | {change.workload for change in leaks}
        self.last.upsert("", replace(last, turn=turn.number))
        lost = self._account()
        self.feed.show()
        return _Ingested(changed, at_once, lost, leaks)

    def _ingest_policies(self, turn: Turn, turned: frozenset[str]) -> set[str]:
        """Take policies in; returns the workloads whose rules may have changed."""
        changed = set(turned)
        for recorded in (*turn.of("rules"), *turn.of("policies")):
            changed |= self.policies.take(recorded)
        if not changed:
            return set()
        self.usage.lookup.look_again()
        self.intake.recount()
        return set(self.members.policies_changed(changed))

    def _ingest_pods(self, turn: Turn) -> set[str]:
        """Take pods and checkpoints in; returns workloads that now have their first pods."""
        first = set()
        for recorded in turn.of("pod-changes"):
            event = recorded.event
            if isinstance(event, PodChanged):
                workload = event.workload.key
                unknown = not self.intake.pods.has(workload)
                self.intake.pod(event)
                if unknown and self.intake.count(workload):
                    first.add(workload)
            elif isinstance(event, CheckpointSeen):
                self.intake.seed(event)
        return first

    def _ingest_kills(self, turn: Turn) -> set[str]:
        """Take OOM kills in; returns their workloads."""
        workloads = set()
        for recorded in turn.of("oom-events"):
            event = recorded.event
            if isinstance(event, ContainerOOMKilled):
                workload = event.workload.key
                counted = self.intake.kill(event)
                if counted:
                    self.feed.killed(event)
                    self.floors.killed(event, self.intake.peak(event), turn.number)
                self.ooms.upsert(workload, IngestedOomKill(event, recorded.place, counted))
                workloads.add(workload)
        return workloads

    def _ingest_scrapes(self, turn: Turn, last: LastTurn) -> LastTurn:
        """Fold usage."""
        scrapes = turn.of("pod-metrics")
        # Only policies as code want the samples themselves.
        idle = not scrapes or self.feed.idle
        for recorded in scrapes:
            event, place = recorded.event, recorded.place
            if isinstance(event, MetricsScraped):
                self.usage.scrape(event, event.at.timestamp(), offset=place.offset)
                if not idle:
                    self.feed.scraped(event)
                last = LastTurn(turn.number, place.topic, place.partition)
        return last

    def _forget_pods(self, turn: Turn) -> set[str]:
        """Forget deleted pods; returns workloads that have none left."""
        ended = set()
        for recorded in turn.of("pod-changes"):
            if isinstance(recorded.event, PodDeleted):
                workload = recorded.event.workload.key
                some = self.intake.pods.has(workload)
                self.intake.gone(recorded.event, [name for name, _ in self.members.containers(workload)])
                if some and not self.intake.pods.has(workload):
                    ended.add(workload)
        return ended

    def _account(self) -> set[str]:
        """Enter new and dropped aggregates into the index; returns the workloads that lost a container's recommendation."""
        lost: set[str] = set()
        added, self.usage.added = self.usage.added, []
        removed, self.intake.removed = self.intake.removed, []
        if removed:
            gone = self.members.remove(removed)
            lost = self.announced.forget(gone)
            self.feed.forget(gone)
            for workload, _ in gone:
                if workload not in self.members:
                    self.ooms.remove(workload)
        if added:
            self.members.add(added)
        return lost

    def _conclude(self, turn: Turn, span: TurnSpan, due: DueEstimates, ingested: _Ingested) -> Conclusion:
        """Find what is new about the workloads that are due, and withdraw recommendations that no longer hold."""
        builder = DecisionBuilder(self.partition, turn, self.settings, self.rules.cited)
        batch, without = self._recommend(builder, due, span, ingested.at_once)
        quiet = set(due.of.workload_names(without)) if len(without) else set[str]()
        if others := ingested.at_once | ingested.changed | ingested.lost:
            others = others.difference(due.names)
            quiet |= others - self.members.workloads(self.members.speaking(others))
        # In order, so that a replay decides the same.
        withdrawn = sorted(w for w in quiet if w in ingested.lost or self.announced.has(w))
        for workload in withdrawn:
            self.announced.withdraw(workload)
        return Conclusion(builder, batch, withdrawn, ingested.leaks)

    def _compared(self, batch: RecommendationBatch) -> Iterable[Decided]:
        """The shadow policy's recommendations for the announced workloads; nothing without one."""
        if not self.settings.shadow_policy:
            return ()
        return ShadowComparison(batch, reconsider(self.usage, self.members, batch.done, self.shadow)).decided()

    def _recommend(
        self, builder: DecisionBuilder, due: DueEstimates, span: TurnSpan, at_once: set[str]
    ) -> tuple[RecommendationBatch | None, Indices]:
        """Decide about these workloads: what is new, and everything about those that are judged at once.

        Also returns those without a recommendation, announced now or not.
        """
        of, done = due.of, due.done
        if done is None:
            return None, due.workloads
        places = due.places[~np.isnan(done.amounts[due.places]).all(axis=1)]
        workload = of.workload[places]
        without = np.zeros(of.count, np.bool_)
        without[due.workloads] = True
        without[workload] = False
        unknown = without.nonzero()[0]
        news = self.announced.news(done, places, self.settings.bounds_step) | self.schedule.beats(span, of.members[places])
        speaks = np.zeros(of.count, np.bool_)
        speaks[workload[news]] = True
        if at_once:
            speaks[[number for number, name in zip(due.workloads.tolist(), due.names, strict=True) if name in at_once]] = True
        places = places[speaks[workload]]
        if not len(places):
            return None, unknown
        self.announced.remember(done, places)
        return RecommendationBatch(builder, done, places), unknown

    def _announced(self, turn: Turn, conclusion: Conclusion) -> Sequence[Decided]:
        """The decisions of this turn."""
        tell = conclusion.builder.leak
        decided = [tell(change, self.leaks.described(change, self.members), self._seen_in(change)) for change in conclusion.leaks]
        for workload in conclusion.withdrawn:
            decided += conclusion.builder.nothing(workload, self._grounds(turn, workload))
        batch = conclusion.batch
        if batch is None:
            return decided
        done, places = batch.done, batch.places
        metrics = self._metrics(done.of.members[places])
        sources: dict[str, OomSource] = {}
        batch.grounds = [
            self._grounds(turn, workload, self._places(done, places[start:end], metrics[start:end]), sources)
            for workload, start, end in zip(batch.subjects, batch.begins, batch.begins[1:], strict=False)
        ]
        batch.explained = grounds_of(self.usage, self.members, done, places, self.estimation)
        return BatchDecided(batch, _ROUTES, [*decided, *self._compared(batch)])

    def _seen_in(self, change: LeakChange) -> tuple[Place, ...]:
        """The scrape by which a leak was found; none for its end."""
        row = None if change.over else self.usage.containers.find(change.row)
        aggregate = -1 if row is None else int(self.usage.containers.whole("aggregate")[row])
        offset = -1 if aggregate < 0 else int(self.usage.aggregates.whole("offset")[aggregate])
        last = self.last.get("") or LastTurn(0)
        return (Place(last.topic, last.partition, offset),) if offset >= 0 else ()

    def _metrics(self, members: Indices) -> list[Place | None]:
        """The last scrape that each member rests on; None without one, or if the member has several aggregates."""
        last = self.last.get("") or LastTurn(0)
        single = self.members.numbers["single"][members]
        offsets = np.where(single >= 0, self.usage.aggregates.whole("offset")[single], -1).tolist()
        scrapes = {offset: Place(last.topic, last.partition, offset) for offset in set(offsets) - {-1}}
        return [scrapes.get(offset) for offset in offsets]

    def _places(self, done: Recommendation, places: Indices, metrics: Sequence[Place | None]) -> tuple[Place, ...]:
        """The node that a pod was compared with, and the last scrapes that its containers rest on, in order."""
        room = done.fit.node(int(places[0])) if done.fit else None
        # The usual case, for which no table has to be looked into.
        if len(places) == 1 and room is None and (metric := metrics[0]) is not None:
            return (metric,)
        last = self.last.get("") or LastTurn(0)
        rows = [row for member in done.of.members[places].tolist() for row in self.members.rows(member)]
        offsets = set(self.usage.aggregates.whole("offset")[rows].tolist()) - {-1}
        scrapes = (Place(last.topic, last.partition, offset) for offset in sorted(offsets)[-_MOST_CAUSES:])
        return (*((room.place,) if room else ()), *scrapes)

    def _grounds(
        self, turn: Turn, workload: str, places: tuple[Place, ...] = (), sources: dict[str, OomSource] | None = None
    ) -> Grounds:
        """What a decision about a workload rests on. `sources` caches the OOM source of each cluster for one turn."""
        cluster, sources = cluster_of(workload), {} if sources is None else sources
        if cluster not in sources:
            sources[cluster] = self.sources.ooms(cluster, turn.at)
        left_out = self.bounds.reached(workload)
        floors = self.floors.of(workload, (name for name, _ in self.members.containers(workload)))
        kill, pods = self.ooms.get(workload), self.intake.count(workload)
        leaks = self.leaks.of(workload, self.members)
        return Grounds(self.policies.of(workload), kill, pods, sources[cluster], places, left_out, floors, leaks)

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place."""
        super().load(chunk, data)
        self.policies.loaded()
        self.intake.pods.loaded()
        self.intake.recount()
        self.nodes.loaded()
        self._loaded = True
