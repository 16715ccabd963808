"""How far workers say that they got, and what they had read by then: their newest good checkpoints, from the changelogs.

A mark is written when every decision up to its turn is durable. So a decision that is missing at the very end is found, too,
and one that a live worker still has in flight is not taken for missing. A log without changelogs says nothing about either.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.engine import checkpoint_selection
from agents.engine.input_digest import InputDigests
from agents.engine.stage import Stage
from streams.errors import BadInput
from streams.log.log_port import Log
from streams.topics import changelog_topic

_VERSION = 8
"""Bytes of a chunk that say its version; the rest is not kept."""
_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class CommittedTurn:
    """The turn up to which everything is published, the input offsets after it, and digests of the inputs if the mark has any."""

    turn: int
    positions: Mapping[str, int]
    inputs: InputDigests | None


def committed(log: Log, worker: str, stages: Sequence[Stage]) -> dict[tuple[str, int], CommittedTurn]:
    """By stage and partition, how far the workers of this name have published everything."""
    found = {}
    for stage in stages:
        topic = changelog_topic(worker, stage.name)
        for partition in range(_partitions(log, topic)):
            newest = checkpoint_selection.read(_last(log, topic, partition), checked=False).found
            if newest is not None:
                mark = newest.mark
                found[stage.name, partition] = CommittedTurn(mark.turn, mark.positions, mark.inputs)
    return found


def _partitions(log: Log, topic: str) -> int:
    try:
        return log.partitions(topic)
    except BadInput:
        return 0


def _last(log: Log, topic: str, partition: int) -> dict[bytes, bytes | None]:
    """The last record of each key, of a chunk only its version: what a mark says of its turn stays true if a chunk is damaged."""
    last: dict[bytes, bytes | None] = {}
    position, end = log.begin(topic, partition), log.end(topic, partition)
    while position < end and (records := log.poll({(topic, partition): position}, limit=_AT_ONCE)):
        for record in records:
            key, value = record.key or b"", record.value
            last[key] = value if value is None or checkpoint_selection.is_mark(key) else value[:_VERSION]
        position = records[-1].offset + 1
    return last
