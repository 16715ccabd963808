"""Replicas ahead of load on a real control plane: EHPA to HPA to the real HPA controller, which asks our metrics API."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from schemas.decisions.replica_plans import HpaConditions, ReplicasPlanned, ReplicasRefused, ScalingMode
from schemas.names import Workload
from schemas.outcomes import Action, ActionFinished, ObjectWritten, Result
from schemas.policies.control import Mode
from schemas.policies.ehpa import ehpa_key
from schemas.policies.vpa import TargetRef
from schemas.well_known_labels import EHPA_UID
from tests.controlplane import audit_judge, crane_types
from tests.controlplane.api_requests import Refused, wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.replicas import CLUSTER, EHPAS, HPAS, SUBSTITUTES, TSPS, Replicas
from tests.controlplane.world import World

LONG = 60.0


@pytest.fixture(scope="module")
def scaled(plane: Plane) -> Iterator[Replicas]:
    home, world = World(plane.ask), World(plane.ask)
    made = Replicas(plane, home, world)
    yield made
    made.close()
    world.close()
    home.close()


def service(scaled: Replicas, name: str, load: float = 0.06) -> None:
    """A Deployment of two pods that use so many cores together."""
    scaled.world.deployment(name, replicas=2)
    scaled.loads[name] = load


def metrics_of(hpa: Any) -> list[str]:
    """What an HPA goes by."""
    return [each.get("external", {}).get("metric", {}).get("name", "live") for each in hpa["spec"]["metrics"]]


def test_a_deployment_is_scaled_ahead_of_its_load_and_live_metrics_rule_once_the_forecast_has_expired(scaled: Replicas) -> None:
    service(scaled, "web")
    made = scaled.ehpa("web")
    scaled.forecast(made, 0.4)
    scaled.registered()
    wait_for(lambda: scaled.replicas("web") == 8, timeout=LONG, what="8 pods for 400m that are to come, at 50m each")
    scaled.loads["web"] = 0.38  # the load that was forecast comes, and nothing more needs to be done
    wait_for(lambda: scaled.ready("web") == ("True", "EffectiveHorizontalPodAutoscalerReady"), what="the EHPA is ready")
    assert scaled.ready("web", "PredictionReady") == ("True", "PredictSucceed")
    status = wait_for(lambda: s if (s := scaled.found(EHPAS, "web")["status"]).get("currentReplicas") == 8 else None, what="8")
    assert status["expectReplicas"] == 8
    forecasts = scaled.found(TSPS, "ehpa-web")["status"]["predictionMetrics"]
    assert [(each["resourceIdentifier"], each["ready"]) for each in forecasts] == [("resource.cpu", True)]
    assert metrics_of(scaled.found(HPAS, "ehpa-web")) == ["live", "crane_autoscaling_prediction"]
    scaled.loads["web"] = 0.06
    scaled.forecast(made, 0.4, lasts=1.0)
    wait_for(lambda: metrics_of(scaled.found(HPAS, "ehpa-web")) == ["live"], timeout=LONG, what="no forecast in the HPA")
    wait_for(lambda: scaled.replicas("web") == 2, timeout=LONG, what="as many pods as the live load needs")
    assert "effective-hpa-current-metrics" in str(scaled.found(EHPAS, "web")["metadata"]["annotations"])
    done = [each for each in scaled.outcomes() if isinstance(each, ObjectWritten) and each.name == "ehpa-web"]
    assert {each.result for each in done} == {Result.DONE}
    assert [each.change.value for each in done if each.object_kind == "TimeSeriesPrediction"] == ["created"]


@pytest.mark.timeout(300)
def test_without_the_metrics_api_nothing_is_scaled_down_live_load_still_scales_up_and_forecasts_count_when_it_is_back(
    scaled: Replicas,
) -> None:
    service(scaled, "kept")
    made = scaled.ehpa("kept")
    scaled.forecast(made, 0.3)
    scaled.registered()
    wait_for(lambda: scaled.replicas("kept") == 6, timeout=LONG, what="6 pods for 300m that are to come, at 50m each")
    scaled.stop_metrics_api()

    def unanswered() -> bool:
        events = scaled.world.ask.get(scaled.world.path("events"))["items"]
        reasons = {e["reason"] for e in events if e["involvedObject"]["name"] == "ehpa-kept"}
        return "FailedGetExternalMetric" in reasons

    try:
        wait_for(unanswered, timeout=LONG, what="the HPA controller asked and got no answer")
        assert scaled.replicas("kept") == 6  # its live load asks for 2
        scaled.loads["kept"] = 0.46
        wait_for(lambda: scaled.replicas("kept") == 10, timeout=2 * LONG, what="the live load scales up")
    finally:
        scaled.start_metrics_api()
    scaled.registered()
    scaled.loads["kept"] = 0.06
    scaled.forecast(made, 0.2)
    wait_for(lambda: scaled.replicas("kept") == 4, timeout=LONG, what="4 pods for the 200m that are to come")


def test_a_preview_shows_what_would_be_done_and_leaves_the_deployment_alone(scaled: Replicas) -> None:
    service(scaled, "shown")
    made = scaled.ehpa("shown", scaleStrategy="Preview")
    scaled.forecast(made, 0.4)
    expects = lambda: (scaled.found(EHPAS, "shown").get("status") or {}).get("expectReplicas") == 6  # noqa: E731
    wait_for(expects, timeout=LONG, what="the first step to 8 would be 4 more at once")
    assert scaled.found(HPAS, "ehpa-shown")["spec"]["scaleTargetRef"]["kind"] == "Substitute"
    assert scaled.replicas("shown") == 2
    one = crane_types.path(scaled.world.namespace, EHPAS, "shown")
    scaled.world.ask.patch(one, {"spec": {"scaleStrategy": "Auto"}}, kind="merge")
    wait_for(lambda: scaled.replicas("shown") == 8, timeout=LONG, what="Auto does it")
    wait_for(lambda: scaled.found(SUBSTITUTES, "ehpa-shown") is None, what="the substitute goes")


def test_a_hand_edited_hpa_is_put_right_and_what_followed_goes_with_the_ehpa(scaled: Replicas) -> None:
    service(scaled, "edited")
    scaled.ehpa("edited")
    one = crane_types.path(scaled.world.namespace, HPAS, "ehpa-edited")
    wait_for(lambda: scaled.found(HPAS, "ehpa-edited"), what="there is an HPA")
    up = {"scaleUp": {"stabilizationWindowSeconds": 7, "tolerance": "0.5"}}
    labels = {"their": "own", EHPA_UID: None}
    scaled.world.ask.patch(one, {"spec": {"maxReplicas": 50, "behavior": up}, "metadata": {"labels": labels}}, kind="merge")

    def right() -> bool:
        spec = scaled.found(HPAS, "ehpa-edited")["spec"]
        up = spec["behavior"]["scaleUp"]
        return spec["maxReplicas"] == 10 and up["stabilizationWindowSeconds"] == 0 and "tolerance" not in up

    wait_for(right, what="it says what it is to say")
    labels = scaled.found(HPAS, "ehpa-edited")["metadata"]["labels"]
    assert (labels["their"], EHPA_UID in labels) == ("own", True)
    scaled.removed("edited")
    wait_for(lambda: not (scaled.found(HPAS, "ehpa-edited") or scaled.found(TSPS, "ehpa-edited")), timeout=LONG, what="all gone")


@pytest.mark.timeout(300)
def test_an_hpa_that_gitops_sets_back_again_and_again_is_left_for_a_while_and_who_does_it_is_said(scaled: Replicas) -> None:
    service(scaled, "contended")
    scaled.ehpa("contended")
    path = crane_types.path(scaled.world.namespace, HPAS, "ehpa-contended")
    wait_for(lambda: scaled.found(HPAS, "ehpa-contended"), what="there is an HPA")
    largest = lambda: scaled.found(HPAS, "ehpa-contended")["spec"]["maxReplicas"]  # noqa: E731
    for _ in range(3):
        scaled.world.ask.patch(f"{path}?fieldManager=argocd-controller", {"spec": {"maxReplicas": 50}}, kind="merge")
        wait_for(lambda: largest() == 10, what="it is put right at once")
    scaled.world.ask.patch(f"{path}?fieldManager=argocd-controller", {"spec": {"maxReplicas": 50}}, kind="merge")
    wait_for(lambda: scaled.ready("contended") == ("False", "FailedReconcileHPA"), what="the EHPA says that it is not ready")
    [ready] = [known for known in scaled.found(EHPAS, "contended")["status"]["conditions"] if known["type"] == "Ready"]
    assert "(spec.maxReplicas was 50, last written by 'argocd-controller')" in ready["message"]
    assert largest() == 50
    wait_for(lambda: largest() == 10, timeout=2 * LONG, what="it is put right after a minute")
    wait_for(lambda: scaled.ready("contended")[0] == "True", timeout=LONG, what="the EHPA is ready again")


def test_in_shadow_nothing_is_made_and_the_ehpa_says_so(scaled: Replicas) -> None:
    service(scaled, "quiet")
    scaled.control(Mode.SHADOW)
    try:
        scaled.ehpa("quiet")
        wait_for(lambda: scaled.ready("quiet") == ("False", "ChangesNotAllowed"), what="its status says so")
        assert scaled.found(HPAS, "ehpa-quiet") is None
    finally:
        scaled.control(Mode.APPLY)
    wait_for(lambda: scaled.found(HPAS, "ehpa-quiet"), what="there is an HPA now")


def test_a_plan_is_carried_out_directly_once_and_no_hpa_is_made(scaled: Replicas) -> None:
    service(scaled, "direct")
    made = scaled.ehpa("direct", direct=True)
    wait_for(lambda: scaled.ready("direct") == ("True", "EffectiveHorizontalPodAutoscalerReady"), what="the EHPA is ready")
    assert scaled.found(HPAS, "ehpa-direct") is None
    at = datetime.now(UTC)
    plan = ReplicasPlanned(
        id="forecaster/0/1/replicas/real/direct",
        at=at,
        expires=at + timedelta(minutes=5),
        workload=Workload(CLUSTER, scaled.world.namespace, "Deployment", "direct"),
        ehpa="",
        uid=made["metadata"]["uid"],
        generation=1,
        carried_out_by=ScalingMode.DIRECT,
        target_ref=TargetRef("Deployment", "direct", "apps/v1"),
        current=2,
        replicas=5,
        least=2,
        most=10,
        proposals=(),
        stabilized=None,
        because={},
    )
    scaled.say(plan)

    def ended() -> list[ActionFinished]:
        return [each for each in scaled.outcomes() if isinstance(each, ActionFinished) and each.action is Action.SCALE]

    assert wait_for(ended, what="an outcome")[0].result is Result.DONE
    assert scaled.replicas("direct") == 5
    user = f"system:serviceaccount:{scaled.home.namespace}:ullage-consumer-autoscalers"
    audit, namespace, [scale] = scaled.plane.at.audit, scaled.world.namespace, ended()
    judged = lambda *said: audit_judge.faults(audit, namespace, said, [user])  # noqa: E731
    wait_for(lambda: judged(scale) == [], what="the audit log bears it out")
    assert judged(scale, replace(scale, id="made up")) != []
    scaled.say(plan)  # redelivered
    assert len(ended()) == 1

    def says(reason: str, message: str) -> bool:
        conditions = scaled.found(EHPAS, "direct")["status"]["conditions"]
        return any(each["reason"] == reason and message in each["message"] for each in conditions)

    scaled.say(replace(plan, id=f"{plan.id}/absurd", current=5, replicas=5000))
    wait_for(lambda: says("FailedScale", "the plan is for 5000 replicas"), what="its status says what was refused")
    assert scaled.replicas("direct") == 5
    key = ehpa_key(CLUSTER, scaled.world.namespace, "direct")
    scaled.say(ReplicasRefused("forecaster/0/2/refuse/x", at, plan.workload, key, "scale", "nobody has seen it", {}))
    wait_for(lambda: says("FailedScale", "nobody has seen it"), what="its status says why nothing is planned")
    told = HpaConditions("True/SucceededRescale", "True/ValidMetricFound", "True/TooManyReplicas")
    scaled.say(replace(plan, id=f"{plan.id}/next", ehpa=key, current=5, replicas=4, conditions=told))
    wait_for(lambda: scaled.ready("direct") == ("True", "EffectiveHorizontalPodAutoscalerReady"), what="it is ready again")
    assert scaled.replicas("direct") == 4
    wait_for(lambda: scaled.ready("direct", "AbleToScale") == ("True", "SucceededRescale"), what="it says that it was scaled")
    assert scaled.ready("direct", "ScalingActive") == ("True", "ValidMetricFound")
    assert scaled.ready("direct", "ScalingLimited") == ("True", "TooManyReplicas")


def test_an_ehpa_whose_name_is_too_long_for_a_label_has_its_objects(scaled: Replicas) -> None:
    service(scaled, "long")
    name = "n" * 200
    scaled.ehpa(name, scaleTargetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "long"})
    wait_for(lambda: scaled.ready(name) == ("True", "EffectiveHorizontalPodAutoscalerReady"), what="the EHPA is ready")
    assert scaled.found(HPAS, f"ehpa-{name}")["metadata"]["labels"]["app.kubernetes.io/part-of"].startswith("nnn")


def test_a_target_and_a_metric_with_names_that_are_no_labels_are_scaled_ahead(scaled: Replicas) -> None:
    """A Deployment's name may have more characters than a label's value, and a recording rule's has colons."""
    name, world = "l" * 100, scaled.world
    world.ask.post(
        world.path("deployments"),
        {
            "metadata": {"name": name},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "far"}},
                "template": {"metadata": {"labels": {"app": "far"}}, "spec": {"containers": [{"name": "app", "image": "x"}]}},
            },
        },
    )
    world.running("far", 2)
    metric = {"metric": {"name": "job:queue:depth"}, "target": {"type": "AverageValue", "averageValue": "5"}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    made = scaled.ehpa("far", scaleTargetRef=target, metrics=[{"type": "External", "external": metric}])
    scaled.forecast(made, 40.0, of="external.job:queue:depth")
    scaled.registered()
    wait_for(lambda: scaled.replicas(name) == 8, timeout=LONG, what="8 pods for 40 that are to come, of 5 each")
    assert scaled.ready("far") == ("True", "EffectiveHorizontalPodAutoscalerReady")


def test_a_target_that_is_not_there_is_said(scaled: Replicas) -> None:
    scaled.ehpa("absent")
    wait_for(lambda: scaled.ready("absent") == ("False", "FailedGetScale"), what="its status says so")


def test_nobody_else_gets_an_answer_and_the_api_server_shows_what_there_is(scaled: Replicas) -> None:
    scaled.registered()
    found = scaled.plane.ask.get("/apis/external.metrics.k8s.io/v1beta1")
    assert [each["name"] for each in found["resources"]] == ["crane_autoscaling_cron", "crane_autoscaling_prediction"]
    with pytest.raises(Refused, match="there is no external metric 'depth'"):
        scaled.plane.ask.get(f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{scaled.world.namespace}/depth")
