"""VPAs, and workloads without one, that are OOM-killed again and again and get no more memory, by the newest decision about each.

The updater names loops that a bound keeps going. Where nothing is recommended or applied at all (mode Off, memory not
controlled, an opt-out), it has nothing to look at, and only these decisions know.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from agents.commands.status import newest_records
from agents.commands.status.status_rows import StatusRow
from schemas.decisions.vpa_conditions import ConditionStatus, ConditionType, MemoryLimitFound, VpaConditionsDecided
from streams.log_context import LogContext

MOST = 2_000
"""Decisions of one partition that are looked at; compaction leaves one for each VPA and workload."""
SHOWN = 10
"""Lines of their own of each kind."""
_WHERE = {
    "vpa": "the condition MemoryLimited of each VPA says",
    "workload": "`ullage tap vpa-conditions --type MemoryLimitFound` shows",
}
"""Where the others of a kind are to be found."""
_EVER = datetime(1970, 1, 2, tzinfo=UTC)


def rows(context: LogContext) -> Iterator[StatusRow]:
    """A row for each such VPA and workload, and one for all of a kind above a bound. Raises LogUnavailable."""
    newest: dict[tuple[str, str], VpaConditionsDecided | MemoryLimitFound] = {}
    for record in newest_records.read(context.log, context.topics.wire("vpa-conditions"), _EVER, most=MOST).records:
        event = context.codec.decode_or_none(record)
        if isinstance(event, VpaConditionsDecided | MemoryLimitFound):
            about = ("vpa", event.key) if isinstance(event, VpaConditionsDecided) else ("workload", event.workload.key)
            if about not in newest or newest[about].at <= event.at:
                newest[about] = event
    for kind, where in _WHERE.items():
        said = {key: message for (what, key), event in newest.items() if what == kind and (message := _says(event))}
        for key in sorted(said)[:SHOWN]:
            yield StatusRow(kind, key, "memory limited", said[key], warns=True)
        if len(said) > SHOWN:
            yield StatusRow(kind, "all", "memory limited", f"{len(said) - SHOWN} more: {where} why", warns=True)


def _says(event: VpaConditionsDecided | MemoryLimitFound) -> str:
    """Why a container is killed in a loop; empty where none is."""
    if isinstance(event, MemoryLimitFound):
        return "" if event.over else f"since {event.since:%Y-%m-%d %H:%M:%S} UTC: {event.message}"
    for condition in event.conditions:
        if condition.type is ConditionType.MEMORY_LIMITED and condition.status is ConditionStatus.TRUE and not event.withdrawn:
            return f"since {condition.since:%Y-%m-%d %H:%M:%S} UTC: {condition.message}"
    return ""
