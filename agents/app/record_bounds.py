"""How large a record each topic accepts, so that a worker never sends what Kafka would refuse.

A refusal would break the order of an idempotent producer, so the worker reads the bounds before it starts. A decision beyond them
is set aside as a dead letter, by name and size; a checkpoint is written in parts that fit.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from streams import refused_records
from streams.codec import dead_letters
from streams.log.log_port import MAX_RECORD_BYTES, NewRecord, size_of
from streams.topics import Topics

FRAME = 1_024
"""Bytes that Kafka adds at most to a record that stands alone in its batch, for as many headers as ours have."""
_log = structlog.get_logger("ullage", component="worker")


class RecordBounds:
    """The bytes that each topic (wire name) accepts; an unknown topic accepts as much as ours."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._most: dict[str, int] = {}

    def learn(self, most: Mapping[str, int]) -> None:
        """These topics accept records of so many bytes, including framing."""
        self._most.update(most)

    def most(self, topic: str) -> int:
        """Bytes of key, value and headers that the topic accepts."""
        return min(self._most.get(topic, MAX_RECORD_BYTES), MAX_RECORD_BYTES) - FRAME

    def refusal(self, record: NewRecord) -> str | None:
        """Why the topic refuses a record for good; None if it accepts it."""
        size, most = size_of(record), self.most(record.topic)
        return None if size <= most else f"it has {size} bytes, and the topic takes {most}"

    def admissible(self, records: Sequence[NewRecord]) -> Sequence[NewRecord]:
        """The records, with a dead letter in the place of each that its topic refuses."""
        # As nearly always, and then the caller's list is not copied.
        if all(self.refusal(record) is None for record in records):
            return records
        return [letter for record in records for letter in self._admit(record)]

    def _admit(self, record: NewRecord) -> Iterable[NewRecord]:
        why = self.refusal(record)
        return [record] if why is None else self.letters(record, why)

    def letters(self, record: NewRecord, why: str) -> Sequence[NewRecord]:
        """The dead letter of a record; none if not even that would be accepted."""
        _log.error("the log never takes this record", **refused_records.name_of(record), bytes=size_of(record), reason=why)
        letter = dead_letters.refused_letter(record, why, topics=self._topics)
        return [letter] if size_of(letter) <= self.most(letter.topic) else []


async def ask(admin: Any, topics: Iterable[str]) -> dict[str, int]:
    """`max.message.bytes` of these topics. A topic whose settings we may not read is left out."""
    wanted = [ConfigResource(ConfigResourceType.TOPIC, name, configs={"max.message.bytes": None}) for name in topics]
    most_bytes: dict[str, int] = {}
    for response in await admin.describe_configs(wanted):
        # aiokafka answers with plain tuples, in the order of Kafka's protocol, with more fields in later versions.
        for code, _message, _kind, name, entries in (resource[:5] for resource in response.resources):
            settings = {entry[0]: entry[1] for entry in entries} if not code else {}
            if settings.get("max.message.bytes"):
                most_bytes[name] = int(settings["max.message.bytes"])
    return most_bytes
