"""Where two owners write a bound by turns, pods are stopped at fewer and fewer of the turns, and a guard says why."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.facts.pods import ContainerSeen, PodDeleted
from schemas.names import Amounts
from schemas.outcomes import Action, Result
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitType
from schemas.policies.vertical import UpdateMode
from tests.agents.logic.updates.test_updater import LATER, finished, look, open_stage, recommend
from tests.support.cluster_events import API, GIB, MINUTE, START, pod, when

PODS = "abcdef"


def container(cpu: float, *restarts_on: str) -> ContainerSeen:
    return ContainerSeen("app", Amounts(cpu, GIB), Amounts(2 * cpu, 2 * GIB), restarts_on=restarts_on)  # type: ignore[arg-type]


class World:
    """Six pods whose plans are carried out at once."""

    def __init__(self, mode: UpdateMode, *restarts_on: str, profile: str = "ullage") -> None:
        self.restarts_on, self.made = restarts_on, 0
        pods = [pod(name, START, containers=(container(1.0, *restarts_on),)) for name in PODS]
        self.stage = open_stage(*pods, mode=mode, facts_within=1e9, profile=profile)
        self.stopped: list[int] = []
        self.guards = set[str]()

    def go(self, minute: int, **inputs: Any) -> None:
        """One interval."""
        now = LATER + minute * MINUTE
        for plan in look(self.stage, now, **inputs):
            if isinstance(plan, UpdateRefused):
                self.guards.add(plan.guard)
            elif isinstance(plan, EvictionPlanned):
                self.stopped.append(minute)
                self.made += 1
                new = pod(f"new-{self.made}", now + 1, containers=(container(self.cpu),), started=when(now + 1))
                facts = [PodDeleted(when(now + 1), API, plan.pod), new]
                look(self.stage, now + 1000, outcomes=[finished(plan, Result.DONE, Action.EVICT)], pod_changes_by_cluster=facts)
            elif isinstance(plan, ResizePlanned):
                self.stopped.append(minute)
                seen = container(plan.requests["app"].cpu or 0.0, *self.restarts_on)
                resized = replace(pod(plan.pod.name, START, containers=(seen,)), pod=plan.pod, started=when(START))
                look(
                    self.stage,
                    now + 1000,
                    outcomes=[finished(plan, Result.DONE, Action.RESIZE)],
                    pod_changes_by_cluster=[resized],
                )

    cpu = 1.0
    """What new pods get."""


def by_turns(world: World, every: int, hours: int) -> Iterator[int]:
    """The bound of the recommendation goes to and fro; the minutes of turns."""
    for minute in range(hours * 60):
        world.cpu = 0.4 if (minute // every) % 2 == 0 else 1.0
        if minute % every == 0:
            yield minute
        told = minute % min(every, 30) == 0
        cpu = world.cpu
        given = [recommend(LATER + minute * MINUTE, low=cpu, target=cpu, high=cpu)] if told else []
        world.go(minute, recommendations_by_cluster=given)


@pytest.mark.parametrize("every", [5, 15, 60])
@pytest.mark.parametrize(("mode", "restarts_on"), [(UpdateMode.RECREATE, ()), (UpdateMode.IN_PLACE, ("cpu",))])
def test_a_bound_that_goes_to_and_fro_stops_pods_at_fewer_and_fewer_turns(
    every: int, mode: UpdateMode, restarts_on: tuple[str, ...]
) -> None:
    world = World(mode, *restarts_on)
    list(by_turns(world, every, 48))
    # At each turn these were 144 to 3,456.
    first_day, second_day = (sum(day * 1440 <= minute < (day + 1) * 1440 for minute in world.stopped) for day in (0, 1))
    assert first_day <= 10 * len(PODS)
    assert second_day <= 4 * len(PODS)
    assert "cool-down" in world.guards


def test_a_limit_range_that_goes_to_and_fro_is_the_same() -> None:
    world = World(UpdateMode.RECREATE)
    for minute in range(12 * 60):
        most = 0.8 if (minute // 15) % 2 == 0 else 3.0
        world.cpu = min(1.5, most / 2)
        now = LATER + minute * MINUTE
        inputs: dict[str, Any] = {"recommendations_by_cluster": [recommend(now, low=1.3, target=1.5, high=1.6)]}
        if minute % 15 == 0:
            inputs["policies"] = [
                LimitRangeChanged(when(now), "demo", "web", "range", (Limit(LimitType.CONTAINER, most=Amounts(most, None)),))  # type: ignore[arg-type]
            ]
        world.go(minute, **inputs)
    assert len(world.stopped) <= 10 * len(PODS)


def test_a_change_that_is_taken_back_at_once_waits_for_nothing() -> None:
    world = World(UpdateMode.RECREATE)
    for _minute in by_turns(world, 30, 2):
        pass
    # Less, more, less, more.
    assert len(world.stopped) == 4 * len(PODS)
    assert "cool-down" not in world.guards


def test_upstream_waits_for_nothing() -> None:
    world = World(UpdateMode.RECREATE, profile="upstream")
    list(by_turns(world, 60, 24))
    assert len(world.stopped) == 24 * len(PODS)


@pytest.mark.parametrize("step", [0.008, 0.5, 4.0])
def test_any_turn_counts_however_small_and_among_several_targets(step: float) -> None:
    world = World(UpdateMode.RECREATE)
    for minute in range(48 * 60):
        world.cpu = 1.0 + step * ((0, 2, 1)[minute // 15 % 3])
        cpu = world.cpu
        given = [recommend(LATER + minute * MINUTE, low=cpu, target=cpu, high=cpu)] if minute % 15 == 0 else []
        world.go(minute, recommendations_by_cluster=given)
    # 864 of 1,152 where each turn counts for nothing.
    assert len(world.stopped) <= 18 * len(PODS)
    assert sum(minute >= 1440 for minute in world.stopped) <= 6 * len(PODS)


def test_pods_that_differ_and_go_both_ways_to_one_target_make_no_turn() -> None:
    world = World(UpdateMode.RECREATE)
    pods = [pod(name, START, containers=(container(2.0 if name in "aceg" else 0.2),)) for name in "abcdefgh"]
    world.stage = open_stage(*pods, mode=UpdateMode.RECREATE, facts_within=1e9)
    for minute in range(60):
        world.cpu = 1.0 - 0.002 * minute
        cpu = world.cpu
        given = [recommend(LATER + minute * MINUTE, low=cpu * 0.9, target=cpu, high=cpu * 1.1)]
        world.go(minute, recommendations_by_cluster=given)
    assert len(world.stopped) == 16
    assert "cool-down" not in world.guards
