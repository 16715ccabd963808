"""A usage trace of any size as a table in time order, in chunks.

A Parquet file whose scrapes follow one another is read as it stands; DuckDB sorts any other once into a file of its own. Several
processes may each read some containers of it (`Trace.part`).

Rows are gathered into scrapes: the scrape at T holds what each container used in (T - step, T], where step is the interval that
most containers of the trace have. A container with two rows in one such window gives two scrapes of the same time; the earlier
row comes first and has an age, because a reader takes no second sample of one moment.
"""

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import numpy as np

from streams.errors import BadInput
from streams.sources.traces import trace_bounds, trace_columns
from streams.sources.traces.trace_columns import REQUESTS, TEXTS, TraceColumn, TraceFile

CHUNK = 1_000_000
"""Rows in memory at a time; more if one scrape has more."""
_MOST_CHUNKS = 8
"""So many times as many rows of the file are looked at in one go by whoever reads few of them."""
_WITHOUT = {"container": "main", "namespace": "trace", "kind": "Deployment"}
UNIX_S = 500_000_000
"""Seconds below this count from the trace's own start, seconds above it from 1970."""
_NUMBERS = ("cores", "memory", "cores_max", "memory_max", *REQUESTS, "oom_kills")
_MOST_IN_GROUP = 2_000_000
"""Rows of a Parquet row group beyond which a file is not read as it stands: each chunk reads the groups that it touches whole."""


@dataclass(frozen=True, slots=True)
class TraceContainer:
    """The names of one container of a trace, its workload's kind, and the seconds of its first and last row."""

    container: str
    workload: str
    pod: str
    namespace: str
    kind: str
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class TraceScrape:
    """The rows of one scrape. `who` (rows,) are rising indexes into the trace's names; missing numbers are NaN.

    `numbers` has those columns alone that the trace has. `ages` (rows,) are seconds before `at` of the rows that another one of
    their container follows, and 0 of all others; None when no row has an age.
    """

    at: float
    who: Any
    numbers: dict[str, Any]
    ages: Any = None


@dataclass(frozen=True, slots=True)
class TracePart:
    """Some containers of a trace, for another process to read while this one has the trace open; see `Trace.part`.

    `who` are their numbers in the trace, `names` their names in the same order. `counts` are of all scrapes of the trace: time,
    rows, and where they begin and end. `chunk`: rows of the file to look at in one go.
    """

    path: Path
    database: Path
    columns: Mapping[str, TraceColumn]
    in_file: bool
    scraped: str
    step: float
    counts: Sequence[tuple[float, int, float, float]]
    who: Sequence[int]
    names: tuple[TraceContainer, ...]
    chunk: int


