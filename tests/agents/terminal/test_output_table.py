"""Tables for people, in a terminal that is narrower than they are."""

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.terminal import output, output_table

ROWS = [{"what": "worker", "note": "it waits for a tick of the clock"}, {"what": "clock", "note": ""}]
WORDS = st.text("abcdefgh", min_size=1, max_size=10)
SENTENCES = st.lists(WORDS, max_size=12).map(" ".join)
TABLES = st.lists(st.fixed_dictionaries({"name": WORDS, "state": WORDS, "bounds": WORDS, "says": SENTENCES}), min_size=1)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_last_column_goes_on_below_where_a_terminal_has_no_room() -> None:
    assert list(output_table.aligned(ROWS, (), (), 32)) == [
        "WHAT    NOTE",
        "worker  it waits for a tick of",
        "        the clock",
        "clock",
    ]


def test_words_of_another_column_go_on_below_and_none_is_cut() -> None:
    rows = [{"what": "vertical policy set", "about": "demo/shop/Deployment/search", "detail": "it is all well by now"}]
    assert list(output_table.aligned(rows, (), (), 55)) == [
        "WHAT             ABOUT            DETAIL",
        "vertical policy  demo/…nt/search  it is all well by now",
        "set",
    ]


def test_a_line_is_as_long_as_it_likes_where_no_terminal_is() -> None:
    whole = ["WHAT    NOTE", "worker  it waits for a tick of the clock", "clock"]
    assert list(output_table.lines("table", ROWS, ())) == whole
    assert list(output_table.lines("wide", ROWS, ())) == whole


def test_a_spare_column_goes_before_a_name_gets_shorter_than_a_workload_of_usual_length() -> None:
    rows = [{"name": "a" * 27 + "z", "bounds": "1..2", "says": "all is well"}]
    assert list(output_table.aligned(rows, (), ("bounds",), 45)) == [
        f"NAME{' ' * 22}BOUNDS  SAYS",
        f"{'a' * 8}…{'a' * 14}z  1..2    all is well",
    ]
    assert list(output_table.aligned(rows, (), ("bounds",), 44)) == [f"NAME{' ' * 26}SAYS", f"{'a' * 27}z  all is well"]


def test_the_name_of_a_column_is_read_as_words() -> None:
    assert list(output_table.aligned([{"as_of": "now"}], (), (), 40)) == ["AS OF", "now"]


def test_a_line_of_a_tree_goes_on_beside_the_branches_below_it() -> None:
    assert [list(output.wrapped(f"{begin}one two three", 14)) for begin in ("│  · ", "├─ ", "└─ ", "- ", "")] == [
        ["│  · one two", "│    three"],
        ["├─ one two", "│    three"],
        ["└─ one two", "     three"],
        ["- one two", "    three"],
        ["one two three"],
    ]


@given(TABLES, st.integers(48, 200))
def test_no_word_is_lost_and_no_line_is_wider(rows: list[dict[str, str]], room: int) -> None:
    columns = ("name", "state", "bounds", "says")
    rows = [{name: row[name] for name in columns} for row in rows]
    lines = list(output_table.aligned(rows, (), ("bounds",), room))
    assert max(map(len, lines)) <= room
    words = " ".join(lines).split()
    assert all(word in words for row in rows for word in [row["name"], row["state"], *row["says"].split()])


def test_what_is_bad_is_coloured_in_a_terminal_unless_somebody_says_no(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"name": "a", "risk": "high"}, {"name": "b", "risk": "medium"}, {"name": "c\x1b[31m", "risk": "low"}]
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    _, high, medium, low = output_table.lines("table", rows, ())
    assert "\x1b[31mhigh\x1b[0m" in high
    assert "\x1b[33mmedium\x1b[0m" in medium
    assert "\x1b" not in low
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in "".join(output_table.lines("table", rows, ()))
