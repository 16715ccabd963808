"""Tables: what is dumped piece by piece comes back to the bit, and history leaves no trace in it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.tables.object_table import ObjectTable
from agents.engine.tables.row_table import CHUNK, ColumnSpec, RowTable

COLUMNS = {
    "wide": ColumnSpec(width=16),
    "number": ColumnSpec(default=-1.0),
    "count": ColumnSpec(np.int64),
    "small": ColumnSpec(np.int16, 7),
}


def rows() -> Any:
    return RowTable("r", COLUMNS)


def copy(table: Any, fresh: Any) -> Any:
    for chunk in sorted(table.chunks()):
        fresh.load(chunk, table.dump(chunk))
    return fresh


def dumped(table: Any) -> Any:
    return {chunk: table.dump(chunk) for chunk in table.chunks()}


def test_a_table_writes_only_the_buckets_that_changed() -> None:
    table = ObjectTable("t", int, 8)
    for i in range(100):
        table.upsert(f"key{i}", i)
    assert len(table.take_dirty()) == 8
    table.upsert("key3", 4)
    table.remove("key3")
    table.remove("nobody")
    assert len(table.take_dirty()) == 1
    assert table.take_dirty() == set()


def test_equal_tables_dump_equal_bytes_whatever_their_history() -> None:
    one, other = ObjectTable("t", int, 4), ObjectTable("t", int, 4)
    for i in range(50):
        one.upsert(f"key{i}", i)
    for i in reversed(range(60)):
        other.upsert(f"key{i}", i)
    for i in range(50, 60):
        other.remove(f"key{i}")
    assert dumped(one) == dumped(other) == dumped(copy(one, ObjectTable("t", int, 4)))


def test_names_that_lie_in_one_bucket_under_one_key_are_spread_under_another() -> None:
    guessed: Any = ObjectTable("t", str, 16)
    names = []
    for i in range(4_000):
        guessed.upsert(f"name-{i}", "")
        names += [f"name-{i}"] if guessed.take_dirty() == {"t/003"} else []
    assert len(names) > 200
    table: Any = ObjectTable("t", str, 16)
    table.scatter_by(b"what a tenant cannot know")
    for name in names:
        table.upsert(name, "")
    assert max(len(table.dump(chunk)) for chunk in table.chunks()) < 3 * len(names) / 16 * len('"name-1234":"",')


def test_what_a_table_held_before_it_got_a_key_stays_where_it_is_and_is_found() -> None:
    table: Any = ObjectTable("t", int, 8)
    for i in range(20):
        table.upsert(f"old{i}", i)
    before = dumped(table)
    table.scatter_by(b"key")
    assert dumped(table) == before
    for i in range(20):
        table.upsert(f"old{i}", i + 1)
        table.upsert(f"new{i}", -i)
    again = copy(table, ObjectTable("t", int, 8))
    for each in (table, again):
        assert [each.get(f"old{i}") for i in range(20)] == [i + 1 for i in range(20)]
        assert sorted(each.values()) == sorted([*range(1, 21), *(-i for i in range(20))])
        assert len(each) == 40
    assert dumped(again) == dumped(table)
    assert again.remove("old3") == 4
    assert "old3" not in again
    assert again.remove("old3") is None


def test_an_emptied_bucket_is_still_dumped() -> None:
    table = ObjectTable("t", int, 1)
    table.upsert("a", 1)
    table.remove("a")
    assert dumped(table) == {"t/000": b"{}"}


def test_a_new_name_takes_the_lowest_free_row_with_default_numbers() -> None:
    table = rows()
    assert [table.add((name,)) for name in "abcd"] == [0, 1, 2, 3]
    table.floats("number")[1] = 5.0
    table.spans("wide").put(np.array([1]), np.eye(1, 16, 3) * 5.0)
    table.free(("c",))
    table.free(("b",))
    assert table.add(("e",)) == 1
    assert table.floats("number")[1] == -1.0
    assert not table.spans("wide").dense(np.array([1])).any()
    assert table.key(1) == ("e",)
    with pytest.raises(LookupError, match="row 2 of 'r' is free"):
        table.key(2)


def test_every_bit_of_a_number_survives() -> None:
    table = rows()
    row = table.add(("a",))
    odd = [0.1, -0.0, 5e-324, 1e308, -1.5, float(np.nextafter(1, 2))]
    wide = np.zeros((1, 16))
    wide[0, : len(odd)] = odd
    table.spans("wide").put(np.array([row]), wide)
    table.floats("number")[row] = np.nan
    back = copy(table, rows())
    assert back["number"][:1].tobytes() == table["number"][:1].tobytes()
    assert back.spans("wide").dense(np.array([row])).tobytes() == wide.tobytes()


def test_a_sparse_row_is_small() -> None:
    table = RowTable("r", {"wide": ColumnSpec(width=176)})
    for i in range(CHUNK):
        row = table.add((str(i),))
        table.spans("wide").put(np.array([row]), np.eye(1, 176, i % 176))
    [size] = [len(table.dump(chunk)) for chunk in table.chunks() if "numbers" in chunk]
    assert size == CHUNK * (176 // 8 + 8)  # a bit for each cell, eight bytes for the one that counts


def test_names_are_written_only_when_things_come_or_go() -> None:
    table = rows()
    table.add(("a",))
    assert table.take_dirty() == {"r/names/00000", "r/numbers/00000"}
    table.touch([0])
    assert table.take_dirty() == {"r/numbers/00000"}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=60), st.integers(0, 60))
def test_a_loaded_table_goes_on_as_the_dumped_one(steps: list[Any], cut: int) -> None:
    through, stopped = rows(), rows()
    for place, (add, name) in enumerate(steps):
        if place == cut:
            stopped = copy(stopped, rows())
        for table in (through, stopped):
            key = (str(name),)
            if key in table and not add:
                table.free(key)
            elif add and key not in table:
                row = table.add(key)
                table.floats("number")[row] = place
    assert dumped(through) == dumped(stopped)
    assert through.used().tolist() == stopped.used().tolist()


def test_more_rows_than_a_chunk_come_back_too() -> None:
    table = rows()
    for i in range(3 * CHUNK + 5):
        row = table.add((f"{i:05d}",))
        table.whole("count")[row] = i
    back = copy(table, rows())
    assert len(back) == 3 * CHUNK + 5
    assert all(back.whole("count")[back.find((f"{i:05d}",))] == i for i in range(0, 3 * CHUNK + 5, 97))
    assert dumped(back) == dumped(table)
