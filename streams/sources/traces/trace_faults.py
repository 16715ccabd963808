"""Impossible cells of a usage trace: the first one with its column and row, and how many there are.

A number that is negative, infinite or beyond any container counts as absent, but its row stays; a row with an impossible time is
skipped. Both are reported, because one such number could otherwise dominate the mean of a whole recording. A cell that is no
number at all raises BadInput, which names it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schemas import bounds
from streams.errors import BadInput
from streams.sources.traces.trace_columns import TEXTS, TraceColumn

_SHOWN = 100
"""Characters of a cell that a sentence shows."""


@dataclass(frozen=True, slots=True)
class TraceFile:
    """What DuckDB reads: `source` is SQL for the file's rows, in their order and with their number from 0 as `place`."""

    path: str
    source: str
    parquet: bool


def most(what: str) -> float:
    """The largest number that a column may hold, in cores, bytes, kills or seconds."""
    if what == "time":
        return bounds.LAST_SECOND
    if what == "oom_kills":
        return bounds.MOST_ENTRIES
    return bounds.MOST_CORES if what.startswith(("cores", "cpu")) else bounds.MOST_BYTES


def believable(what: str, value: str) -> str:
    """SQL for whether the number `value` is one that this column may hold; NaN is not, NULL is NULL."""
    return f"{value} between {-most(what) if what == 'time' else 0.0!r} and {most(what)!r}"


def sentence(error: Exception) -> str:
    """DuckDB's message in one line; it puts an unreadable line of a CSV file on a line of its own."""
    lines = [line.strip() for line in str(error).splitlines()]
    return "; ".join(line for line in lines[:3] if line) if lines[0].endswith(tuple("0123456789")) else lines[0]


def find(db: Any, file: TraceFile, columns: Mapping[str, TraceColumn]) -> Iterator[str]:
    """A sentence for each column with such numbers. Raises BadInput for a cell that is no number at all."""
    types = {name: kind for name, kind, *_ in db.execute(f"describe {file.source}").fetchall()}
    vouched = _vouched(db, file, columns) if file.parquet else frozenset()
    looks = [
        (what, column, where, is_word)
        for what, column in columns.items()
        if what not in TEXTS and what not in vouched and not types[column.name].startswith(("TIMESTAMP", "DATE"))
        for where, is_word in _faulty(what, column, text=types[column.name] == "VARCHAR")
    ]
    if not looks:
        return
    counts = ", ".join(f"count(*) filter (where {where})" for _, _, where, _ in looks)
    numbers = db.execute(f"select {counts} from ({file.source})").fetchone()  # noqa: S608  # quoted names
    for count, (what, column, where, is_word) in zip(numbers, looks, strict=True):
        if not count:
            continue
        shown = f"left(cast({column.quoted} as varchar), {_SHOWN})"
        row, cell = db.execute(
            f"select place + 1, {shown} from ({file.source}) where {where} order by place limit 1"  # noqa: S608  # quoted names
        ).fetchone()
        if is_word:
            raise BadInput(
                f"reading the trace '{file.path}' did not work: row {row} has '{cell}' in column '{column.name}', no number"
            )
        means = (
            "no time that a clock shows: such rows are passed over" if what == "time" else "not possible: they count as absent"
        )
        yield f"'{file.path}': {count} of the numbers in column '{column.name}' are {means}; the first is {cell}, in row {row}"


def _faulty(what: str, column: TraceColumn, *, text: bool) -> Iterator[tuple[str, bool]]:
    """SQL for the impossible cells, and whether they are words instead of numbers."""
    number = f"try_cast({column.quoted} as double)"
    if text:
        yield f"{column.quoted} is not null and {number} is null", True
    value = f"({number} * {column.factor!r})"
    yield f"not ({believable(what, value)})" + ("" if what == "time" else f" and not isnan({value})"), False


def _vouched(db: Any, file: TraceFile, columns: Mapping[str, TraceColumn]) -> frozenset[str]:
    """The columns whose minimum and maximum, as stated in the file's metadata, are possible, so that they need not be read."""
    quoted = file.path.replace("'", "''")
    stated = db.execute(
        "select path_in_schema, min(try_cast(stats_min_value as double)), max(try_cast(stats_max_value as double)), "  # noqa: S608  # quoted
        "bool_and(try_cast(stats_min_value as double) is not null and try_cast(stats_max_value as double) is not null) "
        f"from parquet_metadata('{quoted}') group by 1"
    ).fetchall()
    ends = {name: (low, high) for name, low, high, known in stated if known}
    return frozenset(
        what
        for what, column in columns.items()
        if column.name in ends
        for low, high in [ends[column.name]]
        if (-most(what) if what == "time" else 0.0) <= low * column.factor and high * column.factor <= most(what)
    )
