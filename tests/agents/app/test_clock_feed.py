"""What the reader of the clock finds out beside ticks: a log that lost what was read, and an input that no tick names."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import CorruptRecordException, OffsetOutOfRangeError

from agents.app import clock_feed, supervision
from agents.app.clock_feed import ClockFeed
from agents.app.owned_partition import OwnedPartition, new_ledger
from agents.app.stage_host import StageHost
from agents.app.worker_observer import WorkerObserver
from agents.app.worker_plan import WorkerPlan
from agents.run import pipeline
from agents.settings.all_settings import Settings
from streams import clock_log
from streams.clock_log import ClockReader
from streams.clock_rules import Counted
from streams.log.kafka_connection import KafkaConnection
from streams.log.log_port import NewRecord
from streams.sources.clock import TickWriter
from streams.topics import TOPICS, Topics
from tests.support.lossy_log import LossyLog

PAPERS = Topics("ullage", 1)


class Worker:
    """A worker that owns the recommender's partition, beside a clock that ticks in a log that may lose its end."""

    def __init__(self) -> None:
        self.log = LossyLog()
        for topic in TOPICS:
            self.log.create(PAPERS.wire(topic.name), 1)
        self.clock, self.counted, self.number = TickWriter(self.log, PAPERS), Counted(), 0
        plan = WorkerPlan(KafkaConnection("127.0.0.1:1"), PAPERS, pipeline.stages(Settings())[:1])
        self.observer = WorkerObserver(plan)
        self.host = StageHost(plan.stages[0], plan, consumer=None, producer=None, observer=self.observer)  # type: ignore[arg-type]  # not asked for anything here
        begins = dict.fromkeys(self.host.wires, 0)
        self.owned = OwnedPartition(self.host.task(0, positions=begins), new_ledger([]), begins, open=True)
        self.host.owned[0] = self.owned
        self.feed = ClockFeed((self.host,))
        self.feed._log = self.log  # type: ignore[assignment]  # it is asked as Kafka is
        self.feed._reader = ClockReader(self.log, PAPERS, self.counted)

    def append(self, name: str, count: int = 1) -> None:
        self.log.append([NewRecord(PAPERS.wire(name), 0, b"k", b"{}")] * count)

    def read(self) -> None:
        """All records of the inputs, and the ticks."""
        for name, source in self.owned.task.aligner.inputs.items():
            for record in self.log.poll({(PAPERS.wire(name), 0): source.next}):
                self.owned.task.feed(name, record)
        for tick in clock_log.ticks_from(self.log, PAPERS, self.counted):
            self.owned.task.take_tick(tick)

    def turn(self) -> None:
        self.number += 500
        self.clock.write(self.number)
        self.read()
        while self.owned.task.next_turn() is not None:
            pass

    def look(self) -> None:
        asyncio.run(self.feed._require_held())


class _EndedError(Exception):
    """The process would end here."""


@pytest.fixture(autouse=True)
def _ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(error: BaseException, **_where: object) -> None:
        raise _EndedError(str(error))

    monkeypatch.setattr(supervision, "end", end)


@pytest.mark.parametrize("name", ["policies", "clock"])
def test_a_worker_ends_when_a_log_has_lost_what_it_read(name: str) -> None:
    worker = Worker()
    worker.append("policies", 5)
    worker.turn()
    worker.turn()
    worker.look()
    worker.log.elect(PAPERS.wire(name), 0, losing=1)
    worker.append(name, 3)  # it grows beyond, and the worker reads on
    worker.turn()
    with pytest.raises(_EndedError, match=rf"{name}.*was read up to \d under a leader of epoch 0, and the log left that at \d"):
        worker.look()


def test_what_was_read_of_the_clock_and_did_not_count_is_asked_about_too() -> None:
    """Other records come at those offsets, and this worker would never read them."""
    worker = Worker()
    worker.turn()
    worker.append("clock", 2)
    worker.read()
    worker.log.elect(PAPERS.wire("clock"), 0, losing=2)
    with pytest.raises(_EndedError, match=r"clock.*was read up to 3 under a leader of epoch 0, and the log left that at 1"):
        worker.look()


