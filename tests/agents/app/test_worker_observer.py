"""What a worker reports while it takes no turn: its metrics go on when the partition does not."""

import asyncio

import pytest
from structlog.testing import capture_logs

from agents.app.checkpoint_writer import Generation
from agents.app.owned_partition import OwnedPartition, new_ledger
from agents.app.partition_recovery import Recovery
from agents.app.stage_host import StageHost
from agents.app.worker_observer import WAITED, WorkerObserver
from agents.app.worker_plan import WorkerPlan, from_settings
from agents.run import pipeline
from agents.settings.all_settings import Settings
from streams.clock_rules import Tick
from streams.log.kafka_connection import KafkaConnection
from streams.log.log_port import NewRecord, Record
from streams.topics import Topics

TASK = {"stage": "recommender", "partition": "0"}


class Clock:
    """Real seconds that pass as the test says."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def hosted(clock: Clock | None = None) -> tuple[StageHost, OwnedPartition, WorkerObserver]:
    """The recommender with partition 0 open and caught up. Neither Faust nor Kafka is needed until a record is to be sent."""
    topics = Topics("ullage", 1)
    of = WorkerPlan(KafkaConnection("127.0.0.1:1"), topics, pipeline.stages(Settings())[:1])
    observer = WorkerObserver(of, clock or Clock())
    host = StageHost(of.stages[0], of, consumer=None, producer=Roomy(), observer=observer)  # type: ignore[arg-type]  # not asked for anything here
    begins = dict.fromkeys(host.wires, 0)
    owned = host.owned[0] = OwnedPartition(host.task(0, positions=begins), new_ledger([]), begins, open=True)
    observer.assigned([("recommender", 0)])
    observer.opened(owned)
    return host, owned, observer


class Roomy:
    """A producer with room."""

    has_room = True


def ticked(host: StageHost, owned: OwnedPartition, number: int, **ends: int) -> None:
    """A tick comes in; inputs end as it says, all others where they were read."""
    moved = {(name.replace("_", "-"), 0): end for name, end in ends.items()}
    asyncio.run(host.take_tick(owned, Tick(number, number, f"tick-{number}", moved)))


class Slow:
    """A state whose step takes so long as the test says, and asks meanwhile whether the worker is alive and ready."""

    def __init__(self, clock: Clock, observer: WorkerObserver, seconds: float) -> None:
        self.clock, self.observer, self.seconds = clock, observer, seconds
        self.alive: list[str] = []
        self.ready: list[str] = []

    def step(self, _turn: object) -> list[object]:
        self.clock.now += self.seconds
        self.alive, self.ready = self.observer.liveness.reasons(), self.observer.not_ready()
        return []


@pytest.mark.parametrize(
    ("seconds", "alive", "ready"),
    [
        (2.0, [], []),
        (300.0, [], ["recommender/0 has been taking one turn for 300 s"]),
        (1000.0, ["the loop has not come round for 1000 s"], ["recommender/0 has been taking one turn for 1000 s"]),
    ],
)
def test_a_long_turn_is_no_hung_loop_but_the_worker_is_not_ready(seconds: float, alive: list[str], ready: list[str]) -> None:
    clock = Clock()
    host, owned, observer = hosted(clock)
    slow = Slow(clock, observer, seconds)
    owned.task.state = slow  # type: ignore[assignment]  # as much of a state as a turn needs
    ticked(host, owned, 1_000)
    assert (slow.alive, slow.ready) == (alive, ready)
    assert (observer.liveness.reasons(), observer.not_ready()) == ([], []), "it is over"


def test_an_input_that_is_not_read_to_its_end_lets_the_lag_grow_and_the_worker_is_not_ready() -> None:
    clock = Clock()
    host, owned, observer = hosted(clock)
    ticked(host, owned, 1_000)
    assert observer.metrics.readiness.reasons() == []
    with capture_logs() as logs:
        clock.now += 1.5
        ticked(host, owned, 8_000, pod_metrics=1)
        clock.now += WAITED
        ticked(host, owned, 16_000)
    assert observer.registry.get_sample_value("ullage_turn_lag_seconds", TASK) == 15.0
    assert observer.registry.get_sample_value("ullage_turn_waits", {**TASK, "topic": "pod-metrics"}) == 1.0
    assert observer.metrics.readiness.reasons() == [
        (
            "recommender/0 is 15.0 s of event time behind, more than 10.0 s: "
            "the turn of 1970-01-01 00:00:08 UTC waits for records of 'pod-metrics'"
        )
    ]
    assert [line["event"] for line in logs] == ["a turn waits"]
    owned.task.aligner.inputs["pod-metrics"].skip_to(1)
    clock.now += 0.5
    ticked(host, owned, 16_500)
    assert (observer.metrics.readiness.reasons(), owned.task.turn) == ([], 16_500)
    assert observer.registry.get_sample_value("ullage_turn_waits", {**TASK, "topic": "pod-metrics"}) is None


def test_a_worker_is_not_ready_while_its_partitions_are_taken_from_it() -> None:
    host, owned, observer = hosted()
    Recovery((host,), None, generation=Generation(0, asyncio.Lock()), observer=observer, clock=None).revoked()  # type: ignore[arg-type]  # Faust is not asked
    assert not owned.open
    assert observer.metrics.readiness.reasons() == ["recommender/0 is not open: its state is being recovered"]
    assert observer.registry.get_sample_value("ullage_partitions_open", {"stage": "recommender"}) == 0


def test_what_is_in_flight_when_partitions_are_taken_away_is_forgotten() -> None:
    host, _, observer = hosted()
    recovery = Recovery((host,), None, generation=Generation(0, asyncio.Lock()), observer=observer, clock=None)  # type: ignore[arg-type]  # as above
    record = NewRecord("recommendations-by-cluster", 0, b"prod", b"{}")
    host.in_flight.follow([(record.topic, 0)])
    assert host.in_flight.follows(record)
    recovery.revoked()
    assert not host.in_flight.follows(record)


def test_a_worker_with_rare_ticks_is_ready_between_two_of_them() -> None:
    assert from_settings(Settings()).behind == 10.0
    assert from_settings(Settings(clock={"period_ms": 60_000})).behind == 120.0  # type: ignore[arg-type]  # pydantic makes the part


def test_a_worker_is_ready_once_it_has_read_what_was_there_even_if_no_clock_ticks() -> None:
    host, owned, observer = hosted()
    owned.goals["policies"] = 2
    observer.opened(owned)
    assert observer.metrics.readiness.reasons() == ["recommender/0 is not open: its state is being recovered"]
    for offset in range(2):
        host.feed(owned, "policies", Record(host.wires["policies"], 0, offset, b"key", b"{}", ()))
    assert observer.metrics.readiness.reasons() == []
