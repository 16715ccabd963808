"""The end of a startup boost on a real API server: from the annotation that admission leaves to the CPU that is in force."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater import Updater
from schemas.decisions.pod_updates import ResizePlanned
from schemas.facts.pods import BoostedContainer, PodChanged
from schemas.names import Amounts
from schemas.outcomes import OutcomeDetail, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import BoostKind, StartupBoost, UpdateMode
from schemas.policies.vpa import TargetRef, VpaChanged
from schemas.units import Bytes, Cores
from streams.clients.kube.cluster_client import KubernetesClient
from streams.consumers.resizer import resizer
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.test_acting import CLUSTER, ActingScene
from tests.controlplane.watched_namespace import WatchedScene, runs, uid_of
from tests.controlplane.world import World
from tests.support.cluster_events import MINUTE, turn

KEPT = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {}}


@pytest.fixture
def scene(plane: Plane, world: World) -> WatchedScene:
    return WatchedScene(plane, world)


def test_a_boosted_pod_that_is_ready_is_lowered_in_place_to_what_its_template_says(
    scene: WatchedScene, world: World, client: KubernetesClient
) -> None:
    note = {"vpaCpuStartupBoost/app": json.dumps(KEPT)}
    with scene.watching():
        (pod,) = world.deployment("web", {"app": {"requests": {"cpu": "500m", "memory": "64Mi"}}}, annotations=note)
        wait_for(lambda: runs(scene, uid_of(pod)), what="it is published as running")
    fact = scene.pods(uid_of(pod))[-1]
    assert isinstance(fact, PodChanged)
    assert fact.boosted == (BoostedContainer("app", Amounts(Cores(0.1), Bytes(64 << 20))),)
    assert fact.ready_since is not None
    acting = ActingScene(world)
    acting.publish(planned(replace(fact, workload=acting.workload())), "pod-updates")
    consumer = resizer(acting.context, client)
    consumer.poll_once()
    wait_for(lambda: acting.later(consumer), what="the kubelet has put the new amounts into force")
    assert acting.ended() == [(Result.DONE, OutcomeDetail.APPLIED)]
    assert world.resources_in_force(pod["metadata"]["name"], "app")["requests"] == {"cpu": "100m", "memory": "64Mi"}


def planned(fact: PodChanged) -> ResizePlanned:
    """What the updater plans for a pod of a VPA in mode Off whose boost ends as soon as its pod is ready."""
    at, boost = datetime.now(UTC), StartupBoost(BoostKind.FACTOR, factor=5.0)
    namespace, target = fact.workload.namespace, TargetRef(fact.workload.kind, fact.workload.name)
    vpa = VpaChanged(at, CLUSTER, namespace, "web", at, target, (), update_mode=UpdateMode.OFF, boost=boost)
    stage, now = Updater(UpdateSettings(warm_up=0.0), 0), int(at.timestamp() * 1000)  # type: ignore[arg-type]  # seconds
    control = ControlChanged(at, CLUSTER, Mode.APPLY)
    stage.step(turn(now - MINUTE, policies=[vpa], control=[control], pod_changes_by_cluster=[fact]))
    [found] = [each.event for each in stage.step(turn(now))]
    assert isinstance(found, ResizePlanned)
    return found
