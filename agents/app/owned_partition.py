"""One partition of one stage that this worker owns: its task, and how far its checkpoints and decisions got."""

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.engine.checkpoint_selection import CheckpointLedger
from agents.run.partition_task import Task
from schemas.units import Seconds

FEW = 500
"""Records without usage that a recovery may read again; that takes it some hundredths of a second."""


def new_ledger(foreign: list[bytes]) -> CheckpointLedger:
    """A ledger with a new family, into which no other worker ever writes. `foreign` are changelog keys of older families."""
    return CheckpointLedger(uuid.uuid4().hex[:12], foreign)


@dataclass(slots=True, eq=False)
class OwnedPartition:
    """A task and its bookkeeping. It takes records in only while it is `open`.

    `marked` are the input positions that the mark in force names. `end` is the offset after our own last write to the
    changelog, -1 when unknown. `whole` demands that the next checkpoint writes every chunk. `held` are the inputs that wait for
    others. `unacked` are decisions that are not durable yet. `taken` counts the records that turns took in since the last
    checkpoint, `samples` the rows of usage among them, and `set_aside` says whether any became a dead letter. `goals` are the
    ends that inputs had when the partition was opened, without those that were reached; when there is none left, the task is
    caught up.
    """

    task: Task
    ledger: CheckpointLedger
    marked: Mapping[str, int]
    end: int = -1
    open: bool = False
    whole: bool = True
    held: set[str] = field(default_factory=set)
    unacked: list[asyncio.Future[None]] = field(default_factory=list)
    taken: int = 0
    samples: int = 0
    set_aside: bool = False
    goals: dict[str, int] = field(default_factory=dict)

    @property
    def due(self) -> bool:
        """Whether a checkpoint has something to write: the task took a turn since the mark in force."""
        return self.open and self.task.turn > self.ledger.marked

    def urgent(self, samples: int) -> bool:
        """Whether that is more than ticks, a few records and so many samples, which a restart would take again quickly."""
        return self.due and (self.set_aside or self.samples > samples or self.taken > FEW or self.whole)

    @property
    def caught_up(self) -> bool:
        """Whether the task has taken in everything that was in the log when the partition was opened."""
        return self.open and not self.goals

    @property
    def lag(self) -> Seconds:
        """How far the last turn is behind the newest tick that came in, in event time."""
        return Seconds((self.task.aligner.newest - self.task.turn) / 1000)

    def rewind(self) -> None:
        """Drop what is buffered; the log is read again from the last turn. The state stays."""
        old = self.task
        # A new task instead of emptying the old one: whoever still awaits with the old task sees that it is no longer the
        # partition's.
        self.task = Task(
            old.stage,
            old.partition,
            topics=old.topics,
            codec=old.codec,
            positions=old.positions,
            turn=old.turn,
            tick=old.tick,
            state=old.state,
            inputs=old.inputs,
            epochs=old.epochs.epochs(),
            in_flight=old.in_flight,
        )
        self.held = set()

    def abandon(self, foreign: list[bytes]) -> None:
        """Start a new family, and write every chunk into it, because the content of the old one in the log is uncertain."""
        self.ledger, self.whole, self.end = new_ledger(foreign), True, -1
