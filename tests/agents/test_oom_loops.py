"""A loop of OOM kills ends in every mode, for every pod, by each container's own last run; else a bound says why not."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.demo.demo_settings import START
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.decisions.vpa_conditions import ConditionStatus
from schemas.names import Amounts
from schemas.policies.limit_ranges import Limit, LimitType
from schemas.policies.vertical import ContainerMode, ContainerPolicy, ControlledValues, UpdateMode
from schemas.units import Bytes, Cores
from streams.simulated.cluster_spec import MIB, Load, LoadMoment, jvm
from tests.support.oom_world import OomWorld, growing_again, hot, template

MODES = (UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.RECREATE, UpdateMode.IN_PLACE)
CALM = timedelta(hours=1)
"""Without a kill for this long at the end, a loop has ended."""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("heap", [4000, 7000])
def test_ten_pods_that_need_up_to_ten_times_their_memory_are_mended_within_minutes(mode: UpdateMode, heap: int) -> None:
    container = replace(template("app", 0, 0, 700, 700), shape=jvm(low=0.05, high=0.1, heap=heap))
    world = OomWorld(10, (container,), mode, hours=1.0).play()
    assert max(world.kills_of_pods.values()) <= 3
    early = START + timedelta(minutes=20)
    assert world.unchanged(early, "app", 700) == set()
    assert world.kills[-1].at < early


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("need", "after"), [(705, 0.0), (4000, 0.0), (1400, 30.0), (1400, 300.0), (2000, 900.0)])
def test_the_loop_ends_however_much_is_needed_and_however_late(mode: UpdateMode, need: int, after: float) -> None:
    world = OomWorld(3, (template("app", need, after, 700, 700),), mode, hours=4.0).play()
    assert world.kills
    assert world.kills[-1].at < world.end - CALM


@pytest.mark.parametrize("mode", MODES)
def test_the_only_pod_of_a_workload_is_mended_too(mode: UpdateMode) -> None:
    world = OomWorld(1, (template("app", 1400, 0.0, 700, 700),), mode).play()
    assert world.kills[-1].at < START + timedelta(minutes=15)


@pytest.mark.parametrize("mode", MODES)
def test_a_few_hot_pods_among_twenty_are_mended_though_the_others_use_little(mode: UpdateMode) -> None:
    container = replace(template("app", 0, 0.0, 700, 700), shape=hot(2000))
    world = OomWorld(20, (container,), mode).play()
    assert 0 < len(world.kills_of_pods) <= 5
    assert max(world.kills_of_pods.values()) <= 5
    assert world.kills[-1].at < START + timedelta(minutes=15)


@pytest.mark.parametrize("mode", [MODES[0], *(pytest.param(mode, marks=pytest.mark.slow) for mode in MODES[1:])])
def test_a_loop_that_begins_when_the_last_one_is_forgotten_ends_too(mode: UpdateMode) -> None:
    later = timedelta(hours=26)
    container = replace(template("app", 0, 0.0, 700, 700), shape=growing_again(1400, 4000, later))
    world = OomWorld(3, (container,), mode, hours=28.0).play()
    again = [kill for kill in world.kills if kill.at >= START + later]
    assert again
    assert again[-1].at < START + later + timedelta(minutes=15)


def test_memory_that_is_needed_in_the_first_minutes_alone_is_given_once() -> None:
    def shape(moment: LoadMoment) -> Load:
        return Load(Cores(0.1), Bytes((3000 if moment.age < 300 else 200) * MIB))

    container = replace(template("app", 0, 0.0, 1000, 1000), shape=shape)
    world = OomWorld(3, (container,), UpdateMode.RECREATE, hours=30.0).play()
    assert 0 < max(world.kills_of_pods.values()) <= 3
    assert world.kills[-1].at < START + timedelta(hours=1)


def test_the_profile_upstream_mends_every_pod_too() -> None:
    container = template("app", 1000, 0.0, 700, 700)
    world = OomWorld(10, (container,), UpdateMode.RECREATE, settings={"updates.profile": "upstream"}).play()
    assert world.unchanged(START + timedelta(minutes=30), "app", 700) == set()
    assert world.kills[-1].at < world.end - CALM


@pytest.mark.parametrize(
    ("policy", "reason", "word"),
    [
        (ContainerPolicy("*", max_allowed=Amounts(None, Bytes(800 * MIB))), "its policy allows", "MaxAllowed"),
        (ContainerPolicy("*", controlled_values=ControlledValues.REQUESTS_ONLY), "its limit of", "StaticLimit"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_bound_that_keeps_the_loop_going_is_said(mode: UpdateMode, policy: ContainerPolicy, reason: str, word: str) -> None:
    world = OomWorld(3, (template("app", 3000, 0.0, 350, 700),), mode, (policy,), vpa=True).play()
    assert world.kills[-1].at > world.end - CALM
    [refusal, *_] = [each for each in world.refusals if each.guard == "oom-bound"]
    assert reason in refusal.reason
    assert refusal.at < START + timedelta(minutes=30)
    condition = world.limited
    assert condition is not None
    assert (condition.status, condition.reason) == (ConditionStatus.TRUE, word)
    assert reason in condition.message
    assert condition.since < START + timedelta(minutes=30)


@pytest.mark.parametrize(
    ("mode", "policies", "word"),
    [
        (UpdateMode.OFF, (), "UpdateMode"),
        (UpdateMode.INITIAL, (), "UpdateMode"),
        (UpdateMode.RECREATE, (ContainerPolicy("app", mode=ContainerMode.OFF),), "ContainerModeOff"),
        (UpdateMode.IN_PLACE, (ContainerPolicy("*", controlled_resources=("cpu",)),), "MemoryNotRecommended"),
    ],
)
def test_where_nothing_is_recommended_or_applied_the_condition_says_so(
    mode: UpdateMode, policies: tuple[ContainerPolicy, ...], word: str
) -> None:
    condition = OomWorld(2, (template("app", 3000, 0.0, 350, 700),), mode, policies, vpa=True).play().limited
    assert condition is not None
    assert (condition.status, condition.reason) == (ConditionStatus.TRUE, word)
    assert condition.since < START + timedelta(minutes=30)


@pytest.mark.parametrize(
    ("mode", "policies", "word"),
    [
        (UpdateMode.OFF, (), "UpdateMode"),
        (UpdateMode.IN_PLACE, (ContainerPolicy("*", controlled_resources=("cpu",)),), "MemoryNotRecommended"),
        (UpdateMode.RECREATE, (ContainerPolicy("*", max_allowed=Amounts(None, Bytes(800 * MIB))),), "MaxAllowed"),
    ],
)
def test_without_a_vpa_an_event_says_so(mode: UpdateMode, policies: tuple[ContainerPolicy, ...], word: str) -> None:
    world = OomWorld(2, (template("app", 3000, 0.0, 350, 700),), mode, policies).play()
    assert world.bound == word


@pytest.mark.parametrize("kind", [LimitType.CONTAINER, LimitType.POD])
@pytest.mark.parametrize("mode", MODES)
def test_a_loop_that_a_limit_range_keeps_going_names_it_and_what_to_change(mode: UpdateMode, kind: LimitType) -> None:
    limits = (Limit(kind, most=Amounts(None, Bytes(1200 * MIB))),)
    world = OomWorld(4, (template("app", 2000, 0, 600, 700),), mode, limits=limits, hours=1.0).play()
    said = {each.reason for each in world.refusals if each.guard == "oom-bound"}
    assert said
    for reason in said:
        assert "a LimitRange o" in reason, reason
        assert reason.endswith(("raise the LimitRange's max", "change the LimitRange of type Pod")), reason


def test_resizes_that_come_to_nothing_are_tried_less_and_less_often_and_the_loop_says_why() -> None:
    """What a LimitRange leaves to the pod is shared out so that the other container would have less than it uses."""
    containers = template("app", 1500, 0, 300, 300), template("side", 700, 0, 800, 800)
    limits = (Limit(LimitType.POD, most=Amounts(None, Bytes(1700 * MIB))),)
    world = OomWorld(3, containers, UpdateMode.IN_PLACE, limits=limits, hours=2.0).play()
    planned = [each for each in world.events if isinstance(each, ResizePlanned)]
    assert len(planned) <= 3 * 9  # before: 3 in each quarter of a minute
    said = [each.reason for each in world.refusals if each.guard == "oom-bound"]
    assert "came to nothing (container 'side' uses 700.0 MiB of memory" in said[-1]


@pytest.mark.parametrize("mode", UpdateMode)
def test_kills_at_the_limit_of_the_pod_itself_raise_no_container_beyond_it_and_are_no_reason_to_change_it(
    mode: UpdateMode,
) -> None:
    own, containers = Amounts(None, Bytes(500 * MIB)), (template("app", 900, 0, 300, None), template("log", 20, 0, 50, 100))
    world = OomWorld(3, containers, mode, own=own, vpa=True, hours=1.0).play()
    assert len(world.kills) > 20
    targets = [each.target.memory or 0 for said in world.recommendations for each in said.containers]
    assert max(targets) < 1.22 * 500 * MIB, "the margin and the end of a bucket lie beyond what counted"
    assert world.bound == "PodLimit"
    changed = [each for each in world.events if isinstance(each, ResizePlanned | EvictionPlanned)]
    assert not any("OOM" in str(each.because["why"]) for each in changed)


@pytest.mark.parametrize("mode", MODES)
def test_nobody_is_changed_into_a_loop_by_a_maximum_below_what_is_used(mode: UpdateMode) -> None:
    low = (ContainerPolicy("*", max_allowed=Amounts(None, Bytes(600 * MIB))),)
    world = OomWorld(3, (template("app", 900, 0, 2000, 2000),), mode, low, hours=1.0).play()
    assert world.kills == []
    said = {each.guard: each.reason for each in world.refusals}
    reason = said["starving"] if mode is UpdateMode.RECREATE else said["refused"]
    assert ("from 1.95 GiB to 600.0 MiB, and 1.03 GiB are recommended" in reason) == (mode is UpdateMode.RECREATE), reason


@pytest.mark.parametrize("vpa", [True, False])
def test_a_loop_that_ends_leaves_no_condition(*, vpa: bool) -> None:
    assert OomWorld(2, (template("app", 2000, 0.0, 350, 700),), vpa=vpa).play().bound == ""


worlds = st.builds(
    OomWorld,
    st.integers(1, 4),
    st.tuples(
        st.builds(
            template,
            st.just("app"),
            st.integers(300, 3000),
            st.sampled_from([0.0, 30.0, 300.0, 900.0]),
            st.integers(100, 400) | st.none(),
            st.integers(401, 800),
        ),
        st.builds(template, st.sampled_from(["proxy", "log"]), st.integers(20, 100), st.just(0.0), st.just(200), st.none()),
    ),
    st.sampled_from(UpdateMode),
    st.just(())
    | st.builds(
        lambda most, values: (ContainerPolicy("app", max_allowed=Amounts(None, most), controlled_values=values),),
        st.none() | st.integers(300, 2000).map(lambda mib: Bytes(mib * MIB)),
        st.sampled_from(ControlledValues),
    ),
    hours=st.just(5.0),
    vpa=st.booleans(),
    # A custom kind says nothing of how many pods it wants, and bare pods nobody makes anew.
    kind=st.sampled_from(["Deployment", "StatefulSet", "DaemonSet", "Job", "Rollout", "Pod"]),
    init=st.just(())
    | st.tuples(
        st.builds(
            lambda need, sidecar: replace(template("starter", need, 0.0, 100, 200), lasts=30, sidecar=sidecar),
            st.integers(50, 400),
            st.booleans(),
        )
    ),
    own=st.just(Amounts()) | st.integers(900, 4000).map(lambda mib: Amounts(None, Bytes(mib * MIB))),
).filter(lambda world: not (world.vpa and world.kind == "Pod"))


@settings(max_examples=8, deadline=None)
@given(worlds)
def test_in_random_worlds_a_loop_ends_or_a_bound_says_why_not(world: OomWorld) -> None:
    world.play()
    late = world.last_kill > world.end - CALM
    # Where a policy allows less than the pod has, the updater has nothing to refuse; `status` follows from the condition.
    assert not late or world.bound
    for each in world.recommendations:
        for container in each.containers:
            low, target, high = (amounts.memory or 0 for amounts in (container.lower, container.target, container.upper))
            assert low <= target <= high
