"""VPAs as policies: every field of their spec, what their target is found to be, and what cannot be carried out."""

from datetime import timedelta

import pytest

from schemas.facts.usage import CheckpointSeen, SavedHistogram
from schemas.names import Amounts, Workload
from schemas.policies.vertical import BoostKind, ContainerMode, ContainerPolicy, ControlledValues, StartupBoost, UpdateMode
from schemas.policies.vpa import ChangeRequirement, EvictionRequirement, Operator, Requirement, TargetRef, VpaChanged, VpaRemoved
from schemas.units import Bytes, Cores, Seconds
from streams.clients.kube.controllers import ControllerKey, ObjectScale
from streams.clients.kube.watched_objects import CheckpointObject, ControllerObject, VpaObject
from streams.sources.kube.publish import vpa_policies
from streams.sources.kube.watch.notifications import CheckpointLookup, CheckpointsFound, ScaleFound, ScaleLookup
from tests.support.kube_objects import START, controller, cron_job, decoded, meta, owner, pod, vpa
from tests.support.kube_scene import KubeScene

WEB = (Requirement("app", Operator.IN, ("web",)),)
MIB = 1 << 20


def newest(scene: KubeScene) -> VpaChanged:
    last = scene.vpas()[-1]
    assert isinstance(last, VpaChanged)
    return last


def test_every_field_of_the_spec_is_published() -> None:
    policy = {
        "containerName": "app",
        "mode": "Off",
        "minAllowed": {"cpu": "100m", "memory": "64Mi"},
        "maxAllowed": {"cpu": 2},
        "controlledResources": ["memory"],
        "controlledValues": "RequestsOnly",
        "oomBumpUpRatio": "1.5",
        "oomMinBumpUp": 1048576,
        "memoryAggregationIntervalSeconds": 3600,
        "memoryAggregationIntervalCount": 4,
        "startupBoost": {"cpu": {"type": "Quantity", "quantity": "500m"}},
    }
    update = {
        "updateMode": "InPlace",
        "minReplicas": 3,
        "evictAfterOOMSeconds": 120,
        "evictionRequirements": [{"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}],
    }
    found = vpa(
        "web",
        updatePolicy=update,
        resourcePolicy={"containerPolicies": [policy, {"containerName": "*"}]},
        startupBoost={"cpu": {"type": "Factor", "factor": 2, "durationSeconds": 30}},
        recommenders=[{"name": "mine"}],
    )
    assert vpa_policies.changed(found, "real", START) == VpaChanged(
        at=START,
        cluster="real",
        namespace="shop",
        name="web",
        created=START - timedelta(hours=1),
        target_ref=TargetRef("Deployment", "web", "apps/v1"),
        uid="uid-web",
        generation=3,
        resource_version="17",
        update_mode=UpdateMode.IN_PLACE,
        min_replicas=3,
        evict_after_oom=Seconds(120.0),
        requirements=(EvictionRequirement(("cpu",), ChangeRequirement.HIGHER),),
        containers=(
            ContainerPolicy(
                container="app",
                min_allowed=Amounts(Cores(0.1), Bytes(64 * MIB)),
                max_allowed=Amounts(Cores(2.0)),
                mode=ContainerMode.OFF,
                controlled_resources=("memory",),
                controlled_values=ControlledValues.REQUESTS_ONLY,
                oom_ratio=1.5,
                oom_minimum=Bytes(1048576),
                memory_window=Seconds(3600.0),
                memory_windows=4,
                boost=StartupBoost(BoostKind.QUANTITY, quantity=Cores(0.5)),
            ),
            ContainerPolicy(),
        ),
        boost=StartupBoost(BoostKind.FACTOR, factor=2.0, duration=Seconds(30.0)),
        recommenders=("mine",),
    )


def _policy(**fields: object) -> dict[str, object]:
    return {"resourcePolicy": {"containerPolicies": [{"containerName": "app", **fields}]}}


POLICY = "spec.resourcePolicy.containerPolicies[0]"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (_policy(minAllowed={"cpu": "many"}), f"{POLICY}.minAllowed.cpu is 'many', which is no quantity"),
        (_policy(minAllowed={"cpu": "-1"}), f"{POLICY}.minAllowed.cpu is -1; it must be at least 0"),
        (
            _policy(minAllowed={"cpu": "2"}, maxAllowed={"cpu": "1"}),
            f"{POLICY}.maxAllowed.cpu is 1, below minAllowed.cpu, which is 2",
        ),
        (_policy(mode="Maybe"), f"{POLICY}.mode is 'Maybe'; there are Auto, Off"),
        (_policy(controlledResources=["disk"]), f"{POLICY}.controlledResources names 'disk'; there are cpu and memory"),
        (_policy(oomBumpUpRatio="0.5"), f"{POLICY}.oomBumpUpRatio is 0.5; it must be at least 1"),
        (_policy(containerName=""), f"{POLICY}.containerName is missing"),
        (
            {"updatePolicy": {"updateMode": "Sometimes"}},
            "spec.updatePolicy.updateMode is 'Sometimes'; there are Off, Initial, Recreate, InPlaceOrRecreate, InPlace, Auto",
        ),
        ({"updatePolicy": {"minReplicas": 0}}, "spec.updatePolicy.minReplicas is 0; it must be at least 1"),
        ({"recommenders": [{"name": "a"}, {"name": "b"}]}, "spec.recommenders names a, b; there may be one at most"),
        (
            {"startupBoost": {"cpu": {"type": "Factor", "factor": 2, "durationSeconds": 1e300}}},
            "spec.startupBoost.cpu.durationSeconds is 1e+300; more than 2.14748e+09 is not possible",
        ),
        (
            {"startupBoost": {"cpu": {"type": "Quantity", "quantity": "-1"}}},
            "spec.startupBoost.cpu.quantity is -1; it must be at least 0",
        ),
        (
            {"startupBoost": {"cpu": {"type": "Factor"}}},
            "spec.startupBoost.cpu.factor is missing, and the type is 'Factor'",
        ),
        ({"updatePolicy": {"minReplicas": "two"}}, "Expected `int | null`, got `str` - at `spec.updatePolicy.minReplicas`"),
    ],
)
def test_a_spec_that_makes_no_sense_is_published_with_value_and_place(spec: dict[str, object], sentence: str) -> None:
    published = vpa_policies.changed(vpa("web", **spec), "real", START)
    assert published.unsupported == f"The spec cannot be carried out: {sentence}"
    assert (published.target_ref, published.generation) == (TargetRef("Deployment", "web", "apps/v1"), 3)
    assert published.containers == ()


