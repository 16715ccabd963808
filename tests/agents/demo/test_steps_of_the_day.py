"""A simulated day in other steps than a minute: no source seems silent in between, no new pod is given up too early, and a
container that is killed at each start is given what it needs.
"""

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from agents.demo import day_in_memory
from agents.demo.demo_settings import Day
from agents.logic.nodes.cluster.scaler_state import SILENT
from agents.settings import loading
from schemas.catalogue import Event
from schemas.facts.pods import PodChanged
from schemas.facts.sources import SourceReported
from schemas.facts.usage import ContainerOOMKilled
from schemas.outcomes import Action, ActionFinished, Result
from streams.log_context import LogContext

DAY = Day(seed=1, seconds=0.001, tick=timedelta(minutes=2), length=timedelta(hours=5), pause=False)


@pytest.fixture(scope="module")
def events() -> list[Event | None]:
    """What the log has of outcomes, sources, pods and kills after these five hours."""
    log = day_in_memory.new_log(DAY)
    for _ in day_in_memory.played(DAY, loading.load(flags=DAY.in_one_process()).settings, log):
        pass
    context = LogContext.of(log, DAY.topics)
    wires = [DAY.topics.wire(name) for name in ("cluster-changes", "outcomes", "oom-events", "pod-changes")]
    places = {(wire, partition): 0 for wire in wires for partition in range(DAY.partitions)}
    return [context.codec.decode_or_none(record) for record in log.poll(places, limit=100_000)]


def test_in_steps_of_two_minutes_sources_are_heard_and_admissions_seen_through(events: list[Event | None]) -> None:
    reports: dict[str, list[tuple[datetime, float]]] = defaultdict(list)
    for event in events:
        if isinstance(event, SourceReported):
            reports[event.source].append((event.at, event.period))
    assert len(reports) > 2
    for name, said in reports.items():
        moments = sorted(said)
        for (at, period), (then, _) in pairwise(moments):
            assert (then - at).total_seconds() <= SILENT * period, name
    outcomes = [(event.action, event.result) for event in events if isinstance(event, ActionFinished)]
    assert (Action.PATCH, Result.DONE) in outcomes
    assert (Action.PATCH, Result.LOST) not in outcomes
    assert (Action.REMOVE_NODE, Result.DONE) in outcomes


def test_a_container_that_is_killed_at_each_start_is_given_what_it_needs_within_minutes(events: list[Event | None]) -> None:
    kills = [event for event in events if isinstance(event, ContainerOOMKilled) and event.workload.name == "checkout"]
    assert max(Counter(event.pod.uid for event in kills).values()) <= 3
    assert max(event.at for event in kills) < DAY.start + timedelta(minutes=15)
    pods = [event for event in events if isinstance(event, PodChanged) and event.workload.name == "checkout"]
    limits = [event.containers[0].limits.memory or 0 for event in pods]
    assert limits[0] < 170 << 20 < min(limits[-4:]), "those that it begins with, and those that it ends with"
