"""The log that `ullage simulate --keep` leaves, as events."""

import re
from collections.abc import Iterator
from pathlib import Path

from schemas.catalogue import Event
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.log.file_log import FileLog
from streams.topics import Topics

TOPICS = ("pod-updates", "pod-changes-by-cluster", "outcomes", "oom-events", "vpa-conditions")


BARE = re.compile(r"(?<![\w.,:/'-])\d{5,}(?![\w.,:/'-])")
"""A large number alone: bytes, where people expect a unit."""


def read_by_people(event: Event) -> list[str]:
    """The sentences of a decision or an outcome."""
    texts = [getattr(event, name, "") for name in ("reason", "message")]
    return [*texts, *(condition.message for condition in getattr(event, "conditions", ()))]


def events_of(log: Path) -> Iterator[Event]:
    """What was decided and seen of pods, and what came of it; in each topic's order. No sentence has bytes without a unit."""
    topics = Topics("ullage", 1)
    codec = Codec(topics)
    with FileLog(log) as opened:
        for name in TOPICS:
            for record in opened.poll({(topics.wire(name), 0): 0}, limit=10**6):
                event = None if is_of_a_clock(record) else codec.decode_or_none(record)
                if event is not None:
                    bare = [text for text in read_by_people(event) if BARE.search(text)]
                    assert not bare, bare
                    yield event
