"""What `kubectl describe` and `kubectl get` show of an EHPA's scaling, from the forecaster's decisions to the status."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from agents.logic.replicas.generated_objects import LabelPropagation
from agents.processes.consumer_autoscalers import EhpaObjectGenerator
from schemas.catalogue import Event
from schemas.decision_subjects import Subject
from schemas.decisions.replica_plans import ReplicasPlanned, ReplicasRefused
from schemas.facts.replica_scaling import ScaleSeen
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import ScaleStrategy
from streams.consumers.replicas.ehpa_reconciler import EhpaReconciler
from streams.consumers.replicas.pass_order import PassOrder
from tests.support import ehpa_manifests
from tests.support.replica_scene import CART, MONDAY, ForecasterScene, ehpa, pods, scale, scrape
from tests.support.scaled_world import KillSwitch, ScaledWorld

NOW = MONDAY + timedelta(hours=2)
DIRECT = ehpa(annotations={"ullage/scaling": "direct"}, prediction=None, max_replicas=6)
BY_HPA = ehpa(prediction=None, max_replicas=6)
PREVIEW = ehpa(prediction=None, max_replicas=6, strategy=ScaleStrategy.PREVIEW)
DIRECT_PREVIEW = replace(DIRECT, strategy=ScaleStrategy.PREVIEW)
PAUSED = ControlChanged(NOW, "prod", Mode.APPLY, paused=True, reason="INC-1")
GONE = ScaleSeen(NOW, CART, reason="the Deployment 'shop/cart' is gone")
HPA_SAYS = {
    "desiredReplicas": 4,
    "currentReplicas": 3,
    "conditions": [
        {"type": "AbleToScale", "status": "True", "reason": "SucceededRescale", "message": "m"},
        {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": "m"},
        {"type": "ScalingLimited", "status": "False", "reason": "DesiredWithinRange", "message": "m"},
    ],
}
READY = "EffectiveHorizontalPodAutoscalerReady"


def decision(
    policy: EhpaChanged, *more: Event, replicas: int = 3, cores: float | None = 0.5
) -> ReplicasPlanned | ReplicasRefused:
    """The forecaster's newest, for pods of a core that are to use half of it."""
    used = [] if cores is None else [scrape(NOW, replicas, cores)]
    asked = [] if GONE in more else [scale(NOW, replicas)]
    decided = ForecasterScene().run(NOW, 30, policy, *pods(NOW, replicas), *used, *asked, *more)
    found = [each.event for each in decided if each.topic == "replica-plans"]
    assert isinstance(found[-1], ReplicasPlanned | ReplicasRefused)
    return found[-1]


class Status:
    """An EHPA and a Deployment at an API server, and the status that passes write."""

    def __init__(self, policy: EhpaChanged, replicas: int | None = 3) -> None:
        self.world = ScaledWorld(KillSwitch())
        if replicas is not None:
            self.world.has("cart", replicas)
        self.world.ehpas.held["shop", "cart"] = ehpa_manifests.manifest_of(policy)
        self.reconciler = EhpaReconciler(self.world.clients, EhpaObjectGenerator(LabelPropagation()))

    def run(self, decided: Any = None, scaled: ActionFinished | None = None, objection: str | None = None) -> "Status":
        self.reconciler.run_pass(PassOrder("shop", "cart", "u1", NOW, objection=objection, scaled=scaled, decided=decided))
        return self

    @property
    def status(self) -> Any:
        return self.world.ehpas.held["shop", "cart"]["status"]

    @property
    def shown(self) -> tuple[Any, ...]:
        """REPLICAS of `kubectl get ehpa`, the current ones, and the reasons of the conditions as `describe` shows them."""
        reasons = {each["type"]: each["reason"] for each in self.status["conditions"]}
        kinds = ("Ready", "AbleToScale", "ScalingActive", "ScalingLimited")
        return (self.status.get("expectReplicas"), self.status.get("currentReplicas"), *(reasons.get(kind) for kind in kinds))

    def message(self, kind: str) -> str:
        return str(next(each["message"] for each in self.status["conditions"] if each["type"] == kind))


def finished(plan: ReplicasPlanned | ReplicasRefused, result: Result, reason: str = "") -> ActionFinished:
    return ActionFinished("o", NOW, plan.id, Action.SCALE, result, reason, Subject.of_workload(CART))


VALID = ("ValidMetricFound", "DesiredWithinRange")


def test_a_direct_ehpa_at_its_goal_has_the_conditions_of_an_hpa() -> None:
    status = Status(DIRECT).run(decision(DIRECT))
    assert status.shown == (3, 3, READY, "ReadyForNewScale", *VALID)
    assert status.message("ScalingActive") == "the replicas follow from resource.cpu"


def test_a_plan_counts_as_a_rescale_once_it_is_carried_out() -> None:
    plan = decision(DIRECT, cores=0.9)
    assert (plan.current, plan.replicas) == (3, 6)  # type: ignore[union-attr]  # a plan
    status = Status(DIRECT).run(plan)
    assert status.shown == (3, 3, READY, "SucceededGetScale", *VALID)
    status.world.has("cart", 6)
    assert status.run(plan, finished(plan, Result.DONE)).shown == (6, 6, READY, "SucceededRescale", *VALID)


