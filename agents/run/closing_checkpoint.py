"""The checkpoint that closes a log which one process has decided from its beginning: the state of every stage at its last turn.

Readers and workers go on from it, as from one of a worker, and need not take all turns again.
"""

from collections.abc import Iterable

from agents.engine.checkpoint_selection import CheckpointLedger
from agents.run.partition_task import Task
from streams.log.log_port import Log, NewRecord
from streams.topics import changelog_topic

_AT_ONCE = 20
"""Parts of a checkpoint in one append: half a MiB each."""


def write(log: Log, tasks: Iterable[Task], worker: str, *, family: str) -> None:
    """Append the state of each task to the changelogs of the workers of this name, and last the mark that names all of it.

    `family`: who writes (see `CheckpointLedger`). Raises LogUnavailable.
    """
    for task in tasks:
        topic, state = changelog_topic(worker, task.stage.name), task.state
        # All chunks are written, so none counts as changed any more.
        state.take_dirty()
        plan = CheckpointLedger(family).plan(
            turn=task.turn,
            positions=task.positions,
            tick=task.tick,
            dumps=((name, state.dump(name)) for name in sorted(state.chunks())),
            inputs=task.inputs,
            epochs=task.epochs.epochs(),
        )
        records = [NewRecord(topic, task.partition, key, value) for key, value in plan.records]
        for first in range(0, len(records), _AT_ONCE):
            log.append(records[first : first + _AT_ONCE])
        # Last, when all that it names is in the log.
        log.append([NewRecord(topic, task.partition, *plan.mark)])
