"""What is not looked at needs no look: a stage that remembers decides as one that has forgotten everything but its state."""

import random
from dataclasses import asdict, replace
from typing import Any

import pytest

from agents.engine.turn import DeferredRecords, RecordsInParts, Turn
from agents.logic.updates.update_settings import PROGRAM, UpdateSettings
from agents.logic.updates.updater import Updater
from schemas.decisions.pod_updates import UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import ContainerSeen, PodDeleted, PodPhase
from schemas.facts.scheduled_pods import LabelQuery
from schemas.facts.update_facts import (
    HpaTargetChanged,
    HpaTargetRemoved,
    PodDisruptionBudgetChanged,
    PodDisruptionBudgetRemoved,
    ReplicaControllerChanged,
    ReplicaControllerRemoved,
    WebhookLeaseSeen,
)
from schemas.names import Amounts, Place, Workload
from schemas.outcomes import ActionFinished, Result
from schemas.policies.control import ControlChanged, Mode, RevertEnded, RevertRequested, StageRulesChanged, rules_version
from schemas.policies.vertical import GuardOverrides, UpdateMode, VerticalPolicyChanged
from schemas.policies.vpa import TargetRef
from schemas.units import Seconds
from tests.support.cluster_events import GIB, MINUTE, START, pod, turn, vpa, when

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
    requests = Amounts(chance.choice((0.8, 1.0, 3.0)), GIB)  # type: ignore[arg-type]  # units
    containers = (ContainerSeen("app", requests, Amounts()),)
    more = {"controller": f"ReplicaSet/{workload.name}", "containers": containers}
    found = pod(
        name, number, workload=workload, **more, phase=chance.choice((PodPhase.RUNNING, PodPhase.RUNNING, PodPhase.PENDING))
    )
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
    """What guards go by, and what is left to an HPA: none of it makes a quiet workload need a change."""
    workload, at = chance.choice(WORKLOADS), when(number)
    resources = chance.choice((("cpu",), ("memory",), ("cpu", "memory")))
    budget = PodDisruptionBudgetChanged(at, "demo", "web", "budget", LabelQuery(), chance.randrange(3), 3, 2, 3)
    return [
        chance.choice(
            (
                HpaTargetChanged(at, "demo", "web", workload.name, "Deployment", workload.name, resources),
                HpaTargetRemoved(at, "demo", "web", workload.name),
                ReplicaControllerChanged(at, "demo", "web", "ReplicaSet", workload.name, chance.randrange(1, 9)),
                ReplicaControllerRemoved(at, "demo", "web", "ReplicaSet", workload.name),
                WebhookLeaseSeen(at, "demo", "ullage/webhook", alive=chance.random() < 0.5, reason="so"),
                budget,
                PodDisruptionBudgetRemoved(at, "demo", "web", "budget"),
            )
        )
    ]


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


def fits(number: int, workload: Workload = WORKLOADS[0], cores: float = 0.8) -> RequestsRecommended:
    """The bounds hold what pods of this workload request, one core, unless they are asked to be elsewhere."""
    low, target, high = (Amounts(each, GIB) for each in (cores - 0.3, cores, cores + 0.7))  # type: ignore[arg-type]  # units
    container = ContainerRecommendation("app", low, target, high, target)
    return RequestsRecommended(f"recommender/0/{number}/requests/{workload.key}", when(number), workload, (container,), {})


def quiet_stage(*policies: Any, containers: Any = None, recommended: RequestsRecommended | None = None) -> Updater:
    """Two pods of two workloads that need no change; for the first something is recommended."""
    stage, more = Updater(SETTINGS, 0), {} if containers is None else {"containers": containers}
    inputs: dict[str, Any] = {
        "policies": [*policies],
        "control": [ControlChanged(when(START), "demo", Mode.APPLY, budget=1.0)],  # type: ignore[arg-type]  # a share
        "pod_changes_by_cluster": [pod("a", START, workload=WORKLOADS[0], **more), pod("b", START, workload=WORKLOADS[1])],
        "recommendations_by_cluster": [recommended or fits(START)],
    }
    assert stage.step(turn(START, **inputs)) == []
    assert stage.step(turn(START + MINUTE)) == []
    return stage


