"""The asg source on moto's server: what it publishes of groups, instances and failures, and what an error leaves alone."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from agents.logic.event_validation import refuse
from agents.processes.source_asg import node_template
from schemas.catalogue import Event
from schemas.facts.nodes import NodeGroupGone, NodeGroupSeen, NodeInstanceGone, NodeInstanceSeen, NodeTaint, ScalingActivityFailed
from schemas.facts.sources import SourceReported
from streams.codec.event_codec import Codec
from streams.errors import GiveUp, TryAgain
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.sources.asg.asg_source import MOST_A_MINUTE, ActivityTurns, AsgSource, GroupBounds, GroupSelection
from streams.topics import TOPICS, Topics
from tests.support.aws_double import ZONES, AwsDouble, aws, aws_server

__all__ = ["aws", "aws_server"]
OURS = {"k8s.io/cluster-autoscaler/enabled": ""}
OF_EKS = {**OURS, "eks:cluster-name": "prod", "eks:nodegroup-name": "web"}
TEMPLATE = "k8s.io/cluster-autoscaler/node-template/"
NO_CAPACITY = f"We currently do not have sufficient m5.large capacity in the Availability Zone you requested ({ZONES[0]})."


@dataclass
class SourceScene:
    """A log in memory, and the source on the AWS double; time moves by hand."""

    aws: AwsDouble
    selection: GroupSelection = field(default_factory=lambda: GroupSelection(tags=OURS))
    topics: Topics = field(default_factory=lambda: Topics(partitions=1))
    log: MemoryLog = field(default_factory=MemoryLog)
    read: int = 0

    def __post_init__(self) -> None:
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), 1)
        self.at = datetime.now(UTC)
        self.source = self.restarted()

    def restarted(self) -> AsgSource:
        context = LogContext(self.log, self.topics, Codec(self.topics), "real")
        self.source = AsgSource(self.aws.client(), context, self.selection, node_template)
        return self.source

    def poll(self, later: float = 2.0) -> list[Event]:
        """What one look publishes about groups."""
        self.at += timedelta(seconds=later)
        self.settled = self.source.poll(self.at)
        return self.fresh()

    def fresh(self) -> list[Event]:
        records = self.log.poll({(self.topics.wire("node-group-changes"), 0): self.read})
        self.read += len(records)
        return [Codec(self.topics).decode(record) for record in records]

    def reports(self) -> list[tuple[str, ...]]:
        return [report.sees for report in self.full_reports()]

    def full_reports(self) -> list[SourceReported]:
        records = self.log.poll({(self.topics.wire("cluster-changes"), 0): 0})
        events = [Codec(self.topics).decode(record) for record in records]
        return [event for event in events if isinstance(event, SourceReported)]

    def lacks(self) -> tuple[str, ...]:
        return self.full_reports()[-1].lacks


@pytest.fixture
def scene(aws: AwsDouble) -> SourceScene:
    return SourceScene(aws)


def test_a_group_is_told_with_its_template_and_its_instances_and_then_only_what_changes(scene: SourceScene) -> None:
    tags = {
        **OURS,
        f"{TEMPLATE}label/disk": "fast",
        f"{TEMPLATE}taint/team": "shop:NoSchedule",
        f"{TEMPLATE}resources/ephemeral-storage": "20Gi",
        f"{TEMPLATE}autoscaling-options/scaledownunneededtime": "5m",
    }
    template = scene.aws.template("pool-template")
    (first,) = scene.aws.group("pool", least=0, most=5, desired=1, tags=tags, template=template)
    scene.aws.group("other", tags={"team": "x"}, template=template)
    group, instance = scene.poll()
    assert isinstance(group, NodeGroupSeen)
    assert (group.cluster, group.group, group.least, group.most, group.desired) == ("real", "pool", 0, 5, 1)
    assert (group.zones, group.instance_types, group.launch_version) == (ZONES[:1], ("m5.large",), f"{template}:1")
    assert (group.options, group.spot) == ({"scaledownunneededtime": "5m"}, False)
    assert group.template is not None
    assert (group.template.capacity["cpu"], group.template.capacity["memory"]) == (2000, 8 << 30)
    assert group.template.capacity["ephemeral-storage"] == 20 << 30
    assert (group.template.labels["disk"], group.template.taints) == ("fast", (NodeTaint("team", "shop", "NoSchedule"),))
    assert isinstance(instance, NodeInstanceSeen)
    assert (instance.instance, instance.provider_id) == (first, f"aws:///{ZONES[0]}/{first}")
    assert (instance.lifecycle, instance.health, instance.instance_type) == ("InService", "Healthy", "m5.large")
    assert instance.launched is not None
    assert scene.settled
    assert scene.poll() == []
    scene.aws.sdk("autoscaling").set_desired_capacity(AutoScalingGroupName="pool", DesiredCapacity=2)
    grown, second = scene.poll()
    assert isinstance(grown, NodeGroupSeen)
    assert grown.desired == 2
    assert isinstance(second, NodeInstanceSeen)
    scene.aws.client().terminate(first)
    assert {type(event) for event in scene.poll()} == {NodeGroupSeen, NodeInstanceGone}


def managed(aws: AwsDouble, **known: object) -> None:
    """A node group of EKS."""
    eks, role = aws.sdk("eks"), "arn:aws:iam::123456789012:role/eks"
    eks.create_cluster(name="prod", roleArn=role, resourcesVpcConfig={"subnetIds": ["subnet-1"]})
    eks.create_nodegroup(clusterName="prod", nodegroupName="web", subnets=["subnet-1"], nodeRole=role, **known)


def test_a_managed_group_has_the_labels_and_taints_that_eks_gives_its_nodes(scene: SourceScene) -> None:
    taint = {"key": "team", "value": "shop", "effect": "NO_SCHEDULE"}
    fpga = {f"{TEMPLATE}resources/example.com/fpga": "2"}
    managed(scene.aws, labels={"team": "shop"}, taints=[taint], diskSize=40, tags=fpga)
    scene.aws.group("eks-web", tags=OF_EKS)
    [group] = scene.poll()
    assert isinstance(group, NodeGroupSeen)
    assert group.template is not None
    labels = group.template.labels
    assert (labels["team"], labels["diskSize"], labels["eks.amazonaws.com/nodegroup"]) == ("shop", "40", "web")
    assert group.template.taints == (NodeTaint("team", "shop", "NoSchedule"),)
    assert group.template.capacity["example.com/fpga"] == 2


def test_a_managed_group_that_eks_does_not_know_is_told_without_and_asked_for_again_later(scene: SourceScene) -> None:
    scene.aws.group("eks-web", tags=OF_EKS)
    [group] = scene.poll()
    assert isinstance(group, NodeGroupSeen)
    assert group.template is not None
    assert group.template.labels["nodegroup-name"] == "web"
    assert "team" not in group.template.labels
    managed(scene.aws, labels={"team": "shop"})
    assert scene.poll() == []
    [told] = scene.poll(360.0)
    assert isinstance(told, NodeGroupSeen)
    assert told.template is not None
    assert told.template.labels["team"] == "shop"


def test_a_restart_tells_only_what_changed_meanwhile(scene: SourceScene) -> None:
    (first, second) = scene.aws.group("pool", desired=2, tags=OURS)
    scene.aws.group("going", tags=OURS)
    scene.aws.fail("pool", NO_CAPACITY)
    assert {type(event) for event in scene.poll()} == {NodeGroupSeen, NodeInstanceSeen, ScalingActivityFailed}
    scene.restarted()
    assert scene.poll() == []
    scene.aws.client().terminate(first)
    scene.aws.sdk("autoscaling").delete_auto_scaling_group(AutoScalingGroupName="going", ForceDelete=True)
    scene.restarted()
    told = scene.poll()
    assert [(type(event), getattr(event, "instance", "")) for event in told] == [
        (NodeGroupSeen, ""),
        (NodeInstanceGone, first),
        (NodeGroupGone, ""),
    ]
    assert scene.aws.instances("pool") == [second]


def test_a_launch_that_fails_is_told_at_once_and_once(scene: SourceScene) -> None:
    scene.aws.group("pool", tags=OURS)
    scene.poll()
    scene.aws.fail("pool", "a failure of long ago", ago=timedelta(hours=3))
    scene.aws.lack_capacity("pool", NO_CAPACITY)
    scene.aws.sdk("autoscaling").set_desired_capacity(AutoScalingGroupName="pool", DesiredCapacity=2)
    group, failure = scene.poll()
    assert isinstance(group, NodeGroupSeen)
    assert group.desired == 2
    assert isinstance(failure, ScalingActivityFailed)
    assert (failure.code, failure.instance_type, failure.zone) == ("InsufficientInstanceCapacity", "m5.large", ZONES[0])
    assert not scene.settled
    assert scene.poll() == []
    scene.aws.fail("pool", NO_CAPACITY)
    (again,) = scene.poll()
    assert isinstance(again, ScalingActivityFailed)
    assert again.activity != failure.activity


def test_a_group_that_is_named_has_the_bounds_by_hand_and_one_that_is_missing_stops_nobody(aws: AwsDouble) -> None:
    scene = SourceScene(aws, GroupSelection((GroupBounds("named", 1, 3), GroupBounds("missing", 0, 1)), OURS))
    aws.group("named", most=10, tags=OURS)
    aws.group("tagged", most=10, tags=OURS)
    told = {event.group: (event.least, event.most) for event in scene.poll() if isinstance(event, NodeGroupSeen)}
    assert told == {"named": (1, 3), "tagged": (0, 10)}


def test_what_the_settings_name_and_aws_has_not_stands_in_the_reports_until_it_is_there(aws: AwsDouble) -> None:
    scene = SourceScene(
        aws, GroupSelection((GroupBounds("named", 1, 3), GroupBounds("mistyped", 0, 1)), {"team": "shop", **OURS})
    )
    aws.group("named")
    scene.poll()
    missing = "group 'mistyped', which aws.groups names, is not in AWS: check its name and aws.region"
    untagged = "no group carries all tags of aws.discovery: team=shop, k8s.io/cluster-autoscaler/enabled"
    assert scene.lacks() == (missing, untagged)
    assert scene.reports() == [("node-group-changes",)]
    scene.poll()
    assert len(scene.reports()) == 1
    aws.group("tagged", tags={"team": "shop", **OURS})
    scene.poll()
    assert scene.lacks() == (missing,)
    aws.group("mistyped")
    scene.poll()
    assert scene.lacks() == ()
    assert len(scene.reports()) == 3


def test_bounds_by_hand_that_aws_would_refuse_stand_in_the_reports(aws: AwsDouble) -> None:
    scene = SourceScene(aws, GroupSelection((GroupBounds("wide", 0, 20), GroupBounds("fits", 1, 5))))
    aws.group("wide", least=1, most=10, desired=1)
    aws.group("fits", least=1, most=10, desired=1)
    scene.poll()
    assert scene.lacks() == ("group 'wide' may have 0 to 20 nodes by aws.groups; AWS allows 1 to 10 and refuses what is beyond",)


@pytest.mark.parametrize("action", ["DescribeInstances", "DescribeScalingActivities"])
def test_a_right_that_is_missing_stands_in_the_reports_as_long_as_it_is(scene: SourceScene, action: str) -> None:
    scene.aws.group("pool", desired=1, tags=OURS)
    scene.aws.refuse(action, "UnauthorizedOperation", "not yours", status=403, times=1)
    scene.poll()
    [lack] = scene.lacks()
    assert f"{action}' on " in lack
    scene.aws.sdk("autoscaling").set_desired_capacity(AutoScalingGroupName="pool", DesiredCapacity=2)
    scene.poll(later=700)
    assert scene.lacks() == ()


def test_a_group_without_any_real_limit_is_told_with_as_many_nodes_as_a_group_may_have(scene: SourceScene) -> None:
    scene.aws.group("endless", most=2_000_000, tags=OURS)
    [group] = scene.poll()
    assert isinstance(group, NodeGroupSeen)
    assert (group.most, refuse(group)) == (100_000, None)


def test_a_group_that_is_too_large_to_be_told_stands_in_the_reports(scene: SourceScene) -> None:
    scene.aws.group("large", tags={**OURS, **{f"{TEMPLATE}label/l{number}": "x" for number in range(1100)}})
    scene.poll()
    [lack] = scene.lacks()
    assert lack.startswith("group 'large': what AWS says is too large to be kept: template.labels")
    scene.aws.sdk("autoscaling").delete_auto_scaling_group(AutoScalingGroupName="large", ForceDelete=True)
    scene.aws.group("small", tags=OURS)
    scene.poll()
    assert scene.lacks() == ()


def test_a_group_without_a_template_says_why_and_the_others_go_on(scene: SourceScene) -> None:
    scene.aws.group("good", tags=OURS)
    template = scene.aws.template("odd", "zz9.plural")
    scene.aws.group("odd", tags={**OURS, f"{TEMPLATE}taint/x": "nonsense"}, template=template)
    told = {event.group: event for event in scene.poll() if isinstance(event, NodeGroupSeen)}
    assert told["good"].template is not None
    assert told["odd"].template is None
    assert told["odd"].no_template == 'ASG "odd" uses the unknown EC2 instance type "zz9.plural"'


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("DescribeLaunchTemplateVersions", "the IAM right 'ec2:DescribeLaunchTemplateVersions'"),
        ("DescribeInstanceTypes", ""),
        ("DescribeInstances", ""),
        ("DescribeScalingActivities", ""),
    ],
)
def test_a_missing_right_costs_only_what_it_is_about(scene: SourceScene, action: str, expected: str) -> None:
    scene.aws.group("pool", desired=1, tags=OURS)
    scene.aws.refuse(action, "UnauthorizedOperation", "not yours", status=403, times=99)
    group, instance = scene.poll()
    assert isinstance(group, NodeGroupSeen)
    assert isinstance(instance, NodeInstanceSeen)
    assert (group.template is None) == bool(expected)
    assert expected in group.no_template


@pytest.mark.parametrize(
    ("code", "error"), [("AccessDenied", GiveUp), ("ExpiredToken", TryAgain)], ids=["a missing right", "old credentials"]
)
def test_without_the_groups_the_source_says_that_it_sees_nothing(scene: SourceScene, code: str, error: type[Exception]) -> None:
    scene.aws.group("pool", tags=OURS)
    scene.poll()
    scene.aws.refuse("DescribeAutoScalingGroups", code, "no", status=403, times=9)
    with pytest.raises(error):
        scene.poll()
    assert scene.fresh() == []
    assert scene.reports() == [("node-group-changes",), ()]


def test_a_fact_that_nobody_would_read_is_left_out_and_the_others_go_on(scene: SourceScene) -> None:
    labels = {f"{TEMPLATE}label/l{number}": "x" for number in range(1100)}
    scene.aws.group("large", tags={**OURS, **labels})
    scene.aws.group("small", tags=OURS)
    assert [event.group for event in scene.poll() if isinstance(event, NodeGroupSeen)] == ["small"]


def test_what_does_not_change_is_said_again_after_three_hours(scene: SourceScene) -> None:
    scene.aws.group("pool", desired=1, tags=OURS)
    first: Callable[[], list[type]] = lambda: [type(event) for event in scene.poll(later=3 * 3600)]  # noqa: E731
    assert first() == first() == [NodeGroupSeen, NodeInstanceSeen]


def test_a_shortage_of_hours_costs_few_calls_and_its_first_failure_is_known_at_once() -> None:
    """Twenty groups lack nodes for an hour, with a look each second; then one of them changes."""
    turns, at, calls = ActivityTurns(), datetime(2026, 1, 1, tzinfo=UTC), []
    groups = [f"g{number}" for number in range(20)]
    for second in range(3600):
        calls += [(second, name) for name in turns.take(groups, groups if second == 0 else (), at + timedelta(seconds=second))]
    first = [name for second, name in calls if second == 0]
    assert sorted(first) == sorted(groups)
    minutes = Counter(second // 60 for second, _name in calls)
    assert (minutes[0] <= MOST_A_MINUTE, max(minutes[minute] for minute in range(5, 60))) == (True, 20)
    assert not turns.expects_news()
    assert "g7" in turns.take(groups, ["g7"], at + timedelta(seconds=3601))
    assert turns.expects_news()


def test_no_more_calls_are_made_in_a_minute_than_the_bound_and_all_groups_have_their_turn() -> None:
    turns, start, groups = ActivityTurns(), datetime(2026, 1, 1, tzinfo=UTC), [f"g{number}" for number in range(150)]
    asked = [turns.take(groups, groups if second == 0 else (), start + timedelta(seconds=second)) for second in range(181)]
    assert turns.waiting > 0
    assert {name for names in asked for name in names} == {*groups}
    assert max(sum(map(len, asked[second : second + 60])) for second in range(120)) <= MOST_A_MINUTE
