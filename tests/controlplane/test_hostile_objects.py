"""Whoever may edit a namespace writes what the API server takes, while the source watches: nobody else's pods wait for it."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from schemas.facts.pods import PodChanged
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.vpa import VpaChanged
from tests.controlplane.api_requests import Refused, wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.test_kube_command import log, logged, reasons, watching
from tests.controlplane.world import SMALL, World

__all__ = ["log"]

LONG = "x" * 60_000
ODD_TEXTS = ("\u202egnp.exe", "\x1b[2J", "a\nb", "😀" * 1_000, "null", "../../etc", "{{.}}", '"', "\u0000", LONG)
ODD_AMOUNTS = ("1e400", "-1", "1e1.5", "NaN", "Inf", "9" * 60, "1Ei", "0.0000000001", "-0", "1e-400", "0x10", "1_000", " 1", "٣")
NESTED = json.loads("[" * 200 + "]" * 200)
VPA = "/apis/autoscaling.k8s.io/v1/namespaces/{}/verticalpodautoscalers"
EHPA = "/apis/autoscaling.crane.io/v1alpha1/namespaces/{}/effectivehorizontalpodautoscalers"
POLICY = "/apis/ullage.internal/v1alpha1/namespaces/{}/verticalpolicies"
HPA = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers"
PDB = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
POD, EVENT = "/api/v1/namespaces/{}/pods", "/api/v1/namespaces/{}/events"
KINDS = {
    VPA: ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler"),
    EHPA: ("autoscaling.crane.io/v1alpha1", "EffectiveHorizontalPodAutoscaler"),
    POLICY: ("ullage.internal/v1alpha1", "VerticalPolicy"),
    HPA: ("autoscaling/v2", "HorizontalPodAutoscaler"),
    PDB: ("policy/v1", "PodDisruptionBudget"),
    POD: ("v1", "Pod"),
    EVENT: ("v1", "Event"),
}
MANY = 100


def pod(amount: str = "100m", **changed: Any) -> dict[str, Any]:
    container = {"name": "app", "image": "x", "resources": {"requests": {"cpu": amount}}}
    return {"containers": [container], **changed}


def objects() -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each goes, and its body without a name."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    for text in ODD_TEXTS:
        for path, spec in (
            (VPA, {"targetRef": target}),
            (EHPA, {"scaleTargetRef": target, "maxReplicas": 3, "minReplicas": 1}),
            (POLICY, {"target": {"kind": "Deployment", "name": "web"}}),
            (POD, pod()),
        ):
            keys = ("ullage/*.margin", "ullage/policy", "vpa-post-processor.kubernetes.io/app_integerCPU", "tenant.example/x")
            yield path, {"metadata": {"annotations": dict.fromkeys(keys, text)}, "spec": spec}
        yield VPA, {"spec": {"targetRef": {**target, "name": text[:5_000], "kind": text[:5_000]}}}
        yield EHPA, {"spec": {"scaleTargetRef": {**target, "name": text[:5_000]}, "maxReplicas": 3, "minReplicas": 1}}
        yield HPA, {"metadata": {"annotations": {"metric-config": text}}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}}
        event = {"reason": "FailedCreate", "message": text[:1_000], "type": "Warning"}
        yield EVENT, {**event, "involvedObject": {"kind": "ReplicaSet", "name": "web", "apiVersion": "apps/v1"}}
        yield EVENT, {**event, "reason": "Evicted", "involvedObject": {"kind": "Pod", "name": "web", "uid": text[:100]}}
    for amount in ODD_AMOUNTS:
        yield POD, {"spec": pod(amount)}
        bounds = {"containerName": "*", "minAllowed": {"cpu": amount}, "maxAllowed": {"memory": amount}}
        yield VPA, {"spec": {"targetRef": target, "resourcePolicy": {"containerPolicies": [bounds]}}}
        yield (
            POLICY,
            {
                "spec": {
                    "target": {"kind": "Deployment", "name": "web"},
                    "containers": [{"container": "*", "min": {"cpu": amount}}],
                }
            },
        )
        metric = {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": amount}}}
        yield EHPA, {"spec": {"scaleTargetRef": target, "maxReplicas": 3, "minReplicas": 1, "metrics": [metric]}}
        yield PDB, {"spec": {"maxUnavailable": amount, "selector": {}}}
    yield POD, {"spec": {"containers": [{"name": f"c{number}", "image": "x"} for number in range(3_000)]}}
    yield POD, {"metadata": {"labels": {f"l{number}": "x" * 63 for number in range(5_000)}}, "spec": pod()}
    requirement = {"key": "k", "operator": "In", "values": [f"v{number}" for number in range(20_000)]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    yield POD, {"spec": pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "no-uid", "controller": True}
    yield POD, {"metadata": {"ownerReferences": [owner]}, "spec": pod()}
    yield POD, {"metadata": {"annotations": {"ullage/admitted": json.dumps(NESTED)}}, "spec": pod()}
    policies = [{"containerName": f"c{number}"} for number in range(15_000)]
    yield VPA, {"spec": {"targetRef": target, "resourcePolicy": {"containerPolicies": policies}}}
    yield from ((VPA, {"spec": {"targetRef": {**target, "name": f"web-{number}"}}}) for number in range(MANY))


def made(world: World, number: int, path: str, body: dict[str, Any]) -> str:
    """The name of the object; empty if the API server refused it."""
    version, kind = KINDS[path]
    if path == EVENT:
        body = {**body, "involvedObject": {**body["involvedObject"], "namespace": world.namespace}}
    name = f"m-{number}"
    try:
        world.ask.post(
            path.format(world.namespace),
            {**body, "apiVersion": version, "kind": kind, "metadata": {"name": name, **body.get("metadata", {})}},
        )
    except Refused:
        return ""
    return name


def test_what_a_tenant_writes_stops_nothing_for_others(plane: Plane, world: World, log: Path, tmp_path: Path) -> None:
    others, hostile = World(world.ask), list(objects())

    def published(kind: type[PodChanged | VpaChanged | EhpaChanged]) -> list[Any]:
        return [event for event in logged(log, "pod-changes" if kind is PodChanged else "policies") if isinstance(event, kind)]

    def names(kind: type[VpaChanged | EhpaChanged]) -> set[str]:
        return {event.name for event in published(kind) if event.namespace == world.namespace}

    settings = ("cluster.policies=true", "cluster.replicas=true", "cluster.nodes=true")
    with watching(plane.kubeconfig, log, tmp_path, *settings) as url:
        wait_for(lambda: reasons(f"{url}/readyz") == [], timeout=40.0, what="it is ready")
        with ThreadPoolExecutor(8) as pool:
            numbered = enumerate(hostile)
            taken = list(pool.map(lambda each: made(world, each[0], *each[1]), numbered))
        (honest,) = others.deployment("web", {"app": SMALL})
        others.vpa("web", "web")
        wait_for(
            lambda: honest["metadata"]["uid"] in {event.pod.uid for event in published(PodChanged)}, what="another's pod is told"
        )
        wait_for(lambda: others.namespace in {event.namespace for event in published(VpaChanged)}, what="another's VPA is told")
        for path, kind in ((VPA, VpaChanged), (EHPA, EhpaChanged)):
            there = {name for name, (of, _) in zip(taken, hostile, strict=True) if name and of == path}
            wait_for(lambda there=there, kind=kind: there == names(kind), what=f"each {kind.__name__} is told")  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            assert len(there) >= 15, "the API server takes them"
        assert reasons(f"{url}/readyz") == []
    others.close()
    world.ask.delete(f"{POD.format(world.namespace)}?gracePeriodSeconds=0")  # no other test of this plane is to meet them
    wait_for(lambda: not world.ask.get(POD.format(world.namespace))["items"], what="the pods are gone")
    said = [json.loads(line) for line in (tmp_path / "said.txt").read_text(encoding="utf-8").splitlines() if line[0] == "{"]
    faults = {(line["event"], line["object"]) for line in said if line["level"] == "error"}
    assert {event for event, _ in faults} <= {"an object cannot be read", "an object is too large to be kept"}
    assert [of for _, of in faults if world.namespace not in of] == []
