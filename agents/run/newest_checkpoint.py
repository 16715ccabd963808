"""The newest checkpoint of a partition that the log does not contradict, from which a worker would go on.

For readers beside the workers, through the log's port. A worker reads the same by itself (`app.partition_recovery`).
"""

import time
from collections.abc import Callable
from dataclasses import replace

from agents.engine import checkpoint_selection
from agents.engine.checkpoint_selection import ChangelogContents, CheckpointMark, ClockEvidence
from agents.engine.stage import Stage
from streams import clock_log
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
