"""The recommender: usage, pods, OOM kills and policies of one partition in; what workloads should request out.

A turn first takes policies, pods, OOM kills and scrapes in, then lets go of deleted pods (an OOM kill of a pod just deleted still
counts), then looks at the workloads that are due. It says a recommendation when it moved, after an OOM kill at once, and
again from time to time; that nothing is recommended any more it says once. A workload with a VPA is judged by it, every other
one as if it had one that says nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.object_table import ObjectTable
from agents.engine.tables.parted_state import PartedState
from agents.engine.tables.row_table import CHUNK, ColumnSpec, Indices, RowKey, RowTable
from agents.engine.turn import Decided, Turn
from agents.logic.policies import Policies, body
from agents.logic.vertical.container_index import ContainerIndex
from agents.logic.vertical.decision_builder import container, node, reasons, rules
from agents.logic.vertical.due_times import TurnSpan
from agents.logic.vertical.node_caps import NodeIndex
from agents.logic.vertical.recommendation import AMOUNTS, Recommendation, recommend
from agents.logic.vertical.source_heartbeats import SourceHeartbeats
from agents.logic.vertical.usage_ingest import UsageIngest
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas.decisions.recommendations import ContainerRecommendation, LastOomKill, RequestsRecommended
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.facts.vpa_checkpoints import CheckpointSeen
from schemas.ids import DecisionId
from schemas.names import Place, Workload, cluster_of

NAME = "recommender"

_HOUR = 3_600_000


@dataclass(frozen=True, slots=True)
class LastTurn:
    """The last turn taken, and where metrics stand in the log."""

    turn: int
    topic: str = ""
    partition: int = 0


@dataclass(frozen=True, slots=True)
class IngestedOomKill:
    """The last OOM kill of a workload, and its place in the log."""

    event: ContainerOOMKilled
    place: Place
    counted: bool


@dataclass(frozen=True, slots=True)
class _Word:
    """What is recommended of a workload, why, and the places that it rests on. Nothing by itself."""

    containers: tuple[ContainerRecommendation, ...] = ()
    reasons: Mapping[str, object] = field(default_factory=dict)
    fitted: Mapping[str, object] = field(default_factory=dict)
    places: tuple[Place, ...] = ()


class Recommender(PartedState):
    """The state of one partition."""

    def __init__(self, settings: VerticalSettings, partition: int) -> None:
        self.settings, self.partition = settings, partition
        self.policies = Policies(settings.recommender)
        self.intake = UsageIngest(settings, self.policies)
        self.usage = self.intake.usage
        self.said = RowTable("said", {**{name: ColumnSpec(default=np.nan) for name in AMOUNTS}, "policy": ColumnSpec(np.int64)})
        self.ooms: ObjectTable[IngestedOomKill] = ObjectTable("ooms", IngestedOomKill, 16)
        self.marks: ObjectTable[LastTurn] = ObjectTable("marks", LastTurn, 1)
        self.nodes, self.sources = NodeIndex(), SourceHeartbeats()
        self.members = ContainerIndex(self.usage, self.said, self.policies, settings)
        tables = (self.usage.aggregates, self.usage.containers, self.said, self.intake.pods.table, self.ooms, self.marks)
        super().__init__(*tables, *self.policies.tables(), *self.nodes.tables(), self.sources.table)
        self._rules = rules(settings)
        self._loaded = False

    def step(self, turn: Turn) -> Sequence[Decided]:
        """Take a turn in; say what moved."""
        marks = self.marks.get("") or LastTurn(turn.number)
        self.intake.begin(turn.number)
        self._remember()
        span = TurnSpan(marks.turn, turn.number)
        changed = self._take_policies(turn)
        self.nodes.take(turn.of("cluster-changes"), turn.number)
        self.sources.take(turn.of("cluster-changes"))
        flipped = self._take_pods(turn)
        killed = self._take_kills(turn)
        marks = self._take_scrapes(turn, marks)
        flipped |= self._let_go(turn)
        lost = self._account()
        if span.crosses_one(_HOUR):
            self.intake.expire(turn.number / 1000)
            lost |= self._account()
        self.marks.upsert("", replace(marks, turn=turn.number))
        due = self._due(span) | killed | flipped
        decided, known = self._say(turn, sorted(due), span, killed | flipped)
        quiet = (due - known) | self._quiet((changed | lost) - due)
        return [*decided, *self._take_back(turn, sorted(w for w in quiet if w in lost or self._was_said(w)))]

    def _take_policies(self, turn: Turn) -> set[str]:
        """Take policies in; the workloads that may be judged otherwise now."""
        changed: set[str] = set()
        for recorded in turn.of("policies"):
            changed |= self.policies.take(recorded)
        if not changed:
            return set()
        self.usage.lookup.look_again()
        return set(self.members.policies_changed(changed))

    def _take_pods(self, turn: Turn) -> set[str]:
        """Take pods and checkpoints in; workloads that have pods and had none."""
        flipped = set()
        for recorded in turn.of("pod-changes"):
            event = recorded.event
            if isinstance(event, PodChanged):
                workload = event.workload.key
                none = not self.intake.pods.has(workload)
                self.intake.pod(event)
                if none and self.intake.count(workload):
                    flipped.add(workload)
            elif isinstance(event, CheckpointSeen):
                self.intake.seed(event)
        return flipped

    def _take_kills(self, turn: Turn) -> set[str]:
        workloads = set()
        for recorded in turn.of("oom-events"):
            event = recorded.event
            if isinstance(event, ContainerOOMKilled):
                workload = event.workload.key
                self.ooms.upsert(workload, IngestedOomKill(event, recorded.place, self.intake.kill(event)))
                workloads.add(workload)
        return workloads

    def _take_scrapes(self, turn: Turn, marks: LastTurn) -> LastTurn:
        for recorded in turn.of("pod-metrics"):
            event, place = recorded.event, recorded.place
            if isinstance(event, MetricsScraped):
                self.usage.scrape(event, event.at.timestamp(), offset=place.offset)
                marks = LastTurn(turn.number, place.topic, place.partition)
        return marks

    def _account(self) -> set[str]:
        """Tell the members what aggregates came and went; the workloads that lost what was said of a container."""
        lost = set()
        added, self.usage.added = self.usage.added, []
        removed, self.intake.removed = self.intake.removed, []
        for workload, name in self.members.remove(removed) if removed else ():
            if (workload, name) in self.said:
                self.said.free((workload, name))
                lost.add(workload)
            if workload not in self.members:
                self.ooms.remove(workload)
        self.said.freed.clear()
        if added:
            self.members.add(added)
        return lost

    def _let_go(self, turn: Turn) -> set[str]:
        """Let deleted pods go; workloads that had pods and have none."""
        flipped = set()
        for recorded in turn.of("pod-changes"):
            if isinstance(recorded.event, PodDeleted):
                workload = recorded.event.workload.key
                some = self.intake.pods.has(workload)
                self.intake.gone(recorded.event, [name for name, _ in self.members.containers(workload)])
                if some and not self.intake.pods.has(workload):
                    flipped.add(workload)
        return flipped

    def _due(self, span: TurnSpan) -> set[str]:
        """Workloads whose time it is and that may have something new to say."""
        rows, members = self.usage.aggregates.used(), self.members
        rows = rows[members.member[rows] >= 0]
        of = members.member[rows]
        interval, heartbeat = int(self.settings.interval * 1000), int(self.settings.heartbeat * 1000)
        spread = members.numbers["spread"][of]
        touched = self.usage.aggregates.whole("changed")[rows] >= span.last_due(spread, interval) - interval
        governed = members.numbers["policy"][of] != self._said_policy(of)
        now = span.crosses(spread, interval)
        due = (now & (touched | governed)) | span.crosses(spread, heartbeat)
        return members.workloads(of[due]) | self._other_nodes(span, of[now & ~due])

    def _other_nodes(self, span: TurnSpan, members: Indices) -> set[str]:
        """Workloads of these members whose cluster got another largest node since their due time before."""
        if not self.settings.node_cap:
            return set()
        grown = self.nodes.grown_since(span.before - int(self.settings.interval * 1000))
        return {w for w in self.members.workloads(members) if cluster_of(w) in grown} if grown else set()

    def _said_policy(self, members: Indices) -> Indices:
        said = self.members.numbers["said"][members]
        if not len(self.said):
            return np.full(len(members), -1, np.int64)
        return np.where(said >= 0, self.said.whole("policy")[said], -1)

    def _say(self, turn: Turn, workloads: Sequence[str], span: TurnSpan, at_once: set[str]) -> tuple[list[Decided], set[str]]:
        """Say what is new of these workloads, and all of those that are to be answered at once.

        Also gives those of which something is recommended, said or not.
        """
        members = self.members.speaking(workloads)
        if not len(members):
            return [], set()
        nodes = self.nodes if self.settings.node_cap else None
        done = recommend(self.usage, self.members, members, self.settings, nodes)
        known = np.asarray(~np.isnan(done.amounts).all(axis=1))
        news = self._news(done, known) | span.crosses(
            self.members.numbers["spread"][members], int(self.settings.heartbeat * 1000)
        )
        speaks = self.members.workloads(members[news]) | at_once
        decided: list[Decided] = []
        places: dict[str, list[int]] = {}
        for place in np.flatnonzero(known).tolist():
            places.setdefault(self.members.names[int(members[place])][0], []).append(place)
        for workload, found in places.items():
            if workload in speaks:
                decided += self._decide(turn, workload, done, found)
        return decided, set(places)

    def _news(self, done: Recommendation, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which members say another thing than was said, or something for the first time, or under another policy."""
        places = self.members.numbers["said"][done.members]
        if not len(self.said):
            return known
        said = np.column_stack([self.said.floats(name)[places] for name in AMOUNTS])
        governed = self.members.numbers["policy"][done.members] != self._said_policy(done.members)
        return np.asarray(known & ((places < 0) | governed | done.moved(said, self.settings.bounds_step)))

    def _quiet(self, workloads: set[str]) -> set[str]:
        """Those of which nothing may be said."""
        return workloads - self.members.workloads(self.members.speaking(workloads))

    def _was_said(self, workload: str) -> bool:
        """Whether something is recommended by what was said last."""
        return any(self.members.numbers["said"][member] >= 0 for _, member in self.members.containers(workload))

    def _take_back(self, turn: Turn, workloads: Sequence[str]) -> list[Decided]:
        """Say of these that nothing is recommended."""
        decided: list[Decided] = []
        for workload in workloads:
            for name, member in self.members.containers(workload):
                if (workload, name) in self.said:
                    self.said.free((workload, name))
                    self.members.numbers["said"][member] = -1
            decided += self._tell(turn, workload, _Word())
        self.said.freed.clear()
        return decided

    def _decide(self, turn: Turn, workload: str, done: Recommendation, places: list[int]) -> list[Decided]:
        names = {place: self.members.names[int(done.members[place])][1] for place in places}
        for place, name in names.items():
            self._remember_said((workload, name), done, place)
        fitted = done.fit.node(places[0]) if done.fit else None
        word = _Word(
            tuple(container(done, place, name) for place, name in names.items()),
            {name: reasons(done, place) for place, name in names.items()},
            {"node": node(done, places[0])} if done.fit else {},
            (*((fitted.place,) if fitted else ()), *self._scrapes(done.members[places])),
        )
        return self._tell(turn, workload, word)

    def _tell(self, turn: Turn, workload: str, word: _Word) -> list[Decided]:
        held, oom = self.policies.of(workload), self.ooms.get(workload)
        event = RequestsRecommended(
            id=str(DecisionId(NAME, self.partition, turn.number, "requests", workload)),
            at=turn.at,
            workload=Workload.parse(workload),
            containers=word.containers,
            because={
                "settings": self._rules,
                "containers": word.reasons,
                "policy": body(held),
                **word.fitted,
            },
            pods=self.intake.count(workload),
            last_oom=None if oom is None else _last_oom(oom),
            oom_source=self.sources.ooms(cluster_of(workload), turn.at),
        )
        cause = (*(found.place for found in (held, oom) if found), *word.places)
        topics = (("recommendations", workload), ("recommendations-by-cluster", event.workload.cluster))
        return [Decided(topic, key, event, cause) for topic, key in topics]

    def _scrapes(self, members: Indices) -> list[Place]:
        """The last scrapes that these members rest on."""
        marks = self.marks.get("") or LastTurn(0)
        rows = [row for member in members.tolist() for row in self.members.rows(member)]
        offsets = set(self.usage.aggregates.whole("offset")[rows].tolist()) - {-1}
        return [Place(marks.topic, marks.partition, offset) for offset in sorted(offsets)]

    def _remember_said(self, key: RowKey, done: Recommendation, place: int) -> None:
        row, member = self.said.find(key), int(done.members[place])
        if row is None:
            row = self.said.add(key)
            self.members.numbers["said"][member] = row
        for name, amount in zip(AMOUNTS, done.amounts[place].tolist(), strict=True):
            self.said[name][row] = amount
        self.said["policy"][row] = self.members.numbers["policy"][member]
        self.said.touch_chunks((row // CHUNK,))

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place."""
        super().load(chunk, data)
        self.policies.loaded()
        self.intake.pods.loaded()
        self.nodes.loaded()
        self._loaded = True

    def _remember(self) -> None:
        """After a load: what follows from the names."""
        if self._loaded:
            self._loaded = False
            self.members.add(self.usage.aggregates.keys())


def _last_oom(killed: IngestedOomKill) -> LastOomKill:
    kill = killed.event
    return LastOomKill(kill.at, kill.pod, kill.container, kill.memory_request, killed.counted, killed.place)
