"""Upstream's vectors for node scaling, and their nodes and pods as shapes. Without the vectors, tests skip."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agents.logic.nodes.scheduling import placement_rules
from agents.logic.nodes.scheduling.pod_shapes import PodNature, PodOwner, PodShape, SchedulablePod, SchedulingNode, Taint, pairs
from agents.logic.nodes.scheduling.scheduled_cluster import MOST_AMOUNT, ScheduledCluster
from schemas import pod_requests

ROOT = Path(os.environ.get("ULLAGE_SHARED", Path(__file__).parents[3] / "shared")) / "golden" / "ca"
NAMESPACES = {"default": {"team": "a"}, "other": {"team": "b"}, "kube-system": {}}

CONTRADICTED = {
    "sched_filters/anti-empty-selector-all-pods": "the same pod on the same node counts in aff-two-terms-one-pod:"
    " the answer is of a node without it",
    "estimate/taint-two-groups": "taint-prefer places these pods under the same taint, as sched_filters does:"
    " the answer is of a NoSchedule taint",
}
"""Vectors whose answers other vectors contradict; their inputs seem to have been changed after they were computed."""

Json = Mapping[str, Any]


def vectors(family: str) -> list[object]:
    """Parameters for pytest: one case for each vector, or one that is skipped."""
    path = ROOT / f"{family}.json"
    if not path.exists():
        reason = f"no vectors at '{path}'; set ULLAGE_SHARED"
        return [pytest.param({}, id="absent", marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(one, id=one["id"].partition("/")[2], marks=_marks(one["id"])) for one in json.loads(path.read_text())]


def _marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.xfail(reason=CONTRADICTED[name], strict=True)] if name in CONTRADICTED else []


def amounts(given: Json) -> dict[str, int]:
    """Resources of a vector, under Kubernetes' names."""
    names = {"cpu_m": "cpu", "memory_b": "memory", "ephemeral_b": "ephemeral-storage", "pods": "pods"}
    found = {names[key]: value for key, value in given.items() if key in names}
    return {name: value for name, value in {**found, **given.get("ext", {})}.items() if name not in given.get("absent", ())}


def containers(given: list[Json]) -> list[pod_requests.ContainerRequests]:
    return [pod_requests.ContainerRequests(amounts(one["requests"]), one.get("restart_policy") == "Always") for one in given]


def total(pod: Json) -> dict[str, int]:
    """What a pod of a vector asks for."""
    resize = pod.get("resize_status")
    status = None
    if resize is not None:
        actual, allocated = amounts(resize.get("actual", {})), amounts(resize.get("allocated", {}))
        status = pod_requests.ContainerResize(allocated, actual, resize.get("infeasible", False))
    first = pod_requests.ContainerRequests(amounts(pod.get("requests", {})), resize=status)
    level = amounts(pod.get("pod_level_requests", {}))
    return pod_requests.of_pod([first], containers(pod.get("init_containers", [])), amounts(pod.get("overhead", {})), level)


def shape(pod: Json) -> PodShape:
    """The shape of a vector's pod."""
    labels = pod.get("labels") or {}
    whose = placement_rules.RuleOwner(pod.get("namespace", "default"), labels)
    affinity = pod.get("affinity")
    try:
        return PodShape(
            namespace=whose.namespace,
            labels=pairs(labels),
            requests=placement_rules.amounts(total(pod).items(), MOST_AMOUNT),
            node_selector=pairs(pod.get("node_selector") or {}),
            node_terms=placement_rules.node_terms(affinity),
            tolerations=placement_rules.tolerations(pod.get("tolerations")),
            ports=placement_rules.ports(pod.get("host_ports")),
            affinity=placement_rules.pod_terms(affinity, "podAffinity", whose),
            anti_affinity=placement_rules.pod_terms(affinity, "podAntiAffinity", whose),
            spread=placement_rules.spread(pod.get("topology_spread"), whose),
            node_name=pod.get("node_name", ""),
            terminating="deleted_s_ago" in pod,
        )
    except placement_rules.Unreadable as refusal:
        return PodShape(namespace=whose.namespace, labels=pairs(labels), refused=str(refusal))


def node(given: Json) -> SchedulingNode:
    """A vector's node."""
    return SchedulingNode(
        name=given["name"],
        labels=pairs(given.get("labels") or {}),
        taints=tuple(Taint(one["key"], one.get("value", ""), one["effect"]) for one in given.get("taints") or ()),
        unschedulable=given.get("unschedulable", False),
        allocatable=amounts(given["allocatable"]),
        capacity=amounts(given.get("capacity") or given["allocatable"]),
    )


def cluster(nodes: list[Json]) -> ScheduledCluster:
    """The nodes of a vector with the pods that run on them."""
    result = ScheduledCluster(NAMESPACES)
    for one in nodes:
        row = result.add(node(one))
        for pod in one.get("running_pods", ()):
            result.place(result.shape(shape(pod)), row)
    return result


def owner(given: Json) -> PodOwner:
    return PodOwner(
        given["kind"], given["name"], given.get("api_version", ""), given.get("uid", ""), given.get("controller", True)
    )


def local_volumes(given: list[Json]) -> tuple[str, ...]:
    """The volumes that live on the node: host paths, and empty directories that are not in memory."""
    found = []
    for one in given:
        empty = one.get("emptyDir")
        if "hostPath" in one or (empty is not None and empty.get("medium") != "Memory"):
            found.append(one["name"])
    return tuple(found)


def pod(given: Json, now: float) -> SchedulablePod:
    """A vector's pod; its times are relative to `now`."""
    nature = PodNature(
        shape=shape(given),
        owners=(owner(given["owner"]),) if "owner" in given else (),
        annotations=given.get("annotations") or {},
        restart_policy=given.get("restart_policy", "Always"),
        priority=given.get("priority"),
        grace=given.get("grace_s"),
        local=local_volumes(given.get("volumes", [])),
    )
    deleted = now - given["deleted_s_ago"] if "deleted_s_ago" in given else None
    return SchedulablePod(given["name"], nature, given.get("phase", "Running"), now - given.get("age_s", 0), deleted)
