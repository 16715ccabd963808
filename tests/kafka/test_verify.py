"""Runner, verify and why over a real Kafka: the same answers as over a log in memory."""

from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaAdminClient, TopicPartition

from agents.run.stage_runner import Runner
from agents.verify.verification import verify
from agents.verify.verification_report import DiscrepancyKind
from agents.why.explanation import explain
from agents.why.explanation_lines import lines
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.topics import Topics
from tests.support import ticks
from tests.support.small_pipeline import START_MS, TILL, WEB, PipelineLog, stages

MINUTES = 4


@pytest.fixture
def log(broker: str) -> Iterator[KafkaLog]:
    with KafkaLog(KafkaConnection(broker)) as log:
        yield log


@pytest.fixture
def context(log: KafkaLog, topics_made: Callable[..., Topics]) -> LogContext:
    """Four minutes of both workloads, and every turn taken and published through Kafka."""
    bench = PipelineLog(topics=topics_made(partitions=2))
    context = LogContext(log, bench.topics, bench.codec)
    runner = Runner(stages(), context)
    for minute in range(1, MINUTES + 1):
        log.append([*bench.metrics(minute, (WEB, 0.25, 100), (TILL, 0.5, 50))])
        ticks.append(log, bench.topics, START_MS + minute * 60_000)
        runner.run()
    return context


def test_what_went_through_kafka_verifies_and_a_stranger_in_it_is_found(context: LogContext) -> None:
    verified = verify(context, stages())
    assert verified.ok, verified.discrepancies
    # Two workloads in two topics each minute, and the evictions for all but the last minute's.
    assert (verified.decisions, verified.turns) == (4 * MINUTES + 2 * (MINUTES - 1), 2 * 2 * MINUTES)
    stranger = NewRecord(context.topics.wire("pod-updates"), 0, b"demo", b"{}", (("ce_id", b"made-up"),))
    context.log.append([stranger])
    assert verify(context, stages()).counts == {DiscrepancyKind.EXTRA: 1}


def test_why_walks_through_kafka(context: LogContext) -> None:
    plan = f"evictor/1/{START_MS + 2 * 60_000}/evict/{WEB.key}"
    said = list(lines(explain(context, plan)))
    assert "eviction planned: pod web-0" in said[0]
    assert any("usage scraped: rows 1" in line for line in said)


def test_records_deleted_from_kafka_put_their_partition_out_of_reach(context: LogContext, broker: str) -> None:
    wire, partition = context.topics.wire("pod-metrics"), context.topics.partition_of(WEB.key)
    admin = KafkaAdminClient(bootstrap_servers=broker)
    try:
        admin.delete_records({TopicPartition(wire, partition): 2})
    finally:
        admin.close()
    verified = verify(context, stages())
    assert verified.counts == {DiscrepancyKind.UNREACHABLE: 1}
    assert f"'{wire}' is kept from offset 2 on" in verified.discrepancies[0].says
    assert f"turn {START_MS + 2 * 60_000} or later" in verified.discrepancies[0].says
