"""What the webhook answers from the log: under the control record, with an outcome, and without ever waiting."""

import json
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest
import structlog

from agents.logic.admission.vpa_manifest import AdmissionSettings
from agents.logic.updates import update_settings
from agents.logic.updates.update_settings import UpdateRules
from schemas.facts.update_facts import HpaTargetChanged, HpaTargetRemoved
from schemas.names import Amounts, Workload
from schemas.outcomes import Action, Result
from schemas.policies.control import Mode, StageRulesChanged
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitRangeRemoved, LimitType
from schemas.policies.scaling import MetricSpec
from schemas.policies.vertical import (
    BoostKind,
    ContainerPolicy,
    GuardOverrides,
    StartupBoost,
    UpdateMode,
    VerticalPolicyChanged,
    VerticalPolicyRemoved,
)
from schemas.policies.vpa import TargetRef, VpaRemoved
from schemas.units import Cores
from streams.clients.kube.controllers import ControllerKey
from streams.consumers.webhook import outcome_queue
from streams.consumers.webhook.admission import Admission
from streams.consumers.webhook.review_interface import UnknownOwner, itself
from streams.errors import LogUnavailable
from tests.support import admission_manifests
from tests.support.admission_scene import CLUSTER, NAMES, START, WEB, AdmissionScene

ASKED = {"cpu": "100m", "memory": "100Mi"}
GIVEN = {"cpu": "250m", "memory": "200Mi"}


@pytest.fixture
def scene() -> AdmissionScene:
    made = AdmissionScene()
    made.vpa()
    made.recommend()
    made.view.catch_up()
    return made


def test_a_new_pod_is_given_what_is_recommended_and_the_log_is_told(scene: AdmissionScene) -> None:
    assert scene.requests() == GIVEN
    (outcome,) = scene.finished()
    assert outcome.id == f"recommender/0/0/requests/{WEB.key}/patch/offer:u-1"
    assert (outcome.action, outcome.result, outcome.at) == (Action.PATCH, Result.OFFERED, START)
    assert (outcome.subject.workload, outcome.subject.namespace, outcome.subject.name) == (WEB.key, "default", "p")
    assert "container 'c': cpu request 250m (was 100m), memory request 200.0 MiB (was 100.0 MiB)" in outcome.reason


def test_the_outcome_names_the_record_that_it_follows_from(scene: AdmissionScene) -> None:
    scene.ask()
    scene.outcomes.flush()
    records = [r for p in range(2) for r in scene.log.poll({(scene.context().topics.wire("outcomes"), p): 0})]
    (cause,) = [value for name, value in records[0].headers if name == "cause"]
    assert cause == b'["ullage.recommendations.v1:%d:0"]' % NAMES.partition_of(WEB.key)


def test_a_reinvocation_is_an_empty_patch_and_no_second_outcome(scene: AdmissionScene) -> None:
    pod = scene.pod()
    once = admission_manifests.applied(pod, admission_manifests.operations({"response": scene.ask(pod)}))
    again = scene.ask(once)
    assert again == {"uid": "u-1", "allowed": True}
    assert len(scene.finished()) == 1


@pytest.mark.parametrize(
    ("mode", "paused", "why"),
    [
        (None, False, "shadow"),
        (Mode.SHADOW, False, "the mode of cluster 'demo' is shadow, not apply"),
        (Mode.PLAN, False, "the mode of cluster 'demo' is plan, not apply"),
        (Mode.APPLY, True, "cluster 'demo' is paused: an incident"),
    ],
)
def test_where_acting_is_not_allowed_the_pod_stays_and_the_outcome_says_what_would_have_been(
    mode: Mode | None, paused: bool, why: str
) -> None:
    scene = AdmissionScene(mode=None)
    if mode is not None:
        scene.control(mode, paused=paused, reason="an incident" if paused else "")
    scene.vpa()
    scene.recommend()
    scene.view.catch_up()
    assert scene.ask() == {"uid": "u-1", "allowed": True}
    (outcome,) = scene.finished()
    assert outcome.result is Result.REFUSED
    assert why in outcome.reason
    assert "cpu request 250m (was 100m)" in outcome.reason
    review, objection = scene.counted[0]
    assert review.status == "applied"
    assert objection is not None


def test_a_pause_holds_from_the_moment_that_it_is_read(scene: AdmissionScene) -> None:
    assert scene.requests() == GIVEN
    scene.control(Mode.APPLY, paused=True)
    scene.view.catch_up()
    assert scene.requests() == ASKED
    scene.control(Mode.APPLY)
    scene.view.catch_up()
    assert scene.requests() == GIVEN


