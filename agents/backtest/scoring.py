"""Keeps the score of a backtest: which requests are in force for each container, and what each scrape says of them.

It never looks ahead: a scrape is scored with the recommendations of earlier turns only, because the caller passes scrapes
before the decisions of their turn. A recommended limit keeps the recording's ratio of limit to request.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from agents.backtest.score_card import ScoreCard
from agents.backtest.weighted_sums import DAY, Flags, Floats, SideSums
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.usage import MetricsScraped
from schemas.units import Fraction

Key = tuple[str, str, str]
"""Workload key, pod name, container name."""
Target = tuple[str, float | None, float | None]
"""Container name, cores and bytes."""

_FIELDS = ("own_cpu", "own_memory", "own_limit", "cpu", "memory")
_REMEMBERED = 256


@dataclass(slots=True)
class Score:
    """The running score."""

    turns: int = 0
    rows: int = 0
    recommendations: int = 0
    changes: int = 0
    plans: int = 0
    refused: int = 0
    dead_letters: int = 0
    first: datetime | None = None
    last: datetime | None = None
    _recommended: SideSums = field(default_factory=SideSums)
    _own: SideSums = field(default_factory=SideSums)
    _seconds: float = 0.0
    _covered: float = 0.0
    _index: dict[Key, int] = field(default_factory=dict)
    _alive: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    """Rows of running containers by workload and container name."""
    _pods: dict[tuple[str, str], dict[int, str]] = field(default_factory=dict)
    """Rows of running pods by workload and pod name, with their containers' names."""
    _targets: dict[tuple[str, str], list[float | None]] = field(default_factory=dict)
    _table: dict[str, Floats] = field(default_factory=lambda: {name: np.full(256, np.nan) for name in _FIELDS})
    _above: dict[str, Flags] = field(default_factory=lambda: {side: np.zeros(256, bool) for side in ("own", "recommended")})
    _known: dict[int, tuple[MetricsScraped, NDArray[np.int64]]] = field(default_factory=dict)

    def pod_deleted(self, event: PodDeleted) -> None:
        """Take in a deleted pod: recommendations no longer change it."""
        key = event.workload.key
        for row, name in self._pods.pop((key, event.pod.name), {}).items():
            self._alive[key, name].discard(row)

    def pod_changed(self, event: PodChanged) -> None:
        """Take in a pod's own requests and limits."""
        key = event.workload.key
        for container in event.containers:
            row = self._row((key, event.pod.name, container.name))
            requests, limit = container.requests, container.limits.memory
            for column, amount in (("own_cpu", requests.cpu), ("own_memory", requests.memory), ("own_limit", limit)):
                self._table[column][row] = np.nan if amount is None else amount

    def scrape(self, event: MetricsScraped) -> None:
        """Score one scrape with the requests in force."""
        rows = self._rows(event)
        use_cpu, use_memory = np.asarray(event.cores, np.float64), np.asarray(event.memory, np.float64)
        seconds = float(event.window)
        own_cpu, own_memory, own_limit, cpu, memory = (self._table[name][rows] for name in _FIELDS)
        now_cpu, now_memory = np.where(np.isnan(cpu), own_cpu, cpu), np.where(np.isnan(memory), own_memory, memory)
        self._own.cpu.add(own_cpu, use_cpu, seconds)
        self._own.memory.add(own_memory, use_memory, seconds)
        self._recommended.cpu.add(now_cpu, use_cpu, seconds)
        self._recommended.memory.add(now_memory, use_memory, seconds)
        own_wall = np.where(np.isnan(own_limit), own_memory, own_limit)
        ratio = np.where(np.isnan(own_limit) | ~(own_memory > 0), 1.0, own_limit / np.where(own_memory > 0, own_memory, 1.0))
        self._own.ooms += self._crossings("own", rows, use_memory, own_wall)
        now_wall = np.where(np.isnan(memory), own_wall, memory * ratio)
        self._recommended.ooms += self._crossings("recommended", rows, use_memory, now_wall)
        self._count(event, len(rows), int((~np.isnan(cpu) | ~np.isnan(memory)).sum()))

    def _count(self, event: MetricsScraped, rows: int, covered: int) -> None:
        self.rows += rows
        self._seconds += float(event.window) * rows
        self._covered += float(event.window) * covered
        self.first = event.at if self.first is None else min(self.first, event.at)
        self.last = event.at if self.last is None else max(self.last, event.at)

    def _crossings(self, side: str, rows: NDArray[np.int64], use: Floats, wall: Floats) -> int:
        """How many containers went over their wall that were not over it in their scrape before."""
        over = use > wall
        crossed = over & ~self._above[side][rows]
        self._above[side][rows] = over
        return int(crossed.sum())

    def recommend(self, workload: str, targets: Iterable[Target]) -> None:
        """In force from now on, for every container of the workload that runs or is yet to come."""
        self.recommendations += 1
        for container, *target in targets:
            key = (workload, container)
            if self._targets.get(key) == target:
                continue
            self._targets[key] = target
            rows = sorted(self._alive.get(key, ()))
            self.changes += len(rows)
            for row in rows:
                self._put_target(row, target)

    def _put_target(self, row: int, target: Sequence[float | None]) -> None:
        for column, amount in zip(("cpu", "memory"), target, strict=True):
            self._table[column][row] = np.nan if amount is None else amount

    def _rows(self, event: MetricsScraped) -> NDArray[np.int64]:
        """The rows of a scrape. Equal name columns are the same objects, so a scrape of known names costs one look-up."""
        known = self._known.get(id(event.pods))
        if known is not None:
            seen, rows = known
            if seen.pods is event.pods and seen.workloads is event.workloads and seen.containers is event.containers:
                return rows
        keys: Sequence[Key] = list(zip(event.workloads, event.pods, event.containers, strict=True))
        rows = np.array([self._row(key) for key in keys], np.int64)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[id(event.pods)] = (event, rows)
        return rows

    def _row(self, key: Key) -> int:
        row = self._index.get(key)
        if row is None:
            row = self._index[key] = len(self._index)
            self._grow(row)
            target = self._targets.get((key[0], key[2]))
            if target is not None:
                self._put_target(row, target)
        self._alive.setdefault((key[0], key[2]), set()).add(row)
        self._pods.setdefault((key[0], key[1]), {})[row] = key[2]
        return row

    def _grow(self, row: int) -> None:
        size = len(self._above["own"])
        if row >= size:
            self._table = {name: np.concatenate([column, np.full(size, np.nan)]) for name, column in self._table.items()}
            self._above = {side: np.concatenate([flags, np.zeros(size, bool)]) for side, flags in self._above.items()}

    def card(self) -> ScoreCard:
        """The score so far."""
        return ScoreCard(
            rows=self.rows,
            turns=self.turns,
            first=self.first,
            last=self.last,
            containers=len(self._index),
            container_days=self._seconds / DAY,
            covered=Fraction(self._covered / self._seconds if self._seconds else 0.0),
            recommendations=self.recommendations,
            changes=self.changes,
            plans=self.plans,
            refused=self.refused,
            dead_letters=self.dead_letters,
            recommended=self._recommended.side(),
            own=self._own.side(),
        )
