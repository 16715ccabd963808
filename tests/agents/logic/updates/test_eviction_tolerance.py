"""How many pods may be disturbed at a time: the updater's plans against upstream's own and worked cases."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agents.logic.updates import eviction_tolerance, update_guards
from agents.logic.updates.eviction_tolerance import ConfiguredReplicas, DisruptionRules, ReplicaCounts
from agents.logic.updates.update_settings import UpdaterProfile, UpdateSettings
from agents.logic.updates.updater import Updater
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import BoostedContainer, ContainerSeen, PodChanged, PodPhase, ResizeState
from schemas.facts.update_facts import ReplicaControllerChanged
from schemas.names import Amounts, Workload
from schemas.outcomes import Action
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import UpdateMode
from schemas.units import Fraction
from tests.support.cluster_events import API, GIB, MINUTE, START, pod, turn, vpa, when
from tests.support.vectors import vectors

Json = dict[str, Any]

STATES = {
    "": ResizeState.NONE,
    "Deferred": ResizeState.DEFERRED,
    "Infeasible": ResizeState.INFEASIBLE,
    "PendingOther": ResizeState.UNKNOWN,
    "InProgress": ResizeState.IN_PROGRESS,
    "InProgressError": ResizeState.ERROR,
    "InProgressOther": ResizeState.UNKNOWN,
}
OWNER = "ReplicaSet/api-1"


def waiting(name: str, *, node: str | None = "n1", **more: Any) -> PodChanged:
    return pod(name, START, phase=PodPhase.PENDING, started=None, node=node, **more)


def recommended(workload: Workload) -> RequestsRecommended:
    low, target, high = (Amounts(cores, GIB) for cores in (0.1, 0.2, 0.5))  # type: ignore[arg-type]  # units
    container = ContainerRecommendation("app", low, target, high, target)
    return RequestsRecommended(f"recommender/0/{START}/requests/{workload.key}", when(START), workload, (container,), {})


def stage(facts: Sequence[Any], mode: UpdateMode = UpdateMode.RECREATE, least: int | None = None, **settings: Any) -> Updater:
    """An updater that knows these pods, which request five times what is recommended, before its first look at them."""
    share = Fraction(settings.pop("share", 1.0))
    made = Updater(replace(UpdateSettings(), **{"profile": UpdaterProfile.UPSTREAM, **settings}), 0)
    control = ControlChanged(when(START), "demo", Mode.APPLY, budget=share)
    found = recommended(API)
    policy = vpa(update_mode=mode, min_replicas=least, selector=())
    made.step(turn(START, policies=[policy], control=[control], pod_changes_by_cluster=facts, recommendations_by_cluster=[found]))
    return made


def plans(made: Updater, minute: int = 1) -> list[str]:
    """The pods for which something is planned."""
    decided = [each.event for each in made.step(turn(START + minute * MINUTE))]
    return sorted(each.pod.name for each in decided if isinstance(each, EvictionPlanned | ResizePlanned))


def refusals(made: Updater, minute: int = 1) -> set[tuple[str, str]]:
    decided = [each.event for each in made.step(turn(START + minute * MINUTE))]
    return {(each.guard, each.reason) for each in decided if isinstance(each, UpdateRefused)}


def of_vector(inputs: Json) -> tuple[Updater, list[str]]:
    """The updater that a vector describes, and its pods in the vector's order."""
    states, policy = inputs["resize_states"] or [], inputs.get("resize_policy")
    seen = ContainerSeen(
        "app",
        Amounts(1.0, GIB),
        Amounts(2.0, 2 * GIB),
        restarts_on=("memory",) if policy == "RestartContainer" else (),  # type: ignore[arg-type]  # units
    )
    owner = f"{inputs['owner_kind']}/owner"
    running = [
        pod(
            f"r{i:03}",
            START,
            controller=owner,
            containers=(seen,),
            resize=STATES[states[i]] if i < len(states) else ResizeState.NONE,
        )
        for i in range(inputs["running"])
    ]
    pending = [waiting(f"q{i:03}", controller=owner) for i in range(inputs["pending"])]
    told = [ReplicaControllerChanged(when(START), "demo", "web", *owner.split("/"), inputs["configured"])]
    facts = [*pending, *running] if inputs["pending_first"] else [*running, *pending]
    made = stage(
        [*facts, *(told if inputs["owner_kind"] in eviction_tolerance.SIZED else ())],
        UpdateMode(inputs["update_mode"]),
        inputs["vpa_min_replicas"],
        min_replicas=inputs["min_replicas"],
        eviction_tolerance=inputs["eviction_tolerance"],
        in_place_skips_disruption=inputs["in_place_skip_disruption_budget"],
    )
    return made, [each.pod.name for each in facts]


