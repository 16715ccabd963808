"""What the log never takes is set aside by name and size, in every layer that appends; everything else goes on, once."""

from collections.abc import Sequence

import orjson
import pytest

from streams import refused_records
from streams.codec.event_codec import Codec, header
from streams.errors import LogUnavailable
from streams.log.log_port import NewRecord, Record
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.topics import TOPICS, Topics
from tests.support import examples
from tests.support.lossy_log import AwayLog

TOPIC_SET = Topics(partitions=2)
MOST = 4_000


def small_log(kind: type[MemoryLog] = MemoryLog) -> MemoryLog:
    log = kind(largest=MOST)
    for topic in TOPICS:
        log.create(TOPIC_SET.wire(topic.name), 2)
    return log


def whole(log: MemoryLog, topic: str, partition: int = 1) -> Sequence[Record]:
    return log.poll({(TOPIC_SET.wire(topic), partition): 0})


def records(topic: str, *sizes: int) -> list[NewRecord]:
    headers = (("ce_id", b"the-id"), ("ce_source", b"/ullage/source/kube"), ("ce_time", b"2026-01-01T00:00:00Z"))
    return [NewRecord(TOPIC_SET.wire(topic), 1, b"key-%d" % n, b"x" * size, headers) for n, size in enumerate(sizes)]


def test_a_dead_letter_names_the_record_its_size_and_the_bound() -> None:
    log = small_log()
    places = refused_records.append(log, TOPIC_SET, records("pod-changes", 10, 5_000, 20))
    assert [place is None for place in places] == [False, True, False]
    assert [len(r.value or b"") for r in whole(log, "pod-changes")] == [10, 20]
    (letter,) = whole(log, "dead-letters")
    body = orjson.loads(letter.value or b"")
    assert body["reason"] == "the log never takes this record: it has 5071 bytes, and the log takes 4000"
    assert (body["topic"], body["partition"], body["offset"]) == (TOPIC_SET.wire("pod-changes"), 1, None)
    assert (body["by"], body["key"], body["value"]["size"]) == ("/ullage/source/kube", {"text": "key-1"}, 5_000)
    assert header(letter, "ce_id") == f"/ullage/source/kube/refused/{TOPIC_SET.wire('pod-changes')}:1/the-id"


def test_a_dead_letter_that_is_refused_itself_stops_nothing() -> None:
    log = MemoryLog(largest=300)
    for topic in TOPICS:
        log.create(TOPIC_SET.wire(topic.name), 2)
    places = refused_records.append(log, TOPIC_SET, records("pod-changes", 10, 5_000, 20))
    assert [place is None for place in places] == [False, True, False]
    assert whole(log, "dead-letters") == []


def test_an_outbox_goes_on_behind_a_record_that_is_never_taken_and_appends_nothing_twice() -> None:
    log = small_log()
    outbox = Outbox(LogContext.of(log, TOPIC_SET, "c"))
    outbox.publish(facts=records("pod-changes", 1, 9_000, 2), scrapes=records("pod-metrics", 3, 8_000))
    assert outbox.flush()
    assert outbox.flush()
    outbox.publish(facts=records("pod-changes", 4), scrapes=())
    assert outbox.flush()
    assert [len(r.value or b"") for r in whole(log, "pod-changes")] == [1, 2, 4]
    assert [len(r.value or b"") for r in whole(log, "pod-metrics")] == [3]
    assert len(whole(log, "dead-letters")) == 2


def test_a_policy_that_is_never_taken_is_set_aside_with_its_copy() -> None:
    log = small_log()
    vpa = next(e for e in examples.EVENTS if type(e).__name__ == "VpaChanged")
    codec = Codec(TOPIC_SET)
    good = codec.encode(vpa, topic="policies", key=vpa.key, partition=0, source="s")
    huge = NewRecord(good.topic, 0, b"c/ns/huge", (good.value or b"") + b" " * MOST, good.headers)
    outbox = Outbox(LogContext.of(log, TOPIC_SET, "c"))
    outbox.publish(facts=[huge, good], scrapes=())
    assert outbox.flush()
    assert [r.key for r in whole(log, "policies", 0)] == [good.key]
    copies = [r.key for partition in (0, 1) for r in whole(log, "policies-latest", partition)]
    assert copies == [good.key]


def test_a_log_that_is_away_keeps_what_is_never_taken_until_it_is_back() -> None:
    log = small_log(AwayLog)
    assert isinstance(log, AwayLog)
    log.away = True
    with pytest.raises(LogUnavailable):
        refused_records.append(log, TOPIC_SET, records("pod-changes", 1, 9_000))
    log.away = False
    refused_records.append(log, TOPIC_SET, records("pod-changes", 1, 9_000))
    assert len(whole(log, "pod-changes")) == 1
