"""What a policy, a VPA, a profile and a schedule make of the guards."""

from collections import Counter
from dataclasses import asdict, fields, replace
from functools import partial
from typing import Any

import pytest

from agents.logic.updates.update_guards import PROTECTED
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater import Updater
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import ContainerRun, ContainerSeen
from schemas.facts.update_facts import (
    HpaTargetChanged,
    HpaTargetRemoved,
    ObjectMetadataChanged,
    ReplicaControllerChanged,
    WebhookLeaseSeen,
)
from schemas.names import Amounts, PodName, Workload
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved
from schemas.policies.scaling import MetricSpec, MetricTarget, ScaleStrategy, UtilizationMetric
from schemas.policies.vertical import GuardOverrides, UpdateMode, VerticalPolicyChanged
from schemas.policies.vpa import ChangeRequirement, EvictionRequirement, TargetRef, VpaChanged
from schemas.units import Fraction, Seconds
from tests.support.cluster_events import API, GIB, MINUTE, START, oom_killed, pod, turn, when

LATER = START + 10 * MINUTE
"""After the warm-up; START is a midnight."""
TEN = [pod(f"p{i}", START) for i in range(10)]
OTHER = Workload("demo", "web", "Deployment", "other")
marked = partial(ObjectMetadataChanged, when(START), "demo", "Namespace", "web", "web")


def policy(mode: Any = UpdateMode.IN_PLACE_OR_RECREATE, **more: Any) -> Any:
    return VerticalPolicyChanged(when(START), more.pop("target", "*"), "1", mode, **more)


def vpa(**more: Any) -> Any:
    made = {"target_ref": TargetRef("Deployment", "api"), "selector": (), "update_mode": UpdateMode.RECREATE, **more}
    return VpaChanged(when(START), "demo", "web", "api", when(START), **made)


def decide(pods: Any, policies: Any, *, budget: float | None = 1.0, high: float = 0.5, memory: int = GIB, **settings: Any) -> Any:
    """What is decided for pods of 1 core, for which 0.2 cores are recommended, ten minutes after midnight."""
    stage = Updater(replace(UpdateSettings(), **settings), 0)
    control: Any = [] if budget is None else [ControlChanged(when(START), "demo", Mode.APPLY, budget=Fraction(budget))]
    stage.step(turn(START, policies=policies, control=control, pod_changes_by_cluster=pods))
    sizes = ((0.1, GIB), (0.2, memory), (high, memory))
    low, target, most = (Amounts(cores, size) for cores, size in sizes)  # type: ignore[arg-type]  # units
    container = ContainerRecommendation("app", low, target, most, target)
    recommended = [
        RequestsRecommended(f"recommender/0/{LATER}/requests/{w.key}", when(LATER), w, (container,), {}) for w in (API, OTHER)
    ]
    return [each.event for each in stage.step(turn(LATER, recommendations_by_cluster=recommended))]


def plans(decided: Any) -> int:
    return sum(not isinstance(each, UpdateRefused) for each in decided)


def guards(decided: Any) -> set[str]:
    return {each.guard for each in decided if isinstance(each, UpdateRefused)}