def test_a_selector_comes_from_the_target_and_changes_with_it() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("deployments", controller("web"))
    scene.see("verticalpodautoscalers", vpa("web"))
    scene.see("deployments", controller("web", labels={"app": "web", "tier": "front"}))
    first, second = scene.vpas()
    assert isinstance(first, VpaChanged)
    assert isinstance(second, VpaChanged)
    assert first.selector == WEB
    assert second.selector == (*WEB, Requirement("tier", Operator.IN, ("front",)))
    copies = [event for event in scene.events("policies", 1) if isinstance(event, VpaChanged)]
    assert copies == [first, second]


def test_a_vpa_is_not_published_before_its_target_can_be_known() -> None:
    scene = KubeScene()
    scene.sync("verticalpodautoscalers")
    scene.see("verticalpodautoscalers", vpa("web"))
    assert scene.vpas() == []
    scene.see("deployments", controller("web"))
    assert newest(scene).selector == WEB


def test_a_missing_target_is_named_and_the_vpa_published_anew_when_it_comes_and_goes() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("verticalpodautoscalers", vpa("web"))
    missing = "Cannot read targetRef. Reason: Deployment shop/web was not found"
    assert (newest(scene).selector, newest(scene).unsupported) == (None, missing)
    scene.see("deployments", controller("web"))
    assert (newest(scene).selector, newest(scene).unsupported) == (WEB, "")
    scene.lose("deployments", controller("web"))
    assert newest(scene).unsupported == missing
    assert len(scene.vpas()) == 3


