"""Parts of all pages of a report: tables whose rows can be asked about, tiles with a figure, links between pages."""

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
    return f'<a href="#{html.escape(to)}">{html.escape(text)}</a>'


def tiles(*parts: tuple[str, str, str]) -> Iterator[str]:
    """Of each its figure, what it is, and `good`, `bad` or nothing."""
    yield '<div class="tiles">'
    for figure, says, kind in parts:
        yield f'<div class="tile {kind}"><b>{html.escape(figure)}</b><small>{html.escape(says)}</small></div>'
    yield "</div>"


def table(names: Sequence[str], rows: Sequence[Sequence[TableCell]], ident: str, asked: Sequence[str] = ()) -> Iterator[str]:
    """Columns of numbers stand at the right, with their names. `asked`: what `ullage why` is asked about each row."""
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
    return f"<td{kind}{order}>{link(cell.text, cell.to) if cell.to else html.escape(cell.text)}</td>"
