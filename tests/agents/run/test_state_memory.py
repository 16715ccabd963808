"""What a container takes of a worker's memory in each stage, with its pod, and a VPA for each workload."""

import gc
import tracemalloc
from collections.abc import Mapping

import pytest

from agents.run.pipeline import stages
from agents.run.stage_runner import Runner
from agents.settings.all_settings import Settings
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS, Topics
from tests.bench import idle_costs
from tests.bench.fleet import Fleet
from tests.support import ticks

CONTAINERS = 2_000
START, HOUR = 1_790_000_000_000, 3_600_000
MOST = {"recommender": 1_350, "conditions": 650, "updater": 1_700, "scaler": 300, "forecaster": 550}
"""Bytes a container."""


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def grown() -> Mapping[str, tuple[float, Mapping[str, bytes]]]:
    """Of each stage that took a fleet in: the bytes a container that go with its state, and the dump of that."""
    topics = Topics("memory", 1)
    context = LogContext.of(MemoryLog(), topics)
    assert isinstance(context.log, MemoryLog)
    for topic in TOPICS:
        context.log.create(topics.wire(topic.name), 1)
    fleet = Fleet(topics, CONTAINERS)
    context.log.append(list(idle_costs.known(fleet, START)))
    tracemalloc.start()
    runner = Runner(stages(Settings(topics={"partitions": 1})), context)  # type: ignore[arg-type]  # pydantic makes the part
    for hour in range(1, 5):
        context.log.append(list(fleet.scrape(START + hour * HOUR)))
        for number in range(START + hour * HOUR, START + hour * HOUR + 180_000, 30_000):
            ticks.append(context.log, topics, number)
            runner.run()
    stated = {}
    for task in runner.tasks:
        dump = {chunk: task.state.dump(chunk) for chunk in sorted(task.state.chunks())}
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        task.state = task.stage.open(0)
        gc.collect()
        stated[task.stage.name] = ((before - tracemalloc.get_traced_memory()[0]) / CONTAINERS, dump)
    tracemalloc.stop()
    return stated


def test_a_container_takes_no_more_than_its_share_of_each_state(grown: Mapping[str, tuple[float, Mapping[str, bytes]]]) -> None:
    assert {name: size for name, (size, _) in grown.items() if size > MOST[name]} == {}


def test_nor_does_it_in_states_that_were_loaded(grown: Mapping[str, tuple[float, Mapping[str, bytes]]]) -> None:
    loaded, states = {}, []
    tracemalloc.start()
    for stage in stages(Settings(topics={"partitions": 1})):  # type: ignore[arg-type]  # pydantic makes the part
        before, state = tracemalloc.get_traced_memory()[0], stage.open(0)
        for chunk, data in grown[stage.name][1].items():
            state.load(chunk, data)
        states.append(state)
        gc.collect()
        loaded[stage.name] = (tracemalloc.get_traced_memory()[0] - before) / CONTAINERS
    tracemalloc.stop()
    assert {name: size for name, size in loaded.items() if size > MOST[name]} == {}
