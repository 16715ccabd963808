"""Rows in the requested form: aligned columns or a page for people; JSON, YAML, CSV and Markdown for programs and reports.

A row is a mapping from column to text or number; the columns stand in the order of the first row's keys. Forms for programs carry
numbers in base units (cores, bytes), which the caller puts into rows of their own. A table fits the terminal: columns that the
caller can spare go first, then words go on below and long names lose their middle. `wide` leaves all as it is.
"""

import csv
import html
import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Literal

import orjson

from agents.terminal import output
from agents.terminal.output import data, visible_line

OutputForm = Literal["table", "wide", "json", "yaml", "csv", "md"]
TextForm = Literal["table", "wide", "json", "yaml"]
"""The form of an answer that people read as text."""
PEOPLE = ("table", "wide")
"""The forms that people read in a terminal; `md` is for their documents."""
Row = Mapping[str, object]
_SEVERITIES = {"high": output.RED, "fail": output.RED, "medium": output.YELLOW, "warn": output.YELLOW}
"""The colours of cells that say in a word how bad something is; a state that ends in `!` wants somebody to look."""
_JUDGED = ("risk", "level", "state")
"""The columns whose cells are such words."""
_NAMES = ("about", "cluster", "container", "name", "namespace", "node", "policy", "table", "target", "what", "workload")
"""The columns of which a part is enough: half a name still tells, half an amount deceives."""
_GAP = 2
"""Characters between two columns."""
_LAST_LEAST = 24
"""Characters that the last column of a narrowed table has at least, if it needs them: three or four words."""
_LEAST = 8
"""Characters below which a cell is not shortened: less than that tells nobody anything."""
_NAME_LEAST = 24
"""Characters of a name below which a column that can be spared goes: kind and name of most workloads."""


def lines(
    form: OutputForm, shown: Sequence[Row], exact: Sequence[Row], columns: Sequence[str] = (), spare: Sequence[str] = ()
) -> Iterator[str]:
    """The lines to print: `shown` for people (table, Markdown), `exact` for programs. `columns` head a table without rows.

    `spare` names the columns that a narrow terminal does without, the first to go first.
    """
    match form:
        case "json":
            yield from orjson.dumps(list(exact), option=orjson.OPT_INDENT_2).decode().splitlines()
        case "yaml":
            yield from _dumped([dict(row) for row in exact])
        case "csv":
            yield from _csv(exact)
        case "md":
            yield from _markdown(shown, columns)
        case "table" | "wide":
            room = sys.maxsize if form == "wide" else output.room(sys.stdout)
            yield from aligned(shown, columns, spare, room, coloured=output.takes_colours(sys.stdout))


def print_rows(form: OutputForm, rows: Sequence[Row], columns: Sequence[str] = (), spare: Sequence[str] = ()) -> None:
    """Print rows whose values are the same for people and for programs."""
    for line in lines(form, rows, rows, columns, spare):
        data(line)


def print_text(form: TextForm, text: Iterable[str], value: object) -> None:
    """Print an answer: its text for people, or one object for programs, which has the same in it."""
    for line in fitted(form, text) if form in PEOPLE else document(form, value):
        data(line)


def fitted(form: str, text: Iterable[str]) -> Iterator[str]:
    """Lines of text as the terminal has room for them; as they are where `form` is `wide`."""
    room = sys.maxsize if form == "wide" else output.room(sys.stdout)
    for line in text:
        yield from output.wrapped(line, room)


def document(form: TextForm, value: object) -> Iterator[str]:
    """The lines of one object for programs."""
    if form == "json":
        yield from orjson.dumps(value, option=orjson.OPT_INDENT_2).decode().splitlines()
    else:
        # by way of JSON, so that both forms have the same names and values
        yield from _dumped(orjson.loads(orjson.dumps(value)))


def item(form: TextForm, value: object) -> Iterator[str]:
    """The lines of one of many objects that come one by one: a JSON object in a line, or an item of a list in YAML."""
    text = orjson.dumps(value)
    if form == "json":
        yield text.decode()
    else:
        yield from _dumped([orjson.loads(text)])


def judged(level: str, sentence: str, *, width: int, indent: int) -> Iterator[str]:
    """A sentence behind a word that says how bad it is, in its colour; further lines begin `indent` behind the word."""
    line = f"{level:<{width}}  {sentence}"
    first, *more = output.wrapped(line, output.room(sys.stdout), hanging=width + 2 + indent)
    colour = _SEVERITIES.get(level) if output.takes_colours(sys.stdout) else None
    yield output.coloured(first, 0, len(level), colour) if colour else first
    yield from more