@pytest.mark.parametrize("result", [Result.FAILED, Result.REFUSED, Result.EXPIRED])
def test_a_plan_that_failed_or_expired_says_that_the_scale_was_not_set(result: Result) -> None:
    plan = decision(DIRECT, cores=0.9)
    status = Status(DIRECT).run(plan, finished(plan, result, "the API did not answer in time"))
    assert status.shown == (3, 3, "FailedScale", "FailedUpdateScale", *VALID)
    assert status.message("AbleToScale") == status.message("Ready") == "the API did not answer in time"


def test_more_than_the_maximum_is_limited() -> None:
    status = Status(DIRECT, 6).run(decision(DIRECT, replicas=6, cores=0.9))
    assert status.shown == (6, 6, READY, "ReadyForNewScale", "ValidMetricFound", "TooManyReplicas")


def test_a_metric_that_cannot_be_read_is_said_with_the_hpas_reason() -> None:
    refused = decision(DIRECT, cores=None)
    status = Status(DIRECT).run(refused)
    assert status.shown == (3, 3, "FailedScale", "SucceededGetScale", "FailedGetResourceMetric", None)
    assert status.message("ScalingActive") == status.message("Ready") == refused.reason  # type: ignore[union-attr]


@pytest.mark.parametrize("policy", [DIRECT, BY_HPA, PREVIEW, DIRECT_PREVIEW], ids=["direct", "hpa", "preview", "both"])
def test_at_zero_nothing_is_wanted_whoever_scales(policy: EhpaChanged) -> None:
    status = Status(policy).run(decision(policy))
    status.world.has("cart", 0)
    found = status.run(decision(policy, replicas=0, cores=None)).shown
    assert found == (0, 0, "ScalingDisabled", "SucceededGetScale", "ScalingDisabled", None)


@pytest.mark.parametrize("policy", [DIRECT, BY_HPA, PREVIEW, DIRECT_PREVIEW], ids=["direct", "hpa", "preview", "both"])
def test_a_target_that_is_gone_has_no_replicas_and_cannot_be_scaled(policy: EhpaChanged) -> None:
    status = Status(policy).run(decision(policy))
    status.world.scales.clear()
    refused = decision(policy, GONE)
    assert (refused.guard, refused.reason) == ("scale", GONE.reason)  # type: ignore[union-attr]  # as `why` tells
    assert status.run(refused).shown == (None, None, "FailedGetScale", "FailedGetScale", None, None)


@pytest.mark.parametrize(
    ("objection", "events", "known"),
    [("the mode is shadow", [], VALID), ("INC-1", [PAUSED], (None, None))],
    ids=["shadow", "paused"],
)
def test_while_changes_are_not_allowed_a_direct_ehpa_is_not_able_to_scale(
    objection: str, events: Sequence[Event], known: tuple[str | None, ...]
) -> None:
    status = Status(DIRECT, 5).run(decision(DIRECT, *events, replicas=5), objection=objection)
    assert status.shown == (5, 5, "ChangesNotAllowed", "ChangesNotAllowed", *known)
    assert status.message("AbleToScale") == objection


@pytest.mark.parametrize("objection", [None, "INC-1"])
@pytest.mark.parametrize("policy", [BY_HPA, PREVIEW], ids=["hpa", "preview"])
def test_where_an_hpa_scales_it_is_the_hpa_that_says_how(policy: EhpaChanged, objection: str | None) -> None:
    """While the cluster is paused, too: an HPA goes on."""
    status = Status(policy).run(decision(policy))
    status.world.hpas.held["shop", "ehpa-cart"]["status"] = HPA_SAYS
    events = [] if objection is None else [PAUSED]
    found = status.run(decision(policy, *events), objection=objection).shown
    assert found == (4, 3, READY if objection is None else "ChangesNotAllowed", "SucceededRescale", *VALID)


def test_a_preview_without_an_hpa_expects_what_is_planned() -> None:
    plan = decision(DIRECT_PREVIEW, cores=0.9)
    assert Status(DIRECT_PREVIEW).run(plan).shown == (6, 3, READY, "SucceededGetScale", *VALID)


def test_a_guard_that_no_hpa_has_is_said_as_ours() -> None:
    refused = decision(replace(DIRECT, unsupported="spec.maxReplicas is missing"))
    status = Status(DIRECT).run(refused)
    assert status.shown == (3, 3, "FailedScale", "SucceededGetScale", "NothingPlanned", None)
    assert status.message("ScalingActive") == "spec.maxReplicas is missing"


def test_a_consumer_that_begins_keeps_the_conditions_until_the_log_says_more() -> None:
    status = Status(DIRECT).run(decision(DIRECT))
    before = status.status
    assert status.run().status == before


def test_a_failed_plan_is_over_once_no_metric_can_be_read() -> None:
    plan, refused = decision(DIRECT, cores=0.9), decision(DIRECT, cores=None)
    status = Status(DIRECT).run(plan, finished(plan, Result.FAILED, "403")).run(refused, finished(plan, Result.FAILED, "403"))
    assert status.shown[2:5] == ("FailedScale", "SucceededGetScale", "FailedGetResourceMetric")


def test_one_decision_makes_one_write() -> None:
    status, refused, plan = Status(DIRECT), decision(DIRECT, cores=None), decision(DIRECT)
    versions = set()
    for _ in range(3):
        for decided in (refused, refused, plan, plan):
            status.run(decided)
            versions.add(status.world.ehpas.held["shop", "cart"]["metadata"]["resourceVersion"])
    assert len(versions) == 6
