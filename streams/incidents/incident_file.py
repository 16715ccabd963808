"""An incident file: records as rows of one Parquet file, with a manifest in the file's metadata.

Any Parquet reader can look into it. Keys and values are text where they are UTF-8, else bytes in columns of their own; headers
are JSON as in a log file. The rows stand topic by topic, partition by partition, in the order of their offsets. A reader that
finds anything else reports and counts it: see `IncidentFaults`.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import orjson

from streams import parquet_bounds
from streams.errors import BadInput
from streams.incidents import incident_manifest
from streams.incidents.incident_manifest import KEY, IncidentManifest, PartitionManifest, PartitionTally
from streams.log import file_format
from streams.log.log_port import Record, TopicAndPartition
from streams.log.record_format import MOST_HEADERS

SUFFIX = ".parquet"
_COLUMNS: Mapping[str, str] = {
    "topic": "VARCHAR",
    "partition": "INTEGER",
    "offset": "BIGINT",
    "appended_ms": "BIGINT",
    "key": "VARCHAR",
    "key_bytes": "BLOB",
    "value": "VARCHAR",
    "value_bytes": "BLOB",
    "headers": "VARCHAR",
}
_LENGTHS = {"VARCHAR": "strlen", "BLOB": "octet_length"}
"""What gives the bytes of a value, without making a copy of it."""
_ROWS_AT_ONCE, _BYTES_AT_ONCE = 5_000, 64 << 20
_MOST_OF_ROW = 32 << 20
"""Bytes of a row: a record has 8 MiB at most, and a third more where its bytes are written as text."""
_MOST_HEADERS = 4 << 20
"""Bytes of a row's headers as JSON."""
_MOST_UNPACKED, _MOST_RATIO = 1 << 30, 1_000
"""Bytes of all rows together: so many, or so many for each byte of the file, of which a log needs about thirty."""
_MEMORY = "512MB"


@dataclass(slots=True)
class IncidentFaults:
    """What is wrong with the rows of a file, as counts by partition.

    `foreign`: of a topic, partition or offset that the manifest does not name, or no records at all. `repeated`: of an offset
    that came before. `reordered`: behind one with a higher offset. `missing`: fewer than the manifest says. `changed`:
    partitions with all their records, of which one is not what it was.
    """

    foreign: dict[str, int] = field(default_factory=dict)
    repeated: dict[str, int] = field(default_factory=dict)
    reordered: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)

    def sentences(self) -> list[str]:
        """One for each kind and partition; none for a good file."""
        words = (
            (self.foreign, "records that the manifest does not name"),
            (self.repeated, "records that came before"),
            (self.reordered, "records out of order"),
            (self.missing, "records missing"),
        )
        counted = [f"{where}: {count} {what}" for counts, what in words for where, count in sorted(counts.items())]
        return [*counted, *(f"{where}: the content is not what the manifest's hash says" for where in sorted(self.changed))]


@dataclass(slots=True)
class _PartitionCheck:
    """One partition while the rows go by: the offsets that rose, and those that came late."""

    tally: PartitionTally
    rising: "array[int]" = field(default_factory=lambda: array("q"))
    late: set[int] = field(default_factory=set)

    def take(self, offset: int) -> str:
        """Take an offset in; `repeated` or `reordered` if it is that, else nothing."""
        if not self.rising or offset > self.rising[-1]:
            self.rising.append(offset)
            return ""
        if offset in self.late or self.rising[bisect_left(self.rising, offset)] == offset:
            return "repeated"
        self.late.add(offset)
        return "reordered"


