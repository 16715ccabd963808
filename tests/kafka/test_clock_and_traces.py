"""The clock and the traces source on a real Kafka: whose time a record has, and that every row arrives."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.run.stage_topics import ticked_topics
from schemas.facts.usage import MetricsScraped
from streams.codec import event_codec
from streams.codec.event_codec import Codec
from streams.errors import TryAgain
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.sources.clock import Clock, ClockTiming, wall_ms
from streams.sources.traces import Trace, TracePlayer
from streams.topics import Topics


def test_a_clock_ticks_in_every_partition_that_a_stage_reads(broker: str, topics_made: Callable[..., Topics]) -> None:
    topics = topics_made(partitions=2)
    with KafkaLog(KafkaConnection(broker)) as log:
        clock = Clock(log, topics, ClockTiming(period_ms=100), ticked=ticked_topics())
        first = clock.step()
        time.sleep(clock.wait())
        second = clock.step()
        assert first is not None
        assert second is not None
        assert first < second
        for topic in ticked_topics():
            for partition in range(2):
                found = log.poll({(topics.wire(topic), partition): 0}, wait=5.0)
                assert [event_codec.tick_number(r) for r in found] == [first, second]


@pytest.mark.parametrize(("lead", "words"), [(60_000, "ahead of it"), (-60_000, "behind it")])
def test_a_clock_that_is_a_minute_off_the_broker_writes_no_tick(
    broker: str, topics_made: Callable[..., Topics], lead: int, words: str
) -> None:
    topics = topics_made(partitions=1)
    with KafkaLog(KafkaConnection(broker)) as log:
        with pytest.raises(TryAgain, match=words):
            Clock(log, topics, ticked=ticked_topics(), now=lambda: wall_ms() + lead).step()
        assert {log.end(topics.wire(name), 0) for name in ticked_topics()} == {0}


def test_every_row_of_a_trace_arrives(broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> None:
    topics = topics_made(partitions=2)
    path = tmp_path / "usage.csv"
    lines = [f"c{i % 7},{60 * (i // 7 + 1)},{i / 8},{i}" for i in range(700)]
    path.write_text("\n".join(["container_id,timestamp_s,cpu_cores,memory_bytes", *lines]))
    reader = Codec(topics)
    with KafkaLog(KafkaConnection(broker)) as log, Trace(path) as trace:
        *_, last = TracePlayer(trace, LogContext.of(log, topics, "trace"), ticked=ticked_topics()).play()
        assert last.rows == 700
        cores: list[float] = []
        for partition in range(2):
            place = (topics.wire("pod-metrics"), partition)
            at, end = 0, log.end(*place)
            while at < end:
                for record in log.poll({place: at}, wait=5.0):
                    at = record.offset + 1
                    if event_codec.tick_number(record) is None:
                        event = reader.decode(record)
                        assert isinstance(event, MetricsScraped)
                        cores += event.cores.tolist()
    assert sorted(cores) == [i / 8 for i in range(700)]
