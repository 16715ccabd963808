"""What is not looked at needs no look: a stage that remembers decides as one that has forgotten everything but its state."""

import random
from dataclasses import replace
from typing import Any

import pytest

from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater import Updater
from schemas.decisions.pod_updates import UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.hpa_targets import HpaTargetChanged, HpaTargetRemoved
from schemas.facts.pods import PodDeleted, PodPhase
from schemas.names import Amounts, Workload
from schemas.outcomes import ActionFinished, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.guard_overrides import GuardOverrides
from schemas.policies.reverts import RevertEnded, RevertRequested
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged
from schemas.units import Seconds
from tests.support.cluster_events import GIB, MINUTE, START, pod, turn, when

WORKLOADS = [Workload("demo", "web", "Deployment", f"w{number}") for number in range(4)]
DAY, NONE = Seconds(86_400.0), Seconds(0.0)
SETTINGS = UpdateSettings(
    warm_up=NONE, cool_down=Seconds(300.0), lifetime=Seconds(1200.0), min_replicas=1, recommendation_within=DAY
)


def recommended(chance: random.Random, number: int) -> Any:
    workload, cores = chance.choice(WORKLOADS), chance.choice((0.2, 0.7, 1.0, 1.05))
    low, target, high = (Amounts(share * cores, GIB) for share in (0.6, 1.0, 1.5))  # type: ignore[arg-type]  # units
    container = ContainerRecommendation("app", low, target, high, target)
    return RequestsRecommended(f"recommender/0/{number}/requests/{workload.key}", when(number), workload, (container,), {})


def seen(chance: random.Random, number: int) -> Any:
    workload, name = chance.choice(WORKLOADS), f"p{chance.randrange(3)}"
    name = f"{workload.name}-{name}"
    found = pod(name, number, workload=workload, phase=chance.choice((PodPhase.RUNNING, PodPhase.RUNNING, PodPhase.PENDING)))
    return found if chance.random() < 0.8 else PodDeleted(when(number), workload, found.pod)


def policies(chance: random.Random, number: int) -> list[Any]:
    workload = chance.choice(WORKLOADS)
    mode = chance.choice((UpdateMode.OFF, UpdateMode.IN_PLACE, UpdateMode.RECREATE))
    target = chance.choice((workload.key, "demo/web/*"))
    asked = {"app": Amounts(0.9, GIB)}  # type: ignore[arg-type]  # units
    reverts = (RevertRequested(when(number), workload, when(number), asked, {}, "so"), RevertEnded(when(number), workload))
    guards = GuardOverrides(lifetime=Seconds(chance.choice((300.0, 6000.0))), threshold=chance.choice((0.01, 0.5)))  # type: ignore[arg-type]  # a share
    return [chance.choice((VerticalPolicyChanged(when(number), target, "2", mode, guards=guards), *reverts))]


def others(chance: random.Random, number: int) -> list[Any]:
    workload = chance.choice(WORKLOADS)
    there = HpaTargetChanged(when(number), "demo", "web", workload.name, "Deployment", workload.name, ("cpu",))
    return [chance.choice((there, HpaTargetRemoved(when(number), "demo", "web", workload.name)))]


def forgetful(stage: Updater) -> Updater:
    """Another process, with the same state."""
    fresh = Updater(SETTINGS, 0)
    for chunk in stage.chunks():
        fresh.load(chunk, stage.dump(chunk))
    return fresh


@pytest.mark.parametrize("seed", range(6))
def test_a_stage_that_remembers_what_is_quiet_decides_as_one_that_remembers_nothing(seed: int) -> None:
    chance, stage = random.Random(seed), Updater(SETTINGS, 0)  # not for secrets
    control = ControlChanged(when(START), "demo", Mode.APPLY, budget=1.0)  # type: ignore[arg-type]  # a share
    first = VerticalPolicyChanged(when(START), "*", "1", UpdateMode.IN_PLACE_OR_RECREATE)
    stage.step(turn(START, policies=[first], control=[control]))
    outcomes, decisions = [], 0
    for minute in range(1, 120):
        number = START + minute * MINUTE
        taken = turn(
            number,
            policies=policies(chance, number) if chance.random() < 0.3 else [],
            pod_changes_by_cluster=[seen(chance, number)] * (chance.random() < 0.6)
            + (others(chance, number) if chance.random() < 0.3 else []),
            recommendations_by_cluster=[recommended(chance, number)] * (chance.random() < 0.4),
            outcomes=outcomes,
        )
        other = forgetful(stage)
        decided = [each.event for each in stage.step(taken)]
        assert decided == [each.event for each in other.step(taken)]
        planned = [each for each in decided if not isinstance(each, UpdateRefused)]
        decisions += len(decided)
        outcomes = [_outcome(each, chance.choice((Result.DONE, Result.FAILED, Result.REFUSED))) for each in planned]
    assert decisions > 3


def _outcome(plan: Any, result: Result) -> ActionFinished:
    action = "resize" if hasattr(plan, "requests") else "evict"
    finished = ActionFinished("o", plan.at, plan.id, action, result, "so", plan.subject)  # type: ignore[arg-type]  # its value
    return replace(finished, subject=plan.subject)


def test_a_policy_of_one_workload_wakes_it_up() -> None:
    stage, workload = Updater(SETTINGS, 0), WORKLOADS[0]
    low, target, high = (Amounts(cores, GIB) for cores in (0.5, 0.8, 1.5))  # type: ignore[arg-type]  # units
    container = ContainerRecommendation("app", low, target, high, target)
    given = RequestsRecommended(f"recommender/0/{START}/requests/{workload.key}", when(START), workload, (container,), {})
    control = ControlChanged(when(START), "demo", Mode.APPLY, budget=1.0)  # type: ignore[arg-type]  # a share
    facts = [pod("a", START, workload=workload)]
    every = VerticalPolicyChanged(when(START), "*", "1")
    stage.step(turn(START, policies=[every], control=[control], pod_changes_by_cluster=facts, recommendations_by_cluster=[given]))
    assert stage.step(turn(START + MINUTE)) == []
    sooner = replace(every, target=workload.key, guards=GuardOverrides(lifetime=Seconds(60.0)))
    assert len(stage.step(turn(START + 2 * MINUTE, policies=[sooner]))) == 1
