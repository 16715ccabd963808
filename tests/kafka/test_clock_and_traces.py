"""The clock and the traces source on a real Kafka: whose time a record has, and that every row arrives."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.facts.usage import MetricsScraped
from streams import clock_log
from streams.clock_rules import Counted
from streams.codec.event_codec import Codec
from streams.errors import TryAgain
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.sources.clock import Clock, ClockTiming, wall_ms
from streams.sources.traces import Trace, TracePlayer
from streams.topics import Topics


def test_a_clock_ticks(broker: str, topics_made: Callable[..., Topics]) -> None:
    topics = topics_made(partitions=2)
    with KafkaLog(KafkaConnection(broker)) as log:
        clock = Clock(log, topics, ClockTiming(period_ms=100))
        first = clock.step()
        while (second := clock.step()) is None:
            time.sleep(clock.wait())
        assert first is not None
        assert first < second
        assert [tick.number for tick in clock_log.ticks_from(log, topics, Counted())] == [first, second]


@pytest.mark.parametrize(("lead", "words"), [(60_000, "ahead of it"), (-60_000, "behind it")])
def test_a_clock_that_is_a_minute_off_the_broker_writes_no_tick(
    broker: str, topics_made: Callable[..., Topics], lead: int, words: str
) -> None:
    topics = topics_made(partitions=1)
    with KafkaLog(KafkaConnection(broker)) as log:
        with pytest.raises(TryAgain, match=words):
            Clock(log, topics, now=lambda: wall_ms() + lead).step()
        assert clock_log.newest(log, topics) is None


def test_every_row_of_a_trace_arrives(broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> None:
    topics = topics_made(partitions=2)
    path = tmp_path / "usage.csv"
    lines = [f"c{i % 7},{60 * (i // 7 + 1)},{i / 8},{i}" for i in range(700)]
    path.write_text("\n".join(["container_id,timestamp_s,cpu_cores,memory_bytes", *lines]))
    reader = Codec(topics)
    with KafkaLog(KafkaConnection(broker)) as log, Trace(path) as trace:
        *_, last = TracePlayer(trace, LogContext.of(log, topics, "trace")).play()
        assert last.rows == 700
        cores: list[float] = []
        for partition in range(2):
            place = (topics.wire("pod-metrics"), partition)
            at, end = 0, log.end(*place)
            while at < end:
                for record in log.poll({place: at}, wait=5.0):
                    at = record.offset + 1
                    event = reader.decode(record)
                    assert isinstance(event, MetricsScraped)
                    cores += event.cores.tolist()
    assert sorted(cores) == [i / 8 for i in range(700)]
