"""The log that `ullage simulate --keep` leaves, as events."""

from collections.abc import Iterator
from pathlib import Path

from schemas.catalogue import Event
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.log.file_log import FileLog
from streams.topics import Topics

TOPICS = ("pod-updates", "pod-changes-by-cluster", "outcomes", "oom-events", "vpa-conditions")


def events_of(log: Path) -> Iterator[Event]:
    """What was decided and seen of pods, and what came of it; in the order of each topic."""
    topics = Topics("ullage", 1)
    codec = Codec(topics)
    with FileLog(log) as opened:
        for name in TOPICS:
            for record in opened.poll({(topics.wire(name), 0): 0}, limit=10**6):
                event = None if is_of_a_clock(record) else codec.decode_or_none(record)
                if event is not None:
                    yield event
