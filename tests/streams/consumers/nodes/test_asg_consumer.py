"""The asg consumer on moto's AWS: groups grow only as planned, and a node goes step by step or stays as it was."""

from dataclasses import replace
from datetime import timedelta

import pytest

from schemas.decisions.node_updates import RemovalReason, SoftTaintPlanned
from schemas.outcomes import OutcomeDetail, Result
from schemas.policies.control import Mode
from schemas.units import Seconds
from schemas.well_known_labels import ABANDONED, DELETION_CANDIDATE, TO_BE_DELETED
from streams.consumers.nodes import removal_marks
from streams.consumers.nodes.node_removal import HOOK, RemovalOptions
from tests.support.asg_scene import CLUSTER, Killed, NodeScene, pod
from tests.support.aws_double import AwsDouble, aws, aws_server

__all__ = ["aws", "aws_server"]


@pytest.fixture
def scene(aws: AwsDouble) -> NodeScene:
    """Two nodes; the first has two pods, one of a DaemonSet and one of the node's own."""
    made = NodeScene(aws)
    made.nodes.add("one", made.instances[0], pod("a"), pod("b", grace=Seconds(600.0)), pod("d", stays=True), pod("m", stays=True))
    made.nodes.add("two", made.instances[1], pod("z"))
    return made


def test_a_group_grows_to_what_was_planned_and_its_instances_are_protected(scene: NodeScene) -> None:
    scene.grow(2, 4)
    scene.run()
    assert scene.ended() == [("done", OutcomeDetail.APPLIED)]
    assert (scene.aws.desired("pool"), len(scene.aws.instances("pool"))) == (4, 4)
    group = scene.aws.client().group("pool")
    assert group is not None
    assert {one.id for one in group.instances if one.protected} == set(scene.instances)


@pytest.mark.parametrize(
    ("before", "after", "ended"),
    [
        (1, 2, ("done", OutcomeDetail.ALREADY_DONE)),
        (1, 3, ("refused", OutcomeDetail.MOVED)),
        (3, 4, ("refused", OutcomeDetail.MOVED)),
        (2, 11, ("refused", OutcomeDetail.AT_LIMIT)),
    ],
)
def test_a_group_that_is_not_as_the_plan_expected_is_left_alone(
    scene: NodeScene, before: int, after: int, ended: tuple[str, OutcomeDetail]
) -> None:
    scene.grow(before, after)
    scene.run()
    assert scene.ended() == [ended]
    assert scene.aws.calls("SetDesiredCapacity") == []
    assert scene.aws.desired("pool") == 2


def test_a_size_that_aws_accepts_and_does_not_show_is_not_done(scene: NodeScene) -> None:
    scene.aws.answer("SetDesiredCapacity", "<SetDesiredCapacityResponse/>")
    scene.grow(2, 4)
    scene.run(rounds=3)
    assert scene.ended() == []
    scene.run(rounds=10, seconds=120.0)
    [outcome] = scene.outcomes()
    assert (outcome.result, outcome.reason) == (Result.EXPIRED, "it was accepted; group 'pool' wants 2 nodes")
    assert len(scene.aws.calls("SetDesiredCapacity")) == 1


NO_CAPACITY = "We currently do not have sufficient m5.large capacity. Launching EC2 instance failed."


def polls(scene: NodeScene) -> None:
    for _ in range(6):
        scene.consumer.poll_once()
        scene.tick(1.5)


def test_a_size_that_aws_does_not_deliver_is_given_up_and_every_instance_stays(scene: NodeScene) -> None:
    """The instances are protected first, so if AWS delivers one at that moment it is that one that goes, and none with pods."""
    scene.aws.lack_capacity("pool", NO_CAPACITY)
    scene.grow(2, 6)
    scene.run()
    scene.correct(6, 2)
    polls(scene)
    assert scene.ended()[-1] == ("done", OutcomeDetail.APPLIED)
    assert (scene.aws.desired("pool"), scene.aws.instances("pool")) == (2, scene.instances)
    group = scene.aws.client().group("pool")
    assert group is not None
    assert all(one.protected for one in group.instances)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(2, 1, id="the log knew of fewer than there are"),
        pytest.param(2, 0, id="never below what runs"),
        pytest.param(5, 2, id="somebody has lowered it"),
    ],
)
def test_no_size_is_lowered_below_the_instances_that_exist(aws: AwsDouble, before: int, after: int) -> None:
    scene = NodeScene(aws)
    scene.correct(before, after)
    scene.run()
    assert (scene.ended(), scene.aws.desired("pool")) == ([("done", OutcomeDetail.ALREADY_DONE)], 2)
    assert scene.aws.calls("SetDesiredCapacity") == []
    assert scene.aws.instances("pool") == scene.instances


