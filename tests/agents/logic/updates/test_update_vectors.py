"""Which pods to update and in which order, against upstream's own."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agents.logic.admission import pod_spec, vpa_manifest
from agents.logic.resources import target_caps
from agents.logic.resources.limit_ranges import NONE
from agents.logic.updates import update_priority
from agents.logic.updates.update_priority import RecentOomKill, UpdatePriority, UpdateThresholds
from schemas.policies.vpa import ChangeRequirement, EvictionRequirement
from tests.support.vectors import close, vectors

Json = dict[str, Any]

ANNOTATION = "vpaObservedContainers"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def kills(pod: Json, now: datetime) -> list[RecentOomKill]:
    found = []
    for status in pod.get("status", {}).get("containerStatuses", []):
        ended = status.get("lastState", {}).get("terminated")
        if ended and ended["reason"] == "OOMKilled":
            started, finished = moment(ended["startedAt"]), moment(ended["finishedAt"])
            found.append(RecentOomKill(status["name"], finished - started, now - finished))
    return found


def requirements(vpa: Json) -> list[EvictionRequirement]:
    said = (vpa["spec"].get("updatePolicy") or {}).get("evictionRequirements") or []
    return [_requirement(each["resources"], each["changeRequirement"]) for each in said]


def _requirement(resources: list[str], change: str) -> EvictionRequirement:
    """One in a word that nobody knows is never met, as is one of no resource."""
    known = change in list(ChangeRequirement)
    return EvictionRequirement(
        tuple(resources) if known else (), ChangeRequirement(change) if known else ChangeRequirement.HIGHER
    )


def same(found: UpdatePriority, expected: Json) -> bool:
    words = (found.outside, found.scale_up) == (expected["outside_recommended_range"], expected["scale_up"])
    return words and close(found.difference, expected["resource_diff"])


@pytest.mark.parametrize("vector", vectors("updater_priority"))
def test_priorities_are_upstreams_with_annotations_too(vector: Json) -> None:
    inputs = vector["inputs"]
    pod, vpa = pod_spec.read(inputs["pod"]), vpa_manifest.read(inputs["vpa"])
    seen = update_priority.observed((pod.annotations or {}).get(ANNOTATION))
    assert same(update_priority.priority(pod.standing, vpa.advice or (), seen), vector["expected"]["priority"])


@pytest.mark.parametrize("vector", vectors("updater_calculator"))
def test_the_pods_to_update_and_their_order_are_upstreams(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    now, config, vpa = datetime.fromtimestamp(inputs["now"], UTC), inputs["config"], vpa_manifest.read(inputs["vpa"])
    quick = timedelta(seconds=config["evict_after_oom_s"])
    if inputs["feature_per_vpa_config"] and vpa.update and vpa.update.evict_after_oom is not None:
        quick = timedelta(seconds=vpa.update.evict_after_oom)
    thresholds = UpdateThresholds(config["pod_update_threshold"], timedelta(seconds=config["in_bounds_lifetime_s"]), quick)
    rules = [policy.rule for policy in vpa.policies or ()]
    chosen: list[tuple[tuple[bool, float], str]] = []
    for manifest in inputs["pods"]:
        pod = pod_spec.read(manifest)
        advice = target_caps.cap(vpa.advice or (), pod.standing, rules, NONE).advice
        seen = update_priority.observed((pod.annotations or {}).get(ANNOTATION))
        found = update_priority.priority(pod.standing, advice, seen)
        assert same(found, expected["priorities"][pod.name]), pod.name
        started = manifest.get("status", {}).get("startTime")

        def counts(name: str, seen: Any = seen) -> bool:
            policy = vpa.policy_of(name)
            return (seen is None or name in seen) and (policy is None or policy.mode != "Off")

        killed = update_priority.quick_kill(kills(manifest, now), quick, counts)
        age = None if started is None else now - moment(started)
        due = update_priority.reasons(found, age=age, quick=killed, thresholds=thresholds)
        if due and (vpa.update is None or update_priority.admitted(pod.standing, advice, requirements(inputs["vpa"]))):
            chosen.append((found.rank, pod.name))
    ranks = sorted({rank for rank, _ in chosen})
    groups = [sorted(name for rank, name in chosen if rank == each) for each in ranks]
    assert groups == [sorted(group) for group in expected["order_groups"]]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [(None, None), ("", frozenset()), ("a, b-1", frozenset({"a", "b-1"})), ("a,b", None), ("A", None), ("a" * 64, None)],
)
def test_what_admission_saw_is_read_or_ignored(annotation: str | None, expected: frozenset[str] | None) -> None:
    assert update_priority.observed(annotation) == expected


@pytest.mark.parametrize(("ran", "ago", "expected"), [(2, 9, True), (2, 10, False), (57, 1, False), (10, 1, False)])
def test_a_quick_kill_is_soon_after_the_start_and_not_long_ago(ran: int, ago: int, expected: bool) -> None:
    kill = RecentOomKill("c", timedelta(minutes=ran), timedelta(minutes=ago))
    assert update_priority.quick_kill([kill], timedelta(minutes=10), lambda _: True) is expected
    assert not update_priority.quick_kill([kill], timedelta(minutes=10), lambda _: False)


@pytest.mark.parametrize(
    ("found", "hours", "quick", "expected"),
    [
        (UpdatePriority(outside=False, difference=0.25), 13, False, False),
        (UpdatePriority(outside=False, difference=4.0), 13, False, True),
        (UpdatePriority(outside=True, difference=0.25), 13, False, True),
        (UpdatePriority(outside=False, difference=4.0), 11, False, False),
        (UpdatePriority(outside=True, difference=0.25), 11, False, True),
        (UpdatePriority(outside=False, difference=0.25), 11, True, True),
        (UpdatePriority(outside=False, difference=0.0), 13, True, False),
    ],
)
def test_a_pod_is_due_outside_its_bounds_or_old_and_far_or_killed(
    found: UpdatePriority, hours: int, quick: bool, expected: bool
) -> None:
    reasons = update_priority.reasons(found, age=timedelta(hours=hours), quick=quick, thresholds=UpdateThresholds(difference=0.5))
    assert bool(reasons) is expected
