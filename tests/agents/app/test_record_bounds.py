"""What a worker sends always fits: a decision that its topic never takes becomes a dead letter in its place."""

import orjson

from agents.app.topic_check import FRAME, RecordBounds
from streams.log.log_port import MAX_RECORD_BYTES, NewRecord
from streams.topics import Topics

TOPICS = Topics(partitions=2)
WIRE = TOPICS.wire("recommendations")
HEADERS = (("ce_id", b"id-1"), ("ce_source", b"/ullage/recommender/1"))


def record(size: int) -> NewRecord:
    return NewRecord(WIRE, 1, b"k", b"x" * size, HEADERS)


def test_what_fits_passes_as_it_is() -> None:
    records = [record(1), record(MAX_RECORD_BYTES - FRAME - 100)]
    assert RecordBounds(TOPICS).admissible(records) is records


def test_a_decision_that_is_too_large_is_set_aside_between_its_neighbours() -> None:
    bounds = RecordBounds(TOPICS)
    bounds.learn({WIRE: 5_000})
    first, letter, last = bounds.admissible([record(1), record(4_000), record(2)])
    assert (first, last) == (record(1), record(2))
    assert (letter.topic, letter.partition) == (TOPICS.wire("dead-letters"), 1)
    body = orjson.loads(letter.value or b"")
    assert body["reason"] == "the log never takes this record: it has 4040 bytes, and the topic takes 3976"
    assert (body["topic"], body["by"], body["value"]["size"]) == (WIRE, "/ullage/recommender/1", 4_000)


def test_a_topic_that_takes_more_than_our_readers_do_gets_no_more_than_these() -> None:
    bounds = RecordBounds(TOPICS)
    bounds.learn({WIRE: 2 * MAX_RECORD_BYTES})
    assert bounds.most(WIRE) == bounds.most("another") == MAX_RECORD_BYTES - FRAME


def test_nothing_is_sent_where_not_even_the_dead_letter_fits() -> None:
    bounds = RecordBounds(TOPICS)
    bounds.learn({WIRE: 2_000, TOPICS.wire("dead-letters"): 1_500})
    assert list(bounds.admissible([record(4_000), record(2)])) == [record(2)]
