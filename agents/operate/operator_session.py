"""Opens the log for one command of an operator, with the event time that the command's policies carry."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from agents.settings import log_factory
from agents.settings.tree import Settings
from streams.codec.event_codec import Codec
from streams.publishing.operator import Operator


@contextmanager
def operator_session(settings: Settings) -> Iterator[tuple[Operator, datetime]]:
    """What publishes to the log of these settings, and event time: the newest tick, or this machine's time before the first."""
    topics = log_factory.topics(settings)
    with log_factory.log(settings) as log:
        operator = Operator(log, topics, Codec(topics))
        tick = operator.tick()
        yield operator, datetime.now(UTC) if tick is None else tick.at  # noqa: TID251  # a driver, and the log has no time yet
