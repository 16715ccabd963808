"""The containers that leak memory now. The recommender says each leak every hour while it lasts."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from agents.commands.status import newest_records
from agents.commands.status.status_rows import StatusRow
from agents.why import leak_texts
from schemas.decisions.recommendations import MemoryLeakFound
from streams.log_context import LogContext

TOPIC = "memory-leaks"
SHOWN = 10
"""Containers that have a line of their own."""
_SAID_WITHIN = timedelta(hours=2)


def rows(context: LogContext, now: datetime) -> Iterator[StatusRow]:
    """A row for each leaking container, the one that is full first at the top, and one for all above a bound."""
    newest: dict[str, MemoryLeakFound] = {}
    for record in newest_records.read(context.log, context.topics.wire(TOPIC), now - _SAID_WITHIN).records:
        event = context.codec.decode_or_none(record)
        if isinstance(event, MemoryLeakFound):
            key = f"{event.workload.key}/{event.leak.container}"
            newest[key] = max(event, newest.get(key, event), key=lambda said: said.at)
    never = datetime.max.replace(tzinfo=now.tzinfo)
    said = sorted((event.leak.full or never, key, event) for key, event in newest.items() if not event.over)
    for _, key, event in said[:SHOWN]:
        yield StatusRow(
            "memory", key, leak_texts.WORD, f"{leak_texts.in_words(event.leak, now)}; pod {event.leak.pod.name}", warns=True
        )
    if len(said) > SHOWN:
        says = f"{len(said) - SHOWN} more containers: `ullage recommendations` names them"
        yield StatusRow("memory", "all", leak_texts.WORD, says, warns=True)
