"""What nobody can believe in a trace is named with its file, column and row, and poisons no sum."""

import math
from pathlib import Path

import duckdb
import numpy as np
import pytest

from streams.errors import BadInput
from streams.sources.traces import Trace
from streams.sources.traces.trace_facts import TraceFacts

SMALL = ("container_id,timestamp_s,cpu_cores,memory_bytes", "b,60,0.5,200", "a,60,0.25,100", "a,120,0.75,300")


def csv(folder: Path, *lines: str) -> Path:
    path = folder / "usage.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def parquet_of(path: Path) -> Path:
    """The same rows in the same order, with floats as numbers."""
    duckdb.execute(f"copy (select * from '{path}') to '{path.with_suffix('.parquet')}' (format parquet)")  # noqa: S608  # our own words
    return path.with_suffix(".parquet")


ODD = (
    ("-5", "1 of the numbers in column 'cpu_cores' are not possible: they count as absent; the first is -5.0, in row 2"),
    ("inf", "the first is inf, in row 2"),
    ("1e12", "the first is 1000000000000.0, in row 2"),
)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(("cell", "sentence"), ODD)
def test_a_number_that_nobody_can_believe_counts_as_absent_and_is_named_with_its_row(
    tmp_path: Path, cell: str, sentence: str, kind: str
) -> None:
    path = csv(tmp_path, SMALL[0], "a,60,0.25,100", f"b,60,{cell},200", "a,120,nan,300", "b,120,1,400")
    if kind == "parquet":
        path = parquet_of(path)
    with Trace(path) as trace:
        [said] = trace.faults
        used = {scrape.at: scrape.numbers["cores"].tolist() for scrape in trace.scrapes()}
    assert said.startswith(f"'{path}'")
    assert sentence in said
    np.testing.assert_array_equal(used[60.0], [0.25, math.nan])
    np.testing.assert_array_equal(used[120.0], [math.nan, 1.0])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_row_of_a_time_that_no_clock_shows_is_passed_over_and_named(tmp_path: Path, kind: str) -> None:
    path = csv(tmp_path, *SMALL, "a,1e18,0.5,100")
    if kind == "parquet":
        path = parquet_of(path)
    with Trace(path) as trace:
        [said] = trace.faults
        assert trace.rows == 3
        assert len(list(TraceFacts(trace, cluster="trace").gone(1e9))) == 2
    assert "column 'timestamp_s' are no time that a clock shows: such rows are passed over; the first is 1e+18, in row 4" in said


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(("row", "column"), [("a,180,much,1", "cpu_cores"), ("a,yesterday,0.5,1", "timestamp_s")])
def test_a_word_instead_of_a_number_is_refused_with_its_row(tmp_path: Path, row: str, column: str, kind: str) -> None:
    path = csv(tmp_path, *SMALL, row)
    if kind == "parquet":
        path = parquet_of(path)
    with pytest.raises(BadInput, match=rf"the trace '{path}' did not work: row 4 has '\w+' in column '{column}'"):
        Trace(path)


def test_a_word_far_down_a_csv_file_is_refused_with_its_line(tmp_path: Path) -> None:
    lines = [f"a,{60 * i},0.5,1" for i in range(1, 50_000)]
    lines[40_000] = "a,1,much,1"
    with pytest.raises(BadInput, match=r"Line: 40002; Original Line: a,1,much,1; .*column .cpu_cores"):
        Trace(csv(tmp_path, SMALL[0], *lines))


def test_a_row_with_an_empty_name_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "usage.parquet"
    rows = "('a', 'w', 60), ('b', '', 60), ('', 'w', 120), ('a', 'w', 120)"
    columns = "c as container, w as workload, t as timestamp_s, 0.5 as cpu_cores, 1e8 as memory_bytes"
    duckdb.execute(f"copy (select {columns} from (values {rows}) as v(c, w, t)) to '{path}'")  # noqa: S608  # our own words
    with Trace(path) as trace:
        assert (trace.rows, [name.workload for name in trace.names]) == (2, ["w"])
