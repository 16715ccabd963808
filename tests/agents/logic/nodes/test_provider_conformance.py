"""Section 9.8 of the inventory of the Cluster Autoscaler's behaviour: the AWS provider.

What the provider of upstream would call is computed as it does; what is called is the business of the clients' tests.
"""

import re
from typing import Any

import pytest

from agents.logic.nodes.aws import group_options, group_specs, node_templates, provider_ids
from agents.logic.nodes.aws.asg_provider import (
    AsgProvider,
    Asking,
    AwsCall,
    AwsInstance,
    DescribedGroup,
    NodeRef,
    NotImplementedHere,
    ProviderError,
    ScalingActivity,
)
from agents.logic.nodes.aws.group_options import GroupOptions
from agents.logic.nodes.aws.node_templates import (
    GPU,
    InstanceRequirements,
    InstanceType,
    LaunchSource,
    LaunchTemplate,
    MixedPolicy,
    TemplateSource,
)
from agents.logic.nodes.scheduling.pod_shapes import SchedulingNode

ZONE = "us-east-1a"
TAG = "k8s.io/cluster-autoscaler/node-template/"
TYPES = {name: InstanceType(name, cpus, 8192, 0, "amd64") for name, cpus in (("c5.xlarge", 4), ("m5.large", 2))}


class Cloud:
    """One or more groups, and the calls that were made."""

    def __init__(self, *groups: DescribedGroup, activities: tuple[ScalingActivity, ...] = ()) -> None:
        self.groups, self.activities = {one.name: one for one in groups}, activities
        self.calls: list[AwsCall] = []

    def run(self, asking: Asking) -> list[str]:
        """Carry the calls out; their names."""
        begun = len(self.calls)
        try:
            call = next(asking)
            while True:
                self.calls.append(call)
                call = asking.send(self._answer(call))
        except StopIteration:
            return [one.api for one in self.calls[begun:]]

    def _answer(self, call: AwsCall) -> Any:
        if call.api == "DescribeAutoScalingGroups":
            tagged = [one for one in self.groups.values() if all(f.split("=")[1] in one.tags for f in call.filters)]
            return tagged if call.filters else [self.groups[name] for name in call.names if name in self.groups]
        return self.activities if call.api == "DescribeScalingActivities" else {}


def a_group(name: str = "g", desired: int = 2, there: int = 2, lifecycle: str = "InService", **tags: str) -> DescribedGroup:
    instances = tuple(AwsInstance(f"i-{number}", ZONE, lifecycle) for number in range(there))
    return DescribedGroup(name, 1, 9, desired, (ZONE,), instances, tags)


def at_work(*groups: DescribedGroup, specs: tuple[str, ...] = ("1:5:g",), **more: Any) -> tuple[AsgProvider, Cloud]:
    """A provider after its first refresh."""
    cloud, provider = Cloud(*groups, **more), AsgProvider([group_specs.explicit(one) for one in specs])
    cloud.run(provider.refresh(0))
    cloud.calls.clear()
    return provider, cloud


def ref(name: str, zone: str = ZONE) -> NodeRef:
    return NodeRef(name, f"aws:///{zone}/{name}")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        pytest.param("aws:///us-east-1a/i-260942b3", "i-260942b3", id="C100"),
        pytest.param("aws123", None, id="C100 no path"),
        pytest.param("aws://test-az/test-instance-id", None, id="C100 two slashes"),
        pytest.param(
            "aws:///us-east-1a/i-placeholder-some.arbitrary.cluster.local",
            "i-placeholder-some.arbitrary.cluster.local",
            id="C101",
        ),
    ],
)
def test_a_provider_id_names_an_instance_or_is_none(given: str, name: str | None) -> None:
    if name is None:
        with pytest.raises(provider_ids.IdentityError):
            provider_ids.instance_name(given)
    else:
        assert provider_ids.instance_name(given) == name


@pytest.mark.parametrize("given", ["", "eks-hybrid:///eu/x"])
def test_c102_a_node_of_somebody_elses_has_no_group(given: str) -> None:
    provider, _cloud = at_work(a_group())
    assert provider.group_of(NodeRef("n", given)) is None


def test_c103_a_group_grows_by_one_call_and_is_not_asked_for_again() -> None:
    provider, cloud = at_work(a_group())
    assert cloud.run(provider.increase(provider.groups["g"], 1, 1.0)) == ["SetDesiredCapacity"]
    assert (cloud.calls[0].desired, provider.groups["g"].size) == (3, 3)


@pytest.mark.parametrize(("delta", "words"), [(0, "size increase must be positive"), (4, "desired:6 max:5")])
def test_c104_a_group_does_not_grow_by_nothing_or_beyond_its_maximum(delta: int, words: str) -> None:
    provider, cloud = at_work(a_group())
    with pytest.raises(ProviderError, match=words):
        cloud.run(provider.increase(provider.groups["g"], delta, 1.0))
    assert cloud.calls == []


