"""The class of service of generated pods of every shape, as the real API server computes it."""

import random
from typing import Any

from agents.logic.resources.pod_resources import service_class
from streams.clients.kube.cluster_client import KubernetesClient
from tests.controlplane.api_requests import Refused
from tests.controlplane.world import World

PODS = 150
CPU = (None, None, "0", "100m", "200m")
MEMORY = (None, None, "0", "64Mi", "128Mi")


def resources(chance: random.Random) -> dict[str, Any]:
    found = {kind: {"cpu": chance.choice(CPU), "memory": chance.choice(MEMORY)} for kind in ("requests", "limits")}
    return {kind: {name: text for name, text in texts.items() if text is not None} for kind, texts in found.items()}


def pod_of(name: str, chance: random.Random) -> dict[str, Any]:
    """With up to three containers, perhaps init containers that end or stay, and perhaps resources of its own."""
    alike = resources(chance) if chance.random() < 0.5 else None

    def container(number: int, **more: Any) -> dict[str, Any]:
        return {"name": f"c{number}", "image": "x", "resources": alike or resources(chance), **more}

    first = [
        container(10 + n, **({"restartPolicy": "Always"} if chance.random() < 0.5 else {}))
        for n in range(chance.choice((0, 0, 1, 2)))
    ]
    spec: dict[str, Any] = {"containers": [container(n) for n in range(chance.randint(1, 3))], "initContainers": first}
    if chance.random() < 0.25:
        spec["resources"] = resources(chance)
    return {"metadata": {"name": name}, "spec": {**spec, "schedulerName": "nobody"}}


def test_every_pod_that_the_api_server_takes_has_the_class_that_we_compute(world: World, client: KubernetesClient) -> None:
    chance, wrong, classes = random.Random(27), list[Any](), set[str]()
    for number in range(PODS):
        body = pod_of(f"p{number}", chance)
        try:
            world.ask.post(world.path("pods"), body)
        except Refused:
            continue
        pod = client.pod(world.namespace, f"p{number}")
        assert pod is not None
        classes.add(pod.qos)
        ours = service_class((*pod.containers, *pod.init_containers), pod.requests, pod.limits)
        if ours != pod.qos:
            wrong.append((ours, pod.qos, body["spec"]))
    assert wrong == []
    assert classes == {"BestEffort", "Burstable", "Guaranteed"}
