"""The part of the live page that an operator looks at first, as HTML.

Rows carry the place of their record in `data-why`: a click, or Enter, asks for its explanation and shows it beside the page. The
page only reads: there is nothing on it that changes anything.
"""

import html
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from agents.commands.past import timeline
from agents.commands.past.timeline import TimelineEntry
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
            if event is not None and timeline.is_news(event):
                entry = timeline.entry_of(record, event)
                kind = "fact" if name in {"oom-events", "control"} else "outcome" if isinstance(event, Outcome) else "decision"
                ident = header(record, "ce_id") or entry.place
                # by id, so that what was published twice is shown once
                by_id[ident] = ConsoleEvent("refusal" if _REFUSED in entry.what else kind, entry)
    newest = sorted(by_id.values(), key=lambda shown: (shown.entry.at, shown.entry.place), reverse=True)
    return ConsoleData(tick.at, tuple(status.read(context, settings, tick)), tuple(newest[:MOST]))


KINDS = ("decision", "refusal", "outcome", "fact")
STYLE = """
tr.warns td:nth-child(3) { color: var(--bad) } #health { margin-top: 1rem } #console + h1 { margin-top: 2.5rem }
@media (max-width: 45rem) {
  #health tr, #news tr { border-bottom: 1px solid var(--line); display: block; padding: .4rem 0 }
  #health :is(td, th), #news :is(td, th) { border: 0; display: inline-block; overflow-wrap: anywhere;
    padding: 0 .8rem 0 0; white-space: normal }
  #health td:last-child, #news td:last-child { display: block }
}
#events { max-height: 24rem; overflow: auto }
"""


def controls() -> str:
    """The filter, which stays while the page is sent again."""
    options = "".join(f"<option>{kind}</option>" for kind in KINDS)
    return f'<select id="kind" aria-label="kind of event"><option value="">all events</option>{options}</select>'


def content(data: ConsoleData) -> Iterator[str]:
    """Mode and health, and the newest events."""
    modes = [row for row in data.health if row.kind == "cluster"]
    yield '<section id="console"><h2 id="now">Now</h2>'
    updated = f"{data.updated:%Y-%m-%d %H:%M:%S}"
    yield f'<p class="sub">updated at <b id="updated">{updated}</b> UTC, the newest tick; this page only reads</p>'
    yield '<div class="tiles">'
    for row in modes:
        yield f'<div class="tile"><b>{_text(row.state)}</b><small>{_text(row.name)}: {_text(row.says)}</small></div>'
    warned = sum(row.warns for row in data.health)
    kind = "bad" if warned else "good"
    says = f"parts that somebody should look at, of {len(data.health)}"
    yield f'<div class="tile {kind}"><b>{warned}</b><small>{says}</small></div></div>'
    yield '<div class="wide"><table id="health">'
    yield f"<thead><tr>{_heads('part', 'name', 'state', 'says')}</tr></thead><tbody>"
    for row in data.health:
        cells = "".join(f"<td>{_text(cell)}</td>" for cell in (row.kind, row.name, row.state, row.says))
        yield f"<tr{' class=warns' if row.warns else ''}>{cells}</tr>"
    yield "</tbody></table></div>"
    yield '<h2 id="newest">Newest decisions, refusals and outcomes</h2><div class="wide" id="events"><table id="news">'
    yield f"<thead><tr>{_heads('time', 'kind', 'what', 'about', 'detail')}</tr></thead><tbody>"
    for event in data.events:
        entry = event.entry
        shown = (f"{entry.at:%m-%d %H:%M:%S}", event.kind, entry.what, entry.about, entry.detail)
        cells = "".join(f"<td>{_text(cell)}</td>" for cell in shown)
        yield f'<tr tabindex="0" data-kind="{event.kind}" data-why="{_text(entry.place)}">{cells}</tr>'
    yield "</tbody></table></div></section>"


def _heads(*names: str) -> str:
    return "".join(f'<th tabindex="0">{name}</th>' for name in names)


def _text(text: str) -> str:
    return html.escape(text)
