"""What a usage trace may cost whoever reads it: bounds that hold before anything is made of the file.

A file of a few kilobytes can hold gigabytes, by a dictionary of one long value, by runs of equal rows, or by gzip. So rows are
counted and values measured where they are packed. What is beyond a bound is refused by one sentence with the file and the bound.

DuckDB gets a part of the memory and of the processors, opens the trace and nothing else, and loads no extension.
"""

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas import bounds
from streams import parquet_bounds
from streams.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streams.sources.traces.trace_columns import TraceColumn

LEAST_ROWS, MOST_ROWS_FOR_A_BYTE = 10_000_000, 10
"""A file may have so many rows, or so many for each of its bytes; a trace has a row for ten bytes or more."""
LEAST_UNPACKED, MOST_UNPACKED_FOR_A_BYTE = 1 << 30, 100
"""The same of the bytes of a compressed file; CSV packs to about a tenth."""
MOST_COLUMNS = 1_000
MOST_LINE = 64 << 10
"""Bytes of a line of CSV."""
MOST_CONTAINERS = 1_000_000
MOST_SCRAPES = 5_000_000
"""Ten years of minutes, or two months of seconds."""
MEMORY = "256MB"
THREADS = 2
_SHORT = ("INT", "UINT", "BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT", "SMALLINT", "TINYINT", "USMALLINT", "UTINYINT", "INTEGER")
_SCALARS = (*_SHORT, "UINTEGER", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN", "TIMESTAMP", "DATE", "TIME", "UUID", "ENUM")
_LENGTHS = {"VARCHAR": "strlen", "BLOB": "octet_length"}
"""What gives the bytes of a value, without making a copy of it."""
_AT_ONCE = 1 << 20


def connect(
    database: Path | None, folder: Path, *, readable: Iterable[Path], threads: int = THREADS, only_read: bool = False
) -> Any:
    """An open database, in memory without a file. It keeps what does not fit the memory in the folder."""
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY,
        "temp_directory": str(folder),
        "threads": threads,
        # a trace must not make DuckDB fetch and load code
        "autoload_known_extensions": False,
        "autoinstall_known_extensions": False,
    }
    db = duckdb.connect(database or ":memory:", read_only=only_read, config=config)
    allowed = ", ".join(quoted(path) for path in readable)
    # allowed first: once access is off, DuckDB lets nobody add a path
    db.execute(f"set allowed_paths = [{allowed}]")
    db.execute("set enable_external_access = false")
    # after this no query can change a setting, whatever the names in a file say
    db.execute("set lock_configuration = true")
    return db


def quoted(path: Path) -> str:
    """A path as an SQL string."""
    return "'" + str(path).replace("'", "''") + "'"


def check_packed(path: Path) -> None:
    """Look at what a compressed file of text unpacks to, which is not kept. Raises BadInput."""
    size = path.stat().st_size
    most_bytes, most_rows = max(LEAST_UNPACKED, MOST_UNPACKED_FOR_A_BYTE * size), _most_rows(path)
    unpacked = rows = 0
    for part in _unpacked(path):
        unpacked += len(part)
        rows += part.count(b"\n")
        if unpacked > most_bytes:
            raise BadInput(f"the trace '{path}' unpacks to more than {most_bytes} bytes from {size}, which is the most")
        _check_rows(path, rows, most_rows)


def _unpacked(path: Path) -> Iterable[bytes]:
    """What a gzip file holds, at most `_AT_ONCE` bytes at a time."""
    # 16 asks for a gzip header
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    with path.open("rb") as file:
        while packed := file.read(_AT_ONCE):
            while packed:
                try:
                    # a bounded piece at a time, so that a bomb is noticed after the bound and not when memory is full
                    yield unpacker.decompress(packed, _AT_ONCE)
                except zlib.error:  # DuckDB says what is broken
                    return
                packed = unpacker.unconsumed_tail
                if unpacker.eof:  # another member may follow
                    packed, unpacker = unpacker.unused_data, zlib.decompressobj(zlib.MAX_WBITS | 16)


def check_columns(path: Path, present: "Sequence[str]") -> None:
    """Whether there are few enough of them to look at. Raises BadInput."""
    if len(present) > MOST_COLUMNS:
        raise BadInput(f"the trace '{path}' has {len(present)} columns; {MOST_COLUMNS} are the most")


def check_parquet(db: Any, path: Path, columns: "Iterable[TraceColumn]") -> None:
    """Whether its rows are few enough, and each value of the columns that are read short enough. Raises BadInput."""
    # from the footer, which says it without a look at any page
    rows = db.execute(f"select num_rows from parquet_file_metadata({quoted(path)})").fetchone()[0]  # noqa: S608  # quoted
    _check_rows(path, int(rows), _most_rows(path))
    types = {name: kind for name, kind, *_ in db.execute("describe file").fetchall()}
    columns = list(columns)
    for column in columns:
        kind = str(types[column.name])
        # a nested type means nothing in a trace, and its length cannot be asked for
        if kind not in _LENGTHS and (kind.endswith("]") or not kind.startswith(_SCALARS)):
            raise BadInput(
                f"the column '{column.name}' of the trace '{path}' is {kind[:100]}; a text, number or time is expected"
            )
    # DuckDB unpacks a page and a dictionary as a whole
    heavy = parquet_bounds.too_large(db, "file", dict.fromkeys(column.quoted for column in columns))
    if heavy is not None:
        why = f"a page or a dictionary for which {MEMORY} of memory, the most, are too little"
        raise BadInput(f"the column {heavy} of the trace '{path}' has {why}")
    texts = sorted({column.quoted: _LENGTHS[types[column.name]] for column in columns if types[column.name] in _LENGTHS}.items())
    if texts:
        _check_texts(db, path, texts)


def _check_texts(db: Any, path: Path, texts: "Sequence[tuple[str, str]]") -> None:
    sums = ", ".join(f"max({length}({name})), sum({length}({name}))" for name, length in texts)
    numbers = [int(number or 0) for number in db.execute(f"select {sums} from file").fetchone()]  # noqa: S608  # quoted names
    size = path.stat().st_size
    most = max(LEAST_UNPACKED, MOST_UNPACKED_FOR_A_BYTE * size)
    for (name, _), longest, together in zip(texts, numbers[::2], numbers[1::2], strict=True):
        if longest > bounds.MOST_TEXT:
            raise BadInput(
                f"the column {name} of the trace '{path}' has a value of {longest} bytes; {bounds.MOST_TEXT} are the most"
            )
        if together > most:
            raise BadInput(
                f"the column {name} of the trace '{path}' has {together} bytes; {most} are the most for a file of {size}"
            )


def check_count(path: Path, what: str, count: int, most: int) -> None:
    """Whether there are few enough of what is kept in memory as a whole. Raises BadInput."""
    if count > most:
        raise BadInput(f"the trace '{path}' has {count} {what}; {most} are the most")


def _most_rows(path: Path) -> int:
    return max(LEAST_ROWS, MOST_ROWS_FOR_A_BYTE * path.stat().st_size)


def _check_rows(path: Path, rows: int, most: int) -> None:
    if rows > most:
        raise BadInput(f"the trace '{path}' has more than {most} rows, the most for a file of {path.stat().st_size} bytes")
