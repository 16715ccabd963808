"""Queries a Prometheus server for one load: a number for now, or a stretch of the past.

A load is one series. A query that gives several, or an answer beyond a bound, is refused with a sentence that names the bound and
what the query returned; nothing of such an answer is used. NaN, infinite and absurd numbers count as absent. Queries of many
namespaces take turns, so that nobody's slow queries keep others waiting: each namespace has a part of the places, and of each
round a part of the time. A query that has no answer at the round's end goes on beside the next one, which gets its answer.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from schemas import bounds
from schemas.facts.replica_scaling import MOST_ROWS
from schemas.units import Seconds
from streams import answer_bounds
from streams.clients.prometheus import Prometheus, Series, TimeRange
from streams.errors import GiveUp

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class LoadHistory:
    """Values at `start`, `start + step` ... (seconds since the epoch); None where nothing is known."""

    start: float
    step: Seconds
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class LoadQueries:
    """Asks one server. `step` is the distance of the values of a history, in seconds."""

    server: Prometheus
    step: Seconds = Seconds(60.0)

    def look(self, at: datetime) -> None:
        """Make a trivial query, to see whether the server answers. Raises TryAgain and GiveUp."""
        # It reads no series, so the server answers it however much it holds.
        self.server.query("vector(1)", at)

    def now(self, query: str, at: datetime) -> float:
        """The load at a moment. Raises TryAgain, and GiveUp for an answer that is no load."""
        series = _one(query, self.server.query(query, at))
        number = None if series is None or series.value is None else _number(series.value[1])
        if number is None:
            value = "nothing" if series is None or series.value is None else f"'{series.value[1]}'"
            raise GiveUp(doing="reading a load from", to=query[:200], answer=f"it gives {value} now, and no number")
        return number

    def history(self, query: str, *, since: float, until: float) -> Iterator[LoadHistory]:
        """The load from `since` to `until` (seconds since the epoch), in parts that a record holds; without empty parts."""
        first, last = math.ceil(since / self.step), math.floor(until / self.step)
        # Whole multiples of the step, so that the values of two histories lie on the same grid.
        for begin in range(first, last + 1, MOST_ROWS):
            over = TimeRange(begin * self.step, min(begin + MOST_ROWS - 1, last) * self.step, self.step)
            series = _one(query, self.server.query_range(query, over))
            if series is not None and series.values:
                yield self._part(over, series)

    def _part(self, over: TimeRange, series: Series) -> LoadHistory:
        """From the first known value to the last one."""
        values: list[float | None] = [None] * (round((over.last - over.first) / self.step) + 1)
        places = []
        for at, text in series.values:
            place = answer_bounds.place(at, over.first, self.step, len(values))
            if place is not None:
                values[place] = _number(text)
                places.append(place)
        low, high = min(places, default=0), max(places, default=0)
        return LoadHistory(over.first + low * self.step, self.step, tuple(values[low : high + 1]))


def _one(query: str, answer_series: Sequence[Series]) -> Series | None:
    """The only series of an answer; None for an empty answer. Raises GiveUp for several."""
    if len(answer_series) > 1:
        named = ", ".join(_label_text(series) for series in answer_series[:_SHOWN])
        answer = f"it gives {len(answer_series):,} series ({named} ...); a load is one series, so add them up, as with sum()"
        raise GiveUp(doing="reading a load from", to=query[:200], answer=answer)
    return answer_series[0] if answer_series else None


def _label_text(series: Series) -> str:
    return "{" + ",".join(f'{key}="{value}"' for key, value in sorted(series.metric.items()))[:100] + "}"


def _number(text: str) -> float | None:
    value = answer_bounds.number(text)
    return value if abs(value) <= bounds.MOST_NUMBER else None  # what is no number is less than nothing


Q = TypeVar("Q")
A = TypeVar("A")
_TOGETHER = Seconds(1.0)
"""Answers that come within this time are given together."""


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """`places`: queries at one time; `of_one`: of one namespace; `time`: seconds of all queries of one namespace in a round.

    `round`: seconds after which a round ends.
    """

    places: int
    of_one: int
    time: Seconds
    round: Seconds


class QueryTurns(Generic[Q, A]):
    """All rounds of one server. `ask` makes a query in a thread of the `pool`; `clock` counts real seconds."""

    def __init__(self, pool: Executor, limits: TurnLimits, ask: Callable[[Q], A], clock: Callable[[], float]) -> None:
        self._pool, self._limits, self._ask, self._clock = pool, limits, ask, clock
        self._spent: dict[str, float] = {}
        self._under_way: dict[Future[tuple[A, float]], tuple[str, Q]] = {}

    def under_way(self) -> list[Q]:
        """The queries of earlier rounds that have no answer yet."""
        return [query for _, query in self._under_way.values()]

    def round(self, queries: Sequence[tuple[str, Q]]) -> Iterator[list[A]]:
        """The answers to queries, each given with its namespace, as they come; what has no turn is left out."""
        waiting: dict[str, deque[Q]] = {}
        for namespace, query in queries:
            waiting.setdefault(namespace, deque()).append(query)
        turns, answers = deque(waiting), list[A]()
        begun = given = self._clock()
        self._spent = {}
        while (turns or self._under_way) and (remaining := self._limits.round - (self._clock() - begun)) > 0.0:
            self._begin(turns, waiting)
            if not self._under_way:
                break
            done, _ = wait(self._under_way, timeout=min(remaining, _TOGETHER), return_when=FIRST_COMPLETED)
            for future in done:
                namespace, _ = self._under_way.pop(future)
                answer, seconds = future.result()
                answers.append(answer)
                self._spent[namespace] = self._spent.get(namespace, 0.0) + seconds
            if answers and self._clock() - given >= _TOGETHER:
                yield answers
                answers, given = [], self._clock()
        if answers:
            yield answers

    def _begin(self, turns: deque[str], waiting: dict[str, deque[Q]]) -> None:
        """Fill the free places, a query of each namespace after the other."""
        postponed = 0
        while turns and postponed < len(turns) and len(self._under_way) < self._limits.places:
            namespace = turns.popleft()
            # A tenant writes PromQL of its own, as many queries and as slow as it likes: no namespace gets more than its part.
            if self._spent.get(namespace, 0.0) >= self._limits.time:
                continue
            if sum(asker == namespace for asker, _ in self._under_way.values()) >= self._limits.of_one:
                turns.append(namespace)
                postponed += 1
                continue
            query = waiting[namespace].popleft()
            self._under_way[self._pool.submit(self._timed, query)] = namespace, query
            postponed = 0
            if waiting[namespace]:
                turns.append(namespace)

    def _timed(self, query: Q) -> tuple[A, float]:
        begun = self._clock()
        return self._ask(query), self._clock() - begun
