"""PodDisruptionBudgets hold evictions back in planning already, by name: by what they allow, and by what is planned."""

from dataclasses import replace
from typing import Any

import pytest

from agents.logic.updates.pod_disruption_budgets import MOST
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater import Updater
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import ContainerSeen, PodDeleted
from schemas.facts.scheduled_pods import LabelDemand, LabelQuery
from schemas.facts.update_facts import PodDisruptionBudgetChanged, PodDisruptionBudgetRemoved
from schemas.names import Amounts
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import GuardOverrides, UpdateMode, VerticalPolicyChanged
from tests.support.cluster_events import API, GIB, MINUTE, START, pod, turn, when

LABELS = {"app": "api", "pod-template-hash": "5d9"}
SELECTOR = LabelQuery({"app": "api"})
EAGER = UpdateSettings(warm_up=0.0, min_replicas=1, cool_down=0.0, budget=1.0, eviction_tolerance=1.0)  # type: ignore[arg-type]  # units


def budget(name: str = "api", allowed: int = 1, **changed: Any) -> Any:
    fields = {"selector": SELECTOR, "allowed": allowed, "healthy": 4, "desired": 4 - allowed, "expected": 4}
    return PodDisruptionBudgetChanged(when(START), "demo", "web", name, **{**fields, **changed})


def ready(name: str, number: int = START, *, is_ready: bool = True) -> Any:
    seen = ContainerSeen("app", Amounts(1.0, GIB), Amounts(2.0, 2 * GIB), ready=is_ready)  # type: ignore[arg-type]  # units
    return pod(name, number, labels={**LABELS, "apps.kubernetes.io/pod-index": name}, containers=(seen,))


def recommend(number: int) -> Any:
    low, target, high = (Amounts(cores, GIB) for cores in (0.1, 0.2, 0.5))  # type: ignore[arg-type]  # units
    container = ContainerRecommendation("app", low, target, high, target)
    return RequestsRecommended(f"recommender/0/{number}/requests/{API.key}", when(number), API, (container,), {})


def open_stage(
    *facts: Any, mode: UpdateMode = UpdateMode.RECREATE, guards: GuardOverrides | None = None, **changed: Any
) -> Updater:
    stage = Updater(replace(EAGER, **changed), 0)
    policy = VerticalPolicyChanged(when(START), "*", "1", mode, guards=guards or GuardOverrides())
    control = ControlChanged(when(START), "demo", Mode.APPLY, budget=1.0)  # type: ignore[arg-type]  # a share
    seen = [*(ready(name) for name in "abcd"), *facts]
    stage.step(turn(START, policies=[policy], control=[control], pod_changes_by_cluster=seen))
    return stage


def look(stage: Updater, minute: int = 1, **inputs: Any) -> list[Any]:
    number = START + minute * MINUTE
    return [each.event for each in stage.step(turn(number, recommendations_by_cluster=[recommend(number)], **inputs))]


def evicted(decided: list[Any]) -> list[str]:
    return [each.pod.name for each in decided if isinstance(each, EvictionPlanned)]


def refused(decided: list[Any]) -> dict[str, tuple[int, str]]:
    return {each.guard: (each.pods, each.reason) for each in decided if isinstance(each, UpdateRefused)}


def test_no_more_evictions_are_planned_than_a_budget_allows_and_the_refusal_names_it() -> None:
    decided = look(open_stage(budget(allowed=2)))
    assert evicted(decided) == ["a", "b"]
    reason = (
        "PodDisruptionBudget 'api' allows no eviction now: 4 of 4 pods are healthy, 2 have to be, and 2 evictions are planned"
    )
    assert refused(decided) == {"disruption-budget": (2, reason)}


@pytest.mark.parametrize(("restarts_on", "planned", "later"), [((), 4, 0), (("cpu",), 1, 0)])
def test_a_resize_that_restarts_a_container_takes_a_pod_away_as_an_eviction_does(
    restarts_on: tuple[str, ...], planned: int, later: int
) -> None:
    facts = [ready(name) for name in "abcd"]
    facts = [replace(fact, containers=tuple(replace(c, restarts_on=restarts_on) for c in fact.containers)) for fact in facts]
    stage = open_stage(budget(allowed=1), *facts, mode=UpdateMode.IN_PLACE, expires=3600.0)
    decided = look(stage)
    assert sum(isinstance(each, ResizePlanned) for each in decided) == planned
    assert ("disruption-budget" in refused(decided)) is bool(restarts_on)
    assert sum(isinstance(each, ResizePlanned) for each in look(stage, 2)) == later
    none = look(open_stage(budget(allowed=0), *facts, mode=UpdateMode.IN_PLACE))
    assert any(isinstance(each, ResizePlanned) for each in none) is not bool(restarts_on)


