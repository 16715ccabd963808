"""What else updates of pods go by, as the kube source tells it: replica counts, HPAs, disruption budgets, the webhook's Lease."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from schemas.facts.update_facts import (
    HpaTargetChanged,
    HpaTargetRemoved,
    PodDisruptionBudgetChanged,
    PodDisruptionBudgetRemoved,
    ReplicaControllerChanged,
    ReplicaControllerRemoved,
    WebhookLeaseSeen,
)
from schemas.policies.scaling import UtilizationMetric
from streams.clients.kube.autoscaler_specs import HpaObject
from streams.clients.kube.scheduling_objects import DisruptionBudgetObject
from streams.clients.kube.watched_objects import ControllerObject, EventObject, LeaseObject
from streams.sources.kube.watch.watched_resources import WebhookLease
from streams.sources.kube.watch_threads import watches
from tests.support.kube_scene import KubeScene

LEASE = WebhookLease("ullage", "ullage-webhook")
FACTS = (HpaTargetChanged, HpaTargetRemoved, ReplicaControllerChanged, ReplicaControllerRemoved, WebhookLeaseSeen)
_APP = UtilizationMetric("cpu", "app")
BUDGET = (PodDisruptionBudgetChanged, PodDisruptionBudgetRemoved)


@pytest.fixture
def scene() -> KubeScene:
    return KubeScene(webhook=LEASE)


def told(scene: KubeScene, kind: Any = FACTS) -> list[Any]:
    return [event for event in scene.events("pod-changes-by-cluster") if isinstance(event, kind)]


def replica_set(name: str, replicas: int | None) -> ControllerObject:
    return msgspec.convert({"metadata": {"name": name, "namespace": "shop"}, "spec": {"replicas": replicas}}, ControllerObject)


def test_a_daemon_set_wants_a_pod_on_each_node_that_its_status_counts_also_on_none(scene: KubeScene) -> None:
    for wanted in (4, 0):
        body = {"metadata": {"name": "agent", "namespace": "shop"}, "status": {"desiredNumberScheduled": wanted}}
        scene.see("daemonsets", msgspec.convert(body, ControllerObject))
    assert [(each.kind, each.name, each.replicas) for each in told(scene)] == [
        ("DaemonSet", "agent", 4),
        ("DaemonSet", "agent", 0),
    ]


def hpa(name: str, metrics: list[Any] | None) -> HpaObject:
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "cart"}, "metrics": metrics}
    return msgspec.convert({"metadata": {"name": name, "namespace": "shop"}, "spec": spec}, HpaObject)


def budget(name: str, allowed: int) -> DisruptionBudgetObject:
    body = {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "cart"}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 3 - allowed, "expectedPods": 3},
    }
    return msgspec.convert(body, DisruptionBudgetObject)


def lease(second: int) -> LeaseObject:
    renewed = f"2020-01-01T00:00:{second:02}Z"  # another machine's time, long ago
    body = {"metadata": {"name": "ullage-webhook", "namespace": "ullage"}, "spec": {"renewTime": renewed}}
    return msgspec.convert(body, LeaseObject)


def test_a_controller_is_told_with_the_pods_it_wants_and_withdrawn_when_it_wants_none(scene: KubeScene) -> None:
    scene.see("replicasets", replica_set("cart-1", 3))
    scene.see("deployments", replica_set("cart", 3))
    scene.see("replicasets", replica_set("cart-1", 3))
    scene.see("replicasets", replica_set("cart-1", 0))
    kinds = [(type(each), each.kind, each.name, getattr(each, "replicas", None)) for each in told(scene)]
    assert kinds == [
        (ReplicaControllerChanged, "ReplicaSet", "cart-1", 3),
        (ReplicaControllerRemoved, "ReplicaSet", "cart-1", None),
    ]


@pytest.mark.parametrize(
    ("metrics", "resources"),
    [
        (None, ("cpu",)),
        ([{"type": "Resource", "resource": {"name": "memory"}}], ("memory",)),
        (
            [
                {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app"}},
                {"type": "Resource", "resource": {"name": "memory"}},
            ],
            ("cpu", "memory"),
        ),
        ([{"type": "Pods", "pods": {"metric": {"name": "cpu"}}}], ()),
    ],
)
def test_an_hpa_is_told_with_the_resources_it_scales_by(scene: KubeScene, metrics: Any, resources: tuple[str, ...]) -> None:
    scene.see("horizontalpodautoscalers", hpa("cart", metrics))
    [seen] = told(scene)
    assert (seen.workload, seen.resources) == ("real/shop/Deployment/cart", resources)


_HALF = {"type": "Utilization", "averageUtilization": 50}
_OF_APP = {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app", "target": _HALF}}


@pytest.mark.parametrize(
    ("metrics", "shares"),
    [
        (None, (UtilizationMetric("cpu"),)),
        ([_OF_APP, _OF_APP], (_APP,)),
        ([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1"}}}], ()),
        ([{"type": "Resource", "resource": {"name": "memory", "target": _HALF}}, _OF_APP], (UtilizationMetric("memory"), _APP)),
    ],
)
def test_an_hpa_is_told_with_the_shares_of_requests_among_its_metrics(scene: KubeScene, metrics: Any, shares: Any) -> None:
    scene.see("horizontalpodautoscalers", hpa("cart", metrics))
    [seen] = told(scene)
    assert seen.utilizations == shares


def test_an_hpa_stands_among_policies_too_where_the_webhook_reads_it_and_a_restart_tells_nothing_twice(scene: KubeScene) -> None:
    def policies() -> list[Any]:
        return [each for each in scene.events("policies", 0) if isinstance(each, HpaTargetChanged | HpaTargetRemoved)]

    scene.see("horizontalpodautoscalers", hpa("cart", None))
    [changed] = policies()
    assert (changed.key, changed.resources) == ("real/shop/HorizontalPodAutoscaler/cart", ("cpu",))
    scene.restart()
    scene.see("horizontalpodautoscalers", hpa("cart", None))
    assert policies() == [changed]
    scene.lose("horizontalpodautoscalers", hpa("cart", None))
    assert [type(each) for each in policies()] == [HpaTargetChanged, HpaTargetRemoved]


def test_a_disruption_budget_is_told_as_often_as_it_changes_and_withdrawn_when_it_is_gone(scene: KubeScene) -> None:
    scene.see("poddisruptionbudgets", budget("cart", 1), budget("cart", 1), budget("cart", 0), budget("old", 1))
    assert [(each.name, each.allowed, each.selector.labels) for each in told(scene, BUDGET)] == [
        ("cart", 1, {"app": "cart"}),
        ("cart", 0, {"app": "cart"}),
        ("old", 1, {"app": "cart"}),
    ]
    scene.lose("poddisruptionbudgets", budget("cart", 0))
    scene.restart()
    scene.sync()
    assert [(type(each), each.name) for each in told(scene, BUDGET)[3:]] == [(BUDGET[1], "cart"), (BUDGET[1], "old")]


def test_after_a_restart_only_what_changed_is_told_and_what_is_gone(scene: KubeScene) -> None:
    scene.see("replicasets", replica_set("cart-1", 3), replica_set("cart-2", 1))
    scene.see("horizontalpodautoscalers", hpa("cart", None), hpa("old", None))
    before = len(told(scene))
    scene.restart()
    scene.see("replicasets", replica_set("cart-1", 3))
    scene.see("horizontalpodautoscalers", hpa("cart", None))
    scene.sync()
    kinds = [(type(each), each.name) for each in told(scene, FACTS[:-1])[before:]]
    assert sorted(kinds, key=str) == [(HpaTargetRemoved, "old"), (ReplicaControllerRemoved, "cart-2")]


def test_the_webhook_is_told_to_be_at_work_while_its_lease_changes_and_away_a_minute_later(scene: KubeScene) -> None:
    scene.see("leases", lease(1))
    assert told(scene) == []
    scene.sync()
    for second in range(2, 9):
        scene.see("leases", lease(second))
        scene.later(timedelta(seconds=10))
    assert [each.alive for each in told(scene)] == [True]
    scene.later(timedelta(seconds=50))
    assert [each.alive for each in told(scene)] == [True]
    scene.later(timedelta(seconds=1))
    assert [each.alive for each in told(scene)] == [True, False]
    assert told(scene)[-1].reason == "Lease 'ullage/ullage-webhook' was not renewed for 60 s"
    scene.see("leases", lease(9))
    assert [each.alive for each in told(scene)] == [True, False, True]
    scene.lose("leases", lease(9))
    assert told(scene)[-1].reason == "there is no Lease 'ullage/ullage-webhook'"


def test_where_there_is_no_lease_no_webhook_is_at_work(scene: KubeScene) -> None:
    scene.sync()
    assert [(each.alive, each.reason) for each in told(scene)] == [(False, "there is no Lease 'ullage/ullage-webhook'")]


def test_the_lease_alone_is_watched_in_its_own_namespace() -> None:
    resource = next(watch.resource for watch in watches(["shop"], webhook=LEASE) if watch.kind == "leases")
    assert resource.path == "/apis/coordination.k8s.io/v1/namespaces/ullage/leases"
    assert resource.field_selector == "metadata.name=ullage-webhook"


QUOTA = (
    'pods "cart-1-x" is forbidden: exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=4, limited: requests.cpu=4'
)


def short(kind: str, message: str = QUOTA, reason: str = "FailedCreate", **status: Any) -> ControllerObject:
    """A controller that wants three pods, and whose condition, if it has one, says why it cannot make them."""
    failed = [{"type": "ReplicaFailure", "status": "True", "reason": reason, "message": message}] if kind == "ReplicaSet" else []
    body = {
        "metadata": {"name": "cart-1", "namespace": "shop"},
        "spec": {"replicas": 3},
        "status": {"conditions": failed, **status},
    }
    return msgspec.convert(body, ControllerObject)


def refused(kind: str, message: str = QUOTA) -> EventObject:
    about = {"kind": kind, "namespace": "shop", "name": "cart-1"}
    body = {"metadata": {"name": message[-9:]}, "involvedObject": about, "reason": "FailedCreate", "message": message}
    return msgspec.convert(body, EventObject)


def refusals(scene: KubeScene) -> list[str]:
    return [each.refusal for each in told(scene, ReplicaControllerChanged)]


def test_why_a_replica_set_cannot_make_pods_is_told_from_its_condition_once_and_until_it_can(scene: KubeScene) -> None:
    for _ in range(3):
        scene.see("replicasets", short("ReplicaSet", QUOTA * 20, readyReplicas=2))
    scene.see("replicasets", replica_set("cart-1", 3))
    [first, then] = refusals(scene)
    assert (first[: len(QUOTA)], len(first), then) == (QUOTA, 500, "")
    scene.see("replicasets", short("ReplicaSet", "a pod cannot be deleted", reason="FailedDelete"))
    assert refusals(scene) == [first, ""], "that it cannot delete pods holds no new one back"


@pytest.mark.parametrize(
    ("watch", "kind", "some", "all_of_them"),
    [
        ("statefulsets", "StatefulSet", {"replicas": 2}, {"replicas": 3}),
        ("jobs", "Job", {"active": 0}, {"active": 1}),
        (
            "daemonsets",
            "DaemonSet",
            {"desiredNumberScheduled": 3, "currentNumberScheduled": 2},
            {"desiredNumberScheduled": 3, "currentNumberScheduled": 3},
        ),
    ],
)
def test_why_other_controllers_cannot_is_told_from_their_events_while_pods_are_missing(
    scene: KubeScene, watch: str, kind: str, some: Any, all_of_them: Any
) -> None:
    scene.see(watch, short(kind, **all_of_them))
    scene.see(watch, short(kind, **some))
    for number in range(4):  # each try names another pod
        scene.see("failed creations", refused(kind, f"{QUOTA} {number}"))
    scene.see(watch, short(kind, **some))
    scene.see(watch, short(kind, **all_of_them))
    assert refusals(scene) == ["", f"{QUOTA} 0", ""]


IGNORED, FATAL = (
    {"podFailurePolicy": {"rules": [{"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}}
    for action in ("Ignore", "FailJob")
)


@pytest.mark.parametrize(
    ("spec", "failed", "why"),
    [
        ({}, 5, ""),
        ({}, 6, "an evicted pod counts as failed, 6 have failed, and its backoffLimit is 6"),
        ({"backoffLimit": 0}, 0, "an evicted pod counts as failed, 0 have failed, and its backoffLimit is 0"),
        ({"backoffLimit": 0, **IGNORED}, 0, ""),
        ({"backoffLimit": 9, **FATAL}, 0, "its podFailurePolicy has the action FailJob for a pod that is evicted"),
        ({"backoffLimitPerIndex": 1}, 40, ""),
        ({"backoffLimitPerIndex": 0}, 0, "an evicted pod counts as failed, and its backoffLimitPerIndex is 0"),
    ],
)
def test_a_job_says_why_one_more_evicted_pod_would_be_its_last(scene: KubeScene, spec: Any, failed: int, why: str) -> None:
    body = {"metadata": {"name": "load", "namespace": "shop"}, "spec": {"parallelism": 2, **spec}, "status": {"failed": failed}}
    scene.see("jobs", msgspec.convert(body, ControllerObject))
    assert [getattr(each, "last_failure", None) for each in told(scene)] == [why]


def test_a_job_wants_the_pods_that_it_still_has_to_run_at_one_time(scene: KubeScene) -> None:
    def job(parallelism: int, completions: int | None, succeeded: int, **spec: Any) -> ControllerObject:
        spec = {"parallelism": parallelism, **({} if completions is None else {"completions": completions}), **spec}
        body = {"metadata": {"name": "load", "namespace": "shop"}, "spec": spec, "status": {"succeeded": succeeded, "active": 9}}
        return msgspec.convert(body, ControllerObject)

    for each in (job(4, 10, 0), job(4, 10, 6), job(4, 10, 8), job(4, 10, 10), job(4, None, 0), job(4, 10, 0, suspend=True)):
        scene.see("jobs", each)
    found = [getattr(each, "replicas", None) for each in told(scene)]
    assert found == [4, 2, None, 4, None], "six of ten have ended: four more; eight: two; all: none; suspended: none"
