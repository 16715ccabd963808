"""The newest checkpoint of a partition that the log does not contradict, from which a worker would go on.

It is for readers beside the workers, through the log's port; a worker reads the same by itself (`app.partition_recovery`). Where
one process has decided a log from its beginning, it writes the checkpoint that closes it, from which readers and workers go on.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from agents.engine import checkpoint_selection
from agents.engine.checkpoint_selection import ChangelogContents, CheckpointLedger, CheckpointMark, ClockEvidence
from agents.engine.stage import Stage
from agents.run.partition_task import Task
from streams import clock_log
from streams.log.log_port import Log, NewRecord
from streams.log_context import LogContext
from streams.log_range import has_topic, last_records
from streams.topics import CLOCK, changelog_topic

Keep = Callable[[bytes, bytes | None], bytes | None]
_NOTHING = ChangelogContents(None, 0)


def newest_checkpoint(
    context: LogContext, stage: Stage, partition: int, worker: str, *, keep: Keep | None = None
) -> ChangelogContents:
    """What the changelog of the workers of this name holds, without marks that the inputs contradict. Raises LogUnavailable.

    `keep`, if given, selects what to keep of a value; the checksums of chunks are not checked then.
    """
    topic = changelog_topic(worker, stage.name)
    if not has_topic(context.log, topic) or partition >= context.log.partitions(topic):
        return _NOTHING
    records = last_records(context.log, topic, partition, keep=keep or _whole)
    refused: list[tuple[CheckpointMark, str]] = []
    while True:
        contents = checkpoint_selection.read(records, checked=keep is None, without=[mark for mark, _ in refused])
        if contents.found is None or not (why := objection(context, stage, partition, contents.found.mark)):
            return replace(contents, refused=tuple(refused))
        # The next older mark may be right, as it is where a topic lost its newest records.
        refused.append((contents.found.mark, why))


def _whole(_: bytes, value: bytes | None) -> bytes | None:
    return value


def objection(context: LogContext, stage: Stage, partition: int, mark: CheckpointMark) -> str:
    """Why a mark cannot be of the log's inputs; empty if it can."""
    ends = {name: _end(context, name, partition) for name in stage.reads}
    return checkpoint_selection.objection(mark, ends, clock_evidence(context, mark), now_ms=time.time_ns() // 1_000_000)


def clock_evidence(context: LogContext, mark: CheckpointMark) -> ClockEvidence:
    """What the clock shows of the tick that a mark names."""
    if mark.tick is None or not has_topic(context.log, context.topics.wire(CLOCK)):
        return ClockEvidence(0, 0)
    there = clock_log.look_at(context.log, context.topics, mark.tick[0])
    return ClockEvidence(there.begin, there.end, None if there.record is None else (there.record.number, there.record.name))


def _end(context: LogContext, name: str, partition: int) -> int:
    wire = context.topics.wire(name)
    return context.log.end(wire, partition) if has_topic(context.log, wire) else 0


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
