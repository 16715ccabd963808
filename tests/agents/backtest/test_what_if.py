"""With no rule changed, or one set to what it is, both sides of a what-if are equal in every row and are what was published."""

import itertools
from collections import Counter, deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from agents.backtest.what_if import OtherRules, WhatIf, what_if
from agents.commands.compare.what_if_command import rows
from agents.demo import simulate_command
from agents.run.partition_task import TurnResult
from agents.run.pipeline import stages
from agents.run.stage_runner import Runner
from agents.settings import loading
from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleUpPlanned
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.replica_plans import ReplicasPlanned
from streams.log_context import LogContext
from streams.log_range import read_range
from tests.support import random_scenarios

_WORDS: dict[type[Any], str] = {
    EvictionPlanned: "evictions planned",
    ResizePlanned: "resizes planned",
    NodeRemovalPlanned: "removals of nodes planned",
    ScaleUpPlanned: "growths of node groups planned",
    ReplicasPlanned: "changes of replicas planned",
}


def sides_of_random_log(seed: int, end: Callable[[], object] = list) -> Counter[str]:
    """Decide a random log twice by the same rules; raises AssertionError where a row differs, or is not what the log says.

    `end` is called when the log has been played.
    """
    scenario = random_scenarios.scenario(seed)
    day, log = simulate_command.play(scenario, {})
    end()
    context = LogContext.of(log, day.topics, day.cluster)
    flags = {name: str(value) for name, value in scenario.settings.items()} | {"topics.partitions": "1"}
    since, until = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    settings = loading.load(flags=flags).settings
    same = OtherRules({"updater": {"cool_down": settings.updates.cool_down}}) if seed % 2 else OtherRules()
    [found] = deque(what_if(context, stages(settings), same, since, until), maxlen=1) or [WhatIf()]
    assert found.replaced == {}, seed
    counted = rows(found)
    assert [what for what, (ours, theirs) in counted.items() if ours != theirs] == [], seed
    assert (found.only_recorded(), found.only_other(), found.moved()) == ([], [], []), seed
    published = in_the_log(context)
    assert {what: ours for what, (ours, _) in counted.items() if ours and not what.startswith("containers")} == published, seed
    return published


def in_the_log(context: LogContext) -> Counter[str]:
    """What the log says of plans and refusals, each id once."""
    wires = [context.topics.wire(name) for name in ("pod-updates", "node-updates", "replica-plans", "replica-plans-by-cluster")]
    decisions = {
        event.id: f"refused by '{event.guard}'" if isinstance(event, UpdateRefused) else _WORDS[type(event)]
        for event in map(context.codec.decode_or_none, read_range(context.log, wires))
        if isinstance(event, (UpdateRefused, *_WORDS))
    }
    return Counter(decisions.values())


def test_with_no_rule_changed_both_sides_are_what_was_published() -> None:
    published = sides_of_random_log(1) + sides_of_random_log(4)
    assert set(_WORDS.values()) <= published.keys(), "logs without such plans show nothing"


@pytest.mark.parametrize("seed", [1, 4])
def test_what_a_worker_decided_late_is_read_as_late_when_it_is_decided_again(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Live, a recommendation is in the log some ticks after its own, and the updater decides without it until then."""
    run, calls, runners = Runner.run, itertools.count(), list[Runner]()

    def late(runner: Runner) -> list[TurnResult]:
        runners[:] = [runner]
        return [] if next(calls) % 3 else run(runner)

    monkeypatch.setattr(Runner, "run", late)
    assert sides_of_random_log(seed, end=lambda: run(*runners))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(5, 105, 10))  # 500 logs were compared on 2026-11-29
def test_with_no_rule_changed_both_sides_are_what_was_published_in_100_logs(first: int) -> None:
    for seed in range(first, first + 10):
        sides_of_random_log(seed)