def test_an_open_eviction_counts_until_the_cluster_has_accepted_it_and_the_budget_itself_says_so() -> None:
    stage = open_stage(budget(allowed=1), expires=3600.0)
    [first] = [each for each in look(stage) if isinstance(each, EvictionPlanned)]
    assert evicted(look(stage, 2)) == []
    done = ActionFinished("o", first.at, first.id, Action.EVICT, Result.DONE, "so", first.subject, detail=OutcomeDetail.APPLIED)
    gone = PodDeleted(when(START), API, first.pod)
    assert evicted(look(stage, 3, outcomes=[done], pod_changes_by_cluster=[gone, budget(allowed=0, healthy=3)])) == []
    assert evicted(look(stage, 4, pod_changes_by_cluster=[budget(allowed=1)])) == ["b"]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([budget(allowed=0, selector=LabelQuery({"app": "web"}))], 4),
        ([budget(allowed=0, selector=None)], 4),
        ([budget(allowed=0, selector=LabelQuery())], 0),
        ([budget(allowed=0, selector=LabelQuery(expressions=(LabelDemand("app", "In", ("web", "api")),)))], 0),
        ([budget(allowed=0, selector=LabelQuery(expressions=(LabelDemand("app", "NotIn", ("api",)),)))], 4),
        ([budget(allowed=0, selector=LabelQuery(expressions=(LabelDemand("app", "Exists"),)))], 0),
        ([budget(allowed=0, selector=LabelQuery(expressions=(LabelDemand("app", "DoesNotExist"),)))], 4),
        ([replace(budget(allowed=0), namespace="shop")], 4),
        ([replace(budget(allowed=0), cluster="other")], 4),
        ([budget(allowed=0), PodDisruptionBudgetRemoved(when(START), "demo", "web", "api")], 4),
        ([budget(f"b{number}", 0) for number in range(MOST + 1)], 4),
    ],
    ids=[
        "other labels",
        "nobody",
        "all",
        "In",
        "NotIn",
        "Exists",
        "DoesNotExist",
        "other namespace",
        "other cluster",
        "removed",
        "too many",
    ],
)
def test_a_budget_holds_back_the_pods_that_its_selector_takes(facts: list[Any], expected: int) -> None:
    assert len(evicted(look(open_stage(*facts)))) == expected


def test_two_budgets_of_one_pod_let_it_never_go() -> None:
    decided = look(open_stage(budget("one", 4), budget("two", 4)))
    reason = "PodDisruptionBudgets 'one' and 'two' both select the pod, and no such pod can be evicted"
    assert (evicted(decided), refused(decided)) == ([], {"disruption-budget": (4, reason)})


def test_a_pod_that_is_not_ready_takes_nothing_from_a_budget_that_is_met() -> None:
    unready = ready("a", is_ready=False)
    assert evicted(look(open_stage(unready, budget(allowed=0, healthy=3, desired=3)))) == ["a"]
    assert evicted(look(open_stage(unready, budget(allowed=0, healthy=3, desired=4)))) == []


def test_a_budget_that_always_lets_unready_pods_go_holds_back_only_ready_ones() -> None:
    """VictoriaMetrics/operator#1534: both pods of a set are killed at each start, and the VPA evicts them under AlwaysAllow."""
    unready = [ready(name, is_ready=False) for name in "ab"]
    decided = look(open_stage(*unready, budget(allowed=0, healthy=2, desired=4, unready_go=True)))
    assert (evicted(decided), refused(decided)["disruption-budget"][0]) == (["a", "b"], 2)


def test_a_budget_whose_controller_counts_no_pods_is_said_to_be_such() -> None:
    """actions-runner-controller#4493: the pods' owner has no scale. Before: "0 of 0 pods are healthy, 0 have to be"."""
    decided = look(open_stage(budget(allowed=0, healthy=0, desired=0, expected=0)))
    reason = (
        "PodDisruptionBudget 'api' allows no eviction now: its status counts no pods, as that of a budget whose controller finds "
        "no scale of their owner. Its condition DisruptionAllowed says why"
    )
    assert (evicted(decided), refused(decided)) == ([], {"disruption-budget": (4, reason)})


def test_a_pod_whose_sidecar_is_not_ready_is_not_ready() -> None:
    sidecar = ContainerSeen("proxy", sidecar=True)
    pods = [replace(ready("a"), init_containers=(sidecar,)), replace(ready("b"), init_containers=(replace(sidecar, ready=True),))]
    assert evicted(look(open_stage(*pods, budget(allowed=0, healthy=3, desired=3)))) == ["a"]


def test_a_resize_in_place_asks_no_budget() -> None:
    decided = look(open_stage(budget(allowed=0), mode=UpdateMode.IN_PLACE_OR_RECREATE))
    assert len([each for each in decided if isinstance(each, ResizePlanned)]) == 4


@pytest.mark.parametrize("way", ["setting", "policy", "profile"])
def test_a_setting_a_policy_or_the_profile_leaves_budgets_to_the_api_server(way: str) -> None:
    guards = GuardOverrides(honor_disruption_budgets=False) if way == "policy" else None
    changed: dict[str, Any] = {"setting": {"honor_disruption_budgets": False}, "profile": {"profile": "upstream"}}.get(way, {})
    assert len(evicted(look(open_stage(budget(allowed=0), guards=guards, **changed)))) == 4


def test_what_is_known_of_budgets_and_labels_outlives_a_restart() -> None:
    stage, other = open_stage(budget(allowed=1)), Updater(EAGER, 0)
    for chunk in stage.chunks():
        other.load(chunk, stage.dump(chunk))
    assert look(other) == look(stage)
    assert evicted(look(stage, 2)) == []
