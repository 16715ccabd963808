"""Readiness of a worker: it is ready when every partition it was given is open and near the end of the log.

Near is measured in event time: how far the last turn taken is behind the newest tick. A worker without partitions is ready
(it has nothing to catch up with). Knows nothing of Kafka.
"""

from collections.abc import Iterable

from schemas.units import Seconds

Task = tuple[str, int]
"""A stage and a partition."""


class Readiness:
    """Told by the worker's loop, asked by the health server's thread; each call is one dictionary operation."""

    def __init__(self, bound: Seconds) -> None:
        """A lag above `bound` is not ready."""
        self.bound = bound
        self._joined = False
        self._lags: dict[Task, Seconds | None] = {}

    def assigned(self, tasks: Iterable[Task]) -> None:
        """These and no others are ours now. A task that was ours and open stays so."""
        before = self._lags
        self._lags = {task: before.get(task) for task in tasks}
        self._joined = True

    def closed(self, stage: str, partition: int) -> None:
        """The task takes no turns until it is opened again."""
        if (stage, partition) in self._lags:
            self._lags[stage, partition] = None

    def lag(self, stage: str, partition: int, seconds: Seconds) -> None:
        """The task is open and this far behind."""
        if (stage, partition) in self._lags:
            self._lags[stage, partition] = seconds

    def open_partitions(self, stage: str) -> int:
        """How many partitions of the stage take turns here."""
        return sum(lag is not None for (name, _), lag in self._lags.items() if name == stage)

    def reasons(self) -> list[str]:
        """Why not ready, in sentences; empty when ready."""
        if not self._joined:
            return ["the worker was not given any partition yet"]
        return [sentence for (stage, p), lag in sorted(self._lags.items()) if (sentence := self._behind(f"{stage}/{p}", lag))]

    def _behind(self, name: str, lag: Seconds | None) -> str:
        if lag is None:
            return f"{name} is not open: its state is being recovered"
        if lag > self.bound:
            return f"{name} is {lag:.1f} s of event time behind, more than {self.bound:.1f} s"
        return ""
