"""What somebody makes happen who may write one topic and no other, for each topic that a consumer acts by (docs/security.md)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from agents.logic.replicas.served_metrics import ServedMetrics
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater import Updater
from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import VerticalSettings
from agents.run import pipeline, rules_in_log
from agents.settings.all_settings import Settings
from schemas.decisions.pod_updates import ResizePlanned
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.decisions.replica_plans import ReplicasPlanned
from schemas.decisions.vpa_conditions import ConditionStatus, ConditionType, DecidedCondition, VpaConditionsDecided
from schemas.facts.nodes import InstanceInterruptionNoticed, InterruptionKind, NodeChanged, NodeRemoved
from schemas.facts.replica_scaling import LoadScraped, series_id
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import ResourceQuotaChanged
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Amounts, Workload
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitType
from schemas.policies.vertical import ContainerPolicy, UpdateMode, VerticalPolicyChanged
from schemas.units import Bytes, Cores, Seconds
from streams import compacted_copy
from streams.consumers.evictor import evictor
from streams.consumers.executing import plan_evidence
from streams.consumers.resizer import resizer
from streams.consumers.webhook.admission import Admission
from streams.errors import BadInput
from tests.support.admission_scene import NAMES, AdmissionScene
from tests.support.asg_scene import NodeScene
from tests.support.attested_plans import with_attestations
from tests.support.aws_double import AwsDouble, aws, aws_server
from tests.support.cluster_events import API, MINUTE, pod, scrape, turn, when
from tests.support.cluster_events import START as NOON
from tests.support.consumer_scene import START, ConsumerScene, eviction_of, resize_of, scene_at_two
from tests.support.metrics_api_scene import AT, CLUSTER, NAMESPACE, ehpa, forecast, selector
from tests.support.node_scene import ScalerRun, group, joined, shape
from tests.support.node_scene import pod as waiting_pod
from tests.support.replica_scene import CART, EHPA, MONDAY, RATE, ForecasterScene, history, scale
from tests.support.replica_scene import pods as load_pods
from tests.support.replica_scene import scrape as load_scrape
from tests.support.status_scene import StatusScene, vpa
from tests.support.vpa_server import VpaServer

__all__ = ["aws", "aws_server"]

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


def test_node_group_changes_a_false_bound_is_planned_by_and_refused_where_aws_has_another(aws: AwsDouble) -> None:
    run = ScalerRun(group(most=3, desired=3), *(event for n in range(3) for event in joined(f"n{n}")), shape(cpu=975))
    run.step(group(most=1_000, desired=3))
    run.step(*(waiting_pod(f"m-{number}") for number in range(500)))
    run.run(4.0)
    assert run.grown == [("a", 3, 125)]
    scene = NodeScene(aws, desired=2)
    scene.grow(2, 125)
    scene.run()
    assert scene.ended() == [("refused", OutcomeDetail.AT_LIMIT)]
    assert aws.calls("SetDesiredCapacity") == []


def test_node_group_changes_false_notices_empty_all_nodes_that_they_name_at_once() -> None:
    """A cloud takes many at once, too, and no limit of ours keeps it from that; disruption budgets hold for the pods."""
    nodes = [f"n{number}" for number in range(20)]
    run = ScalerRun(group(desired=20, most=20), *(event for name in nodes for event in joined(name)), shape())
    run.step(*(waiting_pod(f"w-{name}", node=name) for name in nodes))
    run.run(2.0)
    assert run.removed == []
    notices = [InstanceInterruptionNoticed(when(NOON), "demo", name, InterruptionKind.SPOT, f"m-{name}") for name in nodes]
    run.step(*notices)
    run.run(2.0)
    assert sorted(run.removed) == sorted(nodes)


@pytest.mark.parametrize(("load", "replicas"), [(1e15, EHPA.max_replicas), (0.0, EHPA.min_replicas)])
def test_load_metrics_a_false_load_scales_to_a_bound_of_the_ehpa_and_no_further(load: float, replicas: int) -> None:
    query = "sum(rate)"
    annotations = {"metric-query.autoscaling.crane.io/pods.http_requests": query}
    policy = replace(EHPA, metrics=(RATE,), prediction=None, annotations=annotations)
    forged = LoadScraped(MONDAY, "prod", (CART.key,), (series_id("pods.http_requests", query),), (load,))
    decided = ForecasterScene().run(MONDAY, 600, policy, *load_pods(MONDAY, 18), scale(MONDAY, 18), forged)
    plans = [each.event.replicas for each in decided if isinstance(each.event, ReplicasPlanned)]
    assert plans[-1] == replicas


def test_cluster_changes_a_false_report_or_node_withholds_no_growth() -> None:
    run = ScalerRun(group(most=10), shape(cpu=975))
    run.step(*(SourceReported(when(NOON), "demo", name, (), Seconds(1e9)) for name in ("kube", "asg", "mallory")))
    run.step(*(waiting_pod(f"m-{number}") for number in range(50)))
    run.run(4.0)
    assert run.grown == [("a", 0, 10)]


def test_cluster_changes_a_false_report_of_a_blind_source_lets_turns_go_on_with_pods_that_nobody_sees() -> None:
    """What it plans of them is refused by the consumer, which looks."""
    policy = VerticalPolicyChanged(when(NOON), "*", "1", UpdateMode.IN_PLACE, (ContainerPolicy("*"),))
    amounts = Amounts(Cores(9.0), Bytes(1024 * MIB))

    def planned(*reports: SourceReported) -> bool:
        updater = Updater(UpdateSettings(), 0)
        apply = ControlChanged(when(NOON), "demo", Mode.APPLY)
        seen = SourceReported(when(NOON), "demo", "kube", ("pod-changes",))
        pods = [pod(f"p{number}", NOON) for number in range(20)]
        updater.step(turn(NOON, policies=[policy], control=[apply], pod_changes_by_cluster=pods, cluster_changes=[seen]))
        at = NOON + 120 * MINUTE
        key = f"recommender/0/{at}/requests/{API.key}"
        advice = RequestsRecommended(key, when(at), API, (ContainerRecommendation("app", *[amounts] * 4),), {})
        decided = updater.step(turn(at, recommendations_by_cluster=[advice], cluster_changes=list(reports)))
        return any(isinstance(each.event, ResizePlanned) for each in decided)

    assert not planned()
    assert planned(SourceReported(when(NOON + 120 * MINUTE), "demo", "mallory", ("pod-changes",)))


@pytest.mark.parametrize("refuted", [True, False], ids=["beside a source", "without one for six hours"])
def test_cluster_changes_false_nodes_lower_what_is_recommended_only_where_no_source_refutes_them(*, refuted: bool) -> None:
    least, tiny = Amounts(Cores(0.75), Bytes(700 * MIB)), Amounts(Cores(0.05), Bytes(64 * MIB))
    policy = VerticalPolicyChanged(when(NOON), "*", "1", UpdateMode.IN_PLACE, (ContainerPolicy("*", min_allowed=least),))
    pods = [pod(f"p{number}", NOON) for number in range(20)]
    true = [NodeChanged(when(NOON), "demo", name, Amounts(Cores(16.0), Bytes(65536 * MIB))) for name in ("n0", "n1")]
    recommender, updater = Recommender(VerticalSettings(), 0), Updater(UpdateSettings(), 0)
    recommender.step(turn(NOON, policies=[policy], pod_changes=pods, cluster_changes=true))
    apply = ControlChanged(when(NOON), "demo", Mode.APPLY)
    updater.step(turn(NOON, policies=[policy], pod_changes_by_cluster=pods))
    planned, recommended = [], set()
    for minutes in range(5, 24 * 60, 5):
        at = NOON + minutes * MINUTE
        facts = [NodeChanged(when(at), "demo", name, tiny) for name in ("n0", "mallory")] + [NodeRemoved(when(at), "demo", "n1")]
        if minutes % 180 == 0 and refuted:
            facts += true  # the source says each node again in three hours, and here the forger writes right before it
        if minutes == 200:
            facts.append(NodeChanged(when(at), "demo", "n0", Amounts(Cores(99.0), Bytes(1 << 40))))
        used = scrape(at, [(API.key, "p0", "app", 1.0, 1e9)])
        said = [each.event for each in recommender.step(turn(at, pod_metrics=[used], cluster_changes=facts))]
        advice = [event for event in said if isinstance(event, RequestsRecommended)]
        recommended |= {event.containers[0].target for event in advice}
        switch = [apply] if minutes == 12 * 60 else []
        seen = SourceReported(when(at), "demo", "kube", ("pod-changes",))
        decided = updater.step(turn(at, recommendations_by_cluster=advice, control=switch, cluster_changes=[seen]))
        planned += [each.event for each in decided]
    requests = {plan.requests["app"] for plan in planned if isinstance(plan, ResizePlanned) and plan.because["mode"] == "apply"}
    if refuted:
        assert min(target.cpu for target in [*recommended, *requests] if target.cpu) > 1.0
    else:
        assert tiny in recommended
        assert requests == {least}


MOST = ContainerPolicy("*", max_allowed=Amounts(Cores(0.01), None))
LEAST = Limit(LimitType.CONTAINER, least=Amounts(Cores(2.0), None))


@pytest.mark.parametrize(
    ("forged", "before", "after"),
    [
        (VerticalPolicyChanged(START, "demo/default/*", "1", containers=(MOST,)), "100m", "10m"),
        (LimitRangeChanged(START, "demo", "default", "m", (LEAST,)), "250m", "2"),
    ],
    ids=["rules-latest", "policies-latest"],
)
def test_copies_a_forged_policy_is_one_for_what_starts_later_and_for_nothing_that_is_at_work(
    request: pytest.FixtureRequest, forged: VerticalPolicyChanged | LimitRangeChanged, before: str, after: str
) -> None:
    scene, wire = AdmissionScene(), request.node.callspec.id
    if wire == "policies-latest":
        scene.vpa()
    scene.recommend()
    for copy in compacted_copy.COPIES:
        compacted_copy.complete(scene.log, NAMES, copy)
    scene.view.catch_up()
    scene.log.append([scene.codec.encode(forged, topic=wire, key="m", partition=NAMES.partition_of("m"), source="/m")])
    scene.view.catch_up()
    assert scene.requests()["cpu"] == before
    scene.view = scene.new_view()
    scene.view.catch_up()
    scene.admission = Admission(scene.view, scene.outcomes, scene, clock=lambda: 0.0)
    assert scene.requests()["cpu"] == after


def test_rules_latest_forged_rules_keep_a_worker_from_starting_and_change_none_that_is_at_work() -> None:
    context, stages = AdmissionScene().context(), pipeline.stages(Settings())
    rules_in_log.publish(context, stages, START)
    for copy in compacted_copy.COPIES:
        compacted_copy.complete(context.log, NAMES, copy)
    assert rules_in_log.agree(context, stages, START) == []
    ours = next(rules for stage in stages if (rules := rules_in_log.rules_of(stage, START + timedelta(hours=1))))
    forged = replace(ours, program=ours.program + 1)
    partition = NAMES.partition_of(forged.key)
    context.log.append([context.codec.encode(forged, topic="rules-latest", key=forged.key, partition=partition, source="/m")])
    with pytest.raises(BadInput, match="would decide otherwise"):
        rules_in_log.agree(context, stages, START)