def test_a_size_that_others_changed_is_left_alone_and_a_minimum_is_kept(aws: AwsDouble) -> None:
    scene = NodeScene(aws, least=0)
    scene.aws.lack_capacity("pool", NO_CAPACITY)
    scene.grow(2, 6)
    scene.run()
    scene.correct(5, 2)
    polls(scene)
    assert scene.ended()[-1] == ("refused", OutcomeDetail.MOVED)
    assert scene.aws.desired("pool") == 6


def test_a_group_is_never_lowered_by_our_client_below_what_it_has(scene: NodeScene) -> None:
    client = scene.aws.client()
    group = client.group("pool")
    assert group is not None
    for to in (1, 2, 3):
        with pytest.raises(ValueError, match="wants 2 nodes and has 2"):
            client.give_up_missing(group, to)


def test_throttling_and_a_lost_answer_are_tried_again_and_the_group_grows_once(scene: NodeScene) -> None:
    scene.aws.refuse("SetDesiredCapacity", "Throttling", "Rate exceeded", times=3)
    scene.grow(2, 3)
    scene.run(rounds=2)
    assert scene.ended() == []
    scene.run()
    assert scene.ended() == [("done", OutcomeDetail.APPLIED)]
    assert [call["DesiredCapacity"] for call in scene.aws.calls("SetDesiredCapacity")] == ["3"]


def test_a_missing_right_ends_it_and_is_named(scene: NodeScene) -> None:
    scene.aws.refuse("SetDesiredCapacity", "AccessDenied", "not yours", status=403)
    scene.grow(2, 3)
    scene.run()
    (outcome,) = scene.outcomes()
    assert outcome.detail is OutcomeDetail.FORBIDDEN
    assert "the IAM right 'autoscaling:SetDesiredCapacity' on 'pool' is missing" in outcome.reason


def test_a_node_is_marked_drained_and_then_exactly_its_instance_is_terminated(scene: NodeScene) -> None:
    first, second = scene.instances
    daemon = pod("d", stays=True)
    scene.remove("one", evict=[pod("a"), pod("b")], daemons=[daemon], grace=60.0)
    scene.consumer.poll_once()
    node = scene.nodes.nodes["one"]
    assert node.unschedulable
    since = str(int(scene.at.timestamp()))
    assert {"key": "ToBeDeletedByClusterAutoscaler", "value": since, "effect": "NoSchedule"} in node.taints
    assert scene.nodes.evictions == []
    scene.run()
    assert scene.ended() == [("done", OutcomeDetail.APPLIED)]
    assert sorted(scene.nodes.evictions) == [("a", 30.0), ("b", 60.0), ("d", 30.0)]
    assert (scene.terminated(), scene.aws.instances("pool"), scene.aws.desired("pool")) == ([first], [second], 1)
    assert scene.aws.running(second)
    assert not scene.marked("two")


def test_two_nodes_go_at_the_same_time(scene: NodeScene) -> None:
    scene.remove("one", identifier="x", evict=[pod("a"), pod("b")])
    scene.remove("two", identifier="y", evict=[pod("z")])
    scene.consumer.poll_once()
    assert scene.marked("one")
    assert scene.marked("two")
    for _ in range(20):
        scene.consumer.poll_once()
        scene.nodes.finish()
        scene.tick(1.5)
    assert scene.ended() == [("done", OutcomeDetail.APPLIED)] * 2
    assert (sorted(scene.terminated()), scene.aws.desired("pool")) == (sorted(scene.instances), 0)


def test_an_instance_that_never_became_a_node_is_terminated(scene: NodeScene) -> None:
    del scene.nodes.nodes["two"]
    scene.remove("", instance=scene.instances[1])
    scene.run()
    assert scene.ended() == [("done", OutcomeDetail.APPLIED)]
    assert scene.terminated() == [scene.instances[1]]


