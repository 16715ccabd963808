"""What somebody does to pods that run who may write one topic, or edit one namespace, and no more (docs/security.md)."""

from datetime import timedelta

from agents.commands.change import revert
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater import Updater
from schemas.catalogue import Event
from schemas.decision_subjects import Subject
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import ControllingOwner, ReplicaControllerChanged
from schemas.names import Amounts, PodName
from schemas.outcomes import Action, ActionFinished, AdmittedAmounts, ChangedContainer, Result
from schemas.policies.control import ControlChanged, Mode, RevertRequested
from schemas.policies.vertical import UPSTREAM_PROFILE, ContainerPolicy, GuardOverrides, UpdateMode, VerticalPolicyChanged
from schemas.units import Bytes, Cores, Fraction
from tests.support.cluster_events import API, MINUTE, START, pod, turn, when
from tests.support.recent_log import log_at, put

MIB = 1 << 20
LATER = START + 120 * MINUTE
TINY, TWICE = Amounts(Cores(0.001), Bytes(4 * MIB)), Amounts(Cores(0.002), Bytes(8 * MIB))


def updater_of(policy: VerticalPolicyChanged, *facts: Event) -> Updater:
    """It has seen twenty pods of API in mode apply."""
    updater = Updater(UpdateSettings(), 0)
    wanted = ReplicaControllerChanged(when(START), "demo", "web", "ReplicaSet", "api", 20, ControllingOwner("Deployment", "api"))
    pods = [pod(f"p{number}", START, controller="ReplicaSet/api") for number in range(20)]
    apply = ControlChanged(when(START), "demo", Mode.APPLY)
    updater.step(turn(START, policies=[policy], control=[apply], pod_changes_by_cluster=[wanted, *pods, *facts]))
    return updater


def planned(updater: Updater, at: int, **inputs: list[Event]) -> list[ResizePlanned | EvictionPlanned]:
    """What a turn plans in which nine cores are recommended for API."""
    amounts, key = Amounts(Cores(9.0), Bytes(1024 * MIB)), f"recommender/0/{at}/requests/{API.key}"
    advice = RequestsRecommended(key, when(at), API, (ContainerRecommendation("app", *[amounts] * 4),), {})
    seen = SourceReported(when(at), "demo", "kube", ("pod-changes",))
    decided = updater.step(turn(at, recommendations_by_cluster=[advice], cluster_changes=[seen], **inputs))
    return [each.event for each in decided if isinstance(each.event, ResizePlanned | EvictionPlanned)]


def test_outcomes_false_failures_of_resizes_make_evictions_within_the_budget() -> None:
    """Where a resize fails on its node, the mode InPlaceOrRecreate has the pod evicted."""
    updater = updater_of(VerticalPolicyChanged(when(START), "*", "1", UpdateMode.IN_PLACE_OR_RECREATE, (ContainerPolicy("*"),)))
    resizes = planned(updater, LATER)
    assert [type(plan) for plan in resizes] == [ResizePlanned] * 20
    forged: list[Event] = [
        ActionFinished(f"m{number}", plan.at, plan.id, Action.RESIZE, Result.FAILED, "so", plan.subject)
        for number, plan in enumerate(resizes)
    ]
    assert planned(updater, LATER + MINUTE, outcomes=forged) == []
    assert [type(plan) for plan in planned(updater, LATER + 20 * MINUTE)] == [EvictionPlanned] * 2, "a tenth of 20 pods"


def test_outcomes_a_false_admission_is_what_a_revert_puts_back() -> None:
    at = when(LATER)
    context = log_at(at, "demo")
    admitted = AdmittedAmounts("o", "ReplicaSet/api", (ChangedContainer("app", TINY, TWICE, TINY, TWICE),))
    subject = Subject.of_pod(API, PodName("web", "m", "m"))
    put(context, "outcomes", ActionFinished("m", at, "m", Action.PATCH, Result.DONE, "so", subject, admitted=admitted))
    [owners] = revert.owners_amounts_since(context, "demo", at - timedelta(hours=1))
    assert (owners.workload, owners.requests, owners.limits) == (API, {"app": TINY}, {"app": TWICE})


def test_rules_a_false_revert_resizes_beyond_the_bounds_of_the_policy_and_within_the_budget() -> None:
    bounds = ContainerPolicy("*", Amounts(Cores(0.5), Bytes(512 * MIB)), Amounts(Cores(2.0), Bytes(2048 * MIB)))
    updater = updater_of(VerticalPolicyChanged(when(START), "*", "1", UpdateMode.IN_PLACE, (bounds,)))
    forged = RevertRequested(when(LATER), API, when(START), {"app": TINY}, {"app": TWICE}, "so")
    plans = [plan for plan in planned(updater, LATER, rules=[forged]) if isinstance(plan, ResizePlanned)]
    assert [plan.requests for plan in plans] == [{"app": TINY}] * 2, "a tenth of 20 pods"


def test_rules_a_false_policy_evicts_within_the_budget_pods_of_a_workload_that_the_true_one_left_alone() -> None:
    updater = updater_of(VerticalPolicyChanged(when(START), "demo/*", "1", UpdateMode.OFF, (ContainerPolicy("*"),)))
    assert planned(updater, LATER) == []
    guards = GuardOverrides(profile=UPSTREAM_PROFILE, eviction_tolerance=Fraction(1.0))
    forged = VerticalPolicyChanged(when(LATER), API.key, "1", UpdateMode.RECREATE, (ContainerPolicy("*"),), guards)
    plans = planned(updater, LATER + 10 * MINUTE, rules=[forged])
    assert [type(plan) for plan in plans] == [EvictionPlanned] * 2, "a tenth of 20 pods"


def test_edit_workloads_whose_pods_never_come_hold_back_no_evictions_of_others() -> None:
    """A budget counts what is missing, so that nothing is evicted in an outage; a namespace counts up to its own budget."""
    policy = VerticalPolicyChanged(when(START), "demo/web/*", "1", UpdateMode.RECREATE, (ContainerPolicy("*"),))
    assert len(planned(updater_of(policy), LATER)) == 2
    owner = ControllingOwner("Deployment", "m")
    never = ReplicaControllerChanged(when(START), "demo", "mallory", "ReplicaSet", "m", 3, owner)
    assert len(planned(updater_of(policy, never), LATER)) == 1, "a tenth of 23 pods, of which one of the three counts"
