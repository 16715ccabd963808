"""Pods that are missing: budgets count them against what controllers want, and where no new pods come nobody is evicted."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agents.logic.updates.update_settings import UpdaterProfile, UpdateSettings
from agents.logic.updates.updater import Updater
from schemas.catalogue import Event
from schemas.decision_subjects import Subject, SubjectKind
from schemas.decisions.pod_updates import EvictionPlanned, UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, LastOomKill, RequestsRecommended
from schemas.facts.pods import OOM_KILLED, ContainerRun, ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.scheduled_pods import ControllingOwner
from schemas.facts.update_facts import ReplicaControllerChanged, ReplicaControllerRemoved, ResourceQuotaChanged
from schemas.names import Amounts, Place, PodName, Workload
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged
from schemas.units import Fraction
from tests.support.cluster_events import API, GIB, MINUTE, START, pod, turn, when

OWNER = "ReplicaSet/api-1"
QUOTA = "pods 'api-1-x' is forbidden: exceeded quota: q"
_SMALL, _LARGE = (Amounts(cores, GIB) for cores in (0.2, 1.0))  # type: ignore[arg-type]  # units
_KILLED = ContainerRun(when(START), reason=OOM_KILLED)


def seen(*, ready: bool = True, restarts: int = 0, amounts: Amounts = _LARGE) -> ContainerSeen:
    return ContainerSeen("app", amounts, ready=ready, restarts=restarts)


def member(name: str, at: int = START, *, ready: bool = True, restarts: int = 0, **more: Any) -> PodChanged:
    more = {"controller": OWNER, "node": "n1", "containers": (seen(ready=ready, restarts=restarts),), **more}
    return pod(name, at, **more)


def come(name: str, at: int, **more: Any) -> PodChanged:
    """A new pod that requests what is recommended."""
    return member(name, at, **{"containers": (seen(amounts=_SMALL),), **more})


def wants(count: int | None, at: int = START, *, name: str = "api-1", refusal: str = "", owner: str = "api") -> Any:
    kind = ControllingOwner("Deployment", owner, "apps/v1")
    return ReplicaControllerChanged(when(at), "demo", "web", "ReplicaSet", name, count, kind, refusal)


def recommended(at: int, workload: Workload, oom: LastOomKill | None = None) -> RequestsRecommended:
    low, target, high = (Amounts(cores, GIB) for cores in (0.1, 0.2, 0.5))  # type: ignore[arg-type]  # units
    container = ContainerRecommendation("app", low, target, high, target)
    return RequestsRecommended(f"recommender/0/{at}/requests/{workload.key}", when(at), workload, (container,), {}, last_oom=oom)


class World:
    """An updater, and an evictor that carries out at once what it plans; new pods come only where a test makes them."""

    def __init__(
        self, facts: Sequence[Event], *, share: float, mode: UpdateMode = UpdateMode.RECREATE, tolerance: float = 1.0, **more: Any
    ) -> None:
        pods = [each for each in facts if isinstance(each, PodChanged)]
        self.workloads = list(dict.fromkeys(each.workload for each in pods))
        self.there = {each.pod.uid: each for each in pods}
        self.refused: list[UpdateRefused] = []
        self.evicted: list[str] = []
        self.minute = 0
        settings = replace(UpdateSettings(), warm_up=0.0, min_replicas=1, eviction_tolerance=tolerance, **more)
        self.stage = Updater(settings, 0)
        control = ControlChanged(when(START), "demo", Mode.APPLY, budget=Fraction(share))
        policy = VerticalPolicyChanged(when(START), "*", "1", mode)
        self.stage.step(turn(START, policies=[policy], control=[control], pod_changes_by_cluster=list(facts)))

    def tell(self, *facts: Event) -> None:
        """Facts in the middle of a minute."""
        for each in facts:
            if isinstance(each, PodChanged):
                self.there[each.pod.uid] = each
        self.stage.step(turn(self.now + MINUTE // 2, pod_changes_by_cluster=list(facts)))

    @property
    def now(self) -> int:
        return START + self.minute * MINUTE

    def minutes(self, count: int, *, told: bool = True, oom: LastOomKill | None = None) -> list[str]:
        """The pods evicted within so many minutes. `told`: the source says that they are gone."""
        before = len(self.evicted)
        for _ in range(count):
            self._evict(self.planned(oom=oom), told=told)
        return self.evicted[before:]

    def planned(self, *, oom: LastOomKill | None = None) -> list[EvictionPlanned]:
        """The evictions that are planned in the next minute."""
        self.minute += 1
        news = [recommended(self.now, each, oom) for each in self.workloads] if self.minute % 30 == 1 else []
        decided = [each.event for each in self.stage.step(turn(self.now, recommendations_by_cluster=news))]
        self.refused += (each for each in decided if isinstance(each, UpdateRefused))
        return [each for each in decided if isinstance(each, EvictionPlanned)]

    def _evict(self, plans: Iterable[EvictionPlanned], *, told: bool) -> None:
        done: list[Event] = []
        gone: list[Event] = []
        for plan in plans:
            self.evicted.append(plan.pod.name)
            done.append(ActionFinished("o", plan.at, plan.id, Action.EVICT, Result.DONE, "so", plan.subject))
            gone.append(PodDeleted(plan.at, self.there.pop(plan.pod.uid).workload, plan.pod))
        if done:
            self.stage.step(turn(self.now + 1000, outcomes=done, pod_changes_by_cluster=gone if told else []))

    def guards(self) -> dict[str, str]:
        """The refusals by guard, with the last reason."""
        return {each.guard: each.reason for each in self.refused}


def ten(**more: Any) -> list[Event]:
    return [*(member(name, **more) for name in "abcdefghij"), wants(10)]


@pytest.mark.parametrize(("share", "most"), [(0.1, 1), (0.3, 3), (0.5, 5)])
def test_without_successors_no_more_pods_go_than_the_budget_allows(share: float, most: int) -> None:
    world = World(ten(), share=share)
    assert len(world.minutes(6 * 60)) == most
    said = [each.reason for each in world.refused if each.guard == "successor"]
    missing = f"of the 10 pods that should be there {most} {'is' if most == 1 else 'are'} not made"
    assert said[0] == f"the successor of an evicted pod has not come for 300 s: {missing}"
    assert len(said) == 12, "each half an hour while it lasts"


def test_pods_that_others_took_away_count_as_well() -> None:
    world = World([*ten()[:7], wants(10)], share=0.3)
    assert world.minutes(60) == []
    assert (
        world.guards()["workload-budget"]
        == "3 of the workload's 10 pods are away or being changed (3 are missing); the budget is 0.3 of them"
    )


def test_a_controller_that_cannot_make_pods_is_left_alone_at_once_and_taken_up_again_when_it_can() -> None:
    world = World([*ten()[:-1], wants(10, refusal=QUOTA)], share=0.5)
    assert world.minutes(60) == []
    assert world.guards() == {"successor": f"ReplicaSet 'api-1' cannot make new pods: {QUOTA}"}
    world.tell(wants(10))
    assert len(world.minutes(1)) == 5


def test_the_workload_goes_on_when_the_successor_is_there() -> None:
    world = World(ten(), share=0.1)
    [first] = world.minutes(60)
    assert world.guards()["successor"]
    world.tell(come("new", world.now))
    assert len(world.minutes(1)) == 1, f"the successor of {first} runs"


@pytest.mark.parametrize(
    ("successor", "says"),
    [
        ({"phase": PodPhase.PENDING, "node": None, "started": None}, "1 is without a node that takes it"),
        ({"phase": PodPhase.PENDING, "started": None}, "1 is on a node without having begun"),
        ({"containers": (seen(ready=False, restarts=3, amounts=_SMALL),)}, "1 is with a container that fails again and again"),
        ({"containers": (seen(ready=False, amounts=_SMALL),)}, "9 are ready, and 10 were"),
        (
            {"containers": (replace(seen(ready=False, restarts=3, amounts=_SMALL), last_run=_KILLED),)},
            "1 is with a container that fails again and again, 1 of them was OOM-killed last",
        ),
        (
            {"containers": (replace(seen(ready=False, amounts=_SMALL), last_run=_KILLED),)},
            "9 are ready, and 10 were, 1 of them was OOM-killed last",
        ),
    ],
)
def test_a_successor_that_does_not_serve_is_missing_as_one_that_does_not_exist(successor: Any, says: str) -> None:
    world = World(ten(), share=0.1)
    assert len(world.minutes(1)) == 1
    world.tell(come("new", world.now, **successor))
    more = world.minutes(60)
    assert (more, world.guards()["successor"][-len(says) :]) == ([], says)
    assert "is not ready after" in world.guards()["successor"], "it has come"


def test_where_pods_never_say_that_they_are_ready_a_running_successor_is_enough() -> None:
    """A workload of which only the leader is ready, or a source that knows nothing of readiness."""
    world = World(ten(ready=False), share=0.1)
    for minute in range(5):
        assert len(world.minutes(1)) == 1
        world.tell(come(f"new-{minute}", world.now, containers=(seen(ready=False, amounts=_SMALL),)))


def test_when_an_hpa_scales_up_no_pod_goes_before_the_new_ones_are_there() -> None:
    world = World([*ten()[:-1], wants(20)], share=0.3)
    assert world.minutes(10) == []
    world.tell(*(come(f"new-{number}", world.now) for number in range(10)))
    assert len(world.minutes(1)) == 6


def test_when_an_hpa_scales_down_nobody_waits_for_successors() -> None:
    world = World(ten(), share=0.1)
    assert len(world.minutes(1)) == 1
    world.tell(wants(9, world.now))
    assert len(world.minutes(1)) == 1


def test_a_new_replica_set_that_gets_no_pods_counts_for_the_workload() -> None:
    """A rollout whose new pods are refused: the old ones are all that is left."""
    world = World([*ten(), wants(3, name="api-2")], share=0.3)
    assert world.minutes(30) == []
    world.tell(ReplicaControllerRemoved(when(world.now), "demo", "web", "ReplicaSet", "api-2"))
    assert len(world.minutes(1)) == 3


def test_what_another_workload_misses_counts_for_namespace_and_cluster_also_without_any_pod() -> None:
    other = wants(5, name="shop-1", owner="shop")
    assert World([*ten(), other], share=0.3).minutes(5) == [], "5 of 15 are missing, and 4 may be"
    assert len(World([*ten(), other], share=0.4).minutes(1)) == 1


@pytest.mark.parametrize("controller", ["CustomThing/api", "", "ReplicaSet/api-1"])
def test_of_a_controller_that_says_nothing_as_many_count_as_were_seen(controller: str) -> None:
    world = World([member(name, controller=controller) for name in "abcdefghij"], share=0.3)
    assert len(world.minutes(59)) == 3
    assert "successor" in world.guards()


def test_a_custom_controller_that_wanted_fewer_is_believed_after_an_hour() -> None:
    world = World(
        [member(name, controller="CustomThing/api", containers=(seen(amounts=_SMALL),)) for name in "abcdefghij"], share=0.1
    )
    world.minutes(1)
    world.tell(*(PodDeleted(when(world.now), API, PodName("web", name, f"uid-{name}")) for name in "fghij"))
    world.tell(*(member(name, controller="CustomThing/api") for name in "abcde"))
    assert world.minutes(59) == []
    assert len(world.minutes(2)) == 1


def test_while_the_source_is_silent_evicted_pods_stay_counted_as_gone() -> None:
    """Their facts say for ever that they run; the cluster accepted their evictions."""
    world = World(ten(), share=0.3)
    assert len(world.minutes(5 * 60, told=False)) == 3


def test_a_pod_that_ends_for_an_hour_is_missing_where_its_controller_waits_for_that() -> None:
    """A StatefulSet makes the successor under the same name; a ReplicaSet makes another one at once."""
    world = World(ten(), share=0.1)
    [name] = world.minutes(1, told=False)
    world.tell(member(name, leaving=True))
    assert world.minutes(60) == []
    assert world.guards()["successor"].endswith("1 is not made")
    world.tell(come("new", world.now))
    assert len(world.minutes(1)) == 1


def test_pods_that_fail_for_want_of_memory_are_replaced_though_all_of_them_fail() -> None:
    failing = [member(name, ready=False, restarts=4) for name in "abcdefghij"]
    world = World([*failing, wants(10)], share=0.1)
    killed = LastOomKill(when(START), PodName("web", "a", "uid-a"), "app", None, counted=True, place=Place("oom-events", 0, 1))
    done: list[str] = []
    for minute in range(15):
        done += world.minutes(1, oom=killed)
        world.tell(come(f"new-{minute}", world.now))
    assert len(done) == 10, "one at a time, for each of them is away anyway, and its successor comes"


def lacking(namespace: str, wanted: int, there: int = 0) -> list[Event]:
    """A workload of a namespace that has only some of the pods that it asks for."""
    owner = ControllingOwner("Deployment", "idle", "apps/v1")
    workload = Workload("demo", namespace, "Deployment", "idle")
    pods = [
        replace(member(f"{namespace}-{n}", workload=workload), pod=PodName(namespace, f"i-{n}", f"{namespace}-{n}"))
        for n in range(there)
    ]
    controller = ReplicaControllerChanged(when(START), "demo", namespace, "ReplicaSet", "api-1", wanted, owner)
    return [*pods, controller]


@pytest.mark.parametrize("there", [0, 3])
@pytest.mark.parametrize("wanted", [20, 1000])
def test_pods_of_a_namespace_that_never_come_hold_back_no_other_namespace(wanted: int, there: int) -> None:
    world = World([*ten(), *lacking("noisy", wanted, there)], share=0.1)
    world.workloads = [API]
    assert len(world.minutes(1)) == 1, "as many as without the others"
    assert world.minutes(60) == []
    world.tell(come("new", world.now))
    assert len(world.minutes(1)) == 1


def test_where_each_namespace_lacks_its_share_nobody_is_evicted_and_the_sentence_tells_the_rest() -> None:
    facts = [*ten(), *(fact for n in range(9) for fact in lacking(f"team-{n}", 10, there=5))]
    world = World(facts, share=0.1)
    world.workloads = [API]
    assert len(world.minutes(1)) == 1
    world.tell(come("new", world.now), *lacking("team-9", 100, 80))
    assert len(world.minutes(1)) == 1
    small = [fact for n in range(20) for fact in lacking(f"small-{n}", 1)]
    world.tell(come("newer", world.now), *small)
    assert world.minutes(60) == []
    said = world.guards()["budget"]
    assert "are away or being changed" in said
    assert said.endswith("away beyond the budgets of their namespaces"), said


def test_resizes_that_stop_nothing_go_on_while_pods_are_missing() -> None:
    """They may be what makes room in a quota that is used up."""
    world = World([*ten()[:7], wants(10, refusal=QUOTA)], share=0.3, mode=UpdateMode.IN_PLACE)
    plans = [
        each.event
        for each in world.stage.step(turn(START + MINUTE, recommendations_by_cluster=[recommended(START + MINUTE, API)]))
    ]
    assert len([each for each in plans if not isinstance(each, UpdateRefused)]) == 3


def quota(hard: str, used: str, name: str = "q", resource: str = "requests.cpu") -> ResourceQuotaChanged:
    return ResourceQuotaChanged(when(START), "demo", "web", name, {resource: hard}, {resource: used})


@pytest.mark.parametrize(
    ("low", "hard", "used", "refused"),
    [
        (0.1, "10", "10", ""),  # full, and the successor asks for less than the pod frees
        (
            2.0,
            "10",
            "10",
            "allows requests.cpu 10000m, 10000m is in use, 1000m of it by the pod that goes, and 3000m is asked for",
        ),
        (2.0, "13", "10", ""),  # 10 + 3, for the pod counts until it is gone
        (
            2.0,
            "11900m",
            "10",
            "allows requests.cpu 11900m, 10000m is in use, 1000m of it by the pod that goes, and 3000m is asked for",
        ),
        (0.1, "5", "10", "allows requests.cpu 5000m, 10000m is in use, 1000m of it by the pod that goes, and 200m is asked for"),
    ],
)
def test_a_pod_whose_successor_would_not_fit_into_the_quota_stays(low: float, hard: str, used: str, refused: str) -> None:
    """A quota that was lowered below what is in use refuses every new pod."""
    amounts = (low, 3.0 if low > 1 else 0.2, 4.0 if low > 1 else 0.5)
    lower, target, upper = (Amounts(cores, GIB) for cores in amounts)  # type: ignore[arg-type]  # units
    advice = RequestsRecommended("r", when(START), API, (ContainerRecommendation("app", lower, target, upper, target),), {})
    world = World([*ten(), quota(hard, used)], share=0.1)
    decided = [each.event for each in world.stage.step(turn(START + MINUTE, recommendations_by_cluster=[advice]))]
    reasons = {each.reason for each in decided if isinstance(each, UpdateRefused) and each.guard == "quota"}
    assert not refused or reasons == {f"the API server would refuse the pod's successor: ResourceQuota 'q' {refused}"}
    assert sum(isinstance(each, EvictionPlanned) for each in decided) == (0 if refused else 1)


@pytest.mark.parametrize("hard", ["12000m", "12900m", "11000m"])
def test_a_pod_whose_successor_would_come_before_there_is_room_for_more_stays(hard: str) -> None:
    """The controller makes it while the pod still counts; with what the pod has now it would fit, so the eviction is in vain."""
    lower, target, upper = (Amounts(cores, GIB) for cores in (2.0, 3.0, 4.0))  # type: ignore[arg-type]  # units
    advice = RequestsRecommended("r", when(START), API, (ContainerRecommendation("app", lower, target, upper, target),), {})
    used = "9000m" if hard == "11000m" else "10000m"
    world = World([*ten(), quota(hard, used)], share=0.1)
    decided = [each.event for each in world.stage.step(turn(START + MINUTE, recommendations_by_cluster=[advice]))]
    reasons = {each.reason for each in decided if isinstance(each, UpdateRefused) and each.guard == "quota"}
    (says,) = reasons
    assert says.startswith("the pod's successor would come with what the pod has now, because while the pod goes ")
    assert says.endswith(f"ResourceQuota 'q' allows requests.cpu {hard}, {used} is in use, and 3000m is asked for")
    assert not [each for each in decided if isinstance(each, EvictionPlanned)]


def test_a_resize_in_place_must_fit_into_the_quota_only_as_far_as_it_grows() -> None:
    world = World([*ten(), quota("5", "10")], share=0.1, mode=UpdateMode.IN_PLACE)
    news = [recommended(START, API)]
    decided = [each.event for each in world.stage.step(turn(START + MINUTE, recommendations_by_cluster=news))]
    assert not [each for each in decided if isinstance(each, UpdateRefused) and each.guard == "quota"], "it asks for less"


def test_plans_of_one_interval_share_what_is_left_of_a_quota() -> None:
    """Ten pods of one core each; each successor takes three, and there is room for two of them beside all ten."""
    lower, target, upper = (Amounts(cores, GIB) for cores in (2.0, 3.0, 4.0))  # type: ignore[arg-type]  # units
    advice = RequestsRecommended("r", when(START), API, (ContainerRecommendation("app", lower, target, upper, target),), {})
    world = World([*ten(), quota("16500m", "10")], share=0.5)
    decided = [each.event for each in world.stage.step(turn(START + MINUTE, recommendations_by_cluster=[advice]))]
    assert sum(isinstance(each, EvictionPlanned) for each in decided) == 2
    assert [each.guard for each in decided if isinstance(each, UpdateRefused)] == ["quota"]


def lost(at: int) -> ActionFinished:
    """Patched pods of the workload did not come."""
    subject = Subject(SubjectKind.POD, "demo", "api-1-%", "web", workload=API.key)
    return ActionFinished(f"o-{at}", when(at), "d", Action.PATCH, Result.LOST, "none came", subject, OutcomeDetail.NOT_SEEN)


@pytest.mark.parametrize(("profile", "evicts"), [(UpdaterProfile.ULLAGE, False), (UpdaterProfile.UPSTREAM, True)])
def test_nobody_is_evicted_while_the_webhook_leaves_new_pods_as_they_are(profile: UpdaterProfile, *, evicts: bool) -> None:
    world = World(ten(), share=0.1, profile=profile)
    world.stage.step(turn(START + MINUTE // 2, outcomes=[lost(START)]))
    assert bool(world.minutes(4)) == evicts
    if not evicts:
        said = "new pods of 'demo/web/Deployment/api' are left as they are until 00:20:00 UTC: none came"
        assert world.guards() == {"unpatched": said}
        assert len(world.minutes(18)) == 1


def test_the_pause_of_one_workload_holds_no_other() -> None:
    world = World(ten(), share=0.1)
    other = replace(lost(START).subject, workload="demo/web/Deployment/other")
    world.stage.step(turn(START + MINUTE // 2, outcomes=[replace(lost(START), subject=other)]))
    assert len(world.minutes(1)) == 1


def test_the_pause_of_a_workload_outlasts_a_restart() -> None:
    world = World(ten(), share=0.1)
    world.stage.step(turn(START + MINUTE // 2, outcomes=[lost(START)]))
    again = Updater(UpdateSettings(warm_up=0.0, min_replicas=1, eviction_tolerance=1.0), 0)
    for chunk in world.stage.chunks():
        again.load(chunk, world.stage.dump(chunk))
    world.stage = again
    assert world.minutes(4) == []
