"""A log in memory whose only tick is now, and events in it: for what is reckoned from the log at a moment."""

from datetime import datetime

from schemas.catalogue import Event
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS, Topics
from tests.support import ticks


def log_at(now: datetime, cluster: str) -> LogContext:
    """All topics with a partition each."""
    log, topics = MemoryLog(), Topics(partitions=1)
    for topic in TOPICS:
        log.create(topics.wire(topic.name), 1)
    ticks.append(log, topics, int(now.timestamp() * 1000))
    return LogContext.of(log, topics, cluster)


def put(context: LogContext, topic: str, *events: Event) -> None:
    """Append events to a topic."""
    context.log.append([context.codec.encode(event, topic=topic, key="k", partition=0, source="/test") for event in events])
