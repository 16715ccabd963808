"""The digest of inputs: equal for equal records in equal turns, another for anything else."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agents.engine.input_digest import EMPTY, InputDigests, record_digest
from streams.log.log_port import Record

records = st.builds(
    Record,
    topic=st.just("in"),
    partition=st.just(0),
    offset=st.integers(0, 9),
    key=st.none() | st.binary(max_size=3),
    value=st.none() | st.binary(max_size=3),
    headers=st.lists(st.tuples(st.text(max_size=2), st.binary(max_size=2)), max_size=2).map(tuple),
    timestamp_ms=st.integers(0, 9),
)
turns = st.lists(st.tuples(st.integers(0, 5), st.lists(records, max_size=3)), max_size=3)
Turns = list[tuple[int, list[Record]]]


def digest(turns: Turns) -> bytes:
    digests = InputDigests.begin(("in",), since=-1)
    for number, read in turns:
        digests = digests.after(number, {"in": [record_digest(each) for each in read]})
    return digests.chains["in"]


def counted(turns: Turns) -> object:
    """What the digest is about: turns that bring something, and of records all but when the log took them."""
    return [(number, [replace(r, timestamp_ms=0) for r in read]) for number, read in turns if read]


@given(turns, turns)
def test_two_digests_are_equal_exactly_if_the_same_was_read_in_the_same_turns(one: Turns, other: Turns) -> None:
    assert (digest(one) == digest(other)) == (counted(one) == counted(other))
    assert digest([]) == EMPTY


@given(records, st.sampled_from(["offset", "key", "value", "headers"]))
def test_a_change_of_any_part_of_a_record_changes_the_digest(record: Record, part: str) -> None:
    changed = {
        "offset": replace(record, offset=record.offset + 1),
        "key": replace(record, key=(record.key or b"") + b"x"),
        "value": replace(record, value=None if record.value is not None else b""),
        "headers": replace(record, headers=(*record.headers, ("", b""))),
    }
    assert digest([(1, [record])]) != digest([(1, [changed[part]])])


def test_what_one_part_loses_to_its_neighbour_changes_the_digest() -> None:
    one, other = Record("in", 0, 1, b"ab", b"c"), Record("in", 0, 1, b"a", b"bc")
    assert digest([(1, [one])]) != digest([(1, [other])])
    assert digest([(1, [one]), (2, [other])]) != digest([(1, [one, other])])
    assert digest([(12, [one])]) != digest([(1, [one])])


def test_a_header_without_content_counts_as_an_empty_one() -> None:
    """aiokafka gives None for it, and the log port an empty one; the same record must have one digest."""
    absent: Any = None
    assert digest([(1, [Record("in", 0, 1, None, None, (("h", absent),))])]) == digest(
        [(1, [Record("in", 0, 1, None, None, (("h", b""),))])]
    )