@pytest.mark.parametrize(
    ("text", "planned", "guard"),
    [
        ("0% @ 10 0 * * * for 1h", 0, {"schedule"}),
        ("10% @ 0 0 * * * for 11m", 1, {"workload-budget"}),
        ("10% @ 0 0 * * * for 9m", 10, set()),
        ("10% @ 0 1 * * * for 1h; 0% @ 0 2 * * * for 1h", 10, set()),
        ("50% @ 0 0 * * * for 1h; 20% @ 0 0 * * * for 1h", 2, {"workload-budget"}),
        ("0% @ CRON_TZ=Europe/Berlin 0 1 * * thu for 1h", 0, {"schedule"}),
    ],
)
def test_of_the_budgets_that_hold_at_a_time_the_smallest_counts(text: str, planned: int, guard: set[str]) -> None:
    decided = decide(TEN, [policy()], budget_schedules=text, eviction_tolerance=1.0)
    assert (plans(decided), guards(decided)) == (planned, guard)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10% at nine", "'10% at nine' is not of the form"),
        ("101% @ 0 9 * * * for 1h", "has a share of more than 100%"),
        ("10% @ 0 9 * * for 1h", "has 4 fields, not 5"),
        ("10% @ 0 9 * * * for 32d", "it can be from 1 s to 2678400 s"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_named(text: str, says: str) -> None:
    [(name, why)] = UpdateSettings(budget_schedules=text).faults()
    assert name == "budget_schedules"
    assert says in why


def test_a_policy_sets_the_guards_of_its_workloads_alone() -> None:
    pods = [pod(f"{w.name}{i}", START, workload=w) for w in (API, OTHER) for i in range(10)]
    ours = policy(target=API.key, guards=GuardOverrides(budget=Fraction(0.1)))
    decided = decide(pods, [policy(), ours], budget=0.4, eviction_tolerance=1.0)
    found = Counter(each.workload.name for each in decided if isinstance(each, ResizePlanned))
    assert found == {"api": 1, "other": 4}


def test_the_profile_upstream_holds_back_what_upstream_does_and_nothing_else() -> None:
    pods = [replace(each, opted_out="karpenter.sh/do-not-disrupt=true") for each in TEN]
    decided = decide(pods, [policy(UpdateMode.RECREATE)], budget=0.1, rate=3, profile="upstream")
    assert (plans(decided), guards(decided)) == (5, {"tolerance"})  # a half of ten may go


WIDEST = GuardOverrides(
    profile="upstream",
    eviction_tolerance=Fraction(1.0),
    budget=Fraction(1.0),
    budget_schedules="100% @ 0 0 * * * for 1h",
    honor_opt_outs=False,
)
"""All that a policy can say so that more of its pods go at once."""


def test_the_profile_of_a_policy_holds_back_as_upstream_what_concerns_its_own_pods() -> None:
    """A half of ten may go, where a workload's share would be one, and none would go because of its annotation."""
    pods = [replace(each, opted_out="karpenter.sh/do-not-disrupt=true") for each in TEN]
    others = [pod(f"o{i}", START, workload=OTHER) for i in range(90)]
    ours = policy(UpdateMode.RECREATE, target=API.key, guards=GuardOverrides(profile="upstream"))
    decided = decide([*pods, *others], [ours], budget=0.1)
    assert (plans(decided), guards(decided)) == (5, {"tolerance"})


ELSEWHERE = [
    pod(f"o{i}", START, pod=PodName("o", f"o{i}", f"uid-o{i}"), workload=replace(OTHER, namespace="o")) for i in range(10)
]


@pytest.mark.parametrize("said", [WIDEST, replace(WIDEST, profile=None)], ids=["upstream", "ullage"])
@pytest.mark.parametrize(
    ("whole", "facts", "most", "guard"),
    [
        ({"budget": 0.2}, [], 2, {"budget"}),
        ({"budget": 0.2}, ELSEWHERE, 2, {"namespace-budget"}),
        ({"budget": None}, [], 1, {"budget"}),
        ({"rate": 3}, [], 3, {"rate"}),
        ({"budget_schedules": "0% @ 10 0 * * * for 1h"}, [], 0, {"schedule"}),
        ({"budget_schedules": "20% @ 0 0 * * * for 1h"}, [], 2, {"workload-budget"}),
        ({"warm_up": 3600.0}, [], 0, {"warm-up"}),
        ({"protected_namespaces": "web"}, [], 0, {"protected"}),
        ({"protected_labels": "Namespace:team=a"}, [marked(labels={"team": "a"})], 0, {"protected"}),
        ({}, [marked(annotations={PROTECTED: "true"})], 0, {"protected"}),
    ],
)
def test_no_policy_widens_what_holds_for_the_whole_cluster(
    said: GuardOverrides, whole: Any, facts: Any, most: int, guard: set[str]
) -> None:
    decided = decide([*TEN, *facts], [policy(UpdateMode.RECREATE, target=API.key, guards=said)], **whole)
    assert (plans(decided), guards(decided)) == (most, guard)


def test_a_policy_changes_only_settings_that_a_policy_can_name() -> None:
    sayable = {field.name for field in fields(GuardOverrides)}
    whole, governed = asdict(UpdateSettings()), asdict(UpdateSettings().governed_by(GuardOverrides(profile="upstream")))
    assert {name for name, value in whole.items() if governed[name] != value} <= sayable


def test_without_the_profile_the_same_pods_are_left_alone() -> None:
    pods = [replace(each, opted_out="karpenter.sh/do-not-disrupt=true") for each in TEN]
    assert guards(decide(pods, [policy(UpdateMode.RECREATE)], budget=0.1)) == {"opt-out"}


@pytest.mark.parametrize(("count", "least", "guard"), [(2, 3, {"replicas"}), (1, 1, set()), (1, None, {"replicas"})])
def test_a_vpas_own_minimum_of_replicas_counts(count: int, least: int | None, guard: set[str]) -> None:
    decided = decide(TEN[:count], [vpa(min_replicas=least)])
    assert guards(decided) == guard


@pytest.mark.parametrize("beside", [(), (ContainerSeen("side"),)], ids=["alone", "beside one without a recommendation"])
@pytest.mark.parametrize(("change", "guard"), [(ChangeRequirement.HIGHER, {"requirements"}), (ChangeRequirement.LOWER, set())])
def test_a_pod_is_evicted_only_if_a_container_meets_the_vpas_requirements(
    change: ChangeRequirement, guard: set[str], beside: tuple[ContainerSeen, ...]
) -> None:
    pods = [replace(each, containers=(*each.containers, *beside)) for each in TEN[:2]]
    decided = decide(pods, [vpa(requirements=(EvictionRequirement(("cpu",), change),))], eviction_tolerance=1.0)
    assert guards(decided) == guard
    assert guard or isinstance(decided[0], EvictionPlanned)


def test_who_lets_pods_only_shrink_by_eviction_does_not_ask_for_a_loop_of_kills() -> None:
    run = ContainerRun(when(LATER - 2 * MINUTE), when(LATER - 3 * MINUTE), "OOMKilled")
    killed = ContainerSeen("app", Amounts(0.2, GIB // 2), restarts=3, last_run=run)  # type: ignore[arg-type]  # units
    smaller = vpa(requirements=(EvictionRequirement(("memory",), ChangeRequirement.LOWER),))
    decided = decide([replace(each, containers=(killed,)) for each in TEN[:2]], [smaller], eviction_tolerance=1.0)
    assert isinstance(decided[0], EvictionPlanned)


@pytest.mark.parametrize(("within", "planned"), [(240.0, 0), (301.0, 1)])
def test_a_vpas_own_time_for_quick_kills_counts(within: float, planned: int) -> None:
    pods = [TEN[0], oom_killed(TEN[1], START + 5 * MINUTE)]
    governed = [vpa(evict_after_oom=Seconds(within))]
    assert plans(decide(pods, governed, high=2.0, memory=2 * GIB)) == planned


def test_a_young_pod_is_left_alone_but_not_after_an_oom_kill() -> None:
    young = [replace(each, started=when(LATER - 5 * MINUTE)) for each in TEN[:3]]
    young[2] = oom_killed(young[2], LATER - MINUTE)
    decided = decide(young, [policy()], pod_warm_up=600.0, memory=2 * GIB)
    assert [(type(each), each.pod.name) for each in decided] == [(ResizePlanned, "p2"), (UpdateRefused, "p0")]
    assert guards(decided) == {"pod-warm-up"}


def hpa(*resources: str, target: str = "api", shares: tuple[UtilizationMetric, ...] | None = None) -> Any:
    """It scales by shares of what the whole pod requests, unless `shares` says by which."""
    found = tuple(map(UtilizationMetric, resources)) if shares is None else shares
    return HpaTargetChanged(when(START), "demo", "web", f"hpa-{target}", "Deployment", target, resources, found)


def test_a_resource_that_an_hpa_scales_by_is_left_to_it_and_the_other_is_changed() -> None:
    big = replace(TEN[0].containers[0], requests=Amounts(1.0, 4 * GIB))  # type: ignore[arg-type]  # units
    pods = [replace(each, containers=(big,)) for each in TEN[:2]]
    [plan] = [each for each in decide([*pods, hpa("cpu")], [policy()]) if isinstance(each, ResizePlanned)]
    assert plan.requests == {"app": Amounts(None, GIB)}  # type: ignore[arg-type]  # units


@pytest.mark.parametrize(
    ("facts", "settings", "guard"),
    [
        ([hpa("cpu")], {}, {"hpa"}),
        ([hpa("cpu", "memory")], {}, {"hpa"}),
        ([hpa("memory")], {}, set()),
        ([hpa()], {}, set()),
        ([hpa("cpu", target="other")], {}, set()),
        ([hpa("cpu"), HpaTargetRemoved(when(START), "demo", "web", "hpa-api")], {}, set()),
        ([hpa("cpu")], {"honor_hpas": False}, set()),
        ([hpa("cpu")], {"profile": "upstream"}, set()),
    ],
)
def test_a_pod_of_which_only_an_hpas_resource_would_be_changed_is_left_alone(facts: Any, settings: Any, guard: set[str]) -> None:
    decided = decide([*TEN[:2], *facts], [policy()], eviction_tolerance=1.0, **settings)
    assert guards(decided) == guard
    if guard:
        assert decided[0].reason.startswith("a HorizontalPodAutoscaler scales the workload by cpu")


@pytest.mark.parametrize(
    ("facts", "settings", "moved"),
    [
        ([hpa("cpu")], {"honor_hpas": False}, {"cpu": 5.0}),
        ([hpa("memory")], {"honor_hpas": False}, None),
        ([], {"honor_hpas": False}, None),
        ([hpa("memory")], {}, None),
    ],
)
def test_a_plan_says_how_it_moves_the_utilization_that_an_hpa_scales_by(facts: Any, settings: Any, moved: Any) -> None:
    """A core becomes a fifth of one; memory stays."""
    found = decide([*TEN[:2], *facts], [policy()], eviction_tolerance=1.0, **settings)
    assert [each.because.get("hpa_utilization") for each in found] == [moved] * 2


@pytest.mark.parametrize(
    ("changed", "moved"),
    [
        ({"init_containers": (ContainerSeen("mesh", Amounts(1.0, GIB), sidecar=True),)}, {"cpu": 2.0 / 1.2}),  # type: ignore[arg-type]
        ({"init_containers": (ContainerSeen("migrate", Amounts(1.0, GIB)),)}, {"cpu": 5.0}),  # type: ignore[arg-type]
        ({"init_containers": (ContainerSeen("mesh", sidecar=True),)}, None),
        ({"requests": Amounts(3.0, None)}, None),  # type: ignore[arg-type]
        ({"requests": Amounts(None, GIB)}, {"cpu": 5.0}),  # type: ignore[arg-type]
    ],
    ids=["a sidecar", "an init container", "a sidecar that requests nothing", "CPU of the pod", "memory of the pod"],
)
def test_the_utilization_moves_as_the_hpa_counts_requests(changed: Any, moved: Any) -> None:
    """An HPA counts sidecars, and the pod's own request instead of its containers'."""
    pods = [replace(each, **changed) for each in TEN[:2]]
    found = decide([*pods, hpa("cpu")], [policy()], eviction_tolerance=1.0, honor_hpas=False)
    assert [each.because.get("hpa_utilization") for each in found] == [moved] * 2


_APP, _MESH = UtilizationMetric("cpu", "app"), UtilizationMetric("cpu", "mesh")


@pytest.mark.parametrize(
    ("shares", "sidecar", "changed", "moved"),
    [
        ((_APP,), Amounts(1.0, GIB), {}, {"cpu of app": 5.0}),  # type: ignore[arg-type]  # units
        ((_MESH,), Amounts(1.0, GIB), {}, None),  # type: ignore[arg-type]
        ((_APP, UtilizationMetric("cpu")), Amounts(1.0, GIB), {}, {"cpu": 2.0 / 1.2, "cpu of app": 5.0}),  # type: ignore[arg-type]
        ((_APP,), Amounts(), {}, {"cpu of app": 5.0}),
        ((_APP,), Amounts(1.0, GIB), {"requests": Amounts(3.0, None)}, {"cpu of app": 5.0}),  # type: ignore[arg-type]
        ((UtilizationMetric("cpu", "gone"),), Amounts(1.0, GIB), {}, None),  # type: ignore[arg-type]
        ((), Amounts(1.0, GIB), {}, None),  # type: ignore[arg-type]
    ],
    ids=["its container", "another", "both", "beside one that requests nothing", "of a pod", "not there", "an average value"],
)
def test_a_share_of_one_container_moves_with_its_request_alone_and_an_amount_does_not(
    shares: Any, sidecar: Amounts, changed: Any, moved: Any
) -> None:
    """A core of `app` becomes a fifth of one; its sidecar stays as it is."""
    beside = (ContainerSeen("mesh", sidecar, sidecar=True),)
    pods = [replace(each, init_containers=beside, **changed) for each in TEN[:2]]
    found = decide([*pods, hpa("cpu", shares=shares)], [policy()], eviction_tolerance=1.0, honor_hpas=False)
    assert [each.because.get("hpa_utilization") for each in found] == [moved] * 2


@pytest.mark.parametrize(
    ("metrics", "moved"),
    [
        ((MetricSpec("ContainerResource", "cpu", MetricTarget("Utilization", 50), "app"),), {"cpu of app": 5.0}),
        ((MetricSpec("Resource", "cpu", MetricTarget("AverageValue", average_value="100m")),), None),
        ((), {"cpu": 5.0}),
    ],
    ids=["of a container", "an average value", "the API server's default"],
)
def test_the_shares_of_an_ehpa_move_alike(metrics: tuple[MetricSpec, ...], moved: Any) -> None:
    ehpa = EhpaChanged(
        when(START), "demo", "web", "api", when(START), TargetRef("Deployment", "api"), max_replicas=9, metrics=metrics
    )
    found = decide([*TEN[:2]], [policy(), ehpa], eviction_tolerance=1.0, honor_hpas=False)
    assert [each.because.get("hpa_utilization") for each in found] == [moved] * 2


def lease(*, alive: bool) -> Any:
    return WebhookLeaseSeen(when(START), "demo", "ullage/ullage-webhook", alive, "" if alive else "there is no Lease 'x'")


def test_while_no_webhook_is_at_work_nobody_is_planned_to_be_evicted() -> None:
    decided = decide([*TEN, lease(alive=True), lease(alive=False)], [policy(UpdateMode.RECREATE)])
    assert (plans(decided), guards(decided)) == (0, {"webhook"})
    assert decided[0].reason == "no webhook is at work that would change the pod's successor: there is no Lease 'x'"
    assert plans(decide([*TEN, lease(alive=False), lease(alive=True)], [policy(UpdateMode.RECREATE)])) == 5
    assert plans(decide([*TEN, lease(alive=False)], [policy(UpdateMode.IN_PLACE)])) == 5


@pytest.mark.parametrize(("wanted", "planned"), [(4, 3), (8, 1), (9, 0), (10, 0), (None, 2)])
def test_the_tolerance_counts_from_the_replicas_that_the_controller_wants(wanted: int | None, planned: int) -> None:
    pods = [replace(each, controller="ReplicaSet/api-1") for each in TEN[:5]]
    made = ReplicaControllerChanged(when(START), "demo", "web", "ReplicaSet", "api-1", wanted)
    assert plans(decide([*pods, *([made] if wanted else [])], [policy()])) == planned


def test_a_container_that_admission_has_not_seen_is_left_out() -> None:
    pods = [replace(each, observed="other") for each in TEN]
    assert decide(pods, [policy()]) == []


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE])
def test_where_new_pods_are_left_as_they_are_none_is_evicted(mode: UpdateMode) -> None:
    decided = decide(TEN, [policy(mode, patch_new_pods=False)])
    if mode is UpdateMode.RECREATE:
        assert {each.guard for each in decided} == {"mode"}
    else:
        assert Counter(map(type, decided))[ResizePlanned] > 0
    assert not any(isinstance(each, EvictionPlanned) for each in decided)


def test_a_vpa_may_ask_by_an_annotation_that_young_pods_are_left_alone() -> None:
    asks = {"ullage/patch-new-pods": "false", "ullage/pod-warm-up": "1200"}
    young = decide(TEN, [vpa(update_mode=UpdateMode.IN_PLACE, annotations=asks)])
    assert {each.guard for each in young} == {"pod-warm-up"}  # the pods began ten minutes ago
    asks["ullage/pod-warm-up"] = "600"
    assert ResizePlanned in map(type, decide(TEN, [vpa(update_mode=UpdateMode.IN_PLACE, annotations=asks)]))


@pytest.mark.parametrize(
    ("changed", "left"),
    [({}, True), ({"strategy": ScaleStrategy.PREVIEW}, False), ({"metrics": (MetricSpec("Pods", "requests"),)}, False)],
)
def test_what_an_ehpa_scales_by_is_left_to_it_as_to_an_hpa(changed: Any, left: bool) -> None:  # a row of the table
    said = {"target_ref": TargetRef("Deployment", "api"), "metrics": (MetricSpec("Resource", "cpu"),), **changed}
    ehpa = EhpaChanged(when(START), "demo", "web", "api", when(START), **said)
    decided = decide(TEN, [policy(), ehpa])
    assert guards(decided) == ({"hpa"} if left else {"tolerance"})
    assert (plans(decided) == 0) is left
    gone = EhpaRemoved(when(START), "demo", "web", "api")
    assert plans(decide(TEN, [policy(), ehpa, gone])) > 0