def test_a_replica_set_of_a_deployment_is_no_target() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("deployments", controller("web"))
    scene.see("replicasets", controller("web-1", owner("Deployment", "web")))
    scene.see("verticalpodautoscalers", vpa("inner", "web-1", kind="ReplicaSet"))
    assert newest(scene).selector is None
    assert newest(scene).unsupported == (
        "The target ReplicaSet shop/web-1 has a parent controller, Deployment shop/web, "
        "but it should point to a topmost well-known or scalable controller"
    )


def test_a_target_out_of_sight_cannot_be_looked_up() -> None:
    scene = KubeScene()
    scene.fail("deployments")
    scene.see("verticalpodautoscalers", vpa("web"))
    assert newest(scene).unsupported == "Cannot read targetRef. Reason: Deployment shop/web cannot be looked up: 403 forbidden"


def test_a_server_that_is_away_for_a_while_changes_nothing_of_what_was_found() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("deployments", controller("web"))
    scene.see("verticalpodautoscalers", vpa("web"), vpa("lost", "nowhere"))
    published = len(scene.vpas())
    scene.fail("deployments")
    scene.sync("deployments")
    assert len(scene.vpas()) == published


@pytest.mark.parametrize("version", ["extensions/v1beta1", "v1", "apps/v1beta2", ""])
def test_a_target_of_kubernetes_own_is_found_by_its_kind_whatever_its_group_was_called(version: str) -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("deployments", controller("web"))
    scene.see("verticalpodautoscalers", vpa("web", version=version))
    (published,) = scene.vpas()
    assert isinstance(published, VpaChanged)
    assert (published.unsupported, published.selector) == ("", (Requirement("app", Operator.IN, ("web",)),))


def test_a_target_without_selector_is_unsupported() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("deployments", decoded(ControllerObject, {"metadata": meta("web")}))
    scene.see("verticalpodautoscalers", vpa("web"))
    assert newest(scene).unsupported == "Cannot read targetRef. Reason: Deployment shop/web: it has no selector"


def test_a_vpa_without_target_is_unsupported() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("verticalpodautoscalers", decoded(VpaObject, {"metadata": meta("web"), "spec": {}}))
    assert newest(scene).unsupported == "Cannot read targetRef. Reason: there is no targetRef with kind and name"


def test_the_selector_of_a_cron_job_is_its_pods_labels() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("cronjobs", cron_job("nightly", {"app": "web"}))
    scene.see("verticalpodautoscalers", vpa("nightly", "nightly", kind="CronJob", version="batch/v1"))
    assert newest(scene).selector == WEB


def test_the_selector_of_anything_else_is_its_scales_and_looked_at_again_after_ten_minutes() -> None:
    scene = KubeScene()
    scene.sync()
    key = ControllerKey("shop", "Rollout", "big", "argo.example/v1")
    scene.see("verticalpodautoscalers", vpa("big", "big", kind="Rollout", version="argo.example/v1"))
    assert scene.vpas() == []
    scene.handle(ScaleFound(key, ObjectScale("app=web")))
    assert newest(scene).selector == WEB
    before = scene.lookups.count(ScaleLookup(key))
    scene.later(timedelta(minutes=5))
    assert scene.lookups.count(ScaleLookup(key)) == before
    scene.later(timedelta(minutes=5))
    assert scene.lookups.count(ScaleLookup(key)) == before + 1
    scene.handle(ScaleFound(key, None))
    assert newest(scene).unsupported == "Cannot read targetRef. Reason: Rollout shop/big has no scale"


