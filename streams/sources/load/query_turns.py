"""Queries of many namespaces at one server: places and time by namespace, so that nobody's slow queries keep others waiting.

Each namespace has a part of the places, and of each round a part of the time; what is left over is asked in the next round. A
round ends in time: a query that has no answer by then goes on beside the next round, which gets its answer.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from typing import Generic, TypeVar

from schemas.units import Seconds

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