def test_in_shadow_nothing_is_denied_nor_completed_either() -> None:
    scene = AdmissionScene(mode=Mode.SHADOW)
    scene.view.catch_up()
    for manifest in (admission_manifests.vpa(), admission_manifests.vpa(updatePolicy={"updateMode": "bad"})):
        assert scene.ask(manifest, resource="verticalpodautoscalers") == {"uid": "u-1", "allowed": True}
    assert scene.finished() == []


def test_in_apply_nonsense_is_denied_and_what_is_missing_is_added(scene: AdmissionScene) -> None:
    denied = scene.ask(admission_manifests.vpa(updatePolicy={"updateMode": "bad"}), resource="verticalpodautoscalers")
    assert (denied["allowed"], denied["status"]["code"]) == (False, 422)
    completed = scene.ask(admission_manifests.vpa(), resource="verticalpodautoscalers")
    (op,) = admission_manifests.operations({"response": completed})
    assert (op["path"], op["value"]) == ("/spec/updatePolicy", {"updateMode": "Recreate"})
    assert scene.finished() == []


def test_a_dry_run_is_answered_and_leaves_no_trace(scene: AdmissionScene) -> None:
    assert scene.requests(dryRun=True) == GIVEN
    assert scene.finished() == []


def test_before_the_view_has_caught_up_pods_are_let_through() -> None:
    scene = AdmissionScene()
    scene.vpa()
    scene.recommend()
    assert scene.view.reasons()
    assert scene.ask() == {"uid": "u-1", "allowed": True, "warnings": ["ullage: the view has not caught up with the log yet"]}
    scene.view.catch_up()
    assert not scene.view.reasons()
    assert scene.requests() == GIVEN


def test_while_the_log_is_away_answers_rest_on_what_was_read_and_the_age_grows(scene: AdmissionScene) -> None:
    scene.log.away = True
    scene.now = 90.0
    with pytest.raises(LogUnavailable):
        scene.view.catch_up()
    assert scene.requests() == GIVEN
    assert scene.view.age == 90.0
    with pytest.raises(LogUnavailable):
        scene.outcomes.flush()
    scene.log.away = False
    assert len(scene.finished()) == 1
    scene.tick(START + timedelta(minutes=1))
    scene.view.catch_up()
    assert scene.view.age == 0.0


def test_outcomes_that_the_log_does_not_take_are_bounded(scene: AdmissionScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome_queue, "MOST", 10)
    scene.log.away = True
    for n in range(25):
        owner = {"kind": "ReplicaSet", "name": f"web-{n}", "apiVersion": "apps/v1", "controller": True}
        scene.ask(scene.pod(ownerReferences=[owner]), uid=f"u-{n}")
    assert (len(scene.outcomes), scene.outcomes.dropped) == (10, 15)
    scene.log.away = False
    assert [outcome.id.rsplit("/", 1)[1] for outcome in scene.finished()] == [f"offer:u-{n}" for n in range(15, 25)]


def test_newer_recommendations_and_withdrawals_count_at_once(scene: AdmissionScene) -> None:
    scene.recommend(turn=1, cpu=0.5)
    scene.recommend(turn=0, cpu=0.9)  # a late repeat
    scene.view.catch_up()
    assert scene.requests() == {"cpu": "500m", "memory": "200Mi"}
    scene.log.append([scene.record(replace(scene.recommend(turn=2), id=f"recommender/0/3/requests/{WEB.key}", containers=()))])
    scene.view.catch_up()
    ops = admission_manifests.operations({"response": scene.ask()})
    assert [op["path"] for op in ops] == ["/metadata/annotations", "/metadata/annotations/vpaObservedContainers"]


def test_a_new_view_reads_the_present_from_the_log(scene: AdmissionScene) -> None:
    scene.vpa("gone")
    scene.policy(VpaRemoved(START, CLUSTER, "default", "gone"), f"{CLUSTER}/default/gone")
    view = scene.new_view()
    assert view.catch_up() > 0
    scene.admission = Admission(view, scene.outcomes)
    assert scene.requests() == GIVEN


