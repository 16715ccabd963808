"""Which column of a usage trace holds what: found by name, with the unit that the name states.

Traces come from many people. If a required column is missing, BadInput lists the accepted names and those in the file. A unit is
never guessed from values.

A number that is negative, infinite or beyond any container counts as absent, but its row stays; a row with an impossible time is
skipped. Both are reported, because one such number could otherwise dominate the mean of a whole recording. A cell that is no
number at all raises BadInput, which names it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas import bounds
from streams.errors import BadInput

_CPU = {"cores": 1.0, "millicores": 1e-3, "milli": 1e-3, "m": 1e-3}
_MEMORY = {"bytes": 1.0, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "kb": 1e3, "mb": 1e6, "gb": 1e9}
_TIME = {"timestamp_s": 1.0, "timestamp_ms": 1e-3, "time_s": 1.0, "time_ms": 1e-3, "timestamp": 1.0, "time": 1.0}


def _with_units(words: Iterable[str], units: Mapping[str, float]) -> dict[str, float]:
    """`cpu_cores`, `cpu_millicores` and so on, best first, with the factor to our unit."""
    return {f"{word}_{unit}": factor for word in words for unit, factor in units.items()}


def _peaks(words: Iterable[str], units: Mapping[str, float]) -> dict[str, float]:
    """The highest use within the row's window, as in "CPU cores max" or "CPU max cores"; with the factor to our unit."""
    names = ((word, unit) for word in words for unit in units)
    return {name: units[unit] for word, unit in names for name in (f"{word}_{unit}_max", f"{word}_max_{unit}")}


def _names(*names: str) -> dict[str, float]:
    return dict.fromkeys(names, 1.0)


ALIASES: Mapping[str, Mapping[str, float]] = {
    "container": _names("container_id", "container", "container_name", "task_id", "vm_id"),
    "time": _TIME,
    "cores": _with_units(("cpu", "cpu_usage", "cpu_used"), _CPU),
    "memory": _with_units(("memory", "mem", "memory_usage", "memory_used"), _MEMORY),
    "cores_max": _peaks(("cpu", "cpu_usage", "cpu_used"), _CPU),
    "memory_max": _peaks(("memory", "mem", "memory_usage", "memory_used"), _MEMORY),
    "workload": _names("workload", "deployment", "service", "job_id", "job"),
    "kind": _names("workload_kind"),
    "pod": _names("pod", "pod_id", "pod_name"),
    "namespace": _names("namespace"),
    "cpu_request": _with_units(("cpu_request", "cpu_requested", "cpu_provisioned"), _CPU),
    "memory_request": _with_units(("memory_request", "memory_requested", "memory_provisioned"), _MEMORY),
    "cpu_limit": _with_units(("cpu_limit",), _CPU),
    "memory_limit": _with_units(("memory_limit",), _MEMORY),
    "oom_kills": _names("oom_kills", "oom_killed"),
}
"""By what a column holds: the names that mean it, best first, each with the factor that makes it cores, bytes or seconds."""

NEEDED = ("container", "time", "cores", "memory")
TEXTS = ("container", "workload", "pod", "namespace", "kind")
REQUESTS = ("cpu_request", "memory_request", "cpu_limit", "memory_limit")


@dataclass(frozen=True, slots=True)
class TraceColumn:
    """A column of the file, and the factor that converts it to our unit."""

    name: str
    factor: float

    @property
    def quoted(self) -> str:
        """The name as an SQL identifier."""
        return '"' + self.name.replace('"', '""') + '"'


def find_columns(present: Sequence[str], file: str) -> dict[str, TraceColumn]:
    """The columns of a trace by what they hold. Raises BadInput when one of NEEDED is missing."""
    # exporters disagree about capital letters
    there = {name.lower(): name for name in present}
    # the first alias wins, for a file may have both `cpu_cores` and `cpu_millicores`
    columns = {
        what: TraceColumn(there[name], factor)
        for what, aliases in ALIASES.items()
        for name, factor in [next(((n, f) for n, f in aliases.items() if n in there), ("", 0.0))]
        if name
    }
    for what in NEEDED:
        if what not in columns:
            would_do = ", ".join(f"'{name}'" for name in ALIASES[what])
            are_there = ", ".join(f"'{name}'" for name in present)
            raise BadInput(f"'{file}' has no column for {what}: one of {would_do} must be there, and the file has {are_there}")
    return columns


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
    # times may be negative, for a trace may count from any moment
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
    # one pass over the file for all columns; only a fault costs another one
    numbers = db.execute(f"select {counts} from ({file.source})").fetchone()  # noqa: S608  # quoted names
    for count, (what, column, where, is_word) in zip(numbers, looks, strict=True):
        if not count:
            continue
        shown = f"left(cast({column.quoted} as varchar), {_SHOWN})"
        # the first by place, so that the same file gives the same sentence
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
    # NULL for a word, where a cast would end the whole query
    number = f"try_cast({column.quoted} as double)"
    if text:
        yield f"{column.quoted} is not null and {number} is null", True
    value = f"({number} * {column.factor!r})"
    # NaN is how many exporters write "absent", so it is a fault of a time alone
    yield f"not ({believable(what, value)})" + ("" if what == "time" else f" and not isnan({value})"), False


def _vouched(db: Any, file: TraceFile, columns: Mapping[str, TraceColumn]) -> frozenset[str]:
    """The columns whose minimum and maximum, as stated in the file's metadata, are possible, so that they need not be read."""
    quoted = file.path.replace("'", "''")
    stated = db.execute(
        "select path_in_schema, min(try_cast(stats_min_value as double)), max(try_cast(stats_max_value as double)), "  # noqa: S608  # quoted
        # statistics are optional: one row group without them, and the column has to be read
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
