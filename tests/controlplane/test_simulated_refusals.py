"""The simulated API server takes and refuses new pods as the real one: generated pods with all their parts, under equal rules."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from schemas.names import Amounts
from schemas.policies.limit_ranges import Limit, LimitType
from schemas.units import Bytes, Cores
from streams.clients.kube import quantities
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.cluster_spec import MIB, ContainerTemplate, SimulatedDeployment, SimulatedNode, amounts
from streams.simulated.pod_admission import PodAdmission, SimulatedLimitRange, SimulatedQuota, spelled
from tests.controlplane.api_requests import Refused, wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.world import World

PODS = 120
START = datetime(2026, 3, 1, tzinfo=UTC)
CORES, MEBIBYTES = (0.1, 0.2, 0.5, 1.0), (64, 128, 256, 512)
RULES: tuple[tuple[tuple[Limit, ...], dict[str, int]], ...] = (
    ((), {}),
    ((Limit(LimitType.CONTAINER, least=amounts(0.2, 100), most=amounts(1.0, 512)),), {}),
    ((Limit(LimitType.CONTAINER, default_requests=amounts(0.2, None), default_limits=amounts(None, 256)),), {}),
    ((Limit(LimitType.POD, least=amounts(0.3, None), most=amounts(1.2, 700)),), {}),
    ((), {"requests.cpu": 900, "limits.memory": 600 * MIB}),
)


@pytest.mark.parametrize("number", range(len(RULES)))
def test_new_pods_are_taken_and_refused_as_by_the_real_one(plane: Plane, number: int) -> None:
    limits, hard = RULES[number]
    world, counts, wrong = World(plane.ask), Counter[str](), []
    _make(world, limits, hard)
    rules = PodAdmission([SimulatedQuota("shop", "q", hard)], [SimulatedLimitRange("shop", "r", limits)])
    for seed in range(PODS):
        deployment = _deployment(random.Random(1000 * number + seed))
        there, here = _answer(world, deployment), _simulated(deployment, rules)
        counts[f"{'refused' if there else 'taken'} there, {'refused' if here else 'taken'} here"] += 1
        if bool(there) != bool(here):
            wrong.append(f"pod {seed}: there '{there}', here '{here}': {deployment}")
    world.close()
    assert not wrong, f"{len(wrong)} of {counts}:\n" + "\n".join(wrong[:5])
    assert min(counts.values()) > PODS // 20, counts  # so that both were tried
    assert len(counts) == 2, counts


def _make(world: World, limits: tuple[Limit, ...], hard: dict[str, int]) -> None:
    for limit in limits:
        fields = {
            "min": limit.least,
            "max": limit.most,
            "default": limit.default_limits,
            "defaultRequest": limit.default_requests,
        }
        spelt = {name: texts for name, given in fields.items() if given and (texts := quantities.spell_amounts(given))}
        spec = {"limits": [{"type": limit.type.value, **spelt}]}
        world.ask.post(world.path("limitranges"), {"metadata": {"name": "r"}, "spec": spec})
    if hard:
        texts = {name: spelled(name, amount) for name, amount in hard.items()}
        world.ask.post(world.path("resourcequotas"), {"metadata": {"name": "q"}, "spec": {"hard": texts}})
        counted = lambda: world.ask.get(world.path("resourcequotas", "q")).get("status", {}).get("used")  # noqa: E731
        wait_for(counted, what="the quota is counted")


def _deployment(chance: random.Random) -> SimulatedDeployment:
    containers = tuple(ContainerTemplate(f"c{n}", None, *_pair(chance)) for n in range(chance.choice((1, 1, 2))))
    init = tuple(
        ContainerTemplate(f"i{n}", None, *_pair(chance), sidecar=chance.random() < 0.5) for n in range(chance.choice((0, 1, 2)))
    )
    own = _pair(chance, (2, 4)) if chance.random() < 0.4 else (Amounts(), Amounts())
    return SimulatedDeployment("shop", "web", 1, containers, init=init, requests=own[0], limits=own[1])


def _pair(chance: random.Random, times: tuple[float, ...] = (0.5, 1, 1, 1, 2)) -> tuple[Amounts, Amounts]:
    """Requests and limits, some of them not stated, and now and then a request above its limit."""
    cpu, memory, factor = chance.choice(CORES), chance.choice(MEBIBYTES), chance.choice(times)
    stated = [chance.random() < 0.85 for _ in range(4)]
    requests = Amounts(Cores(cpu) if stated[0] else None, Bytes(memory * MIB) if stated[1] else None)
    limits = Amounts(Cores(cpu * factor) if stated[2] else None, Bytes(int(memory * factor) * MIB) if stated[3] else None)
    return requests, limits


def _resources(requests: Amounts, limits: Amounts) -> dict[str, Any]:
    spelt = {"requests": quantities.spell_amounts(requests), "limits": quantities.spell_amounts(limits)}
    return {kind: texts for kind, texts in spelt.items() if texts}


def _answer(world: World, deployment: SimulatedDeployment) -> str:
    """Why the API server refuses such a pod; empty if it does not."""
    spec: dict[str, Any] = {"containers": [_container(container) for container in deployment.containers]}
    spec["initContainers"] = [
        {**_container(container), **({"restartPolicy": "Always"} if container.sidecar else {})} for container in deployment.init
    ]
    if own := _resources(deployment.requests, deployment.limits):
        spec["resources"] = own
    try:
        world.ask.post(f"{world.path('pods')}?dryRun=All", {"metadata": {"generateName": "p-"}, "spec": spec})
    except Refused as refused:
        return str(refused.status.get("message"))
    return ""


def _container(container: ContainerTemplate) -> dict[str, Any]:
    return {"name": container.name, "image": "x", "resources": _resources(container.requests, container.limits)}


def _simulated(deployment: SimulatedDeployment, rules: PodAdmission) -> str:
    """The same of the simulated one."""
    node = SimulatedNode("node-1", Cores(64.0), Bytes(256 << 30))
    cluster = SimulatedCluster(name="demo", seed=1, start=START, nodes=[node], deployments=[deployment], rules=rules)
    cluster.advance(START + timedelta(seconds=15))
    return cluster.refusal(cluster.deployments[0])