def test_it_goes_on_under_a_leader_that_has_everything() -> None:
    worker = Worker()
    for _ in range(3):
        worker.append("policies", 5)
        worker.turn()
        worker.log.elect(PAPERS.wire("policies"), 0)
        worker.log.elect(PAPERS.wire("clock"), 0)
        worker.look()
    assert worker.owned.task.epochs.epochs() == {"policies": [(2, 15)], "clock": [(2, 3)]}


def test_an_input_that_an_older_clock_does_not_name_is_named() -> None:
    worker = Worker()
    worker.clock._names = tuple(topic.name for topic in TOPICS if topic.name != "oom-events")
    worker.append("oom-events")
    worker.turn()
    for expected in (0, 1):  # one look alone may come between a record and its tick
        worker.feed._name_unnamed(worker.counted)
        reasons = [reason for reason in worker.observer.own_reasons() if "oom-events" in reason]
        assert len(reasons) == expected
    assert reasons[0].startswith("no tick says how far 'oom-events' got, so what came there is left unread")
    worker.clock._names = ()
    worker.turn()
    worker.feed._name_unnamed(worker.counted)
    assert not any("oom-events" in reason for reason in worker.observer.own_reasons())


class Client:
    """Delivers what the log has from where it stands, as the event loop's client does, or fails once in a given way."""

    def __init__(self, log: LossyLog) -> None:
        self.log, self.at = log, 0
        self.error: Exception | None = None

    def seek(self, _place: object, offset: int) -> None:
        self.at = offset

    async def getmany(self, place: Any, *, timeout_ms: int, max_records: int) -> dict[Any, list[Any]]:
        assert timeout_ms > 0
        error, self.error = self.error, None
        if error is not None:
            raise error
        if self.at > self.log.end(*place):
            raise OffsetOutOfRangeError
        records = self.log.poll({tuple(place): self.at}, limit=max_records)
        self.at = records[-1].offset + 1 if records else self.at
        return {place: [SimpleNamespace(**_message(record)) for record in records]}


def _message(record: Any) -> dict[str, Any]:
    plain = {name: getattr(record, name) for name in ("topic", "partition", "offset", "key", "value", "headers")}
    return {**plain, "timestamp": record.timestamp_ms, "checksum": record.epoch}


class Reading:
    """A feed that reads the clock through such a client."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(clock_feed, "WAIT", 0.01)
        self.worker = Worker()
        self.client, self.clock = Client(self.worker.log), self.worker.clock
        self.reader = ClockReader(self.worker.log, PAPERS, Counted())

    def numbers(self) -> list[int]:
        """The numbers of the ticks that come next."""
        return [tick.number for tick in asyncio.run(self.worker.feed._next_ticks(self.client, self.reader))]


def test_ticks_come_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    assert reading.numbers() == []
    for number in (500, 1_000, 1_500):
        reading.clock.write(number)
    assert reading.numbers() == [500, 1_000, 1_500]
    reading.clock.write(2_000)
    assert reading.numbers() == [2_000]
    assert reading.numbers() == []


def test_what_the_client_cannot_read_is_read_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    reading.clock.write(500)
    reading.client.error = CorruptRecordException("what the client does not understand")
    assert reading.numbers() == [500]
    assert reading.client.at == reading.reader.counted.next  # it goes on after what was read
    reading.clock.write(1_000)
    assert reading.numbers() == [1_000]


def test_ticks_that_retention_took_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    for number in range(500, 70_000, 500):
        reading.clock.write(number)
    reading.worker.log.truncate(*clock_log.place(PAPERS), 100)
    reading.client.at = 100  # where a client's next record is, when retention has taken those before
    numbers = reading.numbers()
    assert numbers[-1] == 69_500
    assert reading.client.at == reading.reader.counted.next


def test_a_lost_end_is_waited_for_without_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    for number in (500, 1_000, 1_500):
        reading.clock.write(number)
    assert reading.numbers() == [500, 1_000, 1_500]
    reading.worker.log.elect(*clock_log.place(PAPERS), losing=2)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(clock_feed.asyncio, "sleep", sleep)
    for times in (1, 2, 3):
        assert reading.numbers() == []
        assert len(slept) == times
    assert reading.reader.counted.next == 3
