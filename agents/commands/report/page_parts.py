"""Parts of all pages of a report: tables whose rows can be asked about, tiles with a figure, links between pages, and a script.

The script changes nothing but what is shown. An explanation comes from the page itself, or from where a live page is served; a
page in a file says which command prints it.
"""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from agents.why import event_descriptions


@dataclass(frozen=True, slots=True)
class TableCell:
    """A text, the number that it is sorted by if it has one, and the page that it leads to."""

    text: str
    number: float | None = None
    to: str = ""


def cpu_cell(cores: float | None) -> TableCell:
    """CPU for people."""
    # what is not set sorts below every amount
    return TableCell(event_descriptions.amount(cpu=cores), -1.0 if cores is None else cores)


def memory_cell(amount: float | None) -> TableCell:
    """Memory for people."""
    return TableCell(event_descriptions.amount(memory=amount), -1.0 if amount is None else float(amount))


def count_cell(number: int) -> TableCell:
    """A whole number."""
    return TableCell(f"{number:,}", number)


def address(*names: str) -> str:
    """The part of a page's address that follows `#`: of nothing the overview, of names the page of a namespace or workload."""
    return "".join(f"/{quote(name, safe='')}" for name in names)


def link(text: str, to: str) -> str:
    """A link to another page of the report."""
    return f'<a href="#{html.escape(to)}">{breakable(text)}</a>'


def breakable(text: str) -> str:
    """The text as HTML, in which the name of a workload or pod may go on in another line behind each slash."""
    return html.escape(text).replace("/", "/<wbr>")


def tiles(*parts: tuple[str, str, str]) -> Iterator[str]:
    """Of each its figure, what it is, and `good`, `bad` or nothing."""
    yield '<div class="tiles">'
    for figure, says, kind in parts:
        yield f'<div class="tile {kind}"><b>{html.escape(figure)}</b><small>{html.escape(says)}</small></div>'
    yield "</div>"


def table(names: Sequence[str], rows: Sequence[Sequence[TableCell]], ident: str, asked: Sequence[str] = ()) -> Iterator[str]:
    """Columns of numbers stand at the right, with their names. `asked`: what `ullage why` is asked about each row."""
    # one cell without a number, and the column is text
    numeric = [bool(rows) and all(row[n].number is not None for row in rows) for n in range(len(names))]
    kinds = [" class=n" if number else "" for number in numeric]
    heads = "".join(f'<th{kind} tabindex="0">{html.escape(name)}</th>' for kind, name in zip(kinds, names, strict=True))
    yield f'<div class="wide"><table id="{html.escape(ident)}"><thead><tr>{heads}</tr></thead><tbody>'
    for number, row in enumerate(rows):
        why = f' tabindex="0" data-why="{html.escape(asked[number])}"' if asked else ""
        yield f"<tr{why}>{''.join(_cell(kind, cell) for kind, cell in zip(kinds, row, strict=True))}</tr>"
    yield "</tbody></table></div>"


def _cell(kind: str, cell: TableCell) -> str:
    order = "" if cell.number is None else f' data-order="{cell.number}"'
    return f"<td{kind}{order}>{link(cell.text, cell.to) if cell.to else breakable(cell.text)}</td>"


