"""The judge of what was done to node groups: what is right passes, and each thing that must not happen is found."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from schemas.decisions.node_updates import NodeRemovalPlanned, RemovalReason, ScaleUpPlanned, SizeCorrectionPlanned
from schemas.names import PodName
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from schemas.units import Seconds
from tests.support.node_scene import group
from tests.torture.node_cloud import END, RAISE, AwsAct
from tests.torture.node_judge import NodeEvidence, judge

AT = datetime(2026, 1, 5, tzinfo=UTC)
POD = PodName("shop", "web-1", "uid-1")
GROW = ScaleUpPlanned("up", AT, AT + timedelta(minutes=5), "nodes", "a", 1, 3, 4, (), "least-waste", {})
GO = NodeRemovalPlanned(
    "down", AT, AT + timedelta(minutes=5), "nodes", "n1", "u", "aws:///z/i-1", "i-1", "a", RemovalReason.UNNEEDED,
    (POD,), (), Seconds(5.0), Seconds(60.0), {},
)  # fmt: skip


def done(plan: ScaleUpPlanned | NodeRemovalPlanned, result: Result = Result.DONE) -> ActionFinished:
    action = Action.SCALE_UP if isinstance(plan, ScaleUpPlanned) else Action.REMOVE_NODE
    return ActionFinished(f"{plan.id}/x", AT, plan.id, action, result, "because", plan.subject, OutcomeDetail.APPLIED)


def raised(to: int, wanted: int, at: float = 10.0) -> AwsAct:
    return AwsAct(at, RAISE, wanted, {"AutoScalingGroupName": "a", "DesiredCapacity": str(to)})


def ended(instance: str = "i-1", decrement: str = "true", at: float = 20.0) -> AwsAct:
    return AwsAct(at, END, 3, {"InstanceId": instance, "ShouldDecrementDesiredCapacity": decrement})


RIGHT = NodeEvidence(
    acts=[raised(3, 1), ended()],
    plans=[GROW, GO],
    outcomes=[done(GROW), done(GO)],
    groups={"a": ["i-2", "i-3"]},
    desired={"a": 2},
    ended=["i-1"],
    nodes={"n2": "i-2", "n3": "i-3"},
    marked=[],
    lost=[],
    least_ready={"web": (2, 2)},
    pauses=[(30.0, 40.0)],
)


def test_what_is_right_passes_with_its_figures() -> None:
    figures, wrong = judge(RIGHT)
    assert wrong == []
    assert (figures["raises"], figures["terminations"], figures["drained"], figures["removals done"]) == (1, 1, 1, 1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"acts": [raised(3, 1), ended(), ended()]}, "instance i-1 was terminated 2 times"),
        (
            {"acts": [raised(3, 1), ended(), ended("i-9")], "ended": ["i-1", "i-9"]},
            "instance i-9 was terminated without a decision",
        ),
        ({"acts": [raised(3, 1), ended(decrement="false")]}, "its group started another one"),
        ({"acts": [raised(3, 1)]}, "instance i-1 is gone, and nobody terminated it"),
        ({"acts": [raised(3, 1), raised(2, 3), ended()]}, "group a was lowered from 3 to 2"),
        ({"acts": [raised(3, 1), raised(4, 3), ended()]}, "group a was let grow to 4, which nobody decided"),
        ({"acts": [ended()]}, "up is done, and group a never wanted 3"),
        ({"acts": [raised(3, 1)], "ended": [], "groups": {"a": ["i-1", "i-2"]}}, "down is done, and instance i-1 is still there"),
        ({"outcomes": [done(GROW)]}, "down has no outcome"),
        ({"outcomes": [done(GROW), done(GO), done(GO, Result.FAILED)]}, "down has several outcomes"),
        ({"outcomes": [done(GROW), done(GO), done(replace(GO, id="other"))]}, "an outcome names other, which nobody decided"),
        ({"marked": ["n2"]}, "node n2 is still marked"),
        ({"lost": ["shop/web-1 on n1"]}, "pod shop/web-1 on n1 was lost with its node"),
        ({"waiting": ["shop/job-1"]}, "pod shop/job-1 waits, though some group delivers nodes for it"),
        ({"nodes": {"n1": "i-1"}}, "node n1 has no instance any more"),
        ({"desired": {"a": 3}}, "group a wants 3 and has 2"),
        ({"least_ready": {"web": (1, 2)}}, "only 1 pods of web were ready at once"),
        ({"pauses": [(5.0, 40.0)]}, "2 acts under a pause"),
    ],
)
def test_what_must_not_happen_is_found(change: dict[str, Any], says: str) -> None:
    _, wrong = judge(replace(RIGHT, **change))
    assert any(says in one for one in wrong), wrong


SEEN = replace(group("a"), at=AT - timedelta(minutes=1))


@pytest.mark.parametrize(
    ("switch", "says"),
    [
        ({"suspended": ("Launch",)}, ["up concerns group a, of which the log says: Launch suspended"]),
        ({"suspended": ("Terminate",)}, ["down concerns group a, of which the log says: Terminate suspended"]),
        ({"refreshing": True}, ["down concerns group a, of which the log says: its instances are refreshed"]),
        (
            {"unscalable": "AWS is deleting it"},
            [f"{one} concerns group a, of which the log says: AWS is deleting it" for one in ("up", "down")],
        ),
        ({"suspended": ("AZRebalance",)}, []),
    ],
)
def test_a_plan_against_a_switch_of_its_group_is_found(switch: dict[str, Any], says: list[str]) -> None:
    told = replace(SEEN, **switch)
    assert judge(replace(RIGHT, told=[SEEN, told]))[1] == says
    assert judge(replace(RIGHT, told=[SEEN, replace(told, at=AT - timedelta(seconds=5))]))[1] == []
    assert judge(replace(RIGHT, told=[told, replace(SEEN, at=AT - timedelta(seconds=5))]))[1] == []


def test_an_instance_that_is_put_aside_is_not_to_end_and_one_of_a_deleted_group_may() -> None:
    assert judge(replace(RIGHT, ended=["i-1", "i-8"], deleted=["i-8"]))[1] == []
    aside = replace(ended(), held="it is Standby")
    assert judge(replace(RIGHT, acts=[raised(3, 1), aside]))[1] == ["instance i-1 was terminated although it is Standby"]


def test_an_act_that_was_under_way_when_the_pause_came_is_no_fault() -> None:
    assert judge(replace(RIGHT, pauses=[(9.5, 15.0)]))[1] == []
    assert judge(replace(RIGHT, pauses=[(18.5, 25.0)]))[1] == []


@pytest.mark.parametrize(
    ("to", "wrong"), [(3, []), (1, ["group a was lowered from 5 to 1", "group a was let grow to 1, which nobody decided"])]
)
def test_a_size_may_be_lowered_to_what_a_decision_found_and_no_further(to: int, wrong: list[str]) -> None:
    plan = SizeCorrectionPlanned("correct", AT, AT + timedelta(minutes=5), "nodes", "a", 5, 2, {})
    outcome = ActionFinished("correct/x", AT, plan.id, Action.CORRECT_SIZE, Result.DONE, "", plan.subject, OutcomeDetail.APPLIED)
    seen = replace(RIGHT, acts=[*RIGHT.acts, raised(to, 5)], plans=[*RIGHT.plans, plan], outcomes=[*RIGHT.outcomes, outcome])
    assert judge(seen)[1] == wrong
