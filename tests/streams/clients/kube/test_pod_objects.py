"""Pods as the API server sends them: what their annotations and conditions say of a startup boost."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from schemas.facts.pods import BoostedContainer, ResizeState
from schemas.names import Amounts
from streams.clients.kube import pod_objects
from streams.clients.kube.pod_objects import PodObject

KEPT = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "300m"}}
READY = datetime(2026, 3, 1, 10, 5, tzinfo=UTC)


def read(annotations: dict[str, str], ready: str = "True") -> Any:
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": READY.isoformat()}
    manifest = {
        "metadata": {
            "name": "web-0",
            "namespace": "shop",
            "creationTimestamp": "2026-03-01T10:00:00Z",
            "annotations": annotations,
        },
        "spec": {"containers": [{"name": "app"}, {"name": "proxy"}]},
        "status": {"phase": "Running", "conditions": [condition]},
    }
    return pod_objects.read_pod("prod", msgspec.json.decode(json.dumps(manifest), type=PodObject))


def test_a_boosted_container_is_read_with_what_it_would_have_had_and_since_when_its_pod_is_ready() -> None:
    found = read({"vpaCpuStartupBoost/app": json.dumps(KEPT)})
    assert found.boosted == (BoostedContainer("app", Amounts(0.1, 128 << 20), Amounts(0.3, None)),)  # type: ignore[arg-type]  # units
    assert found.ready_since == READY


def test_a_pod_that_is_not_ready_is_so_since_no_time() -> None:
    assert read({"vpaCpuStartupBoost/app": json.dumps(KEPT)}, "False").ready_since is None


def test_without_a_boost_readiness_is_no_fact() -> None:
    found = read({"vpaObservedContainers": "app, proxy"})
    assert (found.boosted, found.ready_since) == ((), None)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"requests": {"cpu": "many"}}', '{"requests": {"cpu": "1e30"}}', '{"requests": {"cpu": "-1"}}']
)
def test_an_annotation_that_nobody_of_ours_wrote_keeps_the_pod_readable(text: str) -> None:
    assert read({"vpaCpuStartupBoost/app": text}).boosted == (BoostedContainer("app"),)


def test_an_annotation_about_a_container_that_is_not_there_is_passed_over() -> None:
    assert read({"vpaCpuStartupBoost/gone": json.dumps(KEPT)}).boosted == ()


@pytest.mark.parametrize(
    ("request_", "spec", "status", "shown"),
    [
        # 1.3 GiB are 1395864371.2 bytes, and a request of 1395864372 is refused.
        ("500Mi", "1.3Gi", "1395864372", 1395864371),
        ("500Mi", "1.3Gi", "1395864371200m", 1395864371),
        ("500Mi", "1.3Gi", None, 1395864371),
        ("500Mi", "1.3Gi", "1Gi", 1 << 30),  # a resize is open
        ("1.3Gi", "1.3Gi", "1395864372", 1395864372),  # a pod of the class Guaranteed
        ("500Mi", "2Gi", "2Gi", 2 << 30),
    ],
)
def test_a_limit_of_a_part_of_a_byte_bounds_requests_by_whole_bytes_within_it(
    request_: str, spec: str, status: str | None, shown: int
) -> None:
    """autoscaler#10176: the kubelet rounds a limit up, and requests up to that were refused again and again."""
    requests = {"memory": request_}
    amounts = {} if status is None else {"resources": {"requests": requests, "limits": {"memory": status}}}
    manifest = {
        "metadata": {"name": "web-0", "creationTimestamp": "2026-03-01T10:00:00Z"},
        "spec": {"containers": [{"name": "app", "resources": {"requests": requests, "limits": {"memory": spec}}}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "app", **amounts}]},
    }
    found = pod_objects.read_pod("prod", msgspec.json.decode(json.dumps(manifest), type=PodObject))
    [container] = found.containers
    assert container.limits.memory == shown


@pytest.mark.parametrize(
    ("given", "own", "state"),
    [("6", {}, ResizeState.NONE), ("1", {}, ResizeState.INFEASIBLE), (None, {}, ResizeState.INFEASIBLE),
     ("6", {"requests": {"cpu": "8"}}, ResizeState.INFEASIBLE)],
    ids=["it has all", "it has less", "nobody tells", "its own may wait"],
)  # fmt: skip
def test_a_condition_that_the_kubelet_left_makes_no_open_resize_of_a_pod_that_has_what_it_asks_for(
    given: str | None, own: dict[str, Any], state: ResizeState
) -> None:
    """kubernetes#128993: the kubelet said so of pods that had been resized, and such a pod is asked for nothing more."""
    asked = {"requests": {"cpu": "6", "memory": "1Gi"}}
    status = {"name": "app"} if given is None else {"name": "app", "resources": {"requests": {"cpu": given, "memory": "1Gi"}}}
    condition = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    manifest = {
        "metadata": {"name": "web-0", "namespace": "shop", "creationTimestamp": "2026-03-01T10:00:00Z"},
        "spec": {"containers": [{"name": "app", "resources": asked}], **({"resources": own} if own else {})},
        "status": {"phase": "Running", "conditions": [condition], "containerStatuses": [status]},
    }
    found = pod_objects.read_pod("prod", msgspec.json.decode(json.dumps(manifest), type=PodObject))
    assert found.resize is state
