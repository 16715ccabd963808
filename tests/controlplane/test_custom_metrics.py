"""Custom metrics on a real control plane: an autoscaler of somebody's own scales by a forecast that it finds at the workload."""

from collections.abc import Iterator

import pytest

from tests.controlplane import crane_types
from tests.controlplane.api_requests import Refused, wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.replicas import HPAS, Replicas
from tests.controlplane.world import World

ROOT = "/apis/custom.metrics.k8s.io/v1beta2"
LONG = 60.0


@pytest.fixture(scope="module")
def scaled(plane: Plane) -> Iterator[Replicas]:
    home, world = World(plane.ask), World(plane.ask)
    made = Replicas(plane, home, world, custom=True)
    made.registered()
    yield made
    made.close()
    world.close()
    home.close()


def test_an_hpa_of_type_object_scales_by_a_forecast_of_its_workload(scaled: Replicas) -> None:
    scaled.world.deployment("shop", replicas=2)
    scaled.loads["shop"] = 0.06
    made = scaled.ehpa("shop", direct=True)  # so that it has no HPA
    scaled.forecast(made, 0.4)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
    wanted = {"matchLabels": {"resourceIdentifier": "resource.cpu"}}
    metric = {
        "type": "Object",
        "object": {
            "describedObject": target,
            "metric": {"name": "crane_autoscaling_prediction", "selector": wanted},
            "target": {"type": "AverageValue", "averageValue": "50m"},
        },
    }
    spec = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 10, "metrics": [metric]}
    body = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "own"}, "spec": spec}
    crane_types.make(scaled.world.ask, scaled.world.namespace, HPAS, body)
    wait_for(lambda: scaled.replicas("shop") == 8, timeout=LONG, what="8 pods for 400m that are to come, at 50m each")
    current = lambda: (scaled.found(HPAS, "own")["status"].get("currentMetrics") or [{}])[0].get("object", {}).get("current")  # noqa: E731
    wait_for(lambda: current() == {"averageValue": "50m"}, timeout=LONG, what="the HPA says so")


def test_a_preview_of_a_deployment_that_has_an_hpa_keeps_that_from_scaling_and_says_so(scaled: Replicas) -> None:
    """Kubernetes looks at the pods that a target selects, and a Substitute selects those of the Deployment."""
    scaled.world.deployment("both", replicas=2)
    scaled.loads["both"] = 0.4
    scaled.ehpa("both", scaleStrategy="Preview")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "both"}
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "50m"}}}
    spec = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 10, "metrics": [cpu]}
    body = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "theirs"}, "spec": spec}
    crane_types.make(scaled.world.ask, scaled.world.namespace, HPAS, body)

    def active() -> tuple[str, str] | None:
        conditions = (scaled.found(HPAS, "theirs").get("status") or {}).get("conditions") or ()
        return next(((each["status"], each["reason"]) for each in conditions if each["type"] == "ScalingActive"), None)

    wait_for(lambda: active() == ("False", "AmbiguousSelector"), timeout=LONG, what="the HPA controller objects")
    wait_for(
        lambda: scaled.ready("both", "ScalingActive") == ("False", "AmbiguousSelector"), timeout=LONG, what="the EHPA says so"
    )
    assert scaled.replicas("both") == 2


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("deployments.apps/shop/depth", "there is no external metric 'depth'"),
        ("deployments.apps/absent/crane_autoscaling_prediction", "resourceIdentifier"),
        ("pods/shop/crane_autoscaling_prediction", "there are no metrics of 'pods'; there are some of deployments.apps"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_sentence(scaled: Replicas, question: str, answer: str) -> None:
    with pytest.raises(Refused, match=answer):
        scaled.plane.ask.get(f"{ROOT}/namespaces/{scaled.world.namespace}/{question}")


def test_the_api_server_shows_one_version_with_each_kind_of_workload(scaled: Replicas) -> None:
    group = scaled.plane.ask.get("/apis/custom.metrics.k8s.io")
    assert [each["version"] for each in group["versions"]] == ["v1beta2"]
    names = {each["name"] for each in scaled.plane.ask.get(ROOT)["resources"]}
    assert len(names) == 8
    assert "deployments.apps/crane_autoscaling_cron" in names