class OneDecision:
    """A batch of one recommendation, as the fast driver of a backtest hands it over."""

    def __init__(self, event: RequestsRecommended) -> None:
        self.event, self.subjects = event, [event.workload.key]

    def decision(self, _number: int) -> Any:
        return self


NEXT = START + 2 * MINUTE
FIRST = WORKLOADS[0].key
EVERY = VerticalPolicyChanged(when(START), "*", "1")
ANOTHER = replace(EVERY, target=WORKLOADS[3].key)
SOONER = GuardOverrides(lifetime=Seconds(60.0))
LARGE = (ContainerSeen("app", Amounts(4.0, GIB), Amounts(8.0, 2 * GIB)),)  # type: ignore[arg-type]  # units
RULES = {**asdict(SETTINGS), "lifetime": 60.0, "recommender": "default"}


def revert(cores: float) -> RevertRequested:
    return RevertRequested(when(START), WORKLOADS[0], when(START), {"app": Amounts(cores, GIB)}, {}, "so")  # type: ignore[arg-type]  # units


@pytest.mark.parametrize(
    ("stage", "inputs"),
    [
        (quiet_stage(EVERY), {"pod_changes_by_cluster": [pod("a", START, workload=WORKLOADS[0], containers=LARGE)]}),
        (quiet_stage(EVERY), {"pod_changes_by_cluster": [pod("new", NEXT, workload=WORKLOADS[0], containers=LARGE)]}),
        (quiet_stage(EVERY), {"recommendations_by_cluster": [fits(NEXT, cores=3.0)]}),
        (quiet_stage(EVERY), {"recommendations_by_cluster": [fits(NEXT, WORKLOADS[1], 3.0)]}),
        (quiet_stage(EVERY), {"policies": [replace(EVERY, target=FIRST, guards=SOONER)]}),
        (quiet_stage(EVERY), {"policies": [replace(EVERY, guards=SOONER)]}),
        (quiet_stage(ANOTHER, containers=LARGE), {"policies": [replace(EVERY, target=FIRST)]}),
        (
            quiet_stage(ANOTHER, containers=LARGE),
            {"policies": [vpa(name="w0", target_ref=TargetRef("Deployment", "w0", "apps/v1"))]},
        ),
        (quiet_stage(EVERY), {"policies": [revert(2.0)]}),
        (
            quiet_stage(EVERY, revert(1.0), recommended=fits(START, cores=3.0)),
            {"policies": [RevertEnded(when(NEXT), WORKLOADS[0])]},
        ),
        (
            quiet_stage(EVERY),
            {"rules": [StageRulesChanged(when(NEXT), "updater", PROGRAM, RULES, rules_version("updater", PROGRAM, RULES))]},
        ),
    ],
    ids=[
        "a pod",
        "a new pod",
        "a recommendation",
        "a first recommendation",
        "its policy",
        "a policy of all",
        "a first policy",
        "a VPA",
        "a revert",
        "the end of a revert",
        "the rules",
    ],
)
def test_each_fact_that_can_make_a_pod_need_a_change_wakes_its_workload(stage: Updater, inputs: Any) -> None:
    assert len(stage.step(turn(NEXT, **inputs))) == 1


def test_a_recommendation_in_a_batch_wakes_its_workload() -> None:
    place = Place("ullage.recommendations-by-cluster.v1", 0, 7)
    batch: Any = OneDecision(fits(NEXT, cores=3.0))
    parts = RecordsInParts([DeferredRecords(batch, [0], place)])
    assert len(quiet_stage(EVERY).step(Turn(NEXT, {"recommendations-by-cluster": parts}))) == 1


@pytest.mark.parametrize("gone", [False, True], ids=["it waits for a node", "it is gone"])
def test_what_becomes_of_a_pod_of_a_quiet_workload_counts_in_the_budgets_of_others(gone: bool) -> None:
    stage = quiet_stage(EVERY)
    b = pod("b", START, workload=WORKLOADS[1], phase=PodPhase.PENDING)
    fact = PodDeleted(when(NEXT), WORKLOADS[1], b.pod) if gone else b
    [decided] = stage.step(turn(NEXT, pod_changes_by_cluster=[fact], recommendations_by_cluster=[fits(NEXT, cores=3.0)]))
    counted = decided.event.because["pods"]["cluster"]  # type: ignore[union-attr,index]  # a plan or a refusal
    assert (counted["live"], counted["running"]) == ((1, 1) if gone else (2, 1))
