"""More names and labels of containers and pods than anybody can want: what is kept, and what is said of the rest."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agents.logic.vertical import usage_ingest
from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas.catalogue import Event
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.pods import ContainerSeen
from schemas.facts.usage import CheckpointSeen, MetricsScraped
from tests.support import examples
from tests.support.cluster_events import API, MINUTE, START, pod, scrape, turn, vpa

NAMES, SETS = 4, 6


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a test reaches."""
    monkeypatch.setattr(usage_ingest, "MOST_CONTAINERS", NAMES)
    monkeypatch.setattr(usage_ingest, "MOST_LABEL_SETS", SETS)


class World:
    """A recommender that is fed turn by turn."""

    def __init__(self) -> None:
        self.stage, self.number = Recommender(VerticalSettings(), 0), START

    def step(
        self, *pods: Event, usage: Sequence[tuple[str, str, float]] = (), more: Sequence[Event] = ()
    ) -> list[RequestsRecommended]:
        self.number += MINUTE
        scrapes: list[Event] = [used(self.number, usage)] if usage else []
        decided = self.stage.step(turn(self.number, policies=list(more), pod_changes=list(pods), pod_metrics=scrapes))
        return [each.event for each in decided if isinstance(each.event, RequestsRecommended) and each.topic == "recommendations"]

    def sets(self) -> list[tuple[str, str]]:
        keys = list(self.stage.usage.aggregates.keys())
        return sorted((container, labels) for _, container, labels in keys)


def used(number: int, usage: Sequence[tuple[str, str, float]]) -> MetricsScraped:
    return scrape(number, [(API.key, name, container, cores, 1e8) for name, container, cores in usage])


def named(name: str, *containers: str) -> Event:
    return pod(name, START, containers=tuple(ContainerSeen(each) for each in containers))


def test_container_names_beyond_the_bound_are_left_out_and_the_decision_says_so() -> None:
    world = World()
    world.step(named("a", "c0", "c1", "c2"), named("b", "c2", "c3", "c4", "c5"))
    assert [container for container, _ in world.sets()] == ["c0", "c1", "c2", "c3"]
    [said] = world.step(usage=[("a", "c0", 0.5), ("b", "c3", 0.5), ("b", "c5", 0.5)])
    assert [each.container for each in said.containers] == ["c0", "c3"]
    assert said.because["left_out"] == "container names beyond 4 of one workload are left out"
    world.step(named("c", "c6"), usage=[("c", "c6", 0.5), ("stranger", "c7", 0.5)])
    assert len(world.sets()) == NAMES


def test_usage_under_label_sets_beyond_the_bound_counts_as_that_of_pods_without_labels() -> None:
    world = World()
    pods = [pod(f"p{n}", START, labels={"app": "api", "n": str(n)}) for n in range(9)]
    world.step(*pods[:4], more=[vpa()])
    world.step(*pods[4:])
    assert world.sets() == [("app", "?"), *(("app", f"app=api,n={n}") for n in range(SETS))]
    [said] = world.step(usage=[(f"p{n}", "app", 0.5) for n in range(9)])
    assert said.because["left_out"] == ("usage under label sets beyond 6 of one workload counts as that of pods without labels")
    samples = said.because["containers"]["app"]["samples"]  # type: ignore[index]  # the body of a decision
    assert samples == 9, "nothing of it is lost"


def test_below_the_bounds_nothing_is_said() -> None:
    world = World()
    world.step(named("a", "c0", "c1", "c2"))
    [said] = world.step(usage=[("a", "c0", 0.5)])
    assert "left_out" not in said.because


def test_history_of_checkpoints_takes_no_more_room_than_usage() -> None:
    world = World()
    (seen,) = (event for event in examples.EVENTS if isinstance(event, CheckpointSeen))
    many = [replace(seen, workload=API, vpa=f"v{n}") for n in range(20)]
    world.step(*many)
    assert len(world.sets()) == SETS
    assert {labels[:11] for _, labels in world.sets()} == {"checkpoint:"}


def test_a_recovered_state_has_the_same_bounds() -> None:
    world, again = World(), World()
    world.step(named("a", "c0", "c1"), named("b", "c2", "c3"))
    for chunk in list(world.stage.chunks()):
        again.stage.load(chunk, world.stage.dump(chunk))
    again.number = world.number
    for each in (world, again):
        each.step(named("c", "c4", "c0"))
    assert world.sets() == again.sets()
    assert len(world.sets()) == NAMES
