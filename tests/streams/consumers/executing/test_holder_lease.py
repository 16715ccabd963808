"""The Lease by which one of two instances acts: taken, renewed, lost, given back, and never held by both at a time."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.names import PodName
from schemas.outcomes import OutcomeDetail, Result
from streams.clients.cluster_port import Pod
from streams.consumers.evictor import evictor
from streams.consumers.executing.holder_lease import DURATION, HELD, HolderLease
from streams.errors import LogUnavailable, Unreachable
from streams.simulated.cluster import SimulatedCluster
from tests.support.api_objects import ApiObjects
from tests.support.consumer_scene import CountingClient, eviction_of, scene_at_two


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def two(objects: ApiObjects, clock: Clock) -> tuple[HolderLease, HolderLease]:
    return HolderLease(objects, "ullage-evictor", "one", clock=clock), HolderLease(objects, "ullage-evictor", "two", clock=clock)


def test_the_second_stands_by_and_takes_over_when_renewals_stop() -> None:
    objects, clock = ApiObjects(), Clock()
    one, other = two(objects, clock)
    assert (one.renew(), other.renew()) == (True, False)
    clock.now = DURATION - 0.1
    assert (one.held, other.renew()) == (False, False)
    clock.now = DURATION
    assert other.renew()
    assert not one.renew()
    spec = objects.held["ullage-evictor"]["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("two", 1, 10)


def test_renewals_keep_it_and_without_an_answer_it_ends_by_itself_in_time() -> None:
    objects, clock = ApiObjects(), Clock()
    one, other = two(objects, clock)
    for clock.now in range(0, 60, 2):  # the clock moves by being the loop's variable
        assert one.renew()
        assert not other.renew()
    objects.away = True
    clock.now += HELD - 0.1
    with pytest.raises(Unreachable):
        one.renew()
    assert one.held
    clock.now += 0.1
    assert not one.held


class SlowObjects(ApiObjects):
    """Each answer takes some seconds of the clock."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__()
        self._clock, self._seconds = clock, seconds

    def _look(self) -> None:
        self._clock.now += self._seconds
        super()._look()


def test_it_is_held_from_the_beginning_of_a_slow_renewal_for_others_may_have_seen_it_then() -> None:
    clock = Clock()
    one, _ = two(SlowObjects(clock, 3.0), clock)
    assert one.renew()  # two answers
    assert (clock.now, one.held) == (6.0, True)
    clock.now = HELD
    assert not one.held


def test_an_answer_that_took_longer_than_the_lease_lasts_shows_no_silence_of_its_holder() -> None:
    clock = Clock()
    one, other = two(SlowObjects(clock, DURATION + 1), clock)
    one.renew()
    assert not other.renew()


def test_given_back_it_is_taken_at_once() -> None:
    one, other = two(ApiObjects(), Clock())
    one.renew()
    one.release()
    assert (one.held, other.renew()) == (False, True)


def test_of_two_that_write_at_a_time_one_holds_it() -> None:
    clock = Clock()

    class Racing(ApiObjects):
        """Another instance is faster between our look and our write."""

        def create(self, name: str, body: Mapping[str, object]) -> dict[str, Any]:
            super().create(name, {**body, "spec": {"holderIdentity": "other"}})
            return super().create(name, body)

    lease = HolderLease(Racing(), "ullage-evictor", "one", clock=clock)
    assert (lease.renew(), lease.held) == (False, False)


STEPS = st.lists(st.tuples(st.sampled_from(["one", "other", "both"]), st.floats(0.0, 12.0)), max_size=60)


@given(STEPS)
def test_never_do_both_hold_it(steps: list[tuple[str, float]]) -> None:
    clock = Clock()
    one, other = two(ApiObjects(), clock)
    for who, wait in steps:
        clock.now += wait
        for name, lease in (("one", one), ("other", other)):
            if who in (name, "both"):
                lease.renew()
            assert not (one.held and other.held)


def test_who_stands_by_only_reads_and_says_what_the_former_holder_did() -> None:
    scene, clock = scene_at_two(), Clock()
    one, other = two(ApiObjects(), clock)
    first, second = evictor(scene.context, scene.client, lease=one), evictor(scene.context, scene.client, lease=other)
    one.renew()
    other.renew()
    assert (first.poll_once(), second.poll_once()) == (0, 0)
    pod = scene.pod()
    scene.plan(eviction_of(pod))
    assert (second.poll_once(), scene.client.acts) == (0, [])
    scene.log.broken = True
    with pytest.raises(LogUnavailable):
        first.poll_once()
    scene.log.broken = False
    clock.now = DURATION
    other.renew()
    assert second.poll_once() == 1
    assert [(o.result, o.detail) for o in scene.outcomes()] == [(Result.DONE, OutcomeDetail.ALREADY_DONE)]
    assert scene.client.acts == [f"evict {pod.pod.name}"]


