"""The command `ullage source asg`: which groups its settings choose, and how an empty node of them would look."""

import pytest

from agents.processes.source_asg import node_template, selection
from agents.settings.aws_settings import AwsSettings
from streams.clients.aws.auto_scaling_groups import AutoScalingGroup
from streams.clients.aws.instance_size_table import read_table
from streams.clients.aws.launch_templates import MixedInstances, TemplateReference, TemplateVersion, TypeRequirements
from streams.errors import BadInput
from streams.sources.asg.asg_source import GroupBounds
from streams.sources.asg.launch_lookups import LaunchDetails

ZONE = "eu-central-1b"


def test_groups_are_chosen_by_name_and_by_tags() -> None:
    chosen = selection(AwsSettings(groups=("1:5:web:blue", "0:3:batch", "2:6:batch"), discovery=("asg:tag=a,b=c", "asg:tag=d")))
    assert chosen.explicit == (GroupBounds("web:blue", 1, 5), GroupBounds("batch", 2, 6))
    assert chosen.tags == {"a": "", "b": "c", "d": ""}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (AwsSettings(), "no node group is chosen"),
        (AwsSettings(groups=("5:1:web",)), "aws.groups: .*max size must be greater or equal to min size"),
        (AwsSettings(groups=("web",)), "aws.groups: .*wrong nodes configuration: web"),
        (AwsSettings(discovery=("mig:tag=a",)), "aws.discovery: unsupported discoverer specified: mig"),
        (AwsSettings(discovery=("asg:tag=",)), "aws.discovery: tag value not supplied"),
    ],
)
def test_a_choice_that_makes_no_sense_is_bad_input(settings: AwsSettings, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        selection(settings)


def test_a_node_of_an_attribute_based_group_has_at_least_what_is_demanded() -> None:
    demanded = TypeRequirements(vcpus=2, memory_mib=1024)
    group = AutoScalingGroup(
        "spot", 0, 5, 0, zones=(ZONE,), mixed=MixedInstances(TemplateReference("lt-1"), requirements=demanded, spot=True)
    )
    launch = LaunchDetails("lt-1:3", template=TemplateVersion("lt-1", "3", image="ami-1"), fitting="m5.xlarge")
    found = node_template(group, launch, read_table())
    assert (found.capacity["cpu"], found.capacity["memory"]) == (2000, 1 << 30)
    assert found.labels["node.kubernetes.io/instance-type"] == "m5.xlarge"


def test_a_node_of_a_mixed_group_is_one_of_the_first_type() -> None:
    group = AutoScalingGroup(
        "mixed", 0, 5, 0, zones=(ZONE,), mixed=MixedInstances(TemplateReference("lt-1"), ("m6g.large", "m5.xlarge"))
    )
    launch = LaunchDetails("lt-1:3", template=TemplateVersion("lt-1", "3", "t3.micro", "ami-1"))
    found = node_template(group, launch, read_table())
    assert (found.capacity["cpu"], found.labels["kubernetes.io/arch"]) == (2000, "arm64")


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        (LaunchDetails(failure="reading launch template 'lt-1' did not work"), "could not get instance type for web: reading"),
        (LaunchDetails(), "could not find instance type for web"),
        (LaunchDetails(configured="zz9.plural"), 'uses the unknown EC2 instance type "zz9.plural"'),
    ],
)
def test_a_group_whose_nodes_nobody_knows_says_why(launch: LaunchDetails, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        node_template(AutoScalingGroup("web", 0, 5, 0, zones=(ZONE,)), launch, read_table())