def test_a_change_of_the_status_alone_is_not_published() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("deployments", controller("web"))
    scene.see("verticalpodautoscalers", vpa("web"))
    whole = {"targetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}}
    later = decoded(VpaObject, {"metadata": meta("web", generation=3, resourceVersion="18"), "spec": whole})
    scene.see("verticalpodautoscalers", later)
    assert len(scene.vpas()) == 1


def test_a_vpa_that_went_while_the_source_was_away_is_withdrawn_and_one_that_stayed_is_not_published_again() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("deployments", controller("web"))
    scene.see("verticalpodautoscalers", vpa("web"), vpa("other"))
    scene.restart()
    scene.see("verticalpodautoscalers", vpa("web"))
    scene.sync("verticalpodautoscalers")
    scene.see("deployments", controller("web"))
    scene.sync()
    assert [(type(event), event.name) for event in scene.vpas()] == [
        (VpaChanged, "web"),
        (VpaChanged, "other"),
        (VpaRemoved, "other"),
    ]


HISTOGRAM = {"referenceTimestamp": "2026-02-28T00:00:00Z", "totalWeight": 0.4, "bucketWeights": {"8": 10000}}
CHECKPOINT = decoded(
    CheckpointObject,
    {
        "metadata": meta("web-app"),
        "spec": {"vpaObjectName": "web", "containerName": "app"},
        "status": {"version": "v3", "totalSamplesCount": 4, "cpuHistogram": HISTOGRAM, "memoryHistogram": {}},
    },
)


def test_checkpoints_are_asked_for_once_for_all_and_again_for_a_vpa_that_is_new() -> None:
    scene = KubeScene()
    scene.see("deployments", controller("web"), controller("late"))
    scene.see("verticalpodautoscalers", vpa("web"))
    scene.sync()
    assert scene.lookups == [CheckpointLookup()]
    scene.handle(CheckpointsFound("", (CHECKPOINT,)))
    scene.see("verticalpodautoscalers", vpa("late", "late"))
    assert scene.lookups == [CheckpointLookup(), CheckpointLookup("shop")]
    scene.handle(CheckpointsFound("shop", (CHECKPOINT,)))
    (seen,) = [event for event in scene.events("pod-changes") if isinstance(event, CheckpointSeen)]
    never = -62135596800.0
    assert seen == CheckpointSeen(
        at=START,
        workload=Workload("real", "shop", "Deployment", "web"),
        vpa="web",
        container="app",
        version="v3",
        first=never,
        last=never,
        count=4,
        cpu=SavedHistogram(START.timestamp() - 86400.0, 0.4, {"8": 10000}),
        memory=SavedHistogram(never, 0.0),
    )


@pytest.mark.parametrize("end", ["answered", "deleted"])
def test_checkpoints_are_asked_for_as_soon_as_the_last_vpa_waits_no_more(end: str) -> None:
    """All is listed long before a server says what it knows of a custom controller."""
    scene, rollout = KubeScene(), vpa("big", "big", kind="Rollout", version="argo.example/v1")
    key = ControllerKey("shop", "Rollout", "big", "argo.example/v1")
    scene.see("deployments", controller("web"))
    scene.see("verticalpodautoscalers", vpa("web"), rollout)
    scene.sync()
    assert scene.lookups == [ScaleLookup(key)]
    if end == "answered":
        scene.handle(ScaleFound(key, ObjectScale("app=big")))
    else:
        scene.lose("verticalpodautoscalers", rollout)
    assert scene.lookups == [ScaleLookup(key), CheckpointLookup()]


def test_a_vpa_that_cannot_be_served_is_not_seeded() -> None:
    scene = KubeScene()
    scene.see("verticalpodautoscalers", vpa("web"))
    scene.sync()
    scene.handle(CheckpointsFound("", (CHECKPOINT,)))
    assert scene.events("pod-changes") == []


def test_checkpoints_that_were_dropped_while_the_log_was_away_are_published_when_it_is_back() -> None:
    scene = KubeScene(bound=3_000)
    scene.see("deployments", controller("web"))
    scene.see("verticalpodautoscalers", vpa("web"))
    scene.sync()
    scene.log.away = True
    scene.handle(CheckpointsFound("", (CHECKPOINT,)))
    scene.see("pods", pod("a"), pod("b"), pod("c"))
    assert scene.source.dropped
    scene.log.away = False
    scene.source.publish_due()
    assert scene.lookups == [CheckpointLookup(), CheckpointLookup()]
    scene.handle(CheckpointsFound("", (CHECKPOINT,)))
    assert [type(event) for event in scene.events("pod-changes")].count(CheckpointSeen) == 1