@pytest.mark.parametrize("vector", vectors("updater_eviction"))
def test_what_is_done_in_one_interval_is_what_upstream_does(vector: Json) -> None:
    """Upstream asks two questions of each pod: may it be evicted, and resized. Which of them counts is for the mode."""
    made, pods = of_vector(vector["inputs"])
    expected = vector["expected"]
    if vector["inputs"]["update_mode"] == "Recreate":
        planned = plans(made)
        assert [name in planned for name in pods] == expected["evicted_in_order"]
        assert len(planned) == expected["evictions"]
        return
    made.step(turn(START + MINUTE - 1))
    [found] = made.candidates(fresh=True)
    decisions = {each.situation.pod.fact.pod.name: decision(each, found) for each in found.pods}
    told = ["InPlaceDeferred" if each == "InPlaceInfeasible" else each for each in expected["in_place_decision_at_start"]]
    assert [decisions[name] for name in pods] == told, "an infeasible resize is not asked for again, unless for less"


def decision(candidate: Any, found: Any) -> str:
    """Upstream's word for what becomes of a pod, before anything was done to another."""
    situation = replace(found.situation, groups=found.groups[API.key], settings=candidate.situation.settings)
    if update_guards.first_objection(candidate, situation) is not None:
        return "InPlaceDeferred"
    return "InPlaceEvict" if candidate.action is Action.EVICT else "InPlaceApproved"


def evictions(live: int, tolerance: float, *, wants: int | None = None, owner: str = OWNER, least: int = 2) -> int:
    told = [] if wants is None else [ReplicaControllerChanged(when(START), "demo", "web", *owner.split("/"), wants)]
    pods = [pod(f"p{i}", START, controller=owner) for i in range(live)]
    return len(plans(stage([*pods, *told], least=least, eviction_tolerance=tolerance)))


@pytest.mark.parametrize(
    ("configured", "live", "tolerance", "expected"),
    [
        (3, 3, 0.5, 1),
        (4, 4, 0.5, 2),
        (5, 5, 0.8, 4),
        (3, 3, 0.1, 1),
        (10, 10, 0.5, 5),
        (5, 5, 0.1, 1),
        (4, 3, 0.5, 1),
        (3, 2, 0.1, 0),
        (3, 2, 0.5, 0),
    ],
)
def test_the_tolerance_says_how_many_go_in_one_interval(configured: int, live: int, tolerance: float, expected: int) -> None:
    assert evictions(live, tolerance, wants=configured) == expected


def test_a_single_replica_goes_only_if_one_is_enough() -> None:
    assert evictions(1, 0.5, wants=1) == 0
    assert evictions(1, 0.5, wants=1, least=1) == 1
    assert evictions(5, 0.5, wants=10, least=10) == 0


def test_pods_of_a_controller_that_wants_none_are_left_alone() -> None:
    assert evictions(7, 0.5, wants=0) == 0


@pytest.mark.parametrize(("profile", "expected"), [(UpdaterProfile.UPSTREAM, 7), (UpdaterProfile.ULLAGE, 3)])
def test_an_owner_of_another_kind_wants_what_it_has_and_in_upstreams_eyes_nothing(profile: str, expected: int) -> None:
    pods = [pod(f"p{i}", START, controller="CustomThing/api") for i in range(7)]
    assert len(plans(stage(pods, profile=profile, warm_up=0.0, budget=1.0))) == expected


def test_a_job_is_as_large_as_the_pods_that_have_a_node() -> None:
    assert evictions(4, 0.5, owner="Job/api") == 2
    unscheduled = [waiting(f"q{i}", controller="Job/api", node=None) for i in range(4)]
    running = [pod(f"p{i}", START, controller="Job/api") for i in range(4)]
    assert len(plans(stage([*running, *unscheduled]))) == 2


