"""Readiness of a worker: it is ready when every partition that it owns is open and near the end of the log.

"Near" is event time between the last turn and the newest tick. A worker without partitions is ready, because it has nothing to
catch up with. A process is alive while its event loop runs: one that waits for a broker or recovers for minutes must not be
restarted, and one whose loop hangs must be.
"""

import time
from collections.abc import Callable, Iterable

from agents.engine.turn_aligner import Wait
from schemas import times
from schemas.units import Seconds

StagePartition = tuple[str, int]
"""A stage and a partition."""


class Readiness:
    """The worker's loop updates it and the health server's thread reads it; each call is one dictionary operation."""

    def __init__(self, bound: Seconds) -> None:
        """With a lag above `bound` the worker is not ready."""
        self.bound = bound
        self._joined = False
        self._lags: dict[StagePartition, Seconds | None] = {}
        self._waits: dict[StagePartition, Wait | None] = {}

    def assigned(self, tasks: Iterable[StagePartition]) -> None:
        """The worker owns these tasks and no others. A task that it owned and that was open stays open."""
        before = self._lags
        self._lags = {task: before.get(task) for task in tasks}
        self._joined = True

    def closed(self, stage: str, partition: int) -> None:
        """The task takes no turns until it is opened again."""
        if (stage, partition) in self._lags:
            self._lags[stage, partition] = None

    def lag(self, stage: str, partition: int, seconds: Seconds, *, wait: Wait | None = None) -> bool:
        """The task is open and this far behind; `wait` is what its next turn waits for. True: it was not open before."""
        if (stage, partition) not in self._lags:
            return False
        before, self._lags[stage, partition] = self._lags[stage, partition], seconds
        self._waits[stage, partition] = wait
        return before is None

    def open_partitions(self, stage: str) -> int:
        """How many partitions of the stage take turns here."""
        return sum(lag is not None for (name, _), lag in self._lags.items() if name == stage)

    def reasons(self) -> list[str]:
        """Sentences that say why the worker is not ready; none when it is."""
        # A worker that was given no partition in a group of many is ready; one that has not joined yet is not.
        if not self._joined:
            return ["the worker was not given any partition yet"]
        # A copy, because the worker's loop goes on meanwhile; copying is one operation of the interpreter.
        lags = sorted(self._lags.copy().items())
        return [sentence for task, lag in lags if (sentence := self._behind(task, lag))]

    def _behind(self, task: StagePartition, lag: Seconds | None) -> str:
        name, wait = f"{task[0]}/{task[1]}", self._waits.get(task)
        if lag is None:
            return f"{name} is not open: its state is being recovered"
        if lag <= self.bound:
            return ""
        behind = f"{name} is {lag:.1f} s of event time behind, more than {self.bound:.1f} s"
        if wait is None:
            return behind
        inputs = ", ".join(f"'{name}'" for name in wait.inputs)
        return f"{behind}: the turn of {times.from_ms(wait.tick):%Y-%m-%d %H:%M:%S} UTC waits for records of {inputs}"


PATIENCE = Seconds(60.0)
LONG_TURN, LONGEST_TURN = Seconds(5.0), Seconds(900.0)
"""After so long in one turn a worker is not ready, and after so long it counts as hung."""


class Liveness:
    """A timer of the event loop calls `beat`; the health server's thread calls `reasons`."""

    def __init__(self, patience: Seconds = PATIENCE, clock: Callable[[], float] = time.monotonic) -> None:
        """A process that has not beaten for longer than `patience` counts as hung. It starts alive."""
        self.patience, self._clock = patience, clock
        self._last = clock()
        self._turn: tuple[str, float] | None = None

    def beat(self) -> None:
        """The event loop runs."""
        self._last = self._clock()

    def turn_began(self, whose: str) -> None:
        """The loop takes a turn of this task and nothing else until it is over."""
        self._turn = whose, self._clock()

    def turn_ended(self) -> None:
        """The turn is over, which is a sign of life."""
        self._turn = None
        self.beat()

    def long_turn(self) -> list[str]:
        """Why not ready: a turn takes long; empty if none does."""
        turn = self._turn
        took = 0.0 if turn is None else self._clock() - turn[1]
        return [f"{turn[0]} has been taking one turn for {took:.0f} s"] if turn is not None and took > LONG_TURN else []

    def reasons(self) -> list[str]:
        """Why not alive; empty when alive."""
        turn = self._turn
        # A long turn is work, and a restarted worker would get the same turn again.
        if turn is not None and self._clock() - turn[1] <= LONGEST_TURN:
            return []
        silent = self._clock() - self._last
        return [f"the loop has not come round for {silent:.0f} s"] if silent > self.patience else []
