"""Opens the log for one command of an operator, with the event time that the command's policies carry."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from agents.settings import log_author, log_factory
from agents.settings.all_settings import Settings
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog


@contextmanager
def operator_session(settings: Settings) -> Iterator[tuple[OperatorLog, datetime]]:
    """An OperatorLog that signs for these settings, and event time: the newest tick, or this machine's time before the first."""
    topics = log_factory.topics(settings)
    with log_factory.log_to_write(settings) as log:
        operator = OperatorLog(LogContext.of(log, topics), log_author.author(settings))
        tick = operator.newest_tick()
        yield operator, datetime.now(UTC) if tick is None else tick.at  # noqa: TID251  # a driver, and the log has no time yet
