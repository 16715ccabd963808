"""One pass over an EHPA after another, on objects in memory: conformance 38 to 44 of ehpa.md, section 11."""

from dataclasses import replace
from typing import Any

import pytest

from agents.logic.replicas import ehpa_objects
from agents.logic.replicas.generated_objects import LabelPropagation
from agents.processes.replica_objects import ReplicaObjects
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import ScaleStrategy
from schemas.policies.vpa import TargetRef
from streams.consumers.replicas.ehpa_reconciler import CURRENT_METRICS, EhpaReconciler, PassOrder, PassReport
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
        self.reconciler = EhpaReconciler(self.world.clients, ReplicaObjects(propagation or LabelPropagation()))
        self.say(**changes)

    def say(self, **changes: Any) -> None:
        """The EHPA with other fields."""
        key = "shop", "web"
        self.world.ehpas.held[key] = {**self.world.ehpas.held.get(key, {}), **ehpa_objects.manifest_of(replace(WEB, **changes))}

    def run(self) -> PassReport:
        return self.reconciler.run_pass(PassOrder("shop", "web", "u-web", MONDAY))

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


@pytest.mark.parametrize("scaling", ["direct", ""])
def test_an_ehpa_that_is_gone_is_passed_over(scaling: str) -> None:
    passes = Passes(annotations={"ullage/scaling": scaling})
    passes.world.ehpas.held.clear()
    assert not passes.run().found
    assert not passes.world.hpas.held