@pytest.mark.parametrize(("old", "new", "expected"), [(2, 8, 1 + 4), (5, 5, 2 + 2), (1, 9, 4)])
def test_in_a_rollout_the_old_and_the_new_replica_set_are_a_group_each(old: int, new: int, expected: int) -> None:
    """Together they would be ten pods, of which five may go, whichever they are."""
    sides = [("api-old", old), ("api-new", new)]
    pods = [pod(f"{name}-{i}", START, controller=f"ReplicaSet/{name}") for name, count in sides for i in range(count)]
    told = [ReplicaControllerChanged(when(START), "demo", "web", "ReplicaSet", name, count) for name, count in sides]
    planned = Counter(name.rpartition("-")[0] for name in plans(stage([*pods, *told])))
    assert planned.total() == expected
    assert all(planned[name] <= max(1, count // 2) for name, count in sides)


def test_an_open_plan_counts_for_its_own_group_in_the_intervals_that_follow() -> None:
    pods = [pod(f"{name}-{i}", START, controller=f"ReplicaSet/{name}") for name in "ab" for i in range(4)]
    made = stage(pods)
    assert plans(made) == ["a-0", "a-1", "b-0", "b-1"]
    made.step(turn(START + 2 * MINUTE - 1, pod_changes_by_cluster=[replace(pods[0], phase=PodPhase.SUCCEEDED)]))
    assert plans(made, 2) == []


def test_a_pod_that_is_being_deleted_is_neither_changed_nor_counted_as_there() -> None:
    pods = [pod(f"p{i}", START, controller=OWNER) for i in range(4)]
    told = ReplicaControllerChanged(when(START), "demo", "web", "ReplicaSet", "api-1", 4)
    for leaving, expected in ((1, ["p1"]), (2, [])):
        going = [replace(each, leaving=i < leaving) for i, each in enumerate(pods)]
        assert plans(stage([*going, told])) == expected
        assert plans(stage([*going, told], profile=UpdaterProfile.ULLAGE, warm_up=0.0)) == expected


def test_a_pod_that_is_being_deleted_uses_up_a_budget_only_while_our_own_plan_for_it_is_open() -> None:
    """Its successor is there, or comes as pending, which counts."""
    pods = [pod(f"p{i}", START, controller=OWNER) for i in range(4)]
    ours = {"profile": UpdaterProfile.ULLAGE, "warm_up": 0.0, "eviction_tolerance": 1.0, "share": 0.0, "unchanged_pause": 0.0}
    somebody = stage([*pods, pod("old", START, controller=OWNER, leaving=True)], **ours)
    assert plans(somebody) == ["p0"]
    gone = replace(pods[0], leaving=True)
    somebody.step(turn(START + 2 * MINUTE - 1, pod_changes_by_cluster=[gone, pod("new", START, controller=OWNER)]))
    assert plans(somebody, 2) == []
    assert plans(somebody, 7) == ["new"], "the plan is no longer open"


def test_a_pod_without_controller_is_never_evicted_for_nobody_makes_it_anew() -> None:
    alone = Workload("demo", "web", "Pod", "api")
    made = stage([pod("api", START, workload=alone)], min_replicas=1)
    found = recommended(alone)
    policy = vpa(update_mode=UpdateMode.RECREATE, min_replicas=1, target_ref=replace(vpa().target_ref, kind="Pod"))
    decided = made.step(turn(START + MINUTE, policies=[policy], recommendations_by_cluster=[found]))
    assert [(each.event.guard, each.event.reason) for each in decided if isinstance(each.event, UpdateRefused)] == [
        ("replicas", "no controller would make the pod anew")
    ]


def test_upstream_evicts_a_pod_that_waits_on_its_node_for_nothing_and_ours_leaves_it() -> None:
    pods = [*(pod(f"p{i}", START, controller=OWNER) for i in range(2)), waiting("q", controller=OWNER)]
    told = ReplicaControllerChanged(when(START), "demo", "web", "ReplicaSet", "api-1", 3)
    assert plans(stage([*pods, told])) == ["q"], "two of three run, and one has to"
    assert plans(stage([*pods[:2], waiting("q", controller=OWNER, node=None), told])) == []
    assert plans(stage([*pods, told], UpdateMode.IN_PLACE_OR_RECREATE)) == []
    ours = refusals(stage([*pods, told], profile=UpdaterProfile.ULLAGE, warm_up=0.0, eviction_tolerance=1.0))
    assert ("phase", "the pod is Pending, not Running") in ours


def test_a_refusal_names_the_controller_whose_pods_it_counts() -> None:
    told = ReplicaControllerChanged(when(START), "demo", "web", "ReplicaSet", "api-1", 4)
    pods = [pod(f"p{i}", START, controller=OWNER) for i in range(2)]
    assert refusals(stage([*pods, told])) == {
        ("tolerance", "2 of the 4 pods of ReplicaSet 'api-1' are there and not being changed; the tolerance is 0.5")
    }
    few = {("replicas", "ReplicaSet 'api-1' has 2 pods; fewer than 3 are left alone")}
    assert refusals(stage([*pods, told], min_replicas=3)) == few
    none = {("replicas", "ReplicaSet 'api-1' wants no pods")}
    assert refusals(stage([*pods, replace(told, replicas=0)])) == none


@pytest.mark.parametrize(
    ("resize", "minutes", "evicts"),
    [
        (ResizeState.INFEASIBLE, 1, True),
        (ResizeState.ERROR, 1, True),
        (ResizeState.UNKNOWN, 1, True),
        (ResizeState.DEFERRED, 4, False),
        (ResizeState.DEFERRED, 5, False),
        (ResizeState.DEFERRED, 6, True),
        (ResizeState.IN_PROGRESS, 59, False),
        (ResizeState.IN_PROGRESS, 61, True),
    ],
)
def test_a_resize_that_fails_or_takes_too_long_is_given_up(resize: ResizeState, minutes: int, *, evicts: bool) -> None:
    others = [pod(name, START, controller=OWNER, phase=PodPhase.SUCCEEDED) for name in "bc"]
    facts = [pod("a", START, controller=OWNER, resize=resize), *others]
    for mode in (UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE):
        made = stage(facts, mode, 1)
        assert (plans(made, minutes) == ["a"]) == (evicts and mode is UpdateMode.IN_PLACE_OR_RECREATE)


@pytest.mark.parametrize(("restarts_on", "expected"), [((), 5), (("memory",), 1)])
def test_the_tolerance_is_skipped_for_resizes_of_pods_that_restart_nothing(restarts_on: Any, expected: int) -> None:
    """Memory stays as it is. Upstream goes by the policy all the same; ours by what the change does."""
    seen = ContainerSeen("app", Amounts(1.0, GIB), Amounts(2.0, 2 * GIB), restarts_on=restarts_on)  # type: ignore[arg-type]  # units
    pods = [pod(f"p{i}", START, controller=OWNER, containers=(seen,)) for i in range(5)]
    said = {"eviction_tolerance": 0.1, "in_place_skips_disruption": True}
    assert len(plans(stage(pods, UpdateMode.IN_PLACE_OR_RECREATE, **said))) == expected
    ours = {**said, "profile": UpdaterProfile.ULLAGE, "warm_up": 0.0}
    assert len(plans(stage(pods, UpdateMode.IN_PLACE_OR_RECREATE, **ours))) == 5


def test_a_group_below_its_minimum_is_only_changed_in_place() -> None:
    one = [pod("a", START, controller=OWNER)]
    assert plans(stage(one, UpdateMode.IN_PLACE, in_place_skips_disruption=True)) == ["a"]
    stuck = [replace(one[0], resize=ResizeState.INFEASIBLE)]
    assert plans(stage(stuck, UpdateMode.IN_PLACE_OR_RECREATE, in_place_skips_disruption=True)) == []


def test_in_upstreams_eyes_a_boosted_pod_keeps_its_small_group_in_sight() -> None:
    boost = (BoostedContainer("app"),)
    counts = eviction_tolerance.replica_counts(
        [pod("a", START, boosted=boost)], lambda _name: ConfiguredReplicas(1), lambda _name: 0
    )[""]
    assert counts == ReplicaCounts("", ConfiguredReplicas(1), members=1, live=1, running=1, boosted=True, serving=1)
    assert eviction_tolerance.group(counts, UpdateMode.RECREATE, DisruptionRules(strict=True)) is None
    assert eviction_tolerance.group(counts, UpdateMode.RECREATE, DisruptionRules(), boosted=True) is not None
