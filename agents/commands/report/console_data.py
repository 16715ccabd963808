"""What the live page shows above the report: mode, pause and budget, each part's health, and the newest events of the log."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from agents.commands.past import timeline_rows
from agents.commands.past.timeline_rows import TimelineEntry
from agents.commands.status import newest_records, status
from agents.commands.status.status_rows import StatusRow
from agents.settings.all_settings import Settings
from schemas.outcomes import Outcome
from streams.codec.event_codec import header
from streams.log_context import LogContext
from streams.publishing.operator_log import NewestTick

TOPICS = ("pod-updates", "node-updates", "replica-plans", "outcomes", "memory-leaks", "oom-events", "control")
MOST = 200
"""Events that are shown, the newest."""
_LATELY = timedelta(days=1)
_REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ConsoleEvent:
    """One event; `kind` is decision, refusal, outcome or fact."""

    kind: str
    entry: TimelineEntry


@dataclass(frozen=True, slots=True)
class ConsoleData:
    """`updated` is the newest tick, which the row of the clock names, too.

    `health` has a row for each part, and the cluster's mode, pause and budget.
    """

    updated: datetime
    health: tuple[StatusRow, ...]
    events: tuple[ConsoleEvent, ...]

    @property
    def states(self) -> tuple[tuple[str, str, str, bool], ...]:
        """The state of each part."""
        # without the sentences: their ages change with each look, and the page would be sent again for that alone
        return tuple((row.kind, row.name, row.state, row.warns) for row in self.health)


def collect(context: LogContext, settings: Settings, tick: NewestTick) -> ConsoleData:
    """Read it from the log's end. `tick`: the newest one when the reading began. Raises LogUnavailable."""
    by_id: dict[str, ConsoleEvent] = {}
    for name in TOPICS:
        for record in newest_records.read(context.log, context.topics.wire(name), tick.at - _LATELY, most=MOST).records:
            event = context.codec.decode_or_none(record)
            if event is not None and timeline_rows.is_news(event):
                entry = timeline_rows.entry_of(record, event)
                kind = "fact" if name in {"oom-events", "control"} else "outcome" if isinstance(event, Outcome) else "decision"
                ident = header(record, "ce_id") or entry.place
                by_id[ident] = ConsoleEvent("refusal" if _REFUSED in entry.what else kind, entry)
    newest = sorted(by_id.values(), key=lambda shown: (shown.entry.at, shown.entry.place), reverse=True)
    return ConsoleData(tick.at, tuple(status.read(context, settings, tick)), tuple(newest[:MOST]))
