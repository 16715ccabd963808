"""Pods of every shape that the API allows, from a number: the same number gives the same pod.

Most are valid; some are not, because the bounds of what is valid lie among them.
"""

import random
from typing import Any

from schemas import exact_quantity

Json = dict[str, Any]
CPUS = ("0", "1m", "10m", "100m", "0.1", "250m", "333m", "500m", "1", "1.5", "2500m", "3", "100u", "1e-1", "7")
MEMORIES = ("0", "1", "100m", "4096", "64Ki", "10Mi", "100Mi", "123456789", "129e6", "128974k", "0.5Gi", "1Gi", "1.5Gi", "4Gi")
DISKS = ("0", "1Mi", "1Gi")
TARGETS = 12
"""Deployments d0, d1 and so on, each with a recommendation of its own."""


def pod(number: int, namespace: str, *, patched: bool) -> Json:
    """A pod of Deployment d0..d11. With `patched` the webhook sees it."""
    chance = random.Random(number)
    target = f"d{chance.randrange(TARGETS)}"
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{target}-x", "uid": "u", "controller": True}
    labels = {"app": target, **({"patched": "yes"} if patched else {})}
    tame = chance.random() < 0.7
    containers = [_container(chance, f"c{index}", tame=tame) for index in range(chance.choice((1, 1, 1, 2, 3, 4)))]
    spec: Json = {"containers": containers}
    if chance.random() < 0.35:
        spec["initContainers"] = [_init(chance, f"i{index}", tame=tame) for index in range(chance.choice((1, 2)))]
    if chance.random() < 0.3:
        spec["resources"] = _own(chance, [*containers, *spec.get("initContainers", ())])
    spec |= _rest(chance)
    metadata: Json = {"generateName": f"p{number}-", "namespace": namespace, "labels": labels, "ownerReferences": [reference]}
    if chance.random() < 0.2:
        metadata["annotations"] = {"note": "x" * chance.choice((1, 100, 250_000, 262_050))}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _container(chance: random.Random, name: str, *, tame: bool) -> Json:
    found: Json = {"name": name, "image": "x"}
    resources = _tame(chance) if tame else _resources(chance)
    if resources or chance.random() < 0.5:
        found["resources"] = resources
    return found


def _init(chance: random.Random, name: str, *, tame: bool) -> Json:
    return _container(chance, name, tame=tame) | ({"restartPolicy": "Always"} if chance.random() < 0.5 else {})


def _tame(chance: random.Random) -> Json:
    """What most bounds allow."""
    cpu, memory = chance.choice((100, 150, 300, 400)), chance.choice((20, 64, 100, 200))
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    most = chance.choice((1, 1, 2))
    limits = {"cpu": f"{cpu * most}m", "memory": f"{memory * most}Mi"}
    if chance.random() < 0.15:
        del limits[chance.choice(("cpu", "memory"))]
    if chance.random() < 0.15:
        del requests[chance.choice(("cpu", "memory"))]
    return {"requests": requests, "limits": limits}


def _resources(chance: random.Random) -> Json:
    requests: Json = {}
    limits: Json = {}
    shapes = ("none", "request", "limit", "both", "equal")
    for resource, amounts in (("cpu", CPUS), ("memory", MEMORIES), ("ephemeral-storage", DISKS)):
        shape = chance.choice(shapes if resource != "ephemeral-storage" else ("none", "none", "both"))
        low, high = sorted(chance.choices(amounts, k=2), key=_nano)
        if chance.random() < 0.03:
            low, high = high, low
        if shape in ("request", "both"):
            requests[resource] = low
        if shape in ("limit", "both"):
            limits[resource] = high
        if shape == "equal":
            requests[resource] = limits[resource] = high
    if chance.random() < 0.1:
        requests["example.com/gpu"] = limits["example.com/gpu"] = chance.choice(("0", "1", "2"))
    if chance.random() < 0.1:
        requests["hugepages-2Mi"] = limits["hugepages-2Mi"] = chance.choice(("2Mi", "4Mi"))
    lists = {"requests": requests, "limits": limits}
    return {kind: amounts for kind, amounts in lists.items() if amounts or chance.random() < 0.1}


def _nano(text: str) -> int:
    return exact_quantity.parse(text).nano


def _own(chance: random.Random, containers: list[Json]) -> Json:
    """Amounts of the pod itself: as a rule as much as its containers ask for, or a little more."""
    found: Json = {}
    for kind in ("requests", "limits"):
        for resource in ("cpu", "memory"):
            if chance.random() < 0.6:
                lists = [each.get("resources", {}) for each in containers]
                stated = [_nano(amounts[kind][resource]) for amounts in lists if resource in amounts.get(kind, {})]
                stated += [_nano(amounts["limits"][resource]) for amounts in lists if resource in amounts.get("limits", {})]
                total = sum(stated) * chance.choice((10, 11, 20)) // 10 or 10**9
                text = f"{-(-total // 10**6)}m" if resource == "cpu" else f"{-(-total // 10**9)}"
                found.setdefault(kind, {})[resource] = text
    for resource, most in found.get("limits", {}).items():
        least = found.get("requests", {}).get(resource)
        if least is not None and _nano(least) > _nano(most):
            found["requests"][resource] = most
    return found


def _rest(chance: random.Random) -> Json:
    found: Json = {}
    if chance.random() < 0.15:
        found["runtimeClassName"] = "heavy"
    if chance.random() < 0.2:
        found["priorityClassName"] = "high"
    if chance.random() < 0.2:
        found["activeDeadlineSeconds"] = 600
    if chance.random() < 0.1:
        term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, "namespaces": ["default"]}
        found["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return found
