"""Rows in the requested form: aligned columns for people; JSON, YAML, CSV and Markdown for programs and reports.

A row is a mapping from column to text or number; the columns stand in the order of the first row's keys. Forms for programs carry
numbers in base units (cores, bytes), which the caller puts into rows of their own.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import orjson

from agents.processes.output import data

OutputForm = Literal["table", "json", "yaml", "csv", "md"]
TextForm = Literal["table", "json", "yaml"]
"""The form of an answer that people read as text."""
Row = Mapping[str, object]


def lines(form: OutputForm, shown: Sequence[Row], exact: Sequence[Row], columns: Sequence[str] = ()) -> Iterator[str]:
    """The lines to print: `shown` for people (table, Markdown), `exact` for programs. `columns` head a table without rows."""
    match form:
        case "json":
            yield from orjson.dumps(list(exact), option=orjson.OPT_INDENT_2).decode().splitlines()
        case "yaml":
            yield from _yaml(exact)
        case "csv":
            yield from _csv(exact)
        case "md":
            yield from _markdown(shown, columns)
        case "table":
            yield from _aligned(shown, columns)


def print_rows(form: OutputForm, rows: Sequence[Row], columns: Sequence[str] = ()) -> None:
    """Print rows whose values are the same for people and for programs."""
    for line in lines(form, rows, rows, columns):
        data(line)


def document(form: Literal["json", "yaml"], value: object) -> Iterator[str]:
    """The lines of one object for programs."""
    if form == "json":
        yield from orjson.dumps(value, option=orjson.OPT_INDENT_2).decode().splitlines()
    else:
        yield from _dumped(orjson.loads(orjson.dumps(value)))


def print_answer(form: TextForm, text: Iterable[str], value: object) -> None:
    """Print an answer: lines of text for people, or `value` for programs."""
    for line in text if form == "table" else document(form, value):
        data(line)


def _columns(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    return list(rows[0]) if rows else list(columns)


def _aligned(rows: Sequence[Row], columns: Sequence[str]) -> Iterator[str]:
    names = _columns(rows, columns)
    if not names:
        return
    cells = [[name.upper() for name in names], *([_text(row.get(name)) for name in names] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    for line in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _markdown(rows: Sequence[Row], columns: Sequence[str]) -> Iterator[str]:
    names = _columns(rows, columns)
    if not names:
        return
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for row in rows:
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


def _yaml(rows: Sequence[Row]) -> Iterator[str]:
    yield from _dumped([dict(row) for row in rows])


def _dumped(value: object) -> Iterator[str]:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    yield from yaml.dump(value, Dumper=dumper, sort_keys=False).splitlines()


def _text(value: object) -> str:
    return "" if value is None else str(value)