def test_a_new_view_gives_nothing_that_was_withdrawn_long_before_the_newest_recommendation(scene: AdmissionScene) -> None:
    """With long heartbeats a view reads days of recommendations, the newest first."""
    others = (replace(WEB, name=f"other-{n}") for n in range(100))
    ended, other = [each for each in others if NAMES.partition_of(each.key) == NAMES.partition_of(WEB.key)][:2]
    scene.recommend(turn=1)
    scene.recommend(turn=30, workload=ended)
    scene.recommend(turn=60, names=())
    scene.recommend(turn=32 * 60, workload=other)
    view = scene.new_view(heartbeat=12 * 3600.0)
    view.catch_up()
    scene.admission = Admission(view, scene.outcomes)
    ops = admission_manifests.operations({"response": scene.ask()})
    assert [op["path"] for op in ops] == ["/metadata/annotations", "/metadata/annotations/vpaObservedContainers"]


def test_a_vpa_that_is_removed_switched_off_or_served_by_another_leaves_pods_alone(scene: AdmissionScene) -> None:
    for changed in ({"update_mode": UpdateMode.OFF}, {"recommenders": ("other",)}, {"target_ref": TargetRef("Deployment", "x")}):
        scene.vpa(**changed)
        scene.view.catch_up()
        assert scene.requests() == ASKED
    scene.vpa()
    scene.view.catch_up()
    assert scene.requests() == GIVEN
    scene.policy(VpaRemoved(START, CLUSTER, "default", "web"), f"{CLUSTER}/default/web")
    scene.view.catch_up()
    assert scene.requests() == ASKED