def test_a_pod_that_the_plan_does_not_know_of_keeps_its_node(scene: NodeScene) -> None:
    scene.remove("one", evict=[pod("a"), pod("b")])
    scene.consumer.poll_once()
    assert scene.marked("one")
    scene.nodes.held["one"].append(pod("new"))
    scene.run()
    (outcome,) = scene.outcomes()
    assert (outcome.result.value, outcome.detail) == ("refused", OutcomeDetail.MOVED)
    assert "pod 'shop/new', which the plan does not know of" in outcome.reason
    assert not scene.marked("one")
    assert scene.nodes.evictions == scene.terminated() == []


def test_a_disruption_budget_holds_to_the_end_and_then_the_node_stays(scene: NodeScene) -> None:
    scene.nodes.protected = {"b"}
    scene.remove("one", evict=[pod("a"), pod("b")], drain=20.0)
    scene.run()
    (outcome,) = scene.outcomes()
    assert (outcome.result.value, outcome.detail) == ("failed", OutcomeDetail.BUDGET)
    assert "'shop/b'" in outcome.reason
    assert not scene.marked("one")
    assert scene.terminated() == []


def test_a_pod_that_is_never_gone_keeps_its_node(scene: NodeScene) -> None:
    scene.nodes.stubborn = {"a"}
    scene.remove("one", evict=[pod("a"), pod("b")], drain=10.0, grace=20.0)
    scene.run(rounds=80)
    (outcome,) = scene.outcomes()
    assert (outcome.result.value, outcome.detail) == ("failed", OutcomeDetail.NONE)
    assert not scene.marked("one")
    assert scene.terminated() == []


def test_a_hook_holds_the_node_up_until_it_goes_or_its_time_is_over(scene: NodeScene) -> None:
    node = scene.nodes.nodes["two"]
    scene.nodes.nodes["two"] = replace(node, annotations={f"{HOOK}backup": "true"})
    scene.remove("two", evict=[pod("z")])
    scene.run(rounds=30)
    assert (scene.terminated(), scene.marked("two")) == ([], True)
    scene.run(rounds=100)
    assert scene.terminated() == [scene.instances[1]]


def test_a_pause_takes_the_marks_back_and_says_so(scene: NodeScene) -> None:
    scene.nodes.protected = {"a"}
    scene.remove("one", evict=[pod("a"), pod("b")])
    scene.run(rounds=6)
    assert scene.marked("one")
    scene.control(Mode.APPLY, paused=True)
    scene.run(rounds=8)
    assert scene.ended() == [("refused", OutcomeDetail.NOT_ALLOWED)]
    assert not scene.marked("one")


@pytest.mark.parametrize("what", ["all", "the taints", "the label", "the label and the taints"])
def test_a_node_whose_marks_somebody_takes_off_stays_and_is_marked_once(scene: NodeScene, what: str) -> None:
    """They were put on again each second until the plan expired."""
    before = scene.nodes.nodes["one"]
    scene.nodes.protected = {"a"}
    scene.remove("one", evict=[pod("a"), pod("b")], drain=10.0)
    marked = 0
    for _ in range(60):
        scene.run(rounds=1)
        node = scene.nodes.nodes["one"]
        whole = removal_marks.MARK in node.labels and len(node.taints) > len(before.taints)
        marked += whole
        if whole and what == "all":
            scene.nodes.nodes["one"] = replace(before, version=node.version)
        elif whole:
            labels = node.labels if what == "the taints" else before.labels
            taints = node.taints if what == "the label" else before.taints
            scene.nodes.nodes["one"] = replace(node, labels=labels, taints=taints)
    assert marked == 1
    # Taints alone keep pods away, so that the drain goes on.
    assert scene.ended() == [("failed", OutcomeDetail.BUDGET) if what == "the label" else ("refused", OutcomeDetail.MOVED)]
    after = scene.nodes.nodes["one"]
    assert replace(after, version=before.version) == before


def test_in_shadow_nothing_is_touched(scene: NodeScene) -> None:
    scene.control(Mode.SHADOW)
    scene.grow(2, 3)
    scene.remove("one", evict=[pod("a"), pod("b")])
    scene.consumer.poll_once()
    assert scene.ended() == [("refused", OutcomeDetail.NOT_ALLOWED)] * 2
    assert (scene.marked("one"), scene.aws.desired("pool")) == (False, 2)


