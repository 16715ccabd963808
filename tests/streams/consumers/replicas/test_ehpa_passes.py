"""One pass over an EHPA after another, on objects in memory: conformance 38 to 44 of ehpa.md, section 11."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
import structlog

from agents.logic.replicas.generated_objects import LabelPropagation
from agents.processes.consumer_autoscalers import EhpaObjectGenerator
from schemas.decision_subjects import Subject
from schemas.names import Workload
from schemas.outcomes import Action, ActionFinished, ObjectChange, Result
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import CronTrigger, ScaleStrategy
from schemas.policies.vpa import TargetRef
from schemas.well_known_labels import EHPA_UID
from streams.consumers.replicas.ehpa_reconciler import CURRENT_METRICS, EhpaReconciler
from streams.consumers.replicas.pass_order import PassOrder, PassReport
from streams.errors import GiveUp
from tests.support import ehpa_manifests
from tests.support.replica_scene import DSP, MONDAY, RATE
from tests.support.scaled_world import KillSwitch, ScaledWorld

WEB = EhpaChanged(
    MONDAY,
    "prod",
    "shop",
    "web",
    MONDAY,
    TargetRef("Deployment", "web", "apps/v1"),
    max_replicas=10,
    min_replicas=1,
    metrics=(RATE,),
    prediction=DSP,
    uid="u-web",
    generation=1,
)
KEY = ("shop", "ehpa-web")


class Passes:
    """A Deployment with so many replicas, and its EHPA."""

    def __init__(self, replicas: int = 3, propagation: LabelPropagation | None = None, **changes: Any) -> None:
        self.world = ScaledWorld(KillSwitch())
        self.world.has("web", replicas)
        self.reconciler = EhpaReconciler(self.world.clients, EhpaObjectGenerator(propagation or LabelPropagation()))
        self.say(**changes)

    def say(self, **changes: Any) -> None:
        """The EHPA with other fields."""
        key = "shop", "web"
        self.world.ehpas.held[key] = {**self.world.ehpas.held.get(key, {}), **ehpa_manifests.manifest_of(replace(WEB, **changes))}

    def run(self, rival: str = "", scaled: ActionFinished | None = None, at: datetime = MONDAY) -> PassReport:
        return self.reconciler.run_pass(PassOrder("shop", "web", "u-web", at, rival=rival, scaled=scaled))

    @property
    def hpa(self) -> Any:
        return self.world.hpas.held[KEY]["spec"]

    @property
    def status(self) -> Any:
        return self.world.ehpas.held["shop", "web"]["status"]

    @property
    def ready(self) -> tuple[str, str]:
        found = next(one for one in self.status["conditions"] if one["type"] == "Ready")
        return found["status"], found["reason"]


def test_38_a_target_at_zero_is_not_scaled_unless_zero_is_allowed() -> None:
    passes = Passes(replicas=0)
    passes.run()
    assert (passes.ready, passes.status["currentReplicas"]) == (("False", "ScalingDisabled"), 0)
    assert not passes.world.hpas.held
    passes.say(min_replicas=0)
    passes.run()
    assert passes.ready[0] == "True"
    assert passes.hpa["minReplicas"] == 0


def test_39_a_target_without_a_scale_is_said() -> None:
    passes = Passes(target_ref=TargetRef("Job", "absent", "batch/v1"))
    passes.run()
    assert passes.ready == ("False", "FailedGetScale")
    assert not passes.world.hpas.held


def test_40_a_preview_scales_a_substitute_and_nothing_else() -> None:
    passes = Passes(strategy=ScaleStrategy.PREVIEW)
    passes.run()
    assert (passes.hpa["scaleTargetRef"]["kind"], passes.hpa["scaleTargetRef"]["name"]) == ("Substitute", "ehpa-web")
    passes.world.substitutes.held[KEY]["spec"]["replicas"] = 7  # as the HPA controller would
    passes.run()
    assert passes.world.substitutes.held[KEY]["status"]["replicas"] == 7
    assert (passes.world.scales["web"].replicas, passes.world.sets) == (3, [])


def _scaled(result: Result, reason: str) -> ActionFinished:
    workload = Workload("prod", "shop", "Deployment", "web")
    return ActionFinished("o", MONDAY, "d", Action.SCALE, result, reason, Subject.of_workload(workload))


@pytest.mark.parametrize(
    "changes",
    [{"strategy": ScaleStrategy.PREVIEW, "specific_replicas": 5}, {"annotations": {"ullage/scaling": "direct"}}],
)
def test_40_what_is_scaled_without_an_hpa_shows_when_that_was_and_why_it_is_not(changes: Mapping[str, Any]) -> None:
    passes = Passes(replicas=5, **changes)
    passes.run(scaled=_scaled(Result.DONE, "Deployment 'shop/web' asks for 5 replicas"))
    assert (passes.ready[0], passes.status["lastScaleTime"]) == ("True", "2026-01-05T00:00:00Z")
    assert passes.status["currentReplicas"] == 5
    assert passes.status["expectReplicas"] == (5 if "annotations" in changes else 0)
    passes.run(scaled=_scaled(Result.FAILED, "403 not allowed"))
    assert passes.ready == ("False", "FailedScale")
    passes.say(target_ref=TargetRef("Rollout", "web", "argoproj.io/v1alpha1"), **changes)
    passes.run(scaled=_scaled(Result.DONE, ""))
    assert passes.ready == ("False", "FailedScale")
    passes.say(strategy=ScaleStrategy.AUTO, annotations={}, specific_replicas=None)
    passes.run(scaled=_scaled(Result.FAILED, "403 not allowed"))
    assert passes.ready[0] == "True"


def test_41_from_preview_to_auto_and_back_within_one_pass() -> None:
    passes = Passes(strategy=ScaleStrategy.PREVIEW)
    passes.run()
    passes.say(strategy=ScaleStrategy.AUTO)
    passes.run()
    assert passes.hpa["scaleTargetRef"]["kind"] == "Deployment"
    assert not passes.world.substitutes.held
    passes.say(strategy=ScaleStrategy.PREVIEW)
    passes.run()
    assert passes.hpa["scaleTargetRef"]["kind"] == "Substitute"
    assert passes.world.scales["web"].replicas == 3


def test_42_labels_and_annotations_go_on_by_prefix_and_by_name() -> None:
    passes = Passes(
        propagation=LabelPropagation(label_prefixes=("team.",), annotations=("note",)),
        labels={"team.a": "1", "x": "2"},
        annotations={"note": "n", "other": "o"},
    )
    passes.run()
    about = passes.world.hpas.held[KEY]["metadata"]
    assert {"team.a"} <= set(about["labels"])
    assert "x" not in about["labels"]
    assert len(about["labels"]) == 1 + 4
    assert about["annotations"] == {"note": "n"}


def test_43_an_hpa_that_somebody_edited_is_put_right() -> None:
    passes = Passes()
    passes.run()
    passes.world.hpas.held[KEY]["spec"]["maxReplicas"] = 50
    [write] = passes.run().writes
    assert (passes.hpa["maxReplicas"], write.kind, write.reason) == (
        10,
        "HorizontalPodAutoscaler",
        "spec.maxReplicas was 50",
    )
    assert passes.run().writes == []


def _labels_a_metric(hpa: Any) -> None:
    hpa["spec"]["metrics"][0]["pods"]["metric"]["selector"] = {"matchLabels": {"more": "x"}}


def _asks_for_more(hpa: Any) -> None:
    hpa["spec"] |= {"minReplicas": 7, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {}}}]}


def _takes_the_label_off(hpa: Any) -> None:
    del hpa["metadata"]["labels"][EHPA_UID]


@pytest.mark.parametrize(
    ("edit", "changes"),
    [
        (_labels_a_metric, {}),
        (_asks_for_more, {"metrics": (), "min_replicas": None, "prediction": None}),
        (_takes_the_label_off, {}),
    ],
)
def test_what_the_ehpa_leaves_to_the_api_server_and_what_somebody_adds_to_a_metric_is_put_right_too(
    edit: Callable[[Any], None], changes: Mapping[str, Any]
) -> None:
    passes = Passes(**changes)
    passes.run()
    right = {key: passes.world.hpas.held[KEY][key] for key in ("spec", "metadata")}
    edited = copy.deepcopy(passes.world.hpas.held[KEY])
    edit(edited)
    passes.world.hpas.held[KEY] = edited
    passes.run()
    found = passes.world.hpas.held[KEY]
    assert (found["spec"], found["metadata"]["labels"]) == (right["spec"], right["metadata"]["labels"])
    assert passes.run().writes == []


def test_an_ehpa_whose_target_an_older_one_takes_gives_its_hpa_up_and_has_it_again_once_that_is_gone() -> None:
    passes = Passes()
    passes.run()
    [gone] = passes.run(rival="shop/old").writes
    assert (gone.kind, gone.change) == ("HorizontalPodAutoscaler", ObjectChange.DELETED)
    assert (passes.ready, KEY in passes.world.hpas.held) == (("False", "TargetTaken"), False)
    passes.run()
    assert (passes.ready[0], KEY in passes.world.hpas.held) == ("True", True)


@pytest.mark.parametrize("said", ["12", "1" * 200_000])
def test_a_status_is_written_though_current_metrics_cannot_be_shown(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = Passes()
    passes.run()
    metric = {"type": "Pods", "pods": {"metric": {"name": "http_requests"}, "current": {"averageValue": said}}}
    passes.world.hpas.held[KEY]["status"] = {"currentMetrics": [metric], "desiredReplicas": 9}
    put = passes.world.ehpas.merge

    def merge(namespace: str, name: str, patch: Mapping[str, Any], *, part: str = "") -> Any:
        if not part:
            raise GiveUp(doing="writing", to=name, answer="metadata.annotations: Too long")
        return put(namespace, name, patch, part=part)

    monkeypatch.setattr(passes.world.ehpas, "merge", merge)
    passes.run()
    assert passes.status["expectReplicas"] == 9


def test_that_current_metrics_cannot_be_shown_is_said_when_it_begins_and_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = Passes()
    passes.run()
    metric = {"type": "Pods", "pods": {"metric": {"name": "http_requests"}, "current": {"averageValue": "12"}}}
    passes.world.hpas.held[KEY]["status"] = {"currentMetrics": [metric]}
    put, refused = passes.world.ehpas.merge, True

    def merge(namespace: str, name: str, patch: Mapping[str, Any], *, part: str = "") -> Any:
        if refused and not part:
            raise GiveUp(doing="writing", to=name, answer="Too long")
        return put(namespace, name, patch, part=part)

    monkeypatch.setattr(passes.world.ehpas, "merge", merge)
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            passes.run()
        refused = False
        passes.run()
        passes.run()
    what = "metadata of EffectiveHorizontalPodAutoscaler"
    assert [(line["event"], line["object"], line["what"]) for line in lines] == [
        ("a write was refused", "shop/web", what),
        ("a refused write was accepted", "shop/web", what),
    ]


def test_44_metrics_that_did_not_change_are_not_written_again() -> None:
    passes = Passes()
    passes.run()
    metric = {"type": "Pods", "pods": {"metric": {"name": "http_requests"}, "current": {"averageValue": "12"}}}
    passes.world.hpas.held[KEY]["status"] = {"currentMetrics": [metric]}
    passes.run()
    first = passes.world.ehpas.held["shop", "web"]["metadata"]
    assert "averageValue: '12'" in first["annotations"][CURRENT_METRICS]
    passes.run()
    assert passes.world.ehpas.held["shop", "web"]["metadata"]["resourceVersion"] == first["resourceVersion"]
    metric["pods"]["current"]["averageValue"] = "13"  # type: ignore[index]  # a dict
    passes.run()
    assert "averageValue: '13'" in passes.world.ehpas.held["shop", "web"]["metadata"]["annotations"][CURRENT_METRICS]


def test_a_prediction_and_a_direct_ehpa_that_nobody_can_go_by_say_why() -> None:
    passes = Passes(annotations={"ullage/scaling": "direct"})
    order = PassOrder("shop", "web", "u-web", MONDAY, unsupported="spec.maxReplicas is 1, and spec.minReplicas 2")
    passes.reconciler.run_pass(order)
    assert passes.ready == ("False", "FailedScale")
    alone = {"metadata": {"namespace": "shop", "name": "web", "uid": "u-tsp"}, "spec": {"predictionMetrics": []}}
    passes.world.tsps.held["shop", "web"] = alone
    passes.reconciler.write_prediction(replace(order, unsupported="it asks by a MetricQuery"))
    [condition] = passes.world.tsps.held["shop", "web"]["status"]["conditions"]
    assert (condition["status"], condition["message"]) == ("False", "it asks by a MetricQuery")


@pytest.mark.parametrize("scaling", ["direct", ""])
def test_a_cron_that_cannot_be_read_is_said_with_and_without_an_hpa(scaling: str) -> None:
    cron = CronTrigger("night", "0 1 * * *", "0 5 * * *", 8, "Mars/Olympus")
    passes = Passes(annotations={"ullage/scaling": scaling}, crons=(cron,))
    passes.run()
    [message] = [one["message"] for one in passes.status["conditions"] if one["type"] == "Ready"]
    assert "cron 'night': 'Mars/Olympus' is no time zone" in message


@pytest.mark.parametrize("scaling", ["direct", ""])
def test_an_ehpa_that_is_gone_is_passed_over(scaling: str) -> None:
    passes = Passes(annotations={"ullage/scaling": scaling})
    passes.world.ehpas.held.clear()
    assert not passes.run().found
    assert not passes.world.hpas.held


@pytest.mark.parametrize("what", ["changed", "deleted", "behavior"])
@pytest.mark.parametrize("every", [1, 4, 8])
def test_an_object_that_somebody_keeps_changing_is_put_right_more_and_more_seldom_and_it_is_said(what: str, every: int) -> None:
    """fluxcd/flux2#3277: GitOps and we wrote the HPA by turns, 719 times an hour, and the EHPA said Ready."""
    passes, writes, ready = Passes(), [], set()
    passes.run()
    for turn in range(2 * 120):
        live = passes.world.hpas.held.get(KEY)
        if turn % every == 0 and live is not None:
            about = {**live["metadata"], "managedFields": [{"manager": "argocd-controller", "time": "2026-01-05T00:00:00Z"}]}
            live["metadata"], spec = about, live["spec"]
            match what:
                case "changed":
                    spec["maxReplicas"] = 5
                case "deleted":
                    del passes.world.hpas.held[KEY]
                case _:
                    spec["behavior"] = {"scaleDown": {"selectPolicy": "Disabled"}}
        report = passes.run(at=MONDAY + timedelta(seconds=30 * turn))
        writes += [turn for write in report.writes if write.kind == "HorizontalPodAutoscaler"]
        [condition] = [known for known in passes.status["conditions"] if known["type"] == "Ready"]
        ready.add((condition["status"], condition["reason"], condition["message"].partition(" (")[0]))
    pauses = [later - earlier for earlier, later in pairwise(writes)]
    assert 6 <= len(writes) <= 13
    assert pauses[0] == every, "the first ones at once"
    assert max(pauses) >= 32
    verb = "deleting" if what == "deleted" else "changing"
    assert ("False", "FailedReconcileHPA", f"somebody else keeps {verb} HorizontalPodAutoscaler 'ehpa-web'") in ready
    assert ("True", "EffectiveHorizontalPodAutoscalerReady") in {says[:2] for says in ready}


