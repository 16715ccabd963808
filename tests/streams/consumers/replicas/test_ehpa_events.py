"""The Events about EHPAs: upstream's reasons, on the EHPA, each failure once while it lasts."""

from datetime import timedelta
from typing import Any

import pytest

from agents.logic.replicas.generated_objects import LabelPropagation
from agents.processes.consumer_autoscalers import EhpaObjectGenerator
from schemas.policies.scaling import ScaleStrategy
from schemas.units import Seconds
from streams.clients.kube.event_recorder import ObjectEvent
from streams.consumers.replicas.ehpa_reconciler import EhpaReconciler
from streams.consumers.replicas.pass_order import PassOrder
from streams.errors import GiveUp, Unreachable
from tests.streams.consumers.replicas.test_ehpa_passes import WEB
from tests.support import ehpa_manifests
from tests.support.replica_scene import MONDAY
from tests.support.scaled_world import KillSwitch, ScaledWorld


class ToldPasses:
    """A Deployment with three replicas, its EHPA, and the events of the passes over it."""

    def __init__(self, **changes: Any) -> None:
        self.world = ScaledWorld(KillSwitch())
        self.world.has("web", 3)
        self.world.ehpas.held["shop", "web"] = ehpa_manifests.manifest_of(WEB, **changes)
        self.events: list[ObjectEvent] = []
        generator = EhpaObjectGenerator(LabelPropagation())
        self.reconciler = EhpaReconciler(self.world.clients, generator, self.events.append)

    def run(self, minutes: float = 0) -> list[tuple[str, bool]]:
        """What one pass tells."""
        self.events.clear()
        self.reconciler.run_pass(PassOrder("shop", "web", "u-web", MONDAY + timedelta(minutes=minutes)))
        for event in self.events:
            about = event.subject
            assert (about.object_kind, about.namespace, about.name, about.uid) == (
                "EffectiveHorizontalPodAutoscaler",
                "shop",
                "web",
                "u-web",
            )
        return [(event.reason, event.warning) for event in self.events]


def refuses(*_arguments: object, **_named: object) -> Any:
    raise GiveUp(doing="applying what is wanted", to="shop/ehpa-web", answer="403 not allowed")


def test_what_is_made_is_told_once() -> None:
    passes = ToldPasses()
    assert passes.run() == [("PredictionCreated", False), ("HPACreated", False)]
    assert passes.run() == []


def test_a_substitute_is_told_of_too(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = ToldPasses()
    passes.world.ehpas.held["shop", "web"]["spec"]["scaleStrategy"] = str(ScaleStrategy.PREVIEW)
    assert ("SubstituteCreated", False) in passes.run()
    monkeypatch.setattr(passes.world.substitutes, "find", lambda *_: None)
    monkeypatch.setattr(passes.world.substitutes, "apply", refuses)
    assert passes.run() == [("FailedCreateSubstitute", True)]


def test_a_failure_is_told_once_an_hour_and_again_when_it_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = ToldPasses()
    with monkeypatch.context() as refused:
        refused.setattr(passes.world.hpas, "apply", refuses)
        assert ("FailedCreateHPA", True) in passes.run()
        assert "403 not allowed" in passes.events[-1].message
        assert passes.run(minutes=1) == []
        assert passes.run(minutes=61) == [("FailedCreateHPA", True)]
    assert passes.run(minutes=62) == [("HPACreated", False)]
    passes.world.hpas.held["shop", "ehpa-web"]["spec"]["maxReplicas"] = 99
    monkeypatch.setattr(passes.world.hpas, "apply", refuses)
    assert passes.run(minutes=63) == [("FailedUpdateHPA", True)]


@pytest.mark.parametrize(
    ("keeper", "reason"), [("hpas", "FailedGetHPA"), ("tsps", "FailedGetPrediction"), ("substitutes", "FailedGetSubstitute")]
)
def test_what_cannot_be_read_is_told(keeper: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_namespace: str, _name: str) -> Any:
        raise GiveUp(doing="reading an object", to="shop/ehpa-web", answer="403 not allowed")

    passes = ToldPasses()
    monkeypatch.setattr(getattr(passes.world, keeper), "find", away)
    assert (reason, True) in passes.run()


def test_a_target_that_has_no_scale_and_a_status_that_is_refused_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = ToldPasses()
    passes.world.scales.clear()
    monkeypatch.setattr(passes.world.ehpas, "merge", refuses)
    with pytest.raises(GiveUp):
        passes.run()
    assert [event.reason for event in passes.events] == ["FailedUpdateStatus"]
    monkeypatch.undo()
    assert passes.run() == [("FailedGetScale", True)]


def test_nothing_is_told_to_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_namespace: str, _name: str) -> Any:
        raise Unreachable(doing="reading", to="the cluster", answer="nobody answers", after=Seconds(1.0))

    passes = ToldPasses()
    monkeypatch.setattr(passes.world.hpas, "find", away)
    with pytest.raises(Unreachable):
        passes.run()
    assert passes.events == []
