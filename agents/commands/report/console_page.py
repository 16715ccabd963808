"""The part of the live page that an operator looks at first, as HTML, and the script that searches, filters and sorts it.

Rows carry the place of their record in `data-why`: a click, or Enter, asks for its explanation and shows it beside the page. The
page only reads: there is nothing on it that changes anything.
"""

import html
from collections.abc import Iterator

from agents.commands.report.console_data import ConsoleData

KINDS = ("decision", "refusal", "outcome", "fact")
STYLE = """
nav { align-items: center; background: Canvas; display: flex; flex-wrap: wrap; gap: .5rem 1rem;
  padding: .5rem 0; position: sticky; top: 0; z-index: 2 }
nav input, nav select { background: var(--soft); border: 1px solid var(--line); border-radius: .3rem; color: inherit;
  font: inherit; max-width: 100%; padding: .2rem .5rem }
tr[data-why] { cursor: pointer } tr[data-why]:hover, tr[data-why]:focus { background: var(--soft); outline: none }
#console th, #workloads-table th { cursor: pointer } th[aria-sort=ascending]::after { content: " ↑" }
th[aria-sort=descending]::after { content: " ↓" } tr.warns td:nth-child(3) { color: var(--bad) }
#health { margin-top: 1rem } #console + h1 { margin-top: 2.5rem }
@media (max-width: 45rem) {
  #health tr, #news tr { border-bottom: 1px solid var(--line); display: block; padding: .4rem 0 }
  #health :is(td, th), #news :is(td, th) { border: 0; display: inline-block; overflow-wrap: anywhere;
    padding: 0 .8rem 0 0; white-space: normal }
  #health td:last-child, #news td:last-child { display: block }
}
#events { max-height: 24rem; overflow: auto } #events td:last-child, #health td:last-child { white-space: normal }
dialog { background: Canvas; border: 1px solid var(--line); border-radius: .5rem; color: CanvasText; max-width: 70rem;
  width: 92vw }
dialog pre { font-size: 12.5px; max-height: 70vh; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere }
"""
SCRIPT = """
const search = document.getElementById('search'), kind = document.getElementById('kind');
const dialog = document.getElementById('why'), said = dialog.querySelector('pre');
let order = {};
function arrange() {
  for (const table of document.querySelectorAll('table[id]')) {
    const rows = [...table.tBodies[0].rows], by = order[table.id];
    for (const row of rows) {
      const other = kind.value && row.dataset.kind && row.dataset.kind !== kind.value;
      row.hidden = other || !row.textContent.toLowerCase().includes(search.value.toLowerCase());
    }
    [...table.tHead.rows[0].cells].forEach((head, number) => head.setAttribute('aria-sort',
      by && by.column === number ? (by.up ? 'ascending' : 'descending') : 'none'));
    if (by) {
      const text = row => row.cells[by.column].textContent;
      rows.sort((a, b) => text(a).localeCompare(text(b), undefined, { numeric: true }) * (by.up ? 1 : -1));
      table.tBodies[0].append(...rows);
    }
  }
}
async function explain(asked) {
  said.textContent = 'reading the log …';
  dialog.querySelector('b').textContent = asked;
  if (!dialog.open) dialog.showModal();
  const to = new URLSearchParams(location.search);
  to.set('asked', asked);
  const answer = await fetch('why?' + to);
  said.textContent = await answer.text();
}
search.addEventListener('input', arrange);
kind.addEventListener('change', arrange);
document.addEventListener('click', event => {
  const head = event.target.closest('table[id] th'), row = event.target.closest('tr[data-why]');
  if (head) {
    const id = head.closest('table').id, by = order[id];
    order[id] = { column: head.cellIndex, up: !(by && by.column === head.cellIndex && by.up) };
    arrange();
  } else if (row) explain(row.dataset.why);
});
document.addEventListener('keydown', event => {
  if (event.key === 'Enter' && event.target.matches('tr[data-why]')) explain(event.target.dataset.why);
});
function listen() {
  for (const chart of shown) {
    const place = document.getElementById(chart.id);
    place.removeAllListeners && place.removeAllListeners('plotly_click');
    place.on && place.on('plotly_click', hit => {
      const marked = hit.points.find(point => point.customdata);
      if (marked) explain(marked.customdata);
    });
  }
}
arrange();
listen();
"""


def controls() -> Iterator[str]:
    """What stays while the page is sent again: search, filter, and where explanations are shown."""
    options = "".join(f"<option>{kind}</option>" for kind in KINDS)
    yield '<input id="search" type="search" placeholder="search" aria-label="search all tables">'
    yield f'<select id="kind" aria-label="kind of event"><option value="">all events</option>{options}</select>'


def dialog() -> str:
    """The place of an explanation."""
    return '<dialog id="why"><form method="dialog"><b></b> <button>close</button></form><pre></pre></dialog>'


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
    yield "<thead><tr><th>part</th><th>name</th><th>state</th><th>says</th></tr></thead><tbody>"
    for row in data.health:
        cells = "".join(f"<td>{_text(cell)}</td>" for cell in (row.kind, row.name, row.state, row.says))
        yield f"<tr{' class=warns' if row.warns else ''}>{cells}</tr>"
    yield "</tbody></table></div>"
    yield '<h2 id="newest">Newest decisions, refusals and outcomes</h2><div class="wide" id="events"><table id="news">'
    yield "<thead><tr><th>time</th><th>kind</th><th>what</th><th>about</th><th>detail</th></tr></thead><tbody>"
    for event in data.events:
        entry = event.entry
        shown = (f"{entry.at:%m-%d %H:%M:%S}", event.kind, entry.what, entry.about, entry.detail)
        cells = "".join(f"<td>{_text(cell)}</td>" for cell in shown)
        yield f'<tr tabindex="0" data-kind="{event.kind}" data-why="{_text(entry.place)}">{cells}</tr>'
    yield "</tbody></table></div></section>"


def _text(text: str) -> str:
    return html.escape(text)
