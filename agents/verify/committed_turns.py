"""How far workers say that they got: the turns of their newest good checkpoints, read from the changelogs.

A mark is written when every decision up to its turn is durable. So a decision that is missing at the very end is found, too,
and not taken for one in flight. A log without changelogs (an export) says nothing about it.
"""

from collections.abc import Sequence

from agents.engine import checkpoint
from agents.engine.stage import Stage
from streams.errors import BadInput
from streams.log.port import Log
from streams.topics import changelog_topic

_VERSION = 8
"""Bytes of a chunk that say its version; the rest is not kept."""
_AT_ONCE = 200


def committed(log: Log, worker: str, stages: Sequence[Stage]) -> dict[tuple[str, int], int]:
    """By stage and partition, the turn up to which the workers of this name have published everything."""
    found = {}
    for stage in stages:
        topic = changelog_topic(worker, stage.name)
        for partition in range(_partitions(log, topic)):
            newest = checkpoint.read(_last(log, topic, partition)).found
            if newest is not None:
                found[stage.name, partition] = newest.mark.turn
    return found


def _partitions(log: Log, topic: str) -> int:
    try:
        return log.partitions(topic)
    except BadInput:
        return 0


def _last(log: Log, topic: str, partition: int) -> dict[bytes, bytes | None]:
    """The last record of each key, of a chunk only its version."""
    last: dict[bytes, bytes | None] = {}
    position, end = log.begin(topic, partition), log.end(topic, partition)
    while position < end and (records := log.poll({(topic, partition): position}, limit=_AT_ONCE)):
        for record in records:
            key, value = record.key or b"", record.value
            last[key] = value if value is None or checkpoint.is_mark(key) else value[:_VERSION]
        position = records[-1].offset + 1
    return last