@pytest.mark.parametrize(("delta", "words"), [(0, "must be negative"), (-1, "attempt to delete existing nodes")])
def test_c105_a_size_is_not_lowered_below_what_is_there(delta: int, words: str) -> None:
    provider, cloud = at_work(a_group())
    with pytest.raises(ProviderError, match=words):
        cloud.run(provider.decrease(provider.groups["g"], delta, 1.0))


def test_c106_a_running_instance_ends_with_its_place() -> None:
    provider, cloud = at_work(a_group())
    assert cloud.run(provider.delete(provider.groups["g"], [ref("i-0")], 1.0)) == ["TerminateInstanceInAutoScalingGroup"]
    assert (cloud.calls[0].instance, provider.groups["g"].size) == ("i-0", 1)


@pytest.mark.parametrize("lifecycle", ["Terminating", "Terminating:Wait", "Terminating:Proceed", "Terminated"])
def test_c107_an_instance_that_ends_already_is_left_alone(lifecycle: str) -> None:
    provider, cloud = at_work(a_group(lifecycle=lifecycle))
    assert cloud.run(provider.delete(provider.groups["g"], [ref("i-0")], 1.0)) == []
    assert provider.groups["g"].size == 2


def test_c108_c109_nothing_goes_at_the_minimum_and_nothing_of_another_group() -> None:
    provider, cloud = at_work(a_group(desired=1, there=1), DescribedGroup("h", 0, 9, 1, (ZONE,), (AwsInstance("i-h", ZONE),)))
    with pytest.raises(ProviderError, match="min size reached"):
        cloud.run(provider.delete(provider.groups["g"], [ref("i-0")], 1.0))
    other = DescribedGroup("h", 0, 9, 2, (ZONE,), (AwsInstance("i-h", ZONE), AwsInstance("i-j", ZONE)))
    provider, cloud = at_work(a_group(), other, specs=("1:5:g", "0:5:h"))
    with pytest.raises(ProviderError, match="belongs to a different asg"):
        cloud.run(provider.delete(provider.groups["g"], [ref("i-h")], 1.0))


def test_c110_c111_placeholders_go_by_the_size_that_aws_has_then_and_real_instances_one_by_one() -> None:
    provider, cloud = at_work(a_group(desired=2, there=1), specs=("0:9:g",))
    assert cloud.run(provider.delete(provider.groups["g"], [ref("i-placeholder-g-1")], 1.0)) == [
        "DescribeAutoScalingGroups",
        "SetDesiredCapacity",
    ]
    assert cloud.calls[-1].desired == 1
    provider, cloud = at_work(a_group(desired=10, there=3), specs=("0:19:g",))
    cloud.groups["g"] = a_group(desired=10, there=6)
    going = [ref(f"i-placeholder-g-{number}") for number in range(3, 10)] + [ref("i-0"), ref("i-1")]
    done = cloud.run(provider.delete(provider.groups["g"], going, 1.0))
    assert done == ["DescribeAutoScalingGroups", "SetDesiredCapacity", *["TerminateInstanceInAutoScalingGroup"] * 2]
    assert [one.desired for one in cloud.calls if one.api == "SetDesiredCapacity"] == [6]


@pytest.mark.parametrize(("at", "failed"), [pytest.param(2.0, True, id="C112"), pytest.param(0.5, False, id="C113")])
def test_a_failed_activity_since_the_group_was_resized_is_why_instances_are_missing(at: float, failed: bool) -> None:
    provider, cloud = at_work(a_group(desired=1, there=1))
    cloud.run(provider.increase(provider.groups["g"], 2, 1.0))
    cloud.groups["g"], cloud.activities = a_group(desired=3, there=1), (ScalingActivity(at, "Failed"),)
    cloud.run(provider.refresh(70.0))
    found = [one.health == "placeholder-cannot-be-fulfilled" for one in provider.groups["g"].instances()]
    assert found == [False, failed, failed]


@pytest.mark.parametrize("spec", ["asg:key=x", "mig:tag=a", "asg", "asg:tag="])
def test_c114_a_discovery_that_means_nothing_is_refused(spec: str) -> None:
    with pytest.raises(group_specs.SpecError):
        group_specs.discovery([spec])


def test_c114_c115_tags_of_all_specs_together_are_demanded() -> None:
    assert group_specs.discovery(["asg:tag=k1,k2=v2"]) == {"k1": "", "k2": "v2"}
    assert group_specs.discovery(["asg:tag=a", "asg:tag=b"]) == {"a": "", "b": ""}
    assert group_specs.filters({"a": "", "b": "x"}) == ["tag-key=a", "tag:b=x"]


def test_c116_a_group_that_was_discovered_vanishes_and_one_that_is_named_twice_is_one() -> None:
    cloud, provider = Cloud(a_group(a="")), AsgProvider((), {"a": ""})
    cloud.run(provider.refresh(0))
    assert list(provider.groups) == ["g"]
    cloud.groups.clear()
    cloud.run(provider.refresh(61.0))
    assert provider.groups == {}
    twice, _cloud = at_work(a_group(), specs=("1:5:g", "1:5:g"))
    assert list(twice.groups) == ["g"]


