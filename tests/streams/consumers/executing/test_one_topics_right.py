"""What somebody makes happen who may write one topic and no other, for each topic that a consumer acts by (docs/security.md)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from agents.logic.replicas.served_metrics import ServedMetrics
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater import Updater
from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas.decisions.pod_updates import ResizePlanned
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.decisions.replica_plans import ReplicasPlanned
from schemas.decisions.vpa_conditions import ConditionStatus, ConditionType, DecidedCondition, VpaConditionsDecided
from schemas.facts.resource_quotas import ResourceQuotaChanged
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Amounts, Workload
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitType
from schemas.policies.vertical import ContainerPolicy, UpdateMode, VerticalPolicyChanged
from schemas.units import Bytes, Cores
from streams import compacted_copy
from streams.consumers.executing import plan_evidence
from streams.consumers.pods.evictor import evictor
from streams.consumers.pods.resizer import resizer
from tests.support.admission_scene import NAMES, AdmissionScene
from tests.support.attested_plans import with_attestations
from tests.support.cluster_events import API, MINUTE, pod, scrape, turn, when
from tests.support.cluster_events import START as NOON
from tests.support.consumer_scene import START, ConsumerScene, eviction_of, resize_of, scene_at_two
from tests.support.metrics_api_scene import AT, CLUSTER, NAMESPACE, ehpa, forecast, selector
from tests.support.node_scene import ScalerRun, group, shape
from tests.support.node_scene import pod as waiting_pod
from tests.support.replica_scene import EHPA, MONDAY, ForecasterScene, history, scale
from tests.support.replica_scene import pods as load_pods
from tests.support.replica_scene import scrape as load_scrape
from tests.support.status_scene import StatusScene, vpa
from tests.support.vpa_server import VpaServer

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


def test_control_latest_commands_what_starts_later_and_nothing_that_is_at_work(scene: ConsumerScene) -> None:
    scene.control(Mode.SHADOW)
    for name in compacted_copy.COPIES:
        compacted_copy.complete(scene.log, scene.topics, name)
    at_work = resizer(scene.context, scene.client)
    at_work.poll_once()
    forged = ControlChanged(START + timedelta(hours=2), "demo", Mode.APPLY)
    scene.log.append(
        [scene.codec.encode(forged, topic="control-latest", key="demo", partition=scene.topics.partition_of("demo"), source="/m")]
    )
    scene.plan(resize_of(scene.pod(), "x"))
    at_work.poll_once()
    assert scene.client.acts == []
    plan = resize_of(scene.pod(), "y")
    scene.plan(plan)
    resizer(scene.context, scene.client).poll_once()
    assert scene.client.acts == [f"resize {plan.pod.name}"]


def test_rules_a_policy_of_any_name_decides_what_new_pods_get() -> None:
    scene = AdmissionScene()
    most = ContainerPolicy("*", max_allowed=Amounts(Cores(0.01), None))
    scene.policy(VerticalPolicyChanged(START, "demo/default/*", "1", containers=(most,)), "mallory")
    scene.recommend()
    scene.view.catch_up()
    assert scene.requests()["cpu"] == "10m"


def test_quota_changes_a_forged_quota_keeps_new_pods_of_its_namespace_as_they_are() -> None:
    scene = AdmissionScene()
    scene.vpa()
    scene.recommend()
    forged = ResourceQuotaChanged(START, "demo", "default", "m", {"requests.cpu": "200m"}, {"requests.cpu": "0"})
    partition = NAMES.partition_of(forged.key)
    scene.log.append([scene.codec.encode(forged, topic="quota-changes", key=forged.key, partition=partition, source="/m")])
    scene.view.catch_up()
    assert scene.requests()["cpu"] == "100m"


def test_policies_a_forged_limit_range_bounds_new_pods() -> None:
    scene = AdmissionScene()
    scene.vpa()
    scene.recommend()
    forged = LimitRangeChanged(START, "demo", "default", "m", (Limit(LimitType.CONTAINER, least=Amounts(Cores(2.0), None)),))
    scene.policy(forged, forged.key)
    scene.view.catch_up()
    assert scene.requests()["cpu"] == "2"


def test_recommendations_by_cluster_a_forged_amount_is_planned_within_the_policy_and_the_budget() -> None:
    most = Amounts(Cores(0.3), Bytes(1024 * MIB))
    policy = VerticalPolicyChanged(when(NOON), "*", "1", UpdateMode.IN_PLACE, (ContainerPolicy("*", max_allowed=most),))
    updater, pods = Updater(UpdateSettings(), 0), [pod(f"p{number}", NOON) for number in range(20)]
    apply = ControlChanged(when(NOON), "demo", Mode.APPLY)
    updater.step(turn(NOON, policies=[policy], control=[apply], pod_changes_by_cluster=pods))
    huge = Amounts(Cores(9_000.0), Bytes(1 << 50))
    at = NOON + 10 * MINUTE
    key = f"recommender/0/{at}/requests/{API.key}"
    forged = RequestsRecommended(key, when(at), API, (ContainerRecommendation("app", huge, huge, huge, huge),), {})
    plans = [each.event for each in updater.step(turn(at, recommendations_by_cluster=[forged]))]
    resizes = [plan for plan in plans if isinstance(plan, ResizePlanned)]
    assert [plan.requests for plan in resizes] == [{"app": most}] * 2, "a tenth of 20 pods"


def test_load_forecasts_what_an_hpa_reads_is_the_forged_load_until_it_expires() -> None:
    forged = forecast("web", 1e6)
    served = ServedMetrics(CLUSTER, {forged.key: forged}.get)
    served.apply(ehpa())
    asked = ("crane_autoscaling_prediction", NAMESPACE, selector())
    assert served.answer(*asked, AT.timestamp()) == 10**9
    assert "is outdated" in str(served.answer(*asked, AT.timestamp() + 3601))


def test_metrics_and_kills_raise_a_recommendation_within_the_maximum_of_the_policy() -> None:
    most = Amounts(Cores(0.3), Bytes(600 * MIB))
    policy = VerticalPolicyChanged(when(NOON), "*", "1", containers=(ContainerPolicy("*", max_allowed=most),))
    recommender = Recommender(VerticalSettings(), 0)
    recommender.step(turn(NOON, policies=[policy], pod_changes=[pod("a", NOON)]))
    said = []
    for minute in range(1, 30):
        at = NOON + minute * MINUTE
        forged = scrape(at, [(API.key, "a", "app", 1e5, 1e15)])
        kill = ContainerOOMKilled(when(at), API, pod("a", NOON).pod, "app", minute, Bytes(1 << 45), Bytes(1 << 45))
        said += recommender.step(turn(at, pod_metrics=[forged], oom_events=[kill]))
    targets = [each.event.containers[0].target for each in said if isinstance(each.event, RequestsRecommended)]
    assert set(targets) == {most}


def test_scheduling_changes_pods_that_nobody_made_grow_a_group_to_its_maximum_and_no_further() -> None:
    run = ScalerRun(group(most=10), shape(cpu=975))
    run.step(*(waiting_pod(f"m-{number}") for number in range(500)))
    run.run(4.0)
    assert run.grown == [("a", 0, 10)]


def test_pod_metrics_a_load_that_nobody_has_scales_an_ehpas_target_to_its_maximum_and_no_further() -> None:
    scene, facts = ForecasterScene(), (EHPA, history(MONDAY), *load_pods(MONDAY, 18), scale(MONDAY, 18))
    decided = scene.run(MONDAY, 60, *facts, load_scrape(MONDAY, 18, 1e5))
    plans = [each.event for each in decided if isinstance(each.event, ReplicasPlanned)]
    assert {plan.replicas for plan in plans} == {EHPA.max_replicas}


def test_vpa_conditions_a_forged_recommendation_becomes_the_status_of_its_vpa() -> None:
    with VpaServer() as server:
        server.make("web/api")
        scene = StatusScene(server.url)
        scene.tick()
        scene.say(vpa())
        forged = VpaConditionsDecided(
            id=f"conditions/0/{scene.now}/status/demo/web/api",
            at=when(scene.now),
            cluster="demo",
            namespace="web",
            name="api",
            uid="u1",
            generation=1,
            conditions=(DecidedCondition(ConditionType.PROVIDED, ConditionStatus.TRUE, when(scene.now)),),
            containers=(ContainerRecommendation("app", *[Amounts(Cores(64.0), Bytes(1 << 40))] * 4),),
            because={},
        )
        partition = scene.topics.partition_of("demo")
        scene.log.append([scene.codec.encode(forged, topic="vpa-conditions", key=forged.key, partition=partition, source="/m")])
        scene.consumer().alone.poll_once()
        [container] = server.status("web/api")["recommendation"]["containerRecommendations"]
    assert container["target"]["cpu"] == "64"
