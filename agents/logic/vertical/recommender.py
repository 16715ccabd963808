"""The recommender: usage, OOM kills and policies of one partition in; what workloads should request out.

A turn first takes policies, OOM kills and scrapes in, then lets go of deleted pods (an OOM kill of a pod just deleted still
counts), then looks at the workloads that are due. It says a recommendation when it moved, after an OOM kill at once, and
again from time to time. It knows nothing of pods' present requests and changes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from agents.logic.policies import Policies, body
from agents.logic.tables import Parts
from agents.logic.tables.objects import Table
from agents.logic.tables.rows import CHUNK, Column, Indices, Key, Rows
from agents.logic.turns import Decided, Turn, decision_id
from agents.logic.usage.settings import UsageSettings
from agents.logic.usage.usage import Usage
from agents.logic.vertical.members import Members
from agents.logic.vertical.recommendation import AMOUNTS, Recommendation, container, reasons, recommend, rules
from agents.logic.vertical.settings import VerticalSettings
from agents.logic.vertical.timing import Span
from schemas.decisions import RequestsRecommended
from schemas.facts import ContainerOOMKilled, MetricsScraped, PodDeleted
from schemas.names import Place, Workload

NAME = "recommender"

_HOUR = 3_600_000


@dataclass(frozen=True, slots=True)
class Marks:
    """The last turn taken, and where metrics stand in the log."""

    turn: int
    topic: str = ""
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Killed:
    """The last OOM kill of a workload, and its place in the log."""

    event: ContainerOOMKilled
    place: Place
    counted: bool


def usage_settings(settings: VerticalSettings) -> UsageSettings:
    """What the fold of usage depends on."""
    return UsageSettings(
        cpu_half_life=settings.cpu_half_life,
        memory_half_life=settings.memory_half_life,
        window=settings.memory_window,
        oom_ratio=settings.oom_ratio,
        oom_minimum=settings.oom_minimum,
        expires=type(settings.memory_window)(settings.memory_window * settings.memory_windows),
    )


class Recommender:
    """The state of one partition."""

    def __init__(self, settings: VerticalSettings, partition: int) -> None:
        self.settings, self.partition = settings, partition
        self.usage = Usage(usage_settings(settings), lambda workload, _pod, name: (workload, name))
        self.policies = Policies()
        self.said = Rows("said", {**{name: Column(default=np.nan) for name in AMOUNTS}, "policy": Column(np.int64)})
        self.ooms: Table[Killed] = Table("ooms", Killed, 16)
        self.marks: Table[Marks] = Table("marks", Marks, 1)
        self.members = Members(self.usage.aggregates, self.said, self.policies)
        tables = (self.usage.aggregates, self.usage.containers, self.said, self.policies.table, self.ooms, self.marks)
        self._parts = Parts(*tables)
        self._rules = rules(settings)
        self._loaded = False

    def step(self, turn: Turn) -> Sequence[Decided]:
        """Take a turn in; say what moved."""
        self._remember()
        marks = self.marks.get("") or Marks(turn.number)
        span = Span(marks.turn, turn.number)
        self._take_policies(turn)
        killed = self._take_kills(turn)
        marks = self._take_scrapes(turn, marks)
        self.members.add(self._added())
        self._let_go(turn)
        if span.crosses_one(_HOUR):
            self._expire(turn)
        self.marks.put("", replace(marks, turn=turn.number))
        workloads = sorted(self._due(span) | killed)
        return self._say(turn, workloads, replace(marks, turn=turn.number))

    def _take_policies(self, turn: Turn) -> None:
        changed = [self.policies.take(recorded) for recorded in turn.of("policies")]
        if any(changed):
            self.members.policies_changed()

    def _take_kills(self, turn: Turn) -> set[str]:
        workloads = set()
        for recorded in turn.of("oom-events"):
            event = recorded.event
            if isinstance(event, ContainerOOMKilled):
                workload = event.workload.key
                key = (workload, event.pod.name, event.container)
                counted = self.usage.kill(key, float(event.memory_request or 0), event.at.timestamp(), turn=turn.number)
                self.ooms.put(workload, Killed(event, recorded.place, counted))
                workloads.add(workload)
        return workloads

    def _take_scrapes(self, turn: Turn, marks: Marks) -> Marks:
        for recorded in turn.of("pod-metrics"):
            event, place = recorded.event, recorded.place
            if isinstance(event, MetricsScraped):
                self.usage.scrape(event, event.at.timestamp(), turn=turn.number, offset=place.offset)
                marks = Marks(turn.number, place.topic, place.partition)
        return marks

    def _added(self) -> list[Key]:
        added, self.usage.added = self.usage.added, []
        return added

    def _let_go(self, turn: Turn) -> None:
        for recorded in turn.of("pod-changes"):
            if isinstance(recorded.event, PodDeleted):
                workload, pod = recorded.event.workload.key, recorded.event.pod.name
                for name in self.members.rows_of.get(workload, ()):
                    self.usage.forget((workload, pod, name))

    def _expire(self, turn: Turn) -> None:
        gone = self.usage.expire(turn.number / 1000)
        for key in gone:
            if key in self.said:
                self.said.free(key)
        self.said.freed.clear()
        for workload in self.members.remove(gone):
            self.ooms.drop(workload)

    def _due(self, span: Span) -> set[str]:
        """Workloads whose time it is and that have something new to say."""
        rows, members = self.usage.aggregates.used(), self.members
        interval, heartbeat = int(self.settings.interval * 1000), int(self.settings.heartbeat * 1000)
        spread = members.spread[rows]
        touched = self.usage.aggregates.whole("changed")[rows] >= span.last_due(spread, interval) - interval
        governed = members.policy[rows] != self._said_policy(rows)
        repeat = span.crosses(spread, heartbeat)
        due = (span.crosses(spread, interval) & (touched | governed)) | repeat
        rows, repeat = rows[due], repeat[due]
        if not len(rows):
            return set()
        done = recommend(self.usage, members, rows, self.settings)
        news = repeat | self._news(done)
        return {self.usage.aggregates.key(row)[0] for row in rows[news].tolist()}

    def _news(self, done: Recommendation) -> NDArray[np.bool_]:
        """Which rows say another thing than was said, or something for the first time, or under another policy."""
        places = self.members.said[done.rows]
        known = np.asarray(~np.isnan(done.amounts).all(axis=1))
        if not len(self.said):
            return known
        said = np.column_stack([self.said.floats(name)[places] for name in AMOUNTS])
        governed = self.members.policy[done.rows] != self._said_policy(done.rows)
        return np.asarray(known & ((places < 0) | governed | done.moved(said, self.settings.bounds_step)))

    def _said_policy(self, rows: Indices) -> Indices:
        said = self.members.said[rows]
        if not len(self.said):
            return np.full(len(rows), -1, np.int64)
        return np.where(said >= 0, self.said.whole("policy")[said], -1)

    def _say(self, turn: Turn, workloads: Sequence[str], marks: Marks) -> list[Decided]:
        rows = self.members.rows(workloads)
        if not len(rows):
            return []
        done = recommend(self.usage, self.members, rows, self.settings)
        known = [not np.isnan(amounts).all() for amounts in done.amounts]
        decided: list[Decided] = []
        start = 0
        for workload in workloads:
            count = len(self.members.rows_of.get(workload, ()))
            places = [p for p in range(start, start + count) if known[p]]
            start += count
            if places:
                decided += self._decide(turn, workload, (done, places), marks)
        return decided

    def _decide(self, turn: Turn, workload: str, found: tuple[Recommendation, list[int]], marks: Marks) -> list[Decided]:
        done, places = found
        names = [self.usage.aggregates.key(int(done.rows[place]))[1] for place in places]
        for place, name in zip(places, names, strict=True):
            self._remember_said((workload, name), done, place)
        held, oom = self.policies.of(workload), self.ooms.get(workload)
        event = RequestsRecommended(
            id=decision_id(stage=NAME, partition=self.partition, turn=turn.number, what="requests", key=workload),
            at=turn.at,
            workload=Workload.parse(workload),
            containers=tuple(container(done, place, name) for place, name in zip(places, names, strict=True)),
            because={
                "settings": self._rules,
                "containers": {name: reasons(self.usage, done, place) for place, name in zip(places, names, strict=True)},
                "policy": body(held),
                "last_oom": None if oom is None else _oom(oom),
            },
        )
        offset = self.usage.aggregates.whole("offset")
        offsets = {offset.item(done.rows.item(place)) for place in places} - {-1}
        metrics = tuple(Place(marks.topic, marks.partition, offset) for offset in sorted(offsets))
        cause = (*([held.place] if held else []), *([oom.place] if oom else []), *metrics)
        topics = (("recommendations", workload), ("recommendations-by-cluster", event.workload.cluster))
        return [Decided(topic, key, event, cause) for topic, key in topics]

    def _remember_said(self, key: Key, done: Recommendation, place: int) -> None:
        row = self.said.find(key)
        if row is None:
            row = self.said.add(key)
            self.members.said[done.rows[place]] = row
        for name, amount in zip(AMOUNTS, done.amounts[place].tolist(), strict=True):
            self.said[name][row] = amount
        self.said["policy"][row] = self.members.policy[done.rows[place]]
        self.said.touch_chunks((row // CHUNK,))

    def chunks(self) -> Iterable[str]:
        """Names of all chunks."""
        return self._parts.chunks()

    def take_dirty(self) -> set[str]:
        """Names of the chunks changed since the last call."""
        return self._parts.take_dirty()

    def dump(self, chunk: str) -> bytes:
        """The bytes of one chunk."""
        return self._parts.dump(chunk)

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place."""
        self._parts.load(chunk, data)
        self.policies.loaded()
        self._loaded = True

    def _remember(self) -> None:
        """After a load: what follows from the names."""
        if self._loaded:
            self._loaded = False
            self.members.add(self.usage.aggregates.keys())


def _oom(killed: Killed) -> dict[str, object]:
    event = killed.event
    return {
        "at": event.at.isoformat().replace("+00:00", "Z"),
        "pod": event.pod.name,
        "uid": event.pod.uid,
        "container": event.container,
        "memory_request": event.memory_request,
        "counted": killed.counted,
        "place": str(killed.place),
    }