# Templates


def made(launch: LaunchSource | None = None, **tags: str) -> SchedulingNode:
    whole = {f"{TAG}{key.replace('__', '/')}": value for key, value in tags.items()}
    return node_templates.node(TemplateSource("g", (ZONE,), whole, launch or LaunchSource(configured="c5.xlarge")), TYPES, "n")


def test_c117_a_group_without_tags_has_what_its_type_has() -> None:
    found = made()
    assert found.capacity == {"cpu": 4000, "memory": 8192 << 20, "pods": 110, GPU: 0}
    assert dict(found.labels)["topology.kubernetes.io/region"] == "us-east-1"


def test_c118_resources_of_tags_are_offered() -> None:
    tags = {f"{TAG}resources/ephemeral-storage": "20", f"{TAG}resources/custom-resource": "5"}
    source = TemplateSource("g", (ZONE,), tags, LaunchSource(configured="c5.xlarge"))
    found = node_templates.node(source, TYPES, "n")
    for amounts in (found.capacity, found.allocatable):
        assert (amounts["ephemeral-storage"], amounts["custom-resource"]) == (20, 5)


def test_c119_taints_of_tags_need_a_value_and_an_effect() -> None:
    texts = ("foo:NoSchedule", "bar:NoExecute", "fizz:PreferNoSchedule", "", "some_value")
    found = node_templates.taint_tags({f"{TAG}taint/t{number}": text for number, text in enumerate(texts)})
    assert [(one.value, one.effect) for one in found] == [
        ("foo", "NoSchedule"),
        ("bar", "NoExecute"),
        ("fizz", "PreferNoSchedule"),
    ]


def test_c120_options_of_tags_override_the_defaults_unless_they_mean_nothing() -> None:
    tag = f"{TAG}autoscaling-options/"
    texts = {"scaledownutilizationthreshold": "0.42", "scaledownunneededtime": "1h", "ignoredaemonsetsutilization": "true"}
    found = group_options.of_group({f"{tag}{name}": text for name, text in texts.items()}, GroupOptions())
    assert found == GroupOptions(utilization_threshold=0.42, unneeded=3600.0, ignore_daemonsets=True)
    assert group_options.of_group({f"{tag}scaledownutilizationthreshold": "not-a-float"}, GroupOptions()) == GroupOptions()


def test_c121_a_group_by_attributes_has_what_they_demand_at_least() -> None:
    wanted = InstanceRequirements(4, 4, 4, ("nvidia",), ("gpu",))
    found = made(LaunchSource(mixed=MixedPolicy(LaunchTemplate("", "ami-1"), "lt", (), wanted, "c5.xlarge")))
    assert (found.capacity["cpu"], found.capacity["memory"], found.capacity[GPU]) == (4000, 4 << 20, 4)


def test_c122_a_mixed_group_looks_like_its_first_type() -> None:
    found = made(LaunchSource(mixed=MixedPolicy(None, "lt", ("m5.large", "c5.xlarge"), None, "")))
    assert (found.capacity["cpu"], dict(found.labels)["node.kubernetes.io/instance-type"]) == (2000, "m5.large")


def test_c123_a_hundred_and_fifty_groups_are_asked_for_in_two_calls() -> None:
    groups = [DescribedGroup(f"g{number}", 0, 1, 0, (ZONE,)) for number in range(150)]
    cloud = Cloud(*groups)
    cloud.run(AsgProvider([group_specs.explicit(f"0:1:{one.name}") for one in groups]).refresh(0))
    assert [len(one.names) for one in cloud.calls if one.api == "DescribeAutoScalingGroups"] == [100, 50]


def test_c124_a_group_of_eks_has_a_template_although_eks_refuses() -> None:
    tags = {"eks:cluster-name": "prod", "eks:nodegroup-name": "web"}
    source = TemplateSource("g", (ZONE,), tags, LaunchSource(configured="c5.xlarge"), None)
    labels = dict(node_templates.node(source, TYPES, "n").labels)
    assert (labels["cluster-name"], labels["nodegroup-name"]) == ("prod", "web")


def test_c125_whether_an_instance_is_there_is_said_of_those_that_can_be() -> None:
    provider, _cloud = at_work(a_group())
    assert provider.has_instance(ref("i-0"))
    assert not provider.has_instance(NodeRef("n", f"aws:///{ZONE}/i-0", {"k8s.io/cluster-autoscaler-enabled": "false"}))
    with pytest.raises(NotImplementedHere):
        provider.has_instance(NodeRef("fargate-x", f"aws:///{ZONE}/i-0"))
    with pytest.raises(ProviderError, match=re.escape("node is not present in aws")):
        provider.has_instance(ref("i-9"))