def test_what_we_want_anew_is_written_at_once_however_often_somebody_changed_it() -> None:
    passes = Passes()
    passes.run()
    for _ in range(10):
        passes.world.hpas.held[KEY]["spec"]["maxReplicas"] = 5
        passes.run()
    assert passes.world.hpas.held[KEY]["spec"]["maxReplicas"] == 5
    passes.say(max_replicas=12, generation=2)
    passes.run()
    assert passes.world.hpas.held[KEY]["spec"]["maxReplicas"] == 12


def test_who_changed_an_object_last_is_named() -> None:
    passes = Passes()
    passes.run()
    live = passes.world.hpas.held[KEY]
    live["spec"]["maxReplicas"] = 5
    managers = [("kubectl-edit", "2026-01-05T00:00:00Z"), ("argocd-controller", "2026-01-05T01:00:00Z")]
    managers += [("ullage-autoscalers", "2026-01-05T02:00:00Z")]
    fields: list[dict[str, str]] = [{"manager": manager, "time": time} for manager, time in managers]
    # Its status, of which the HPA's controller writes a new one all the time.
    fields.append({"manager": "kube-controller-manager", "time": "2026-01-05T03:00:00Z", "subresource": "status"})
    live["metadata"]["managedFields"] = fields
    [write] = passes.run().writes
    assert write.reason == "spec.maxReplicas was 5, last written by 'argocd-controller'"
