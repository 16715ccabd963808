"""Workloads whose new pods the webhook leaves as they are for a while, because patched ones did not come, by the outcomes."""

from collections.abc import Iterator
from datetime import datetime

from agents.commands.status import newest_records
from agents.commands.status.status_rows import StatusRow
from schemas import admission_pauses
from schemas.admission_pauses import AdmissionPause
from schemas.outcomes import Action, ActionFinished
from streams.log_context import LogContext

MOST = 2_000
"""Outcomes of one partition that are looked at."""
SHOWN = 10
"""Workloads that have a line of their own."""


def rows(context: LogContext, now: datetime) -> Iterator[StatusRow]:
    """A row for each such workload, and one for all above a bound. Raises LogUnavailable."""
    held = {key: pause for key, pause in _pauses(context, now).items() if pause.holds(now)}
    for key in sorted(held)[:SHOWN]:
        yield StatusRow("workload", key, "not patched", held[key].says(key), warns=True)
    if len(held) > SHOWN:
        says = f"{len(held) - SHOWN} more: `ullage tap outcomes --type ActionFinished` shows what was lost"
        yield StatusRow("workload", "all", "not patched", says, warns=True)


def _pauses(context: LogContext, now: datetime) -> dict[str, AdmissionPause]:
    """The newest pause of each workload, also those that are over."""
    since, pauses = now - admission_pauses.REMEMBERED, dict[str, AdmissionPause]()
    for record in newest_records.read(context.log, context.topics.wire("outcomes"), since, most=MOST).records:
        event = context.codec.decode_or_none(record)
        if isinstance(event, ActionFinished) and event.action is Action.PATCH:
            key = event.subject.workload
            pause = admission_pauses.after(pauses.get(key), event)
            if pause is None:
                pauses.pop(key, None)
            else:
                pauses[key] = pause
    return pauses
