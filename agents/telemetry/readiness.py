"""Readiness of a worker: it is ready when every partition that it owns is open and near the end of the log.

"Near" is event time between the last turn and the newest tick. A worker without partitions is ready, because it has nothing to
catch up with.
"""

from collections.abc import Iterable

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
