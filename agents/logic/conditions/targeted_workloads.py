"""The known state of workloads that VPAs target: their pods and recommendations.

A recommender decides each recommendation again with every heartbeat, so one that it has stopped deciding is withdrawn. Until two
whole heartbeats have been read, absence means unknown, not withdrawn.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from agents.engine.tables.chunked_state import StatePart
from agents.engine.tables.object_table import ObjectTable
from agents.logic.conditions import condition_rules
from agents.logic.conditions.condition_rules import GoverningPolicy, LoopKnowledge, UnansweredKills
from agents.logic.guards.shared_guards import REPORTS_WITHIN
from agents.logic.resources.target_caps import TargetBound
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended, TargetCuts
from schemas.facts.pods import PodChanged, PodDeleted, PodPhase
from schemas.facts.sources import SourceReported
from schemas.names import Place, cluster_of
from schemas.units import Seconds

_PODS = "pod-changes"
"""The topic that a source names when it sees pods."""
_SILENT = 2
"""Heartbeats after which a recommendation that is not decided again is withdrawn."""


@dataclass(frozen=True, slots=True)
class DecidedRequests:
    """The newest recommendation of a workload. `pods` is None when it does not say how many there were."""

    turn: int
    place: Place
    id: str
    containers: tuple[ContainerRecommendation, ...]
    pods: int | None
    cuts: TargetCuts = TargetCuts()


@dataclass(frozen=True, slots=True)
class HeldPod:
    """What the updater said last of a killed pod of a workload, which a guard holds back."""

    uid: str
    guard: str
    reason: str


@dataclass(frozen=True, slots=True)
class DecidingTurns:
    """Turns in which the recommender of one partition decided something: the first, the newest, and the one before that."""

    first: int
    newest: int
    whole: int = -1
    """The newest turn of which every decision has arrived; -1 for none."""

    def hear(self, turn: int) -> "DecidingTurns":
        """The recommender decided something in this turn, too."""
        if turn == self.newest:  # as most decisions are; then nothing changes
            return self
        heard = replace(self, first=min(self.first, turn))
        if turn > self.newest:
            # The newest turn does not count yet, because its decisions may arrive in two turns of ours.
            return replace(heard, whole=self.newest, newest=turn)
        return replace(heard, whole=turn) if self.whole < turn < self.newest else heard


@dataclass(frozen=True, slots=True)
class PodOfWorkload:
    """The workload of a pod that is there, and the OOM kills that nobody has answered with more memory."""

    workload: str
    kills: tuple[UnansweredKills, ...] = ()


@dataclass(frozen=True, slots=True)
class EndedPods:
    """The kills that ended pods of a workload, whose owner makes others in their place."""

    kills: tuple[UnansweredKills, ...]


REMEMBERED, REMEMBERED_OF_JOBS = timedelta(days=15), timedelta(days=1)
"""For how long after its last kill an ended pod counts: a job may run once a week, but what ran once has no next run."""


@dataclass(frozen=True, slots=True)
class PodVisibility:
    """Whether a source sees the pods of its cluster, and the last turn in which it reported that; None if it never did.

    `silent`: that was too long ago.
    """

    pods: bool
    seen: int | None = None
    silent: bool = False


class TargetIndex:
    """The workloads of the clusters of a partition. `partition_of` gives the partition of the recommender of a workload key.

    `changed` collects the workloads whose known state may have changed since `take_changed`.
    """

    def __init__(self, partition_of: Callable[[str], int]) -> None:
        self._partition_of = partition_of
        self.requests: ObjectTable[DecidedRequests] = ObjectTable(
            "requests", DecidedRequests, 2048, shares=(ContainerRecommendation,), come_shared=True
        )
        self.heard: ObjectTable[DecidingTurns] = ObjectTable("heard", DecidingTurns, 1)
        self.pods: ObjectTable[PodOfWorkload] = ObjectTable("pods", PodOfWorkload, 256, shares=())
        self.ended: ObjectTable[EndedPods] = ObjectTable("ended", EndedPods, 16)
        self.held: ObjectTable[HeldPod] = ObjectTable("held", HeldPod, 16)
        self.sources: ObjectTable[PodVisibility] = ObjectTable("sources", PodVisibility, 1)
        self._counts: Counter[str] | None = None
        self._killed: dict[str, set[str]] | None = None
        self._changed: set[str] = set()
        self._all_of: set[str] = set()

    def tables(self) -> tuple[StatePart, ...]:
        """All tables."""
        return (self.requests, self.heard, self.pods, self.ended, self.held, self.sources)

    def loaded(self) -> None:
        """A chunk was loaded, so the counts must be made again."""
        self._counts = self._killed = None

    def take_changed(self) -> tuple[set[str], set[str]]:
        """The workloads, and the clusters with all their workloads, whose known state may have changed."""
        changed, clusters = self._changed, self._all_of
        self._changed, self._all_of = set(), set()
        return changed, clusters

    def ingest_pod(self, event: PodChanged | PodDeleted) -> None:
        """Take in a fact about a pod."""
        uid = event.pod.uid
        if isinstance(event, PodChanged):
            self._note_ended(event)
        old = self.pods.get(uid)
        before = "" if old is None else old.workload
        former = () if old is None else old.kills
        kills = condition_rules.seen_in(event, former) if isinstance(event, PodChanged) else ()
        # A pending pod does not match yet, as upstream has it, unless an init container of it has been killed: it may pend for
        # ever.
        there = isinstance(event, PodChanged) and (event.phase is not PodPhase.PENDING or bool(kills))
        after = event.workload.key if there else ""
        if before == after and kills == former:
            return
        if before != after:
            self._count(before, -1)
            self._count(after, 1)
        if kills or former:
            # A pod keeps its uid when another controller adopts it, so its kills have to leave one workload for another.
            self._note_kills(uid, before or after, after if kills else "")
        if after:
            self.pods.upsert(uid, PodOfWorkload(after, kills))
        else:
            self.pods.remove(uid)

    def _note_ended(self, event: PodChanged) -> None:
        workload = event.workload.key
        known = self.ended.get(workload)
        before = () if known is None else known.kills
        # Nearly all pods are of workloads without such a kill, and show none.
        if not before and event.phase is not PodPhase.FAILED:
            return
        after = condition_rules.of_ended_pods(event, before)
        if after != before:
            self._replace_ended(workload, after)

    def _replace_ended(self, workload: str, kills: tuple[UnansweredKills, ...]) -> None:
        if kills:
            self.ended.upsert(workload, EndedPods(kills))
        else:
            self.ended.remove(workload)
        self._changed.add(workload)

    def forget_ended(self, at: datetime) -> None:
        """Forget the kills of pods that ended too long ago for another one to be of the same loop."""
        for workload, ended in list(self.ended.items()):
            within = REMEMBERED_OF_JOBS if workload.split("/")[2] in ("Job", "Pod") else REMEMBERED
            kept = tuple(kills for kills in ended.kills if at - kills.last < within)
            if kept != ended.kills:
                self._replace_ended(workload, kept)

    def ingest_update(self, event: UpdateRefused | ResizePlanned | EvictionPlanned) -> None:
        """Take in what the updater decided of a pod. It counts where the pod is killed for lack of memory."""
        workload, uid = event.workload.key, event.pod.uid
        before = self.held.get(workload)
        if isinstance(event, UpdateRefused):
            held = HeldPod(uid, event.guard, event.reason)
            if uid not in self._killed_pods.get(workload, ()) or held == before:
                return
            self.held.upsert(workload, held)
        elif before is None or before.uid != uid:
            return
        else:
            self.held.remove(workload)
        self._changed.add(workload)

    def ingest_source(self, event: SourceReported, turn: int) -> None:
        """Take in whether a source sees pods."""
        before = self._vouched(event.cluster)
        key, sees = f"{event.cluster}/{event.source}", _PODS in event.sees
        former = self.sources.get(key) or PodVisibility(sees)
        report = replace(former, pods=sees, seen=turn if sees else former.seen)
        if report != self.sources.get(key):
            self.sources.upsert(key, report)
        if self._vouched(event.cluster) != before:
            self._all_of.add(event.cluster)

    def note_silence(self, turn: int) -> None:
        """Note which sources have not reported for too long that they see pods, or do so again."""
        for key, source in self.sources.items():
            silent = source.seen is not None and turn - source.seen > REPORTS_WITHIN * 1000
            if silent != source.silent:
                self.sources.upsert(key, replace(source, silent=silent))
                self._all_of.add(cluster_of(key))

    def blind_since(self, cluster: str) -> int | None:
        """The last turn in which a source of a cluster saw its pods, if that was too long ago; else None."""
        seen = [source for key, source in self.sources.items() if cluster_of(key) == cluster and source.seen is not None]
        if not seen or not all(source.silent for source in seen):
            return None
        return max(source.seen for source in seen if source.seen is not None)

    def hear(self, workload: str, turn: int, *, targeted: Container[str], heartbeat: Seconds) -> bool:
        """Note that a recommender decided about a workload; returns whether the decision has to be ingested."""
        self._hear(cluster_of(workload), self._partition_of(workload), turn, heartbeat, targeted)
        return self._keeps(workload, targeted)

    def hear_all(self, workloads: Sequence[str], turn: int, *, targeted: Container[str], heartbeat: Seconds) -> list[int]:
        """Note that recommenders decided about workloads in one turn; returns which of the decisions have to be ingested."""
        heard: set[int] = set()
        kept = []
        for place, workload in enumerate(workloads):
            partition = self._partition_of(workload)
            # Repeated decisions of one recommender in one turn add nothing.
            if partition not in heard:
                heard.add(partition)
                self._hear(cluster_of(workload), partition, turn, heartbeat, targeted)
            if self._keeps(workload, targeted):
                kept.append(place)
        return kept

    def _keeps(self, workload: str, targeted: Container[str]) -> bool:
        # Any other decision only shows that the recommender is running. Nothing is lost: it decides again, within its interval,
        # for a workload that gets a VPA, and at once after a kill.
        return workload in self.requests or workload in targeted or self._is_killed(workload)

    def ingest_requests(self, event: RequestsRecommended, turn: int, place: Place) -> None:
        """Take in a recommendation that was decided in this turn, if it is the newest."""
        workload = event.workload.key
        before = self.requests.get(workload)
        # Of two of one turn the first counts, because a repeat after a crash has the same bytes and a later place.
        if before is None or (turn, -place.offset) > (before.turn, -before.place.offset):
            self.requests.upsert(workload, DecidedRequests(turn, place, event.id, event.containers, event.pods, event.cuts))
            self._changed.add(workload)

    def live_requests(self, workload: str, heartbeat: Seconds) -> DecidedRequests | None:
        """The newest recommendation of a workload, if its recommender still maintains it."""
        live_requests = self.requests.get(workload)
        if live_requests is None or self._silent(workload, live_requests.turn, heartbeat):
            return None
        return live_requests

    def containers(self, workload: str, heartbeat: Seconds) -> Sequence[ContainerRecommendation] | None:
        """The recommendation for a workload: empty for none, None while it is unknown."""
        recommendation = self.live_requests(workload, heartbeat)
        if recommendation is not None:
            return recommendation.containers
        heard = self.heard.get(str(self._partition_of(workload)))
        return () if heard is not None and self._silent(workload, heard.first, heartbeat) else None

    def count(self, workload: str, heartbeat: Seconds) -> int | None:
        """How many pods a workload has; None while it is unknown."""
        recommendation = self.live_requests(workload, heartbeat)
        if recommendation is not None and recommendation.pods is not None:
            return recommendation.pods
        return self._pod_counts[workload] or (0 if self._vouched(cluster_of(workload)) else None)

    @property
    def _pod_counts(self) -> Counter[str]:
        if self._counts is None:
            self._counts = Counter(pod.workload for pod in self.pods.values())
        return self._counts

    def kills(self, workload: str) -> list[UnansweredKills]:
        """The kills of a workload's containers that nobody has answered yet."""
        pods = (self.pods.get(uid) for uid in sorted(self._killed_pods.get(workload, ())))
        ended = self.ended.get(workload)
        return [kills for pod in (*pods, ended) if pod is not None for kills in pod.kills]

    def loop(self, workload: str, governing: GoverningPolicy, heartbeat: Seconds, at: datetime) -> TargetBound | None:
        """What keeps a loop of OOM kills in a workload going, by what governs it; None where there is no such loop."""
        kills = self.kills(workload)
        if not kills:
            return None
        recommended, held = self.live_requests(workload, heartbeat), self.held.get(workload)
        containers, cuts = ((), TargetCuts()) if recommended is None else (recommended.containers, recommended.cuts)
        guard = ("", "") if held is None else (held.guard, held.reason)
        return condition_rules.condition_of(governing, kills, LoopKnowledge(containers, cuts, *guard), at)

    def killed(self) -> list[str]:
        """The workloads with kills that nobody has answered yet."""
        return sorted({*self._killed_pods, *self.ended})

    @property
    def _killed_pods(self) -> dict[str, set[str]]:
        """The pods with kills, by workload. They are few, and looked at often."""
        if self._killed is None:
            self._killed = {}
            for uid, pod in self.pods.items():
                if pod.kills:
                    self._killed.setdefault(pod.workload, set()).add(uid)
        return self._killed

    def _is_killed(self, workload: str) -> bool:
        return workload in self._killed_pods or workload in self.ended

    def _note_kills(self, uid: str, before: str, after: str) -> None:
        """A pod that belonged to the workload `before` has other kills; `after` is its workload, empty without kills."""
        killed = self._killed_pods
        # Another kill of the only pod with kills is no end of them: what holds the pod back still does.
        if before != after:
            killed.get(before, set()).discard(uid)
        if after:
            killed.setdefault(after, set()).add(uid)
        if not killed.get(before):
            killed.pop(before, None)
            self.held.remove(before)
        self._changed.update({before, after} - {""})

    def _count(self, workload: str, step: int) -> None:
        if not workload:
            return
        counts = self._pod_counts
        counts[workload] += step
        if counts[workload] == max(0, step):
            self._changed.add(workload)  # the first pod came or the last one went
        if not counts[workload]:
            del counts[workload]

    def _vouched(self, cluster: str) -> bool:
        """Whether a pod that no source has reported does not exist."""
        visible = [source.pods for key, source in self.sources.items() if cluster_of(key) == cluster]
        # If no source ever reports, as in a trace, facts about pods are taken as they are.
        return not visible or any(visible)

    def _hear(self, cluster: str, partition: int, turn: int, heartbeat: Seconds, targeted: Container[str]) -> None:
        """A recommender decided something. With each of its heartbeats some workloads may have become silent."""
        key = str(partition)
        former = self.heard.get(key)
        before = former or DecidingTurns(turn, turn)
        heard = before.hear(turn)
        if heard is former:
            return
        if heard != former:
            self.heard.upsert(key, heard)
        if heard.first < before.first or _beat(heard.whole, heartbeat) > _beat(before.whole, heartbeat):
            self._all_of.add(cluster)
            for workload in list(self._over(partition, heartbeat, targeted)):
                self.requests.remove(workload)

    def _over(self, partition: int, heartbeat: Seconds, targeted: Container[str]) -> Iterator[str]:
        """The workloads of a partition whose recommendation is withdrawn, or of which no status is asked for."""
        mine = ((key, requests.turn) for key, requests in self.requests.items() if self._partition_of(key) == partition)
        for workload, turn in mine:
            # Kept until this heartbeat although its last VPA went, because an object may be recreated.
            wanted = workload in targeted or self._is_killed(workload)
            if not wanted or self._silent(workload, turn, heartbeat):
                yield workload

    def _silent(self, workload: str, since: int, heartbeat: Seconds) -> bool:
        """Whether the recommender of a workload has had several heartbeats since this turn."""
        heard = self.heard.get(str(self._partition_of(workload)))
        return heard is not None and _beat(heard.whole, heartbeat) - _beat(since, heartbeat) > _SILENT


def _beat(turn: int, heartbeat: Seconds) -> int:
    """The number of the heartbeat that a turn is in."""
    return turn // max(1, int(heartbeat * 1000))
