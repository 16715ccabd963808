"""What the reader of the clock finds out beside ticks: a log that lost what was read, and an input that no tick names."""

import asyncio

import pytest

from agents.app import supervision
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
