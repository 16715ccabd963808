"""A resize that our rules let pass is accepted by the API server: generated pods, each resized in many ways, as dry runs."""

import random
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from schemas.names import Amounts
from schemas.units import Bytes, Cores
from streams.clients import cluster_port
from streams.clients.kube import pod_objects, quantities
from streams.clients.kube.pod_objects import PodObject
from streams.clients.kube.watched_objects import ResourceQuotaObject
from streams.sources.kube.publish import update_resources
from tests.controlplane import generated_pods
from tests.controlplane.api_requests import Refused, wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.world import World
from tests.support import resize_objection
from tests.support.admission_manifests import bounded_by

CLUSTER = "real"
PODS, EACH = 120, 6
RATIO = {"type": "Container", "maxLimitRequestRatio": {"memory": "4"}, "max": {"cpu": "3"}}
POD = {"type": "Pod", "max": {"memory": "3Gi"}}
HARD = {"requests.cpu": "14", "limits.memory": "20Gi"}
CORES = (0.001, 0.05, 0.2, 0.45, 0.9, 2.0, 5.0)
_BEYOND_NODE = "node didn't have enough allocatable resources"
"""The cap of a node is judged elsewhere, where nodes are known."""
MEBIBYTES = (1, 40, 90, 180, 300, 800, 2500)


@pytest.mark.timeout(600)
def test_every_resize_that_our_rules_let_pass_is_accepted(plane: Plane) -> None:
    worlds = [World(plane.ask) for _ in range(3)]
    for number, entry in enumerate((RATIO, POD)):
        plane.ask.post(worlds[1].path("limitranges"), {"metadata": {"name": f"l{number}"}, "spec": {"limits": [entry]}})
    plane.ask.post(worlds[2].path("resourcequotas"), {"metadata": {"name": "q"}, "spec": {"hard": HARD}})
    wait_for(lambda: (quota := _quotas(worlds[2])[0]) is not None and quota.used, what="the quota is counted")
    made = [(world, pod) for number in range(PODS) for world in [worlds[number % 3]] if (pod := _made(world, number)) is not None]
    counts: Counter[str] = Counter()
    wrong = []
    ranges = {world.namespace: bounded_by(plane.ask.get(world.path("limitranges"))["items"]) for world in worlds}
    for number, (world, name) in enumerate(made):
        chance = random.Random(number)
        found = msgspec.convert(plane.ask.get(world.path("pods", name)), PodObject)
        fact = cluster_port.pod_changed(pod_objects.read_pod(CLUSTER, found), datetime.now(UTC))
        for _ in range(EACH):
            changed = {each.name: _wanted(chance, each.limits) for each in fact.containers}
            objection = resize_objection.objection(fact, changed, ranges[world.namespace], _quotas(world))
            answer = _resized(world, name, changed)
            counts[f"{'refused' if objection else 'passed'} by us, {'refused' if answer else 'accepted'} there"] += 1
            if objection is None and answer is not None and _BEYOND_NODE not in answer:
                wrong.append(f"pod {number} in namespace {worlds.index(world)}: {answer[:300]}")
    for world in worlds:
        world.close()
    assert not wrong, f"{len(wrong)} of {counts}:\n" + "\n".join(wrong[:10])
    assert counts["passed by us, accepted there"] > 60, counts  # so that something was tried
    assert counts["refused by us, refused there"] > 60, counts  # as above


def _made(world: World, number: int) -> str | None:
    """A pod that exists; None if the API server refuses it."""
    pod = generated_pods.pod(number, world.namespace, patched=False)
    pod["metadata"] = {"generateName": f"p{number}-"}
    for name in ("runtimeClassName", "priorityClassName", "affinity"):
        pod["spec"].pop(name, None)
    try:
        return str(world.ask.post(world.path("pods"), pod)["metadata"]["name"])
    except Refused:
        return None


def _quotas(world: World) -> list[Any]:
    found = world.ask.get(world.path("resourcequotas"))["items"]
    return [update_resources.quota(msgspec.convert(each, ResourceQuotaObject), CLUSTER, datetime.now(UTC)) for each in found]


def _wanted(chance: random.Random, limits: Amounts) -> tuple[Amounts, Amounts]:
    """Requests, and limits where there are some."""
    cpu, memory, times = chance.choice(CORES), chance.choice(MEBIBYTES) << 20, chance.choice((1, 1, 2, 5))
    most = Amounts(None if limits.cpu is None else Cores(cpu * times), None if limits.memory is None else Bytes(memory * times))
    return Amounts(Cores(cpu), Bytes(memory)), most


def _resized(world: World, name: str, changed: dict[str, tuple[Amounts, Amounts]]) -> str | None:
    """Why the API server refuses it; None if it does not."""
    listed = [
        {"name": each, "resources": {"requests": quantities.spell_amounts(asked), "limits": quantities.spell_amounts(most)}}
        for each, (asked, most) in changed.items()
    ]
    try:
        world.ask.patch(f"{world.path('pods', name)}/resize?dryRun=All", {"spec": {"containers": listed}})
    except Refused as refused:
        return str(refused.status.get("message"))
    return None
