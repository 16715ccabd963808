"""VPAs whose containers are OOM-killed again and again and get no more memory, by the newest decision about each VPA's status.

The updater names loops that a bound keeps going. Where nothing is recommended or applied at all (mode Off, memory not
controlled, an opt-out), it has nothing to look at, and only these decisions know.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from agents.commands.status import newest_records
from agents.commands.status.status_rows import StatusRow
from schemas.decisions.vpa_conditions import ConditionStatus, ConditionType, VpaConditionsDecided
from streams.log_context import LogContext

MOST = 2_000
"""Decisions of one partition that are looked at; compaction leaves one for each VPA."""
SHOWN = 10
"""VPAs that have a line of their own."""
_EVER = datetime(1970, 1, 2, tzinfo=UTC)


def rows(context: LogContext) -> Iterator[StatusRow]:
    """A row for each such VPA, and one for all above a bound. Raises LogUnavailable."""
    newest: dict[str, VpaConditionsDecided] = {}
    for record in newest_records.read(context.log, context.topics.wire("vpa-conditions"), _EVER, most=MOST).records:
        event = context.codec.decode_or_none(record)
        if isinstance(event, VpaConditionsDecided) and (event.key not in newest or newest[event.key].at <= event.at):
            newest[event.key] = event
    said = {key: message for key, event in newest.items() if (message := _says(event))}
    for key in sorted(said)[:SHOWN]:
        yield StatusRow("vpa", key, "memory limited", said[key], warns=True)
    if len(said) > SHOWN:
        says = f"{len(said) - SHOWN} more: the condition MemoryLimited of each VPA says why"
        yield StatusRow("vpa", "all", "memory limited", says, warns=True)


def _says(event: VpaConditionsDecided) -> str:
    """Why a container of its target is killed in a loop; empty where none is."""
    for condition in event.conditions:
        if condition.type is ConditionType.MEMORY_LIMITED and condition.status is ConditionStatus.TRUE and not event.withdrawn:
            return f"since {condition.since:%Y-%m-%d %H:%M:%S} UTC: {condition.message}"
    return ""