def test_a_plan_that_expires_takes_the_marks_back_even_while_the_cluster_is_slow(scene: NodeScene) -> None:
    scene.nodes.protected = {"a"}
    scene.remove("one", evict=[pod("a"), pod("b")], drain=3600.0)
    scene.run(rounds=6)
    assert scene.marked("one")
    scene.tick(1200)
    scene.nodes.nodes["one"] = replace(scene.nodes.nodes["one"], version="7")
    scene.run()
    assert scene.ended() == [("expired", OutcomeDetail.BUDGET)]
    assert not scene.marked("one")


@pytest.mark.parametrize("why", ["at its least", "detached", "of another group", "gone", "another node", "foreign"])
def test_a_world_that_is_not_as_planned_is_left_alone(scene: NodeScene, why: str) -> None:
    first = scene.instances[0]
    expected = ("refused", OutcomeDetail.MOVED)
    group = "pool"
    match why:
        case "at its least":
            scene.aws.sdk("autoscaling").update_auto_scaling_group(AutoScalingGroupName="pool", MinSize=2)
            expected = ("refused", OutcomeDetail.AT_LIMIT)
        case "detached":
            detach = scene.aws.sdk("autoscaling").detach_instances
            detach(AutoScalingGroupName="pool", InstanceIds=[first], ShouldDecrementDesiredCapacity=True)
        case "of another group":
            group = "other"
        case "gone":
            scene.aws.client().terminate(first)
            expected = ("done", OutcomeDetail.ALREADY_DONE)
        case "foreign":
            taint = {"key": TO_BE_DELETED, "value": str(int(scene.at.timestamp())), "effect": "NoSchedule"}
            scene.nodes.nodes["one"] = replace(scene.nodes.nodes["one"], taints=(taint,))
    scene.remove("one", evict=[pod("a"), pod("b")], group=group)
    if why == "another node":
        scene.nodes.nodes["one"] = replace(scene.nodes.nodes["one"], uid="another")
    before, ended_before = scene.nodes.nodes["one"], scene.terminated()
    scene.run()
    assert scene.ended() == [expected]
    assert scene.nodes.nodes["one"] == before
    assert scene.terminated() == ended_before


@pytest.mark.parametrize("age", [ABANDONED, -ABANDONED])
def test_a_node_whose_removal_others_gave_up_goes(scene: NodeScene, age: float) -> None:
    """autoscaler#5657: the mark of an autoscaler that had ended was taken for its work, whenever a removal was planned."""
    since = scene.at - timedelta(seconds=age)
    taint = {"key": TO_BE_DELETED, "value": str(int(since.timestamp())), "effect": "NoSchedule"}
    scene.nodes.nodes["two"] = replace(scene.nodes.nodes["two"], taints=(taint,))
    scene.remove("two", evict=[pod("z")])
    scene.run()
    assert scene.ended() == [("done", OutcomeDetail.APPLIED)]