def _columns(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    return list(rows[0]) if rows else list(columns)


def aligned(
    rows: Sequence[Row], columns: Sequence[str], spare: Sequence[str], room: int, *, coloured: bool = False
) -> Iterator[str]:
    """Columns side by side in at most `room` characters, unless so many do not hold the columns that nobody can spare."""
    names = _columns(rows, columns)
    if not names:
        return
    cells = {name: [name.upper().replace("_", " "), *(visible_line(_text(row.get(name))) for row in rows)] for name in names}
    widths = {name: max(map(len, texts)) for name, texts in cells.items()}
    for name in spare:
        # one after the other, and no more than it takes
        if _tightest(widths) > room:
            widths.pop(name, None)
    if not widths:
        return
    *first, last = widths
    _shorten(widths, first, room)
    below = sum(widths[name] + _GAP for name in first)
    for at in range(len(rows) + 1):
        heads = [_within(cells[name][at], widths[name]) for name in first]
        tail = output.wrapped(cells[last][at], max(room - below, _LEAST), hanging=0)
        for number, parts in enumerate(zip_longest(*heads, tail, fillvalue="")):
            padded = (part.ljust(width + _GAP) for part, width in zip(parts, widths.values(), strict=True))
            line = "".join(padded).rstrip()
            yield _coloured(line, {name: cells[name][at] for name in widths}, widths) if coloured and number == 0 else line


def _within(cell: str, width: int) -> list[str]:
    """A cell in lines of at most `width` characters: words go on below, and one that is longer loses its middle."""
    return [output.shortened(part, width) for part in output.wrapped(cell, width, hanging=0)]


def _coloured(line: str, cells: Mapping[str, str], widths: Mapping[str, int]) -> str:
    """The line with the word in colour that says how bad it is, if one does."""
    begin = 0
    for name, width in widths.items():
        colour = _SEVERITIES.get(cells[name]) or (output.YELLOW if cells[name].endswith(" !") else None)
        if name in _JUDGED and colour:
            return output.coloured(line, begin, begin + len(cells[name]), colour)
        begin += width + _GAP
    return line


def _needed(widths: Mapping[str, int]) -> int:
    """The characters of a line, were the last column as narrow as it may be."""
    *first, last = widths.values()
    return sum(width + _GAP for width in first) + min(last, _LAST_LEAST)


def _tightest(widths: Mapping[str, int]) -> int:
    """The characters of a line with all names as short as they may be."""
    *first, _ = widths
    return _needed(
        {name: min(width, _NAME_LEAST) if name in _NAMES and name in first else width for name, width in widths.items()}
    )


def _shorten(widths: dict[str, int], names: Sequence[str], room: int) -> None:
    """Take characters from the widest column of names, one by one, until the line has room; from amounts only then."""
    for candidates in ([name for name in names if name in _NAMES], names):
        while _needed(widths) > room:
            widest = max(candidates, key=widths.__getitem__, default="")
            if not widest or widths[widest] <= _LEAST:
                break
            widths[widest] -= 1


def _markdown(rows: Sequence[Row], columns: Sequence[str]) -> Iterator[str]:
    names = _columns(rows, columns)
    if not names:
        return
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for row in rows:
        # a `|` would end the cell, and not every reader of Markdown knows an escape for it
        cells = (_text(row.get(name)).replace("|", "/").replace("\n", " ") for name in names)
        yield f"| {' | '.join(cells)} |"


def _csv(rows: Sequence[Row]) -> Iterator[str]:
    out = io.StringIO()
    if rows:
        names = list(rows[0])
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([row.get(name) for name in names] for row in rows)  # None becomes an empty text
    yield from out.getvalue().splitlines()


def _dumped(value: object) -> Iterator[str]:
    import yaml

    # libyaml where it is built in, because it is many times as fast
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    yield from yaml.dump(value, Dumper=dumper, sort_keys=False).splitlines()


def _text(value: object) -> str:
    return "" if value is None else str(value)


STYLE = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:90rem;padding:0 1rem}"
    "table{border-collapse:collapse;display:block;overflow-x:auto}"
    "th,td{border-bottom:1px solid #8886;padding:.3rem .7rem;text-align:left;vertical-align:top}"
)


def html_page(title: str, sentences: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    """The page: a heading, sentences, and a table with the columns of the first row."""
    names = list(rows[0]) if rows else []
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
    yield f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>'
    yield f"<h1>{html.escape(title)}</h1>"
    yield from (f"<p>{html.escape(sentence)}</p>" for sentence in sentences)
    yield "<table><tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in names) + "</tr>"
    for row in rows:
        cells = ("" if row[name] is None else str(row[name]) for name in names)
        yield "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</table></body></html>"
