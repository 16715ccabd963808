"""A recording of usage that is small on the disk and huge when it is read is refused, by its rows, its bytes or its values."""

import gzip
from pathlib import Path

import duckdb
import pytest

from streams.errors import BadInput
from streams.sources.traces import Trace, trace_bounds
from tests.support import delta_parquet
from tests.support.child_memory import refusal_and_megabytes

HEAD = "container_id,timestamp_s,cpu_cores,memory_bytes"
PARQUET = {
    "a long value in many rows": (
        "3000",
        "repeat('x', 2000000)",
        "range::double",
        "has a value of 2000000 bytes; 4096 are the most",
    ),
    "many rows of one value": ("12000000", "'x'", "1.0", "has more than 10000000 rows"),
    "a list of many": ("1", "range(100000)", "1.0", r"is BIGINT\[\]; a text, number or time is expected"),
    "a number of many digits": ("100", "'x'", "repeat('9', 2000000)", "has a value of 2000000 bytes"),
    "many bytes of short values": ("500000", "repeat('x', 4000)", "1.0", "has 2000000000 bytes; 1073741824 are the most"),
}


def parquet(folder: Path, rows: str, container: str, time: str) -> Path:
    path = folder / "usage.parquet"
    select = (
        f"SELECT {container} AS container_id, {time} AS timestamp_s, 0.1 AS cpu_cores, 1e6 AS memory_bytes FROM range({rows})"  # noqa: S608  # our own texts
    )
    with duckdb.connect() as db:
        db.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
    return path


def packed(folder: Path, content: bytes, times: int) -> Path:
    path = folder / "usage.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(HEAD.encode() + b"\n")
        for _ in range(times):
            file.write(content)
    return path


@pytest.mark.parametrize("name", PARQUET)
def test_a_small_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, name: str) -> None:
    rows, container, time, why = PARQUET[name]
    path = parquet(tmp_path, rows, container, time)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(BadInput, match=why) as refused:
        Trace(path)
    assert str(path) in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("content", "times", "why"),
    [
        (b"\n" * (1 << 20), 12, "has more than 10000000 rows"),
        (b"x" * (1 << 20), 1100, "unpacks to more than 1073741824 bytes"),
        (b"x" * (1 << 20), 2, "Maximum line size"),
    ],
    ids=["lines", "bytes", "a line"],
)
def test_packed_text_is_measured_before_it_is_read(tmp_path: Path, content: bytes, times: int, why: str) -> None:
    path = packed(tmp_path, content, times)
    with pytest.raises(BadInput, match=why) as refused:
        Trace(path)
    assert str(path) in str(refused.value)


def test_columns_containers_and_scrapes_have_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "usage.csv"
    path.write_text(f"{HEAD}\n" + "".join(f"c{i % 3},{i},0.1,1000\n" for i in range(9)))
    monkeypatch.setattr(trace_bounds, "MOST_CONTAINERS", 2)
    with pytest.raises(BadInput, match="has 3 containers; 2 are the most"):
        Trace(path)
    monkeypatch.setattr(trace_bounds, "MOST_CONTAINERS", 3)
    monkeypatch.setattr(trace_bounds, "MOST_SCRAPES", 2)
    with pytest.raises(BadInput, match="has 3 scrapes; 2 are the most"):
        Trace(path)
    monkeypatch.setattr(trace_bounds, "MOST_COLUMNS", 3)
    with pytest.raises(BadInput, match="has 4 columns; 3 are the most"):
        Trace(path)


def test_the_database_reads_the_trace_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "usage.csv"
    path.write_text(f"{HEAD}\nc,1,0.1,1000\n")
    other = tmp_path / "other.csv"
    other.write_text("a\n1\n")
    with Trace(path) as trace:
        for statement in (f"from read_csv('{other}')", f"copy names to '{other}'", "set enable_external_access = true"):
            with pytest.raises(duckdb.Error):
                trace._db.execute(statement)


def test_refusing_it_takes_little_memory(tmp_path: Path) -> None:
    rows, container, time, _ = PARQUET["a long value in many rows"]
    path = parquet(tmp_path, rows, container, time)
    name, megabytes = refusal_and_megabytes("from streams.sources.traces import Trace as read", path)
    assert name == "BadInput"
    assert megabytes < 200  # of 6 GB: the interpreter and our modules take 90


def test_a_page_that_the_memory_cannot_hold_is_refused_with_its_column_and_the_bound(tmp_path: Path) -> None:
    path = tmp_path / "usage.parquet"
    path.write_bytes(delta_parquet.trace())
    assert path.stat().st_size < 2_000
    with pytest.raises(BadInput, match=r'the column "container_id" of the trace .* for which 256MB of memory') as refused:
        Trace(path)
    assert str(path) in str(refused.value)
    name, megabytes = refusal_and_megabytes("from streams.sources.traces import Trace as read", path)
    assert name == "BadInput"
    assert megabytes < 200
