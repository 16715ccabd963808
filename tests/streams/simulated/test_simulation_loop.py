"""The world follows the log's ticks, and nothing else."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from agents.processes.source_simulated import SimulationLoop
from schemas.units import Seconds
from streams.errors import LogUnavailable, TryAgain
from streams.log.memory_log import MemoryLog
from streams.topics import TOPICS, Topics
from tests.support import ticks
from tests.support.simulated_shop import demo_cluster

START = datetime(2026, 3, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def log() -> MemoryLog:
    log, topics = MemoryLog(), Topics(partitions=2)
    for topic in TOPICS:
        log.create(topics.wire(topic.name), topics.partitions)
    return log


def say(log: MemoryLog, *times: datetime) -> None:
    for at in times:
        ticks.append(log, Topics(partitions=1), int(at.timestamp() * 1000))


def test_each_new_tick_advances_the_cluster_and_old_and_double_ones_do_not(log: MemoryLog) -> None:
    scraped: list[datetime] = []
    world = SimulationLoop(demo_cluster(1), log, Topics(partitions=2), scrape=scraped.append)
    assert world.poll_once() == 0
    say(log, START, START + MINUTE, START + MINUTE, START, START + 2 * MINUTE)
    assert world.poll_once() == 3
    assert scraped == [START, START + MINUTE, START + 2 * MINUTE]
    assert world.cluster.now == START + 2 * MINUTE


def test_ticks_from_before_the_world_began_are_not_its_past(log: MemoryLog) -> None:
    say(log, START)
    world = SimulationLoop(demo_cluster(1), log, Topics(partitions=2), scrape=lambda _at: None)
    assert world.poll_once() == 0
    say(log, START + MINUTE)
    assert world.poll_once() == 1


def test_between_scrapes_only_time_passes_and_after_each_tick_the_others_have_their_turn(log: MemoryLog) -> None:
    scraped: list[datetime] = []
    turns: list[int] = []
    world = SimulationLoop(demo_cluster(1), log, Topics(partitions=2), scrape=scraped.append, after=lambda: turns.append(1))
    world.poll_once()
    say(log, *(START + timedelta(seconds=15 * i) for i in range(9)))
    world.poll_once()
    assert scraped == [START, START + MINUTE, START + 2 * MINUTE]
    assert len(turns) == 9


def test_a_scrape_that_fails_does_not_stop_the_world(log: MemoryLog) -> None:
    def scrape(_at: datetime) -> None:
        raise TryAgain(doing="listing pods of", to="demo", answer="503", after=Seconds(10.0))

    world = SimulationLoop(demo_cluster(1), log, Topics(partitions=2), scrape=scrape)
    world.poll_once()
    say(log, START, START + MINUTE)
    assert world.poll_once() == 2


def test_it_runs_until_told_to_stop(log: MemoryLog) -> None:
    stop, lived = threading.Event(), threading.Event()
    world = SimulationLoop(demo_cluster(1), log, Topics(partitions=2), scrape=lambda _at: None, after=lived.set)
    world.poll_once()
    thread = threading.Thread(target=world.run, args=(stop,))
    thread.start()
    say(log, START)
    assert lived.wait(60)
    stop.set()
    thread.join(60)
    assert not thread.is_alive()
    assert len(world.cluster.pods()) == 36


def test_a_log_that_is_away_is_said_once_until_it_is_back(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["away", "away", "away", "back", "away", "away"])
    stop = threading.Event()
    world = SimulationLoop(demo_cluster(1), log, Topics(partitions=2), scrape=lambda _at: None)

    def poll_once(_loop: SimulationLoop, *, wait: float) -> int:
        answer = next(answers, "over")
        if answer == "away":
            raise LogUnavailable("nobody answers")
        if answer == "over":
            stop.set()
        return int(wait)

    monkeypatch.setattr(SimulationLoop, "poll_once", poll_once)
    with capture_logs() as lines:
        world.run(stop)
    assert [line["event"] for line in lines] == ["the log is away, simulated time stands still"] * 2
