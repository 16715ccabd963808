"""How far workers got, and what they had read by then, according to their newest good checkpoints in the changelogs.

A mark is written when every decision up to its turn is durable. So a decision that is missing at the very end is found, too, and
one that a running worker still has in flight does not count as missing. A log without changelogs says nothing about either.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.engine import checkpoint_selection
from agents.engine.input_digest import InputDigests
from agents.engine.stage import Stage
from agents.newest_checkpoint import newest_checkpoint
from agents.verify import workers_at_work
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.topics import changelog_topic

_VERSION = 8
"""Bytes of a chunk that say its version; the rest is not kept."""


@dataclass(frozen=True, slots=True)
class CommittedTurn:
    """The turn up to which everything is published, the input offsets after it, and digests of the inputs if the mark has any.

    `at_work`: a worker is running on the partition, so later decisions may be in flight.
    """

    turn: int
    positions: Mapping[str, int]
    inputs: InputDigests | None
    at_work: bool = False


def committed(context: LogContext, worker: str, stages: Sequence[Stage]) -> dict[tuple[str, int], CommittedTurn]:
    """By stage and partition, how far the workers of this name have published everything; -1 at work without a mark yet."""
    live = workers_at_work.at_work(context, worker, stages)
    found = {part: CommittedTurn(-1, {}, None, at_work=True) for part in live}
    for stage in stages:
        topic = changelog_topic(worker, stage.name)
        for partition in range(context.log.partitions(topic) if has_topic(context.log, topic) else 0):
            newest = newest_checkpoint(context, stage, partition, worker, keep=_short).found
            if newest is not None:
                mark = newest.mark
                found[stage.name, partition] = CommittedTurn(
                    mark.turn, mark.positions, mark.inputs, (stage.name, partition) in live
                )
    return found


def _short(key: bytes, value: bytes | None) -> bytes | None:
    """Keep only the version of a chunk: a mark's turn stays valid even if a chunk is damaged."""
    return value if value is None or checkpoint_selection.is_mark(key) else value[:_VERSION]
