"""The command `ullage source asg`: which groups its settings choose, and how an empty node of them would look."""

from pathlib import Path

import pytest

from agents.processes.source_asg import node_template, selection
from agents.settings.consumer_settings import AwsSettings
from streams.clients.aws.ec2_instances import read_table
from streams.clients.aws.group_responses import (
    AutoScalingGroup,
    MixedInstances,
    TemplateReference,
    TemplateVersion,
    TypeRequirements,
)
from streams.errors import BadInput
from streams.sources.asg.asg_source import GroupBounds
from streams.sources.asg.launch_lookups import LaunchDetails

ZONE = "eu-central-1b"


def test_groups_are_chosen_by_name_and_by_tags() -> None:
    chosen = selection(AwsSettings(groups=("1:5:web:blue", "2:6:batch"), discovery=("asg:tag=a,b=c", "asg:tag=d")))
    assert chosen.explicit == (GroupBounds("web:blue", 1, 5), GroupBounds("batch", 2, 6))
    assert chosen.tags == {"a": "", "b": "c", "d": ""}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (AwsSettings(), "no node group is chosen"),
        (AwsSettings(groups=("5:1:web",)), "aws.groups: .*max size must be greater or equal to min size"),
        (AwsSettings(groups=("web",)), "aws.groups: .*wrong nodes configuration: web"),
        (AwsSettings(groups=("2:3:a", "1:1:b", "1:9:a")), "aws.groups: '2:3:a' and '1:9:a' are entries for one group, 'a'"),
        (AwsSettings(discovery=("mig:tag=a",)), "aws.discovery: unsupported discoverer specified: mig"),
        (AwsSettings(discovery=("asg:tag=",)), "aws.discovery: tag value not supplied"),
    ],
)
def test_a_choice_that_makes_no_sense_is_bad_input(settings: AwsSettings, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        selection(settings)


def test_prices_come_from_a_file_and_spot_has_its_own(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("type,on_demand,spot\nm5.large,0.115,0.04\nc5.large,0.097,\n")
    prices = selection(AwsSettings(groups=("0:3:web",), prices=str(file))).prices
    assert prices.of_group(("t3.nano", "m5.large", "c5.large"), spot=False) == 0.115
    assert prices.of_group(("m5.large",), spot=True) == 0.04
    assert prices.of_group(("c5.large",), spot=True) == 0.097
    assert prices.of_group(("t3.nano",), spot=False) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("type,price\n", "must begin with the line 'type,on_demand,spot', not 'type,price'"),
        ("", "must begin with the line 'type,on_demand,spot', not ''"),
        ("type,on_demand,spot\nm5.large,cheap,\n", "in line 2: 'cheap' is no price"),
        ("type,on_demand,spot\nm5.large,0.1,-1\n", "in line 2: '-1' is no price"),
        ("type,on_demand,spot\nm5.large,nan,\n", "in line 2: 'nan' is no price"),
        ("type,on_demand,spot\nm5.large\n", "in line 2: 'm5.large'"),
    ],
)
def test_prices_that_make_no_sense_are_bad_input(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(text)
    with pytest.raises(BadInput, match=said):
        selection(AwsSettings(groups=("0:3:web",), prices=str(file)))


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
