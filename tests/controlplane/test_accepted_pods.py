"""What the webhook makes of a pod is accepted by the API server wherever the pod itself is: 2,000 pods, each sent both ways.

The webhook's endpoint runs in this process; the API server asks it for the pods with a label. All pods are dry runs, so that each
meets the same quotas. A pod that is refused is named by its number, from which `generated_pods` makes it again.
"""

import base64
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.names import Amounts, Workload
from schemas.policies.vertical import ContainerPolicy, ControlledValues
from schemas.policies.vpa import Operator, Requirement, TargetRef
from schemas.units import Bytes, Cores
from streams.clients.kube.watched_objects import LimitRangeObject, ResourceQuotaObject
from streams.sources.kube.publish import nodes_and_limit_ranges, update_resources
from tests.controlplane import generated_pods
from tests.controlplane.api_requests import Refused, wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.world import World
from tests.support import review_server
from tests.support.admission_scene import CLUSTER, NAMES, START, AdmissionScene

PODS = 2_000
MIB = 1 << 20
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
TIGHT = {"requests.cpu": "2", "requests.memory": "2Gi", "limits.cpu": "4", "limits.memory": "4Gi", "pods": "5"}
HIGH = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
NAMESPACES: dict[str, dict[str, list[Any]]] = {
    "plain": {},
    "bounded": {
        "limitranges": [
            {"type": "Container", "min": {"memory": "2Mi"}, "max": {"memory": "2Gi"}},
            {
                "type": "Container",
                "min": {"cpu": "5m"},
                "max": {"cpu": "3"},
                "default": {"cpu": "1"},
                "defaultRequest": {"cpu": "200m"},
            },
        ]
    },
    "ratios": {
        "limitranges": [
            {"type": "Container", "maxLimitRequestRatio": {"memory": "4"}},
            {"type": "Pod", "max": {"cpu": "5", "memory": "4Gi"}, "maxLimitRequestRatio": {"cpu": "3"}},
        ]
    },
    "least": {"limitranges": [{"type": "Pod", "min": {"cpu": "300m", "memory": "64Mi"}}]},
    "tight": {"resourcequotas": [{"hard": TIGHT}]},
    "demanding": {
        "resourcequotas": [
            {"hard": {"limits.cpu": "6", "limits.memory": "6Gi"}, "scopes": ["NotBestEffort"]},
            {"hard": {"pods": "3"}, "scopes": ["BestEffort"]},
        ],
        "limitranges": [{"type": "Container", "default": {"memory": "256Mi"}, "defaultRequest": {"memory": "16Mi"}}],
    },
    "scoped": {
        "resourcequotas": [
            {"hard": {"cpu": "1"}, "scopeSelector": {"matchExpressions": [HIGH]}},
            {"hard": {"memory": "1Gi"}, "scopes": ["Terminating"]},
            {"hard": {"requests.cpu": "3", "requests.example.com/gpu": "1"}, "scopes": ["NotTerminating"]},
        ]
    },
}  # fmt: skip
"""Namespaces by what bounds their pods.

No two LimitRanges default the same (a maximum is a default, too): the API server would give a pod one of the two by chance.
"""
AMOUNTS = ((0.001, 1), (0.025, 30), (0.12, 64), (0.25, 200), (0.6, 700), (1.7, 1500), (4.0, 3000), (20.0, 100_000))
POLICIES = (
    (),
    (ContainerPolicy("*", controlled_values=ControlledValues.REQUESTS_ONLY),),
    (ContainerPolicy("*", min_allowed=Amounts(Cores(0.01), Bytes(8 * MIB)), max_allowed=Amounts(Cores(8.0), Bytes(9000 * MIB))),),
)


class Uncounted:
    """Counts nothing."""

    def step(self, name: str, seconds: float) -> None:
        pass

    def looked_up(self, result: str) -> None:
        pass

    def answered(self, *_: object) -> None:
        pass


@pytest.fixture
def namespaces(plane: Plane) -> Iterator[dict[str, World]]:
    """Those of the table, with their LimitRanges and counted quotas."""
    made = {name: World(plane.ask) for name in NAMESPACES}
    plane.ask.post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1000})
    heavy = {"metadata": {"name": "heavy"}, "handler": "x", "overhead": {"podFixed": {"cpu": "120m", "memory": "33Mi"}}}
    plane.ask.post("/apis/node.k8s.io/v1/runtimeclasses", heavy)
    for name, world in made.items():
        for number, entry in enumerate(NAMESPACES[name].get("limitranges", ())):
            plane.ask.post(world.path("limitranges"), {"metadata": {"name": f"l{number}"}, "spec": {"limits": [entry]}})
        for number, spec in enumerate(NAMESPACES[name].get("resourcequotas", ())):
            plane.ask.post(world.path("resourcequotas"), {"metadata": {"name": f"q{number}"}, "spec": spec})
    for world in made.values():
        wait_for(lambda world=world: _counted(world), what=f"the quotas of '{world.namespace}' are counted")  # type: ignore[misc]
    yield made
    for world in made.values():
        world.close()
    plane.ask.delete("/apis/scheduling.k8s.io/v1/priorityclasses/high")
    plane.ask.delete("/apis/node.k8s.io/v1/runtimeclasses/heavy")


def _counted(world: World) -> bool:
    quotas = world.ask.get(world.path("resourcequotas"))["items"]
    return all(quota["spec"]["hard"].keys() == quota.get("status", {}).get("used", {}).keys() for quota in quotas)