STYLE = """
nav { align-items: center; background: Canvas; display: flex; flex-wrap: wrap; gap: .5rem 1rem;
  padding: .5rem 0; position: sticky; top: 0; z-index: 2 }
nav input, nav select { background: var(--soft); border: 1px solid var(--line); border-radius: .3rem; color: inherit;
  font: inherit; max-width: 100%; padding: .2rem .5rem }
tr[data-why] { cursor: pointer } tr[data-why]:hover, tr[data-why]:focus { background: var(--soft); outline: none }
table[id] th { cursor: pointer } th[aria-sort=ascending]::after { content: " ↑" }
th[aria-sort=descending]::after { content: " ↓" }
dialog { background: Canvas; border: 1px solid var(--line); border-radius: .5rem; color: CanvasText; max-width: 70rem;
  width: 92vw }
dialog pre { font-size: 12.5px; max-height: 70vh; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere }
pre.snippet { background: var(--soft); border-radius: .5rem; overflow-x: auto; padding: .8rem 1rem }
@media screen { .scripted .page:not(.shown) { display: none } } @media print { nav, button { display: none } }
"""
DIALOG = '<dialog id="why"><form method="dialog"><b></b> <button>close</button></form><pre></pre></dialog>'
SEARCH = '<input id="search" type="search" placeholder="search" aria-label="search all tables">'
SCRIPT = """
const search = document.getElementById('search'), kind = document.getElementById('kind');
const dialog = document.getElementById('why'), said = dialog.querySelector('pre');
const whys = JSON.parse(document.getElementById('whys').textContent), live = document.body.dataset.live;
const order = {};
function arrange() {
  const wanted = search.value.toLowerCase();
  for (const table of document.querySelectorAll('table[id]')) {
    const rows = [...table.tBodies[0].rows], by = order[table.id];
    for (const row of rows) {
      const other = kind && kind.value && row.dataset.kind && row.dataset.kind !== kind.value;
      row.hidden = other || !row.textContent.toLowerCase().includes(wanted);
    }
    [...table.tHead.rows[0].cells].forEach((head, number) => head.setAttribute('aria-sort',
      by && by.column === number ? (by.up ? 'ascending' : 'descending') : 'none'));
    if (by) {
      const of = row => row.cells[by.column], text = row => of(row).dataset.order || of(row).textContent;
      const compared = (a, b) => of(a).dataset.order && of(b).dataset.order ? text(a) - text(b)
        : text(a).localeCompare(text(b), undefined, { numeric: true });
      rows.sort((a, b) => compared(a, b) * (by.up ? 1 : -1));
      table.tBodies[0].append(...rows);
    }
  }
}
function turn(toTop) {
  const to = location.hash.startsWith('#/') ? location.hash.slice(1) : '';
  const pages = [...document.querySelectorAll('.page')];
  const shown = pages.find(page => page.dataset.page === to) || pages[0];
  for (const page of pages) page.classList.toggle('shown', page === shown);
  if (!toTop) return;
  if (to) scrollTo(0, 0);
  else if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}
function say(text) {
  // a line that goes on below keeps the depth that it has in the tree
  said.replaceChildren(...text.split('\\n').map(line => {
    const row = document.createElement('div'), depth = line.match(/^[\\s│├└─·]*/)[0].length + 2;
    row.style.paddingLeft = `${depth}ch`;
    row.style.textIndent = `-${depth}ch`;
    row.textContent = line || ' ';
    return row;
  }));
}
async function explain(asked) {
  say('reading the log …');
  dialog.querySelector('b').textContent = asked;
  if (!dialog.open) dialog.showModal();
  if (whys[asked]) say(whys[asked]);
  else if (!live) say(`This page has no explanation of it with it. Where the log is: ullage why '${asked}'`);
  else {
    const to = new URLSearchParams(location.search);
    to.set('asked', asked);
    say(await (await fetch('why?' + to)).text());
  }
}
function copy(button) {
  getSelection().selectAllChildren(button.parentElement.querySelector('pre'));
  button.textContent = document.execCommand('copy') ? 'copied' : 'copy it by hand';
}
function chosen(event) {
  const head = event.target.closest('table[id] th'), asked = event.target.closest('[data-why]');
  if (event.target.closest('a')) return false;
  if (head) {
    const id = head.closest('table').id, by = order[id];
    order[id] = { column: head.cellIndex, up: !(by && by.column === head.cellIndex && by.up) };
    arrange();
  } else if (event.target.matches('button.copy')) copy(event.target);
  else if (asked) explain(asked.dataset.why);
  return head || asked;
}
search.addEventListener('input', arrange);
if (kind) kind.addEventListener('change', arrange);
document.addEventListener('click', chosen);
document.addEventListener('keydown', event => {
  if (event.key === 'Enter' && event.target.matches('th, [data-why]') && chosen(event)) event.preventDefault();
});
addEventListener('hashchange', () => turn(true));
document.documentElement.classList.add('scripted');
turn(false);
arrange();
"""
