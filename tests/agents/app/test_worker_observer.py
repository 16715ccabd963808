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
from streams.codec.event_codec import tick
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
    host = StageHost(of.stages[0], of, consumer=None, producer=None, observer=observer)  # type: ignore[arg-type]  # not asked for anything here
    begins = dict.fromkeys(host.wires, 0)
    owned = host.owned[0] = OwnedPartition(host.task(0, positions=begins), new_ledger([]), begins, open=True)
    observer.assigned([("recommender", 0)])
    observer.opened(owned)
    return host, owned, observer


def ticked(  # noqa: PLR0917  # a short word for many lines
    host: StageHost, owned: OwnedPartition, name: str, offset: int, number: int, appended: int = -1
) -> None:
    """One tick in one input."""
    new = tick(host.wires[name], 0, number)
    host.feed(owned, name, Record(new.topic, 0, offset, new.key, new.value, new.headers, appended))


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
    for name in host.wires:
        ticked(host, owned, name, 0, 1_000)
    assert (slow.alive, slow.ready) == (alive, ready)
    assert (observer.liveness.reasons(), observer.not_ready()) == ([], []), "it is over"


def test_an_input_that_gets_no_ticks_lets_the_lag_grow_and_the_worker_is_not_ready() -> None:
    clock = Clock()
    host, owned, observer = hosted(clock)
    for name in host.wires:
        ticked(host, owned, name, 0, 1_000)
    assert observer.metrics.readiness.reasons() == []
    for offset, number in enumerate((8_000, 8_500), 1):
        clock.now += 0.5
        ticked(host, owned, "pod-metrics", offset, number)
    clock.now += WAITED
    ticked(host, owned, "pod-metrics", 3, 16_000)
    assert observer.registry.get_sample_value("ullage_turn_lag_seconds", TASK) == 15.0
    (reason,) = observer.metrics.readiness.reasons()
    assert reason == (
        "recommender/0 is 15.0 s of event time behind, more than 10.0 s: the turn waits for a tick of "
        "1970-01-01 00:00:08 UTC in 'rules', 'policies', 'cluster-changes', 'pod-changes', 'oom-events', "
        "because 'pod-metrics' has one"
    )


def test_ticks_that_come_again_after_a_pause_of_the_clock_are_no_turn_that_waits() -> None:
    clock = Clock()
    host, owned, observer = hosted(clock)
    for name in host.wires:
        ticked(host, owned, name, 0, 1_000)
    clock.now += 100
    with capture_logs() as logs:
        for name in host.wires:  # the first of them is ahead of the others until the last one is in
            ticked(host, owned, name, 1, 101_000)
    assert logs == []
    assert observer.metrics.readiness.reasons() == []


def test_a_worker_is_not_ready_while_its_partitions_are_taken_from_it() -> None:
    host, owned, observer = hosted()
    Recovery((host,), None, generation=Generation(0, asyncio.Lock()), observer=observer).revoked()  # type: ignore[arg-type]  # Faust is not asked
    assert not owned.open
    assert observer.metrics.readiness.reasons() == ["recommender/0 is not open: its state is being recovered"]
    assert observer.registry.get_sample_value("ullage_partitions_open", {"stage": "recommender"}) == 0


def test_what_is_in_flight_when_partitions_are_taken_away_is_forgotten() -> None:
    host, _, observer = hosted()
    recovery = Recovery((host,), None, generation=Generation(0, asyncio.Lock()), observer=observer)  # type: ignore[arg-type]  # as above
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


AHEAD = 240_000
NOW = 1_800_000_000_000


def test_a_tick_a_few_minutes_ahead_stops_the_partition_visibly_until_the_others_get_there() -> None:
    clock = Clock()
    host, owned, observer = hosted(clock)
    for name in host.wires:
        ticked(host, owned, name, 0, NOW, NOW)
    with capture_logs() as logs:
        ticked(host, owned, "oom-events", 1, NOW + AHEAD, NOW + 500)
        for n in range(1, 40):
            clock.now += 0.5
            for name in host.wires:
                ticked(host, owned, name, n + 1, NOW + n * 500, NOW + n * 500)
    (reason,) = observer.metrics.readiness.reasons()
    assert reason == (
        "recommender/0 is 240.0 s of event time behind, more than 10.0 s: the turn waits for a tick of "
        "2027-01-15 08:04:00 UTC in 'rules', 'policies', 'cluster-changes', 'pod-changes', 'pod-metrics', "
        "because 'oom-events' has one"
    )
    assert [line["event"] for line in logs] == ["a turn waits"]
    assert observer.registry.get_sample_value("ullage_turn_waits", {**TASK, "topic": "pod-metrics"}) == 1.0
    assert observer.registry.get_sample_value("ullage_turn_waits", {**TASK, "topic": "oom-events"}) is None
    for name in host.wires:
        if name != "oom-events":
            ticked(host, owned, name, 100, NOW + AHEAD, NOW + AHEAD)
    assert observer.metrics.readiness.reasons() == []
    assert observer.registry.get_sample_value("ullage_turn_waits", {**TASK, "topic": "pod-metrics"}) is None


def test_a_worker_that_catches_up_has_inputs_that_are_behind_and_says_nothing_of_a_wait() -> None:
    clock = Clock()
    host, owned, observer = hosted(clock)
    with capture_logs() as logs:
        for n in range(1, 60):
            ticked(host, owned, "pod-metrics", n, n * 20_000)
        for n in range(1, 50):
            clock.now += 1.0
            for name in host.wires:
                if name != "pod-metrics":
                    ticked(host, owned, name, n, n * 20_000)
            (reason,) = observer.metrics.readiness.reasons()
            assert reason.endswith("more than 10.0 s")
    assert (logs, owned.task.turn) == ([], 49 * 20_000)


def test_a_tick_a_day_ahead_is_nothing_and_is_counted() -> None:
    host, owned, observer = hosted()
    for name in host.wires:
        ticked(host, owned, name, 0, NOW, NOW)
    ticked(host, owned, "oom-events", 1, NOW + 86_400_000, NOW + 100)
    for name in host.wires:
        ticked(host, owned, name, 2, NOW + 500, NOW + 500)
    assert (owned.task.turn, owned.lag) == (NOW + 500, 0.0)
    assert observer.metrics.readiness.reasons() == []
    labels = {**TASK, "topic": host.wires["oom-events"]}
    assert observer.registry.get_sample_value("ullage_ticks_passed_over_total", labels) == 1.0


def test_ticks_behind_a_tick_of_the_future_leave_the_worker_unready_and_the_age_of_the_tick_grows() -> None:
    clock = Clock()
    host, owned, observer = hosted(clock)
    for offset, number in enumerate((1_000, 1_500, 3_000_000)):
        for name in host.wires:
            ticked(host, owned, name, offset, number)
    clock.now = 21.0
    for name in host.wires:
        ticked(host, owned, name, 3, 22_000)
    assert observer.not_ready() == [
        "for 21 s no tick was later than 1970-01-01T00:50:00+00:00, which the log has reached: was a clock's time wrong?"
    ]