def test_a_policy_of_our_own_governs_where_no_vpa_does() -> None:
    scene = AdmissionScene()
    most = ContainerPolicy("*", max_allowed=Amounts(Cores(0.2), None))
    scene.policy(VerticalPolicyChanged(START, f"{CLUSTER}/default/*", "1", containers=(most,)), "p")
    scene.recommend()
    scene.view.catch_up()
    pod = scene.pod()
    done = admission_manifests.applied(pod, admission_manifests.operations({"response": scene.ask(pod)}))
    assert done["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "200m", "memory": "200Mi"}
    assert "demo/default/*" in done["metadata"]["annotations"]["vpaUpdates"]
    scene.vpa(update_mode=UpdateMode.OFF)
    scene.view.catch_up()
    assert scene.requests() == ASKED
    scene.policy(VpaRemoved(START, CLUSTER, "default", "web"), f"{CLUSTER}/default/web")
    scene.policy(VerticalPolicyRemoved(START, f"{CLUSTER}/default/*"), "p")
    scene.view.catch_up()
    assert scene.requests() == ASKED


def test_limit_ranges_of_the_pods_namespace_bound_it(scene: AdmissionScene) -> None:
    limits = (Limit(LimitType.CONTAINER, most=Amounts(Cores(0.15), None)),)
    pod = admission_manifests.pod(admission_manifests.container("c", {"cpu": "100m"}, {"cpu": "100m"}))
    for namespace, cpu in (("other", "250m"), ("default", "150m")):
        event = LimitRangeChanged(START, CLUSTER, namespace, "lr", limits)
        scene.policy(event, event.key)
        scene.view.catch_up()
        assert scene.requests(pod)["cpu"] == cpu
    gone = LimitRangeRemoved(START, CLUSTER, "default", "lr")
    scene.policy(gone, gone.key)
    scene.view.catch_up()
    assert scene.requests(pod)["cpu"] == "250m"


def test_another_clusters_objects_do_not_count() -> None:
    scene = AdmissionScene()
    scene.vpa(cluster="other")
    scene.recommend(workload=Workload("other", "default", "Deployment", "web"))
    scene.view.catch_up()
    assert scene.requests() == ASKED


def test_owners_are_asked_for_only_where_a_policy_could_govern(scene: AdmissionScene) -> None:
    asked: list[ControllerKey] = []

    def ask(owner: ControllerKey) -> UnknownOwner:
        asked.append(owner)
        return UnknownOwner("the API server is away")

    for namespace in ("default", "elsewhere"):
        review = admission_manifests.review(scene.pod(namespace=namespace), namespace=namespace)
        found = scene.admission.judge(json.dumps(review).encode(), ask)
        assert found.plain
    assert [owner.namespace for owner in asked] == ["default"]
    assert asked[0] == ControllerKey("default", "ReplicaSet", "web-1", "apps/v1")


def test_an_unknown_owner_is_a_reason_to_leave_the_pod_alone(scene: AdmissionScene) -> None:
    review = scene.admission.judge(
        json.dumps(admission_manifests.review(scene.pod())).encode(), lambda _: UnknownOwner("nobody answered")
    )
    assert (review.plain, review.status) == (True, "error")
    (warning,) = json.loads(scene.admission.conclude(review))["response"]["warnings"]
    assert warning == (
        "ullage: the pod is left as it is: the topmost controller above ReplicaSet 'web-1' is not known: nobody answered"
    )


def test_thousands_that_are_let_through_make_one_line_a_second(scene: AdmissionScene) -> None:
    with structlog.testing.capture_logs() as lines:
        for now in (0.0, 0.1, 0.9, 1.0):
            scene.now = now
            scene.admission.answer(b"rubbish")
    assert [(line["event"], line["others"]) for line in lines] == [
        ("an object was let through as it is", 0),
        ("an object was let through as it is", 2),
    ]


def test_a_thousand_containers_make_no_endless_outcome(scene: AdmissionScene) -> None:
    names = [f"c{n}" for n in range(1000)]
    scene.recommend(turn=1, names=names)
    scene.view.catch_up()
    scene.ask(admission_manifests.pod(*(admission_manifests.container(name, {"cpu": "1m"}) for name in names)))
    (outcome,) = scene.finished()
    assert outcome.admitted is not None
    assert len(outcome.admitted.containers) == 1000
    assert len(outcome.reason) < 2100
    assert "and 980 containers more" in outcome.reason


RUBBISH = [b"", b"null", b"[]", b'{"request": 7}', b"\xff\xfe", b"[" * 100_000, b'{"request": {"uid": "x-9"']


@pytest.mark.parametrize("body", RUBBISH)
def test_whatever_arrives_is_let_through(scene: AdmissionScene, body: bytes) -> None:
    answer = json.loads(scene.admission.answer(body, itself))
    assert answer["response"]["allowed"] is True
    assert answer["response"]["uid"] == ("x-9" if b"x-9" in body else "")


def test_a_resource_that_an_hpa_scales_by_is_left_as_the_template_has_it_and_the_outcome_says_so() -> None:
    scene = AdmissionScene()
    scene.vpa()
    scene.recommend(cpu=0.25)
    hpa = HpaTargetChanged(START, CLUSTER, "default", "web", "Deployment", "web", ("cpu",))
    scene.policy(hpa, hpa.key)
    scene.view.catch_up()
    assert scene.requests() == {"cpu": "100m", "memory": "200Mi"}
    [outcome] = scene.finished()
    assert outcome.reason.endswith("; cpu is left to a HorizontalPodAutoscaler")
    gone = HpaTargetRemoved(START, CLUSTER, "default", "web")
    scene.policy(gone, gone.key)
    scene.view.catch_up()
    assert scene.requests() == {"cpu": "250m", "memory": "200Mi"}


def test_what_an_ehpa_scales_by_is_left_as_the_template_has_it() -> None:
    scene = AdmissionScene()
    scene.vpa()
    scene.recommend(cpu=0.25)
    ehpa = EhpaChanged(
        START, CLUSTER, "default", "web", START, TargetRef("Deployment", "web"), metrics=(MetricSpec("Resource", "memory"),)
    )
    scene.policy(ehpa, ehpa.key)
    scene.view.catch_up()
    assert scene.requests() == {"cpu": "250m", "memory": "100Mi"}
    scene.policy(EhpaRemoved(START, CLUSTER, "default", "web"), ehpa.key)
    scene.view.catch_up()
    assert scene.requests() == GIVEN


@pytest.mark.parametrize("guards", [{"honor_hpas": False}, {"profile": "upstream"}])
def test_a_policy_may_have_resources_changed_that_an_hpa_scales_by(guards: dict[str, Any]) -> None:
    scene = AdmissionScene()
    scene.policy(VerticalPolicyChanged(START, f"{CLUSTER}/*", "1", guards=GuardOverrides(**guards)), f"{CLUSTER}/*")
    scene.recommend(cpu=0.25)
    hpa = HpaTargetChanged(START, CLUSTER, "default", "web", "Deployment", "web", ("cpu",))
    scene.policy(hpa, hpa.key)
    scene.view.catch_up()
    assert scene.requests()["cpu"] == "250m"


@pytest.mark.parametrize("own", [{"honor_hpas": False}, {"profile": "upstream"}])
def test_the_setting_may_have_all_hpas_passed_over(own: dict[str, Any]) -> None:
    scene = AdmissionScene(own=UpdateRules(**own))
    scene.vpa()
    scene.recommend(cpu=0.25)
    hpa = HpaTargetChanged(START, CLUSTER, "default", "web", "Deployment", "web", ("cpu",))
    scene.policy(hpa, hpa.key)
    scene.view.catch_up()
    assert scene.requests()["cpu"] == "250m"


@pytest.mark.parametrize("rules", [{"honor_hpas": False}, {"profile": "upstream"}])
def test_the_rules_of_the_log_win_over_the_settings_of_the_webhook_as_with_the_updater(rules: dict[str, Any]) -> None:
    scene = AdmissionScene()
    scene.vpa()
    scene.recommend(cpu=0.25)
    hpa = HpaTargetChanged(START, CLUSTER, "default", "web", "Deployment", "web", ("cpu",))
    scene.policy(hpa, hpa.key)
    scene.view.catch_up()
    assert scene.requests()["cpu"] == "100m"
    for settings, cpu in ((rules, "250m"), ({}, "100m")):
        event = StageRulesChanged(START, "updater", update_settings.PROGRAM, {**asdict(UpdateRules()), **settings}, "v")
        scene.policy(event, event.key)
        scene.view.catch_up()
        assert scene.requests()["cpu"] == cpu


def test_the_webhook_serves_the_vpas_of_the_recommender_that_the_log_names() -> None:
    scene = AdmissionScene()
    scene.vpa(recommenders=("ours",))
    scene.recommend(cpu=0.25)
    scene.view.catch_up()
    assert scene.requests() == ASKED
    event = StageRulesChanged(START, "updater", update_settings.PROGRAM, {**asdict(UpdateRules()), "recommender": "ours"}, "v")
    scene.policy(event, event.key)
    scene.view.catch_up()
    assert scene.requests() == GIVEN


def test_the_pods_annotation_says_what_is_left_to_an_hpa() -> None:
    scene = AdmissionScene()
    scene.vpa()
    scene.recommend(cpu=0.25)
    hpa = HpaTargetChanged(START, CLUSTER, "default", "web", "Deployment", "web", ("cpu",))
    scene.policy(hpa, hpa.key)
    scene.view.catch_up()
    pod = scene.pod()
    done = admission_manifests.applied(pod, admission_manifests.operations({"response": scene.ask(pod)}))
    updates = done["metadata"]["annotations"]["vpaUpdates"]
    assert updates == "Pod resources updated by web: container 0: memory request, cpu left to a HorizontalPodAutoscaler"
    assert scene.ask(done) == {"uid": "u-1", "allowed": True}


def test_a_boost_of_cpu_that_an_hpa_scales_by_starts_from_the_template() -> None:
    scene = AdmissionScene(AdmissionSettings(cpu_startup_boost=True))
    scene.vpa(boost=StartupBoost(BoostKind.FACTOR, factor=3.0))
    scene.recommend(cpu=0.25)
    hpa = HpaTargetChanged(START, CLUSTER, "default", "web", "Deployment", "web", ("cpu",))
    scene.policy(hpa, hpa.key)
    scene.view.catch_up()
    assert scene.requests()["cpu"] == "300m"  # three times the template's 100m


def test_a_policy_may_leave_new_pods_as_they_are() -> None:
    scene = AdmissionScene()
    everything = f"{CLUSTER}/*"
    scene.policy(VerticalPolicyChanged(START, everything, "1", UpdateMode.IN_PLACE, patch_new_pods=False), everything)
    scene.recommend()
    scene.view.catch_up()
    assert "patch" not in scene.ask()
    scene.policy(VerticalPolicyChanged(START, everything, "2", UpdateMode.IN_PLACE), everything)
    scene.view.catch_up()
    assert scene.requests()["cpu"] == "250m"


def test_a_vpa_may_leave_new_pods_as_they_are_by_an_annotation() -> None:
    scene = AdmissionScene()
    scene.vpa(annotations={"ullage/patch-new-pods": "false"})
    scene.recommend()
    scene.view.catch_up()
    assert "patch" not in scene.ask()


def test_the_oldest_vpa_leaves_new_pods_to_no_younger_one() -> None:
    scene = AdmissionScene()
    scene.vpa(annotations={"ullage/patch-new-pods": "false"})
    scene.vpa("younger", created=START + timedelta(hours=1))
    scene.recommend()
    scene.view.catch_up()
    assert "patch" not in scene.ask()
    scene.vpa()
    scene.view.catch_up()
    assert scene.requests()["cpu"] == "250m"
