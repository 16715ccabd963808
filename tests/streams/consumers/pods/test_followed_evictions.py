"""An eviction is done when its pod goes: that the API accepted it is not enough."""

from datetime import timedelta

from schemas.names import PodName
from schemas.outcomes import OutcomeDetail, Result
from streams.consumers.evictor import evictor
from streams.consumers.executing.handler import FOLLOWED
from tests.support.consumer_scene import START, CountingClient, eviction_of, scene_at_two


class PatientClient(CountingClient):
    """The API accepts evictions, and the pods stay until they may go."""

    stays, accepted = True, 0

    def evict(self, pod: PodName) -> None:
        self.accepted += 1
        if not self.stays:
            super().evict(pod)


def test_an_accepted_eviction_is_done_when_the_pod_goes_and_is_asked_for_once() -> None:
    scene = scene_at_two()
    client, pod = PatientClient(scene.cluster), scene.pod()
    consumer = evictor(scene.context, client)
    scene.plan(eviction_of(pod))
    for seconds in range(0, 60, 10):
        scene.tick(START + timedelta(hours=2, seconds=seconds))
        assert consumer.poll_once() == 0
    scene.cluster.evict(pod.pod)
    scene.tick(START + timedelta(hours=2, minutes=5))
    assert consumer.poll_once() == 1
    [outcome] = scene.outcomes()
    assert (outcome.result, outcome.detail, client.accepted) == (Result.DONE, OutcomeDetail.APPLIED, 1)


def test_a_pod_that_stays_to_the_end_was_not_evicted() -> None:
    scene = scene_at_two()
    consumer = evictor(scene.context, PatientClient(scene.cluster))
    scene.plan(eviction_of(scene.pod()))
    consumer.poll_once()
    scene.tick(START + timedelta(hours=2, minutes=11) + FOLLOWED)
    consumer.poll_once()
    [outcome] = scene.outcomes()
    assert (outcome.result, outcome.reason) == (Result.EXPIRED, "it was accepted; the pod is there still")
