"""What somebody makes happen who may write one topic and no other, for each topic that a consumer acts by (docs/security.md)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from schemas.names import Amounts, Workload
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import ContainerPolicy
from schemas.units import Bytes, Cores
from streams.consumers.executing import plan_evidence
from streams.consumers.pods.evictor import evictor
from streams.consumers.pods.resizer import resizer
from tests.support.admission_scene import AdmissionScene
from tests.support.attested_plans import with_attestations
from tests.support.consumer_scene import START, ConsumerScene, eviction_of, resize_of, scene_at_two

MIB = 1 << 20


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_evidence, "PATIENCE", 0.0)


@pytest.fixture
def scene() -> ConsumerScene:
    return scene_at_two()


def test_outcomes_a_false_one_keeps_its_plan_from_being_carried_out_and_no_other(scene: ConsumerScene) -> None:
    plan, other = resize_of(scene.pod(), "x"), resize_of(scene.pod(), "y")
    scene.plan(plan)
    scene.plan(other)
    outcome = ActionFinished("o", plan.at, plan.id, Action.RESIZE, Result.DONE, "so", plan.subject)
    partition = scene.topics.partition_of("demo")
    scene.log.append([scene.codec.encode(outcome, topic="outcomes", key="demo", partition=partition, source="/mallory")])
    resizer(scene.context, scene.client).poll_once()
    assert scene.client.acts == [f"resize {other.pod.name}"]
    assert plan.id not in {each.decision for each in scene.outcomes()[1:]}


def test_plan_attestations_vouching_for_what_nobody_planned_makes_nothing_happen(scene: ConsumerScene) -> None:
    partition = scene.topics.partition_of("demo")
    plan = scene.codec.encode(
        eviction_of(scene.pod()), topic="pod-updates", key="demo", partition=partition, source="/ullage/updater/0"
    )
    scene.log.append(with_attestations([plan], scene.topics)[:1])
    evictor(scene.context, scene.client).poll_once()
    assert (scene.client.acts, scene.outcomes()) == ([], [])


def test_control_lets_honest_plans_be_carried_out_and_makes_none(scene: ConsumerScene) -> None:
    scene.control(Mode.SHADOW)
    consumer = resizer(scene.context, scene.client)
    scene.plan(resize_of(scene.pod(), "x"))
    consumer.poll_once()
    assert scene.client.acts == []
    forged = ControlChanged(START, "demo", Mode.APPLY)
    scene.log.append(scene.codec.encode_for_all(forged, topic="control", key="demo", source="/mallory"))
    consumer.poll_once()
    assert scene.client.acts == []
    plan = resize_of(scene.pod(), "y")
    scene.plan(plan)
    consumer.poll_once()
    assert scene.client.acts == [f"resize {plan.pod.name}"]


def test_recommendations_new_pods_get_a_forged_amount_within_the_bounds_of_their_policy() -> None:
    scene = AdmissionScene()
    scene.vpa(containers=(ContainerPolicy("c", max_allowed=Amounts(Cores(0.3), Bytes(256 * MIB))),))
    scene.recommend()
    scene.recommend(1, 900.0)
    scene.view.catch_up()
    assert scene.requests()["cpu"] == "300m"


def test_recommendations_for_a_workload_without_a_policy_change_nothing() -> None:
    scene = AdmissionScene()
    scene.recommend(1, 900.0, workload=Workload("demo", "default", "Deployment", "web"))
    scene.view.catch_up()
    assert scene.requests() == {"cpu": "100m", "memory": "100Mi"}


def test_facts_a_plan_by_a_false_picture_of_a_pod_is_not_carried_out(scene: ConsumerScene) -> None:
    """A turn that was told other requests than the pod has makes an honest plan; the consumer looks before it acts."""
    plan = resize_of(scene.pod())
    scene.plan(replace(plan, expect={name: Amounts(Cores(7.0), amounts.memory) for name, amounts in plan.expect.items()}))
    resizer(scene.context, scene.client).poll_once()
    assert scene.client.acts == []
    (outcome,) = scene.outcomes()
    assert outcome.result is Result.REFUSED
    assert outcome.at - START >= timedelta(hours=2)
