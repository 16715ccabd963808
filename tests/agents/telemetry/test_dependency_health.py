import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest
import structlog

from agents.telemetry import DependencyMonitor, DependencyStatus, logging_setup
from agents.telemetry.logging_setup import ClientLogFilter
from schemas.units import Seconds
from streams.errors import LogUnavailable


class Thing:
    """Something that is there, or not."""

    def __init__(self) -> None:
        self.fault: Exception | None = None

    def look(self) -> None:
        if self.fault is not None:
            raise self.fault


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    out = io.StringIO()
    logging_setup.set_up("usage", stream=out, colours=False)
    yield out
    root.handlers[:], root.level = before
    structlog.reset_defaults()


def _said(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def _held_back() -> ClientLogFilter:
    held_back = logging_setup.client_log_filter()
    assert held_back is not None
    return held_back


def test_a_thing_that_goes_away_and_comes_back_is_said_once_each(out: io.StringIO) -> None:
    dependencies, kafka, server = DependencyMonitor(), Thing(), Thing()
    dependencies.watch("Kafka", kafka.look)
    dependencies.watch("the API server", server.look)
    kafka.fault = LogUnavailable("nobody answers at '127.0.0.1:9092'")
    for _ in range(50):
        dependencies.round()
    (reason,) = dependencies.reasons()
    assert reason.startswith("Kafka is away for ")
    assert reason.endswith(": nobody answers at '127.0.0.1:9092'")
    kafka.fault = None
    dependencies.round()
    dependencies.round()
    assert dependencies.reasons() == []
    assert [(line["event"], line["what"]) for line in _said(out)] == [("away", "Kafka"), ("back", "Kafka")]


def test_what_clients_say_of_a_thing_that_is_away_is_left_out_and_counted(out: io.StringIO) -> None:
    kafka, asked = Thing(), []
    dependencies = DependencyMonitor(_held_back())
    dependencies.watch("Kafka", kafka.look)
    _held_back().on_first(lambda: asked.append(True))
    client = logging.getLogger("kafka.conn")
    kafka.fault = LogUnavailable("nobody answers")
    for n in range(500):
        client.warning("Connect attempt %d failed", n)
    assert asked == [True], "the first line makes somebody look"
    dependencies.round()
    client.error("Unable to connect")
    kafka.fault = None
    dependencies.round()
    client.warning("a last word on it")
    dependencies.round()
    away, back = _said(out)
    assert (away["event"], back["event"], back["lines_left_out"]) == ("away", "back", 501)


def test_what_clients_say_while_all_is_well_comes_out_once_for_each_sentence(out: io.StringIO) -> None:
    held_back, dependencies = _held_back(), DependencyMonitor(_held_back())
    held_back.on_first(lambda: None)
    client = logging.getLogger("aiokafka.consumer.fetcher")
    for n in range(3):
        client.warning("offset %d is out of range", n)
    logging.getLogger("streams.publishing.outbox").warning("ours comes at once")
    assert [line["event"] for line in _said(out)] == ["ours comes at once"]
    dependencies.round()
    client.warning("offset %d is out of range", 4)
    dependencies.round()
    assert [line["event"] for line in _said(out)][1:] == ["offset 0 is out of range"]


def test_a_thread_looks_while_the_block_runs() -> None:
    looked = threading.Event()
    dependencies = DependencyMonitor(every=Seconds(60.0))
    dependencies.watch("it", looked.set)
    assert not looked.is_set()
    with dependencies:
        assert looked.wait(60.0)


def test_a_sight_that_nobody_has_looked_at_yet_says_so_and_is_not_away() -> None:
    now = [100.0]
    aws = DependencyStatus("AWS", not_yet="AWS was not asked yet", clock=lambda: now[0])
    assert aws.reasons() == ["AWS was not asked yet"]
    assert not aws.away
    aws.failed("403")
    now[0] += 61.0
    aws.failed("still 403")
    assert aws.reasons() == ["AWS is away for 61 s: still 403"]
    aws.answered()
    assert aws.reasons() == []


def test_a_thing_that_takes_too_long_for_an_answer_is_not_seen_meanwhile() -> None:
    now = 100.0
    status = DependencyStatus("Prometheus", not_yet="it was not asked yet", clock=lambda: now)
    with status.asking(within=Seconds(30.0)):
        assert status.reasons() == ["it was not asked yet"]
    status.answered()
    with status.asking(within=Seconds(30.0)):
        now += 30.0
        assert status.reasons() == []
        now += 11.0
        assert status.reasons() == ["Prometheus has not answered for 41 s"]
    assert status.reasons() == []