def test_a_holder_that_was_frozen_does_nothing_when_it_wakes_up() -> None:
    scene, clock = scene_at_two(), Clock()
    one, other = two(ApiObjects(), clock)
    first, second = evictor(scene.context, scene.client, lease=one), evictor(scene.context, scene.client, lease=other)
    one.renew()
    other.renew()
    first.poll_once()
    clock.now = DURATION
    other.renew()
    pods = [pod for pod in scene.client.pods() if pod.workload.name == "reports"][:2]
    for pod in pods:
        scene.plan(eviction_of(pod, pod.pod.name))
    assert first.poll_once() == 0
    assert second.poll_once() == 2
    assert first.poll_once() == 0
    assert scene.client.acts == [f"evict {pod.pod.name}" for pod in pods]


class FreezingClient(CountingClient):
    """While it evicts, or `looking` at a pod, the process is frozen for so long that `meanwhile` happens."""

    def __init__(self, simulated: SimulatedCluster, meanwhile: Callable[[], object], *, looking: bool = False) -> None:
        super().__init__(simulated)
        self.meanwhile, self.looking = meanwhile, looking

    def evict(self, pod: PodName) -> None:
        super().evict(pod)
        if not self.looking:
            self.meanwhile()

    def pod(self, namespace: str, name: str) -> Pod | None:
        found = super().pod(namespace, name)
        if self.looking:
            self.looking = False
            self.meanwhile()
        return found


def test_a_holder_that_was_frozen_in_an_act_leaves_the_outcome_to_whoever_took_over() -> None:
    scene, clock = scene_at_two(), Clock()
    one, other = two(ApiObjects(), clock)
    one.renew()
    other.renew()
    second = evictor(scene.context, scene.client, lease=other)
    scene.plan(eviction_of(scene.pod()))

    def taken_over() -> None:
        clock.now = DURATION
        assert other.renew()
        assert second.poll_once() == 1

    first = evictor(scene.context, FreezingClient(scene.cluster, taken_over), lease=one)
    assert first.poll_once() == 0
    one.renew()
    assert (first.poll_once(), second.poll_once()) == (0, 0)
    assert [(o.result, o.detail) for o in scene.outcomes()] == [(Result.DONE, OutcomeDetail.ALREADY_DONE)]


def test_a_holder_that_was_frozen_after_its_look_at_the_pod_does_not_act_when_it_wakes_up() -> None:
    scene, clock = scene_at_two(), Clock()
    one, other = two(ApiObjects(), clock)
    one.renew()
    other.renew()
    plan = eviction_of(scene.pod())
    scene.plan(plan)

    def expires_meanwhile() -> None:
        clock.now = DURATION
        other.renew()
        scene.tick(plan.void_after + timedelta(minutes=1))
        assert evictor(scene.context, CountingClient(scene.cluster), lease=other).poll_once() == 1

    client = FreezingClient(scene.cluster, expires_meanwhile, looking=True)
    first = evictor(scene.context, client, lease=one)
    assert (first.poll_once(), first.poll_once(), client.acts) == (0, 0, [])
    assert [o.result for o in scene.outcomes()] == [Result.EXPIRED]


def test_a_holder_that_lost_the_lease_in_an_act_tells_the_outcome_once_it_holds_it_again() -> None:
    scene, clock = scene_at_two(), Clock()
    lease, _ = two(ApiObjects(), clock)
    lease.renew()
    scene.plan(eviction_of(scene.pod()))
    client = FreezingClient(scene.cluster, lambda: setattr(clock, "now", HELD))
    consumer = evictor(scene.context, client, lease=lease)
    assert (consumer.poll_once(), consumer.poll_once(), scene.outcomes()) == (0, 0, [])
    lease.renew()
    assert consumer.poll_once() == 1
    assert [(o.result, o.detail) for o in scene.outcomes()] == [(Result.DONE, OutcomeDetail.APPLIED)]
    assert len(client.acts) == 1
