"""What a worker holds of one partition of one stage."""

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.engine.checkpoint import Ledger
from agents.task import Task
from schemas.units import Seconds


def fresh(foreign: list[bytes]) -> Ledger:
    """A ledger in a new family: nobody else ever writes in it."""
    return Ledger(uuid.uuid4().hex[:12], foreign)


@dataclass(slots=True, eq=False)
class Held:
    """A task, and how far its checkpoints and decisions got.

    `end` is the offset after our own last write to the changelog, -1 when unknown. `marked` are the positions that the mark in
    force names. `whole` says that the next checkpoint must write every chunk. `goals` are the ends of the inputs when the
    partition was opened: past them the task is caught up. Nothing is taken in unless `open`.
    """

    task: Task
    ledger: Ledger
    marked: Mapping[str, int]
    end: int = -1
    open: bool = False
    whole: bool = True
    paused: set[str] = field(default_factory=set)
    unacked: list[asyncio.Future[None]] = field(default_factory=list)
    goals: dict[str, int] = field(default_factory=dict)

    @property
    def due(self) -> bool:
        """Whether a checkpoint has something to write: the turn moved since the mark in force."""
        return self.open and self.task.turn > self.ledger.marked

    @property
    def caught_up(self) -> bool:
        """Whether everything that was in the log when the partition was opened has been taken in."""
        inputs = self.task.aligner.inputs
        return self.open and all(inputs[name].next >= goal for name, goal in self.goals.items())

    @property
    def lag(self) -> Seconds:
        """How far the last turn is behind the newest tick that came in, in event time."""
        newest = max(source.highest for source in self.task.aligner.inputs.values())
        return Seconds((newest - self.task.turn) / 1000)

    def rewind(self) -> None:
        """Forget what is buffered: the log is read again from the last turn. The state stays."""
        old = self.task
        self.task = Task(
            old.stage,
            old.partition,
            topics=old.topics,
            codec=old.codec,
            positions=old.positions,
            turn=old.turn,
            state=old.state,
        )
        self.paused = set()

    def abandon(self, foreign: list[bytes]) -> None:
        """Write no more in this family: what it holds in the log is no longer known for sure. Start another, whole."""
        self.ledger, self.whole, self.end = fresh(foreign), True, -1