def test_a_node_that_others_cordoned_and_tainted_stays_so_when_the_marks_go(scene: NodeScene) -> None:
    taint = {"key": "team", "value": "x", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    before = replace(scene.nodes.nodes["one"], unschedulable=True, taints=(taint,))
    scene.nodes.nodes["one"] = before
    scene.nodes.protected = {"a"}
    scene.remove("one", evict=[pod("a"), pod("b")], drain=10.0)
    scene.run()
    assert scene.ended() == [("failed", OutcomeDetail.BUDGET)]
    after = scene.nodes.nodes["one"]
    assert replace(after, version=before.version) == before


def test_marks_that_no_pending_decision_needs_are_swept_away_but_not_from_an_instance_that_ends(scene: NodeScene) -> None:
    for name in ("one", "two"):
        node = scene.nodes.nodes[name]
        scene.nodes.change(node, **removal_marks.added(node, "lost", at=scene.at, cordon=True))
    scene.aws.client().terminate(scene.instances[1])
    scene.consumer.poll_once()
    assert (scene.marked("one"), scene.marked("two")) == (False, True)


def test_a_failed_termination_takes_the_marks_back(scene: NodeScene) -> None:
    scene.aws.refuse("TerminateInstanceInAutoScalingGroup", "AccessDenied", "not yours", status=403)
    scene.remove("two", evict=[pod("z")])
    scene.run()
    (outcome,) = scene.outcomes()
    assert outcome.detail is OutcomeDetail.FORBIDDEN
    assert "autoscaling:TerminateInstanceInAutoScalingGroup" in outcome.reason
    assert not scene.marked("two")


def killed_at(scene: NodeScene, call: int, *, after: bool) -> bool:
    """End the process at this call, restart it, and let it finish; False when there are fewer calls."""
    scene.remove("one", evict=[pod("a"), pod("b")])
    scene.fuse, scene.after = call, after
    try:
        scene.run()
    except Killed:
        scene.fuse = None
        scene.restarted()
        scene.run()
        return True
    return False


def went(scene: NodeScene) -> None:
    """The node's instance ended once, nobody else's did, and there is one outcome."""
    assert len(scene.outcomes()) == 1
    assert scene.outcomes()[0].result.value == "done"
    assert scene.terminated() == [scene.instances[0]]
    assert (scene.aws.instances("pool"), scene.aws.desired("pool")) == ([scene.instances[1]], 1)
    assert not scene.marked("two")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", [3, 6, 9, 14])
def test_killed_at_a_step_and_restarted_the_node_goes_once(scene: NodeScene, call: int, after: bool) -> None:
    assert killed_at(scene, call, after=after)
    went(scene)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_step_and_restarted_the_node_goes_once(aws: AwsDouble, after: bool) -> None:
    call = 1
    while True:
        aws.reset()
        scene = NodeScene(aws)
        scene.nodes.add("one", scene.instances[0], pod("a"), pod("b"))
        scene.nodes.add("two", scene.instances[1], pod("z"))
        if not killed_at(scene, call, after=after):
            break
        went(scene)
        call += 1
    assert call > 15


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_step_and_paused_meanwhile_no_node_stays_marked_unless_its_instance_ended(
    aws: AwsDouble, after: bool
) -> None:
    call = 1
    while True:
        aws.reset()
        scene = NodeScene(aws)
        scene.nodes.add("one", scene.instances[0], pod("a"), pod("b"))
        scene.remove("one", evict=[pod("a"), pod("b")])
        scene.fuse, scene.after = call, after
        try:
            scene.run()
        except Killed:
            scene.fuse = None
            scene.control(Mode.APPLY, paused=True)
            scene.restarted()
            scene.run()
        else:
            break
        ended = not aws.running(scene.instances[0])
        assert scene.marked("one") == ended
        assert [outcome.result.value for outcome in scene.outcomes()] == ["done" if ended else "refused"]
        assert len(scene.terminated()) == int(ended)
        call += 1
    assert call > 15


@pytest.mark.parametrize("ends", [True, False])
def test_an_instance_that_a_hook_of_its_group_keeps_is_gone_when_it_ends(scene: NodeScene, *, ends: bool) -> None:
    first = scene.instances[0]
    ended = "TerminateInstanceInAutoScalingGroup"
    scene.aws.answer(ended, f"<{ended}Response><{ended}Result/></{ended}Response>")
    scene.remove("one", evict=[pod("a"), pod("b")])
    scene.run()
    assert (scene.terminated(), scene.ended()) == ([first], [])
    scene.aws.lifecycle("pool", first, "Terminating:Wait")
    scene.restarted()
    if ends:
        scene.aws.sdk("ec2").terminate_instances(InstanceIds=[first])
    scene.run(rounds=40, seconds=60.0)
    [outcome] = scene.outcomes()
    said = f"it was accepted; instance '{first}' is Terminating:Wait in its group"
    assert (outcome.result, outcome.reason) == (
        (Result.DONE, f"instance '{first}' is terminated") if ends else (Result.EXPIRED, said)
    )
    assert scene.marked("one"), "an instance that ends gets no pods any more"


def test_options_without_a_cordon_only_taint(aws: AwsDouble) -> None:
    scene = NodeScene(aws, options=RemovalOptions(cordon=False, delay=Seconds(0.0), protect=False))
    scene.nodes.add("one", scene.instances[0])
    scene.remove("one")
    scene.consumer.poll_once()
    assert not scene.nodes.nodes["one"].unschedulable
    scene.run()
    assert scene.ended() == [("done", OutcomeDetail.APPLIED)]
    assert aws.calls("SetInstanceProtection") == []
    assert scene.at - timedelta(minutes=1) < scene.outcomes()[0].at


def soft(scene: NodeScene, node: str, *, tainted: bool, identifier: str = "soft") -> None:
    uid = scene.nodes.nodes[node].uid
    plan = SoftTaintPlanned(identifier, scene.at, scene.at + timedelta(minutes=2), CLUSTER, node, uid, tainted, {})
    scene.publish(plan, "node-updates")


def test_a_soft_taint_is_set_beside_other_taints_and_taken_off_again(scene: NodeScene) -> None:
    other = {"key": "spot", "effect": "NoSchedule"}
    scene.nodes.nodes["one"] = replace(scene.nodes.nodes["one"], taints=(other,))
    soft(scene, "one", tainted=True)
    scene.consumer.poll_once()
    wanted = {"key": DELETION_CANDIDATE, "value": str(int(scene.at.timestamp())), "effect": "PreferNoSchedule"}
    assert list(scene.nodes.nodes["one"].taints) == [other, wanted]
    soft(scene, "one", tainted=False, identifier="off")
    scene.consumer.poll_once()
    assert list(scene.nodes.nodes["one"].taints) == [other]
    assert scene.ended() == [("done", OutcomeDetail.APPLIED)] * 2


def test_a_soft_taint_that_others_take_off_at_once_is_not_done(scene: NodeScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene.nodes, "change", lambda *_, **__: None)
    soft(scene, "one", tainted=True)
    scene.run()
    [outcome] = scene.outcomes()
    said = f"it was accepted, and others changed it: node 'one' does not have the taint '{DELETION_CANDIDATE}'"
    assert (outcome.result, outcome.reason, outcome.detail) == (Result.FAILED, said, OutcomeDetail.MOVED)


def test_a_node_that_goes_or_is_another_one_gets_no_soft_taint(scene: NodeScene) -> None:
    scene.remove("one", evict=[pod("a"), pod("b")])
    scene.consumer.poll_once()
    soft(scene, "one", tainted=True)
    soft(scene, "two", tainted=True, identifier="other")
    scene.nodes.nodes["two"] = replace(scene.nodes.nodes["two"], uid="uid-successor")
    scene.consumer.poll_once()
    assert scene.ended() == [("refused", OutcomeDetail.MOVED)] * 2
    assert not any(taint["key"] == DELETION_CANDIDATE for taint in scene.nodes.nodes["one"].taints)


def test_a_soft_taint_that_was_set_before_a_crash_is_not_set_again(scene: NodeScene) -> None:
    scene.fuse, scene.after = 2, True
    soft(scene, "one", tainted=True)
    with pytest.raises(Killed):
        scene.consumer.poll_once()
    version = scene.nodes.nodes["one"].version
    scene.fuse = None
    scene.restarted().poll_once()
    assert (scene.ended(), scene.nodes.nodes["one"].version) == ([("done", OutcomeDetail.ALREADY_DONE)], version)


def test_a_node_that_the_cloud_takes_is_emptied_also_where_its_group_may_not_shrink(aws: AwsDouble) -> None:
    scene = NodeScene(aws, least=2)
    scene.nodes.add("one", scene.instances[0], pod("a"))
    scene.remove("one", evict=[pod("a")], reason=RemovalReason.INTERRUPTED)
    scene.run()
    (outcome,) = scene.outcomes()
    assert (outcome.result.value, outcome.detail) == ("done", OutcomeDetail.APPLIED)
    assert "is empty; AWS takes instance" in outcome.reason
    assert ([name for name, _ in scene.nodes.evictions], scene.terminated(), scene.aws.desired("pool")) == (["a"], [], 2)


def test_where_the_group_may_shrink_the_instance_ends_with_its_place(scene: NodeScene) -> None:
    scene.remove("two", evict=[pod("z")], reason=RemovalReason.INTERRUPTED)
    scene.run()
    assert (scene.ended(), scene.terminated()) == ([("done", OutcomeDetail.APPLIED)], [scene.instances[1]])


def test_a_broken_node_goes_although_its_pods_never_end(scene: NodeScene) -> None:
    scene.nodes.stubborn = {"z"}
    scene.remove("two", evict=[pod("z")], reason=RemovalReason.BROKEN, grace=5.0, drain=10.0)
    scene.run(rounds=80)
    assert (scene.ended(), scene.terminated()) == ([("done", OutcomeDetail.APPLIED)], [scene.instances[1]])


def test_a_broken_node_whose_pod_a_budget_protects_stays(scene: NodeScene) -> None:
    scene.nodes.protected = {"z"}
    scene.remove("two", evict=[pod("z")], reason=RemovalReason.BROKEN, grace=5.0, drain=10.0)
    scene.run(rounds=80)
    assert (scene.ended(), scene.terminated()) == ([("failed", OutcomeDetail.BUDGET)], [])