@contextmanager
def webhook(plane: Plane, worlds: dict[str, World]) -> Iterator[AdmissionScene]:
    """The endpoint with all that the log would tell of these namespaces, registered for pods with the label."""
    scene = AdmissionScene()
    for world in worlds.values():
        _publish(scene, world)
    stop = threading.Event()
    follower = threading.Thread(target=scene.view.follow, args=(stop,), daemon=True)
    follower.start()
    wait_for(lambda: scene.view.caught_up, what="the view has caught up")
    with review_server.serving(scene.admission, Uncounted()) as server:
        rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
        trusted = base64.b64encode(review_server.authorities()).decode()
        hook = {
            "name": "generated.ullage.internal",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": f"https://127.0.0.1:{server.port}/", "caBundle": trusted},
            "rules": [rule],
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "sideEffects": "None",
            "objectSelector": {"matchLabels": {"patched": "yes"}},
        }
        with suppress(Refused):
            plane.ask.delete(f"{REGISTRATIONS}/generated")
        plane.ask.post(REGISTRATIONS, {"metadata": {"name": "generated"}, "webhooks": [hook]})
        probe = generated_pods.pod(0, worlds["plain"].namespace, patched=True)
        probe["metadata"].pop("annotations", None)
        probe["spec"] = {"containers": [{"name": "c0", "image": "x"}]}
        seen = lambda: "vpaObservedContainers" in _create(worlds["plain"], probe)["metadata"].get("annotations", {})  # noqa: E731
        wait_for(seen, what="the API server asks the webhook")
        try:
            yield scene
        finally:
            plane.ask.delete(f"{REGISTRATIONS}/generated")
            stop.set()
            follower.join(60.0)


def _publish(scene: AdmissionScene, world: World) -> None:
    at = datetime.now(UTC)
    for found in world.ask.get(world.path("limitranges"))["items"]:
        policy = nodes_and_limit_ranges.limit_range_changed(msgspec.convert(found, LimitRangeObject), CLUSTER, at)
        scene.policy(policy, policy.key)
    for found in world.ask.get(world.path("resourcequotas"))["items"]:
        fact = update_resources.quota(msgspec.convert(found, ResourceQuotaObject), CLUSTER, at)
        partition = NAMES.partition_of(fact.key)
        scene.log.append([scene.codec.encode(fact, topic="quota-changes", key=fact.key, partition=partition, source="/test")])
    for number in range(generated_pods.TARGETS):
        target = f"d{number}"
        scene.vpa(
            target,
            namespace=world.namespace,
            target_ref=TargetRef("Deployment", target, "apps/v1"),
            selector=(Requirement("app", Operator.IN, (target,)),),
            containers=POLICIES[number % len(POLICIES)],
        )
        cpu, mebibytes = AMOUNTS[number % len(AMOUNTS)]
        workload = Workload(CLUSTER, world.namespace, "Deployment", target)
        amounts = [Amounts(Cores(cpu * (1 + n)), Bytes(mebibytes * MIB * (1 + n) + n)) for n in range(4)]
        advised = [ContainerRecommendation(f"c{n}", each, each, each, each) for n, each in enumerate(amounts) if (n + number) % 5]
        event = RequestsRecommended(f"recommender/0/1/requests/{workload.key}", START, workload, tuple(advised), {})
        scene.log.append([scene.record(event)])


def _create(world: World, pod: Any) -> Any:
    return world.ask.request("POST", f"{world.path('pods')}?dryRun=All", pod, timeout=60.0)


def _sent(world: World, number: int, *, patched: bool) -> Any:
    """The pod as the API server would keep it, or why it refuses it."""
    try:
        return _create(world, generated_pods.pod(number, world.namespace, patched=patched))
    except Refused as refused:
        if refused.code not in (403, 422):
            raise
        return str(refused.status.get("message"))


@pytest.mark.timeout(900)
def test_every_pod_that_is_accepted_without_the_webhook_is_accepted_with_it(plane: Plane, namespaces: dict[str, World]) -> None:
    names = sorted(namespaces)
    counts: Counter[str] = Counter()
    lost = []

    def both(number: int) -> None:
        name = names[number % len(names)]
        plain, patched = (_sent(namespaces[name], number, patched=each) for each in (False, True))
        if isinstance(plain, str):
            counts[f"{name}: refused without"] += 1
        elif isinstance(patched, str):
            lost.append(f"pod {number} in '{name}': {patched[:400]}")
        else:
            change = _change(plain, patched)
            counts[f"{name}: {change}"] += 1

    with webhook(plane, namespaces), ThreadPoolExecutor(6) as pool:
        list(pool.map(both, range(PODS)))
    assert not lost, f"{len(lost)} pods are lost:\n" + "\n".join(sorted(lost)[:12])
    for name in names:
        assert counts[f"{name}: changed"] + counts[f"{name}: held"] > 20, counts  # so that something was tried
    assert sum(counts[f"{name}: refused without"] for name in names) < PODS * 0.6, counts


def _change(plain: Any, patched: Any) -> str:
    """`held` where the webhook says that it kept something back, `changed`, or `same`."""
    said = patched["metadata"].get("annotations", {}).get("vpaUpdates", "")
    if "is left as it is" in said or "is changed only in part" in said:
        return "held"
    lists = [[each.get("resources") for each in pod["spec"]["containers"]] for pod in (plain, patched)]
    return "same" if lists[0] == lists[1] else "changed"