class Trace:
    """One open trace file: its number of `rows`, its containers in `names`, and the `step` between two samples in seconds.

    `faults` are sentences about impossible numbers, which count as absent.
    """

    faults: Sequence[str] = ()

    _whole = True
    _chunk = CHUNK

    def __init__(self, source: Path | TracePart, *, step: float | None = None) -> None:
        """Reads and sorts a file, or takes a part of a trace. `step` is for a file.

        Raises BadInput when the file cannot be read; the sentence names the file and the column.
        """
        if isinstance(source, TracePart):
            self._open_part(source)
        else:
            self._open_file(source, step)

    def _open_file(self, path: Path, step: float | None) -> None:
        import duckdb

        self.path = path / "usage.parquet" if path.is_dir() else path
        self._folder = TemporaryDirectory(prefix="ullage-trace-")
        self._file = Path(self._folder.name) / "trace.duckdb"
        self._db = self._connect()
        self._shared = False
        try:
            self._holds: Mapping[str, TraceColumn] = self._columns()
            self.faults = tuple(trace_columns.find(self._db, self._read, self._holds))
            self._load(step)
        except duckdb.Error as error:
            self.close()
            raise BadInput(f"reading the trace '{self.path}' did not work: {trace_columns.sentence(error)}") from error
        except BadInput:
            self.close()
            raise

    def _connect(self, *, only_read: bool = False) -> Any:
        return trace_bounds.connect(self._file, Path(self._folder.name), readable=(self.path,), only_read=only_read)

    def part(self, who: Sequence[int]) -> TracePart:
        """The containers of these numbers, rising, for another process: what it reads is what this trace has of them."""
        if not self._shared:  # a file can only be open twice if nobody writes to it
            self._db.close()
            self._db = self._connect(only_read=True)
            self._shared = True
        names, share = tuple(self.names[i] for i in who), max(1, len(self.names) // max(1, len(who)))
        counts, chunk = self._counts, CHUNK * min(share, _MOST_CHUNKS)
        return TracePart(
            self.path, self._file, self._holds, self._in_file, self._scraped, self.step, counts, tuple(who), names, chunk
        )

    def _open_part(self, part: TracePart) -> None:
        """Open the part as a trace of its own. Its scrapes are those of the whole trace, some of them without a row."""
        self.path, self._file, self._shared, self._whole, self._chunk = part.path, part.database, True, False, part.chunk
        self._folder = TemporaryDirectory(prefix="ullage-trace-")
        journal = part.database.with_name(f"{part.database.name}.wal")  # DuckDB looks for it, though a closed database has none
        readable = (part.path, part.database, journal)
        self._db = trace_bounds.connect(None, Path(self._folder.name), readable=readable, threads=1)
        self._db.execute(f"attach {trace_bounds.quoted(part.database)} as whole (read_only)")
        self._db.execute("use whole")
        self._holds, self._in_file, self._scraped, self.step = part.columns, part.in_file, part.scraped, part.step
        self._numbers = [what for what in _NUMBERS if self.has(what)]
        self._db.execute(
            # numbered anew, because `who` of a part is an index into the part's own names
            "create temp table mine as select who as was, row_number() over (order by who) - 1 as who, * exclude (who) "
            "from names where who in (select unnest(?))",
            [list(part.who)],
        )
        self.names = part.names
        self._know(part.counts)
        if part.in_file:
            self._rows = self._rows_in_file("mine")
        else:
            columns = f"scraped, cast(mine.who as integer) as who, t, {', '.join(self._numbers)}"
            self._rows = f"select {columns} from sorted join mine on sorted.who = mine.was where scraped between ? and ?"  # noqa: S608  # our own words

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Delete the sorted copy; parts of it that are open elsewhere end."""
        self._db.close()
        self._folder.cleanup()

    def has(self, what: str) -> bool:
        """Whether the trace has a column that holds this."""
        return what in self._holds

    def _columns(self) -> dict[str, TraceColumn]:
        if not self.path.is_file():
            raise BadInput(f"there is no trace at '{self.path}'")
        reader = {".parquet": "read_parquet", ".csv": "read_csv", ".tsv": "read_csv", ".gz": "read_csv"}.get(self.path.suffix)
        if reader is None:
            raise BadInput(f"'{self.path}' is no trace: a name in .parquet, .csv, .tsv or .csv.gz is expected")
        # before DuckDB opens it, which would unpack a bomb
        if self.path.suffix == ".gz":
            trace_bounds.check_packed(self.path)
        file = trace_bounds.quoted(self.path)
        self._in_groups = reader == "read_parquet" and self._most_in_group(file) <= _MOST_IN_GROUP
        options = ", file_row_number = true" if self._in_groups else ""
        if reader == "read_csv":
            options = f", max_line_size = {trace_bounds.MOST_LINE}"
        self._db.execute(f"create view file as select * from {reader}({file}{options})")  # noqa: S608  # quoted above
        parquet = reader == "read_parquet"
        rows = f"select *, file_row_number as place from {reader}({file}, file_row_number = true)"  # noqa: S608  # quoted above
        self._read = TraceFile(
            str(self.path), rows if parquet else "select *, row_number() over () - 1 as place from file", parquet
        )
        present = [str(row[0]) for row in self._db.execute("describe file").fetchall()]
        trace_bounds.check_columns(self.path, present)
        columns = trace_columns.find_columns(present, str(self.path))
        if parquet:
            trace_bounds.check_parquet(self._db, self.path, columns.values())
        return columns

    def _most_in_group(self, file: str) -> int:
        row = self._db.execute(f"select max(row_group_num_rows) from parquet_metadata({file})").fetchone()  # noqa: S608  # quoted
        return int(row[0] or 0) if row else 0

    def _load(self, step: float | None) -> None:
        texts = ", ".join(f"{self._text(what)} as {what}" for what in TEXTS)
        self._numbers = [what for what in _NUMBERS if self.has(what)]
        numbers = ", ".join(f"{self._number(what)} as {what}" for what in self._numbers)
        row = ", file_row_number as place" if self._in_groups else ""
        time = f"case when {trace_columns.believable('time', self._time())} then {self._time()} end"
        self._db.execute(f"create view clean as select {texts}, {time} as t, {numbers}{row} from file")  # noqa: S608  # our own words
        named = " and ".join(f"{name} is not null" for name in (*self._name_key().split(", "), "container"))
        self._db.execute(
            "create table names as select row_number() over (order by namespace, workload, pod, container) - 1 as who, * from "  # noqa: S608  # our own words
            # a container has one kind; should rows differ, the first by name, so that it is the same in each run
            "(select container, workload, pod, namespace, min(kind) as kind, min(t) as first, max(t) as last from clean "
            f"where t is not null and {named} group by container, workload, pod, namespace)"
        )
        most = trace_bounds.MOST_CONTAINERS
        names = f"select container, workload, pod, namespace, kind, first, last from names order by who limit {most + 1}"  # noqa: S608  # a number
        rows = self._db.execute(names).fetchall()
        if not rows:
            raise BadInput(f"the trace '{self.path}' has no rows with a container and a time")
        trace_bounds.check_count(self.path, "containers", len(rows), most)
        self.names = tuple(TraceContainer(*row) for row in rows)
        self.step = step or self._usual_step()
        self._know(self._put_in_order())

    def _know(self, counts: Sequence[tuple[float, int, float, float]]) -> None:
        self._counts = counts
        self.rows = sum(count for _, count, *_ in counts)
        self.first, self.last = counts[0][0], counts[-1][0]

    def _text(self, what: str) -> str:
        """SQL for a name. Without a pod column each container id is a pod of its own, with a container called `main`.

        Without a workload column each is a workload of its own. Slashes are replaced, because they would break workload keys.
        """
        if (what == "container" and "pod" not in self._holds) or (what in _WITHOUT and what not in self._holds):
            return f"'{_WITHOUT[what]}'"
        column = self._holds.get(what, self._holds["container"])
        # an empty name is no name, and its rows are left out
        return f"nullif(replace(cast({column.quoted} as varchar), '/', '-'), '')"

    def _name_key(self) -> str:
        """The texts that tell containers apart: those with a column of their own, and of others one that stands for them."""
        own = [what for what in TEXTS if what in self._holds and what not in {"container", "kind"}]
        return ", ".join([*own, "container" if "pod" in self._holds else "pod"])

    def _number(self, what: str) -> str:
        column = self._holds[what]
        value = f"(cast({column.quoted} as double) * {column.factor!r})"
        return f"case when {trace_columns.believable(what, value)} then {value} else cast('nan' as double) end"

    def _time(self) -> str:
        column = self._holds["time"]
        kind = str(self._db.execute(f"select typeof({column.quoted}) from file limit 1").fetchone())  # noqa: S608  # quoted
        if "WITH TIME ZONE" in kind:  # a moment; the cast below would turn it into this machine's local time first
            return f"epoch({column.quoted})"
        if "TIMESTAMP" in kind or "DATE" in kind:
            return f"epoch(cast({column.quoted} as timestamp))"
        return f"cast({column.quoted} as double) * {column.factor!r}"

    def _usual_step(self) -> float:
        """The most frequent step between samples of one container, over the first few containers; a minute if there is none."""
        row = self._db.execute(
            "select d from (select round(t - lag(t) over (partition by who order by t)) as d from clean "  # noqa: S608  # our own words
            f"join (select * from names where who < 16) using ({self._name_key()})) where d > 0 "
            # of equally frequent steps the longest, so that the answer does not depend on DuckDB's threads
            "group by d order by count(*) desc, d desc limit 1"
        ).fetchone()
        return float(row[0]) if row and row[0] else 60.0

    def _put_in_order(self) -> Sequence[tuple[float, int, float, float]]:
        """Count the rows of each scrape, and sort them into a table of their own unless the file's scrapes stand in order."""
        self._scraped = f"ceil(t / {self.step!r}) * {self.step!r}"
        counts = self._counts_in_order() if self._in_groups else None
        self._in_file = counts is not None
        if counts is not None:
            self._rows = self._rows_in_file("names")
            return counts
        columns = f"{self._scraped} as scraped, cast(who as integer) as who, t, {', '.join(self._numbers)}"
        timed = f"{self._joined('names')} where t is not null"
        self._db.execute(f"create table sorted as select {columns} from {timed} order by scraped, who, t")  # noqa: S608  # our own words
        self._rows = "select * from sorted where scraped between ? and ? order by scraped, who, t"
        scrapes = self._scrapes_of("select scraped, count(*) from sorted group by scraped order by scraped")
        return [(float(at), count, float(at), float(at)) for at, count in scrapes]

    def _scrapes_of(self, select: str) -> list[Any]:
        most = trace_bounds.MOST_SCRAPES
        rows = self._db.execute(f"{select} limit {most + 1}").fetchall()
        trace_bounds.check_count(self.path, "scrapes", len(rows), most)
        return list(rows)

    def _joined(self, names: str) -> str:
        return f"clean join {names} using ({self._name_key()})"

    def _rows_in_file(self, names: str) -> str:
        """SQL for the rows of these names between two places of the file."""
        columns = f"{self._scraped} as scraped, cast(who as integer) as who, t, {', '.join(self._numbers)}"
        return f"select {columns} from {self._joined(names)} where t is not null and place between ? and ?"  # noqa: S608  # our own words

    def _counts_in_order(self) -> Sequence[tuple[float, int, float, float]] | None:
        """The rows of each scrape; None unless those of each stand before those of the next in the file."""
        counts = self._scrapes_of(
            f"select {self._scraped} as scraped, count(*), min(place), max(place) from {self._joined('names')} "  # noqa: S608  # our own words
            "where t is not null group by scraped order by scraped"
        )
        begins, ends = [begin for *_, begin, _ in counts], [end for *_, end in counts]
        if not math.isfinite(counts[-1][0]) or any(map(operator.ge, ends, begins[1:])):
            return None
        return counts

    @property
    def is_unix(self) -> bool:
        """Whether its seconds count from 1970."""
        return self.first >= UNIX_S

    def scrape_of(self, second: float) -> float:
        """The time of the scrape that holds a sample of this second."""
        return math.ceil(second / self.step) * self.step

    def scrapes(self) -> Iterator[TraceScrape]:
        """All rows in order of time, with about CHUNK rows in memory at a time."""
        for low, high, at in self._ranges():
            chunk = self._db.execute(self._rows, [low, high]).fetchnumpy()
            # DuckDB's sort leaves rows that are equal in scrape, container and time in any order; the order in a file is its own
            ordered = _in_order({name: np.asarray(column) for name, column in chunk.items()}, distinguish=not self._in_file)
            yield from _split(ordered) if self._whole else _at_each(at, _split(ordered), self._numbers)

    def _ranges(self) -> Iterator[tuple[float, float, list[float]]]:
        """Bounds of the rows of whole scrapes, which are places in the file, or times where it was sorted; and their times."""
        low, size, at = None, 0, list[float]()
        for i, (scraped, count, begin, end) in enumerate(self._counts):
            low = begin if low is None else low
            size += count
            at.append(scraped)
            if size >= self._chunk or i == len(self._counts) - 1:
                yield low, end, at
                low, size, at = None, 0, []


def _at_each(times: Sequence[float], scrapes: Iterator[TraceScrape], numbers: Sequence[str]) -> Iterator[TraceScrape]:
    """The scrapes, and one without a row for each time that has none."""
    scrape = next(scrapes, None)
    for at in times:
        if scrape is None or scrape.at != at:
            yield TraceScrape(at, np.zeros(0, np.int32), {name: np.zeros(0) for name in numbers})
        while scrape is not None and scrape.at == at:
            yield scrape
            scrape = next(scrapes, None)


def _in_order(chunk: dict[str, Any], *, distinguish: bool) -> dict[str, Any]:
    """Rows by scrape, container and time; rows that are equal in these as they come, or with `distinguish` by their numbers."""
    at, who, t = chunk["scraped"], chunk["who"], chunk["t"]
    same = at[1:] == at[:-1]
    later = t[1:] > t[:-1] if distinguish else t[1:] >= t[:-1]
    if ((at[1:] > at[:-1]) | (same & ((who[1:] > who[:-1]) | ((who[1:] == who[:-1]) & later)))).all():
        return chunk
    numbers = [column for name, column in chunk.items() if name in _NUMBERS] if distinguish else []
    order = np.lexsort((*numbers, t, who, at))
    return {name: column[order] for name, column in chunk.items()}


def _split(chunk: dict[str, Any]) -> Iterator[TraceScrape]:
    """Cut a chunk, which is in order, at each change of time. A container's second row at one time goes into a second scrape."""
    at, who = chunk["scraped"], chunk["who"]
    if not len(at):
        return
    numbers = {name: column for name, column in chunk.items() if name in _NUMBERS}
    edges = (np.flatnonzero(at[1:] != at[:-1]) + 1).tolist()
    fresh = who[1:] != who[:-1]
    for begin, end in zip([0, *edges], [*edges, len(at)], strict=True):
        if fresh[begin : end - 1].all():
            rows = slice(begin, end)
            yield TraceScrape(float(at[begin]), who[rows], {name: column[rows] for name, column in numbers.items()})
        else:
            yield from _one_row_each(chunk, numbers, np.arange(begin, end))


def _one_row_each(chunk: dict[str, Any], numbers: dict[str, Any], rows: Any) -> Iterator[TraceScrape]:
    """The rows of one time as scrapes in which no container stands twice."""
    at, who = chunk["scraped"], chunk["who"]
    while len(rows):
        fresh = who[rows][1:] != who[rows][:-1]
        first, last = np.concatenate(([True], fresh)), np.concatenate((fresh, [True]))
        now = rows[first]
        followed = ~last[first]
        ages = np.where(followed, at[now] - chunk["t"][now], 0.0) if followed.any() else None
        yield TraceScrape(float(at[now[0]]), who[now], {name: column[now] for name, column in numbers.items()}, ages)
        rows = rows[~first]