class IncidentFile:
    """An open incident file. Raises BadInput when it is none, or was cut off."""

    def __init__(self, path: Path) -> None:
        import duckdb

        self.path = path
        if not path.is_file():
            raise BadInput(f"the incident file '{path}' does not exist")
        self._db = duckdb.connect(config={"memory_limit": _MEMORY})
        self._quoted = "'" + str(path).replace("'", "''") + "'"
        self._db.execute(f"set allowed_paths = [{self._quoted}]")
        # a file from a stranger: DuckDB opens it and nothing else, and no query of it can undo that
        self._db.execute("set enable_external_access = false")
        self._db.execute("set lock_configuration = true")
        try:
            self.manifest = self._read_manifest()
            self._check_size()
        except duckdb.Error as error:
            self.close()
            why = str(error).splitlines()[0]
            raise BadInput(f"'{path}' cannot be read as Parquet; was it cut off? {why}") from error
        except BadInput:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _read_manifest(self) -> IncidentManifest:
        rows = self._db.execute(f"select value from parquet_kv_metadata({self._quoted}) where key = '{KEY}'").fetchall()  # noqa: S608  # quoted
        if not rows:
            raise BadInput(f"'{self.path}' is Parquet, but no incident file: its metadata has no '{KEY}'")
        columns = {str(row[0]): str(row[1]) for row in self._db.execute(f"describe select * from {self._quoted}").fetchall()}  # noqa: S608  # as above
        if lacking := [name for name in _COLUMNS if name not in columns]:
            raise BadInput(f"the incident file '{self.path}' lacks the column '{lacking[0]}'")
        if other := [name for name, kind in _COLUMNS.items() if columns[name] not in _kinds(kind)]:
            raise BadInput(
                f"the column '{other[0]}' of the incident file '{self.path}' is {columns[other[0]]}, not {_COLUMNS[other[0]]}"
            )
        return incident_manifest.decode(bytes(rows[0][0]), str(self.path))

    def _check_size(self) -> None:
        """Refuse what would become too much, before anything is made of it."""
        # a Parquet dictionary holds gigabytes in some kilobytes
        heavy = parquet_bounds.too_large(self._db, f"read_parquet({self._quoted})", (f'"{name}"' for name in _COLUMNS))
        if heavy is not None:
            why = f"a page or a dictionary for which {_MEMORY} of memory, the most, are too little"
            raise BadInput(f"the column {heavy} of the incident file '{self.path}' has {why}")
        lengths = " + ".join(f'coalesce({_LENGTHS[kind]}("{name}"), 0)' for name, kind in _COLUMNS.items() if kind in _LENGTHS)
        sums = f"coalesce(sum({lengths}), 0), coalesce(max({lengths}), 0), coalesce(max(strlen(headers)), 0)"
        total, largest, headers = self._db.execute(f"select {sums} from read_parquet({self._quoted})").fetchall()[0]  # noqa: S608  # as above
        most = max(_MOST_UNPACKED, _MOST_RATIO * self.path.stat().st_size)
        for size, bound, what in (
            (largest, _MOST_OF_ROW, "a row of"),
            (headers, _MOST_HEADERS, "headers of"),
            (total, most, "rows of together"),
        ):
            if size > bound:
                raise BadInput(f"the incident file '{self.path}' has {what} {int(size)} bytes; {bound} are the most")
        # by the largest row, so that a batch keeps its bytes whatever the rows are
        self._at_once = max(1, min(_ROWS_AT_ONCE, _BYTES_AT_ONCE // max(1, int(largest))))

    def check(self) -> IncidentFaults:
        """Read every row and compare with the manifest."""
        faults = IncidentFaults()
        named = [(topic, p, part) for topic, parts in self.manifest.topics.items() for p, part in enumerate(parts)]
        checks = {(topic, p): _PartitionCheck(PartitionTally(part.begin, part.end)) for topic, p, part in named}
        for where, record in self._rows(ordered=False):
            check = None if record is None else checks.get((record.topic, record.partition))
            if check is None or record is None or not check.tally.begin <= record.offset < check.tally.end:
                _count(faults.foreign, where)
                continue
            fault = check.take(record.offset)
            if fault:
                _count(faults.repeated if fault == "repeated" else faults.reordered, where)
            # a repeated record is in the manifest's count and hash once
            if fault != "repeated":
                check.tally.add(record)
        for (topic, partition), check in checks.items():
            _settle(faults, f"{topic}:{partition}", check.tally, self.manifest.topics[topic][partition])
        return faults

    def records(self, *, salvaged: bool = False) -> Iterator[Record]:
        """The records in the order of the file; `salvaged`: sorted, each offset once, without what the manifest does not name."""
        last: tuple[TopicAndPartition, int] | None = None
        for _, record in self._rows(ordered=salvaged):
            if salvaged and record is not None:
                place = ((record.topic, record.partition), record.offset)
                if place == last or not self._named(record):
                    continue
                last = place
            if record is not None:
                yield record

    def _named(self, record: Record) -> bool:
        partitions = self.manifest.topics.get(record.topic, ())
        within = 0 <= record.partition < len(partitions)
        return within and partitions[record.partition].begin <= record.offset < partitions[record.partition].end

    def _rows(self, *, ordered: bool) -> Iterator[tuple[str, Record | None]]:
        """Each row's `topic:partition` and record; None for a row that is no record."""
        import duckdb

        order = ' order by topic, "partition", "offset", file_row_number' if ordered else ""
        columns = ", ".join(f'"{name}"' for name in _COLUMNS)
        try:
            rows = self._db.execute(f"select {columns} from read_parquet({self._quoted}, file_row_number = true){order}")  # noqa: S608  # as above
            while batch := rows.fetchmany(self._at_once):
                for row in batch:
                    yield f"{row[0]}:{row[1]}", _record(row)
        except duckdb.Error as error:
            raise BadInput(f"the incident file '{self.path}' is damaged: {str(error).splitlines()[0]}") from error


def has_manifest(path: Path) -> bool:
    """Whether this is Parquet with a manifest, of whatever version."""
    import duckdb

    try:
        with duckdb.connect() as db:
            # as a parameter: a path may have quotes in it
            query = "select count(*) from parquet_kv_metadata(?) where key = ?"
            return bool(db.execute(query, [str(path), KEY.encode()]).fetchall()[0][0])
    except duckdb.Error:
        return False


def write(
    path: Path,
    records: Iterable[Record],
    manifest: IncidentManifest,
    tallies: Mapping[TopicAndPartition, PartitionTally],
    clusters: Callable[[], tuple[str, ...]],
) -> IncidentManifest:
    """Write the records, counting each into its partition's tally. Returns `manifest` with counts and hashes.

    `clusters` is called after the last record. Raises BadInput when it cannot be written.
    """
    import duckdb

    events: dict[str, int] = {}
    with TemporaryDirectory(prefix="ullage-incident-") as folder:
        # as lines first, of which DuckDB makes Parquet in bounded memory
        rows = Path(folder) / "rows.jsonl"
        with rows.open("wb") as lines:
            for record in records:
                tallies[record.topic, record.partition].add(record)
                untyped = "tick" if record.topic.startswith(f"{manifest.prefix}.") else "checkpoint"
                kind = next((data.decode(errors="replace") for name, data in record.headers if name == "ce_type"), untyped)
                events[kind] = events.get(kind, 0) + 1
                lines.write(orjson.dumps(_row(record)) + b"\n")
        filled = replace(_filled(manifest, tallies, events), clusters=clusters())
        try:
            _convert(rows, path, incident_manifest.encode(filled))
        except (duckdb.Error, OSError) as error:
            raise BadInput(f"the incident file '{path}' cannot be written: {str(error).splitlines()[0]}") from error
    return filled


def _filled(
    manifest: IncidentManifest, tallies: Mapping[TopicAndPartition, PartitionTally], events: Mapping[str, int]
) -> IncidentManifest:
    topics: dict[str, list[Any]] = {}
    for (topic, _), tally in sorted(tallies.items()):
        topics.setdefault(topic, []).append(tally.manifest())
    parts = {topic: tuple(partitions) for topic, partitions in topics.items()}
    return replace(manifest, events=dict(sorted(events.items())), topics=parts)


def _convert(rows: Path, path: Path, manifest: str) -> None:
    """Turn JSON lines into Parquet, whose size a compressed log has."""
    import duckdb

    types = ", ".join(f"\"{name}\": '{'VARCHAR' if kind == 'BLOB' else kind}'" for name, kind in _COLUMNS.items())
    columns = ", ".join(f'from_base64("{n}") as "{n}"' if kind == "BLOB" else f'"{n}"' for n, kind in _COLUMNS.items())
    source = "'" + str(rows).replace("'", "''") + "'"
    # the file appears when it is complete
    beside = path.with_name(f".{path.name}.part")
    target = "'" + str(beside).replace("'", "''") + "'"
    quoted = "'" + manifest.replace("'", "''") + "'"
    with duckdb.connect(config={"memory_limit": _MEMORY}) as db:
        db.execute(
            f"COPY (SELECT {columns} FROM read_json({source}, format='newline_delimited', columns={{{types}}}, "  # noqa: S608  # quoted above
            f"maximum_object_size={64 << 20})) TO {target} (FORMAT parquet, COMPRESSION zstd, KV_METADATA {{'{KEY}': {quoted}}})"
        )
    beside.replace(path)


def _row(record: Record) -> dict[str, object]:
    key, value = file_format.pack(record.key), file_format.pack(record.value)
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "appended_ms": record.timestamp_ms,
        "key": key if isinstance(key, str) else None,
        "key_bytes": key["base64"] if isinstance(key, dict) else None,
        "value": value if isinstance(value, str) else None,
        "value_bytes": value["base64"] if isinstance(value, dict) else None,
        "headers": orjson.dumps([[name, file_format.pack(data)] for name, data in record.headers]).decode(),
    }


def _kinds(kind: str) -> tuple[str, ...]:
    """Types of a column that can be read as this one."""
    return (kind,) if kind in ("VARCHAR", "BLOB") else ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")


def _record(row: tuple[Any, ...]) -> Record | None:
    topic, partition, offset, ms, key, key_bytes, value, value_bytes, headers = row
    if not isinstance(topic, str) or None in (partition, offset, ms) or min(partition, offset) < 0:
        return None
    try:
        pairs = file_format.unpack_headers(orjson.loads(headers or "[]"))
        if len(pairs) > MOST_HEADERS:
            return None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return Record(topic, partition, offset, _data(key, key_bytes), _data(value, value_bytes), pairs, ms)


def _data(text: str | None, data: bytes | None) -> bytes | None:
    return text.encode() if text is not None else None if data is None else bytes(data)


def _settle(faults: IncidentFaults, where: str, tally: PartitionTally, manifest: PartitionManifest) -> None:
    """Add the faults that only show after the last row."""
    if tally.records < manifest.records:
        faults.missing[where] = manifest.records - tally.records
    elif tally.records > manifest.records:
        faults.foreign[where] = faults.foreign.get(where, 0) + tally.records - manifest.records
    # the hash is over the records in order, so it says nothing of fewer, or of others
    elif where not in faults.reordered and tally.manifest().sha256 != manifest.sha256:
        faults.changed[where] = 1


def _count(counts: dict[str, int], where: str) -> None:
    counts[where] = counts.get(where, 0) + 1
