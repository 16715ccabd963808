"""Our client of AWS on moto's server: what it reads, what it asks for, and what it makes of refusals."""

from datetime import UTC, datetime, timedelta

import pytest

from schemas.outcomes import OutcomeDetail
from streams.clients.aws.aws_client import AwsOptions, connect
from streams.clients.aws.group_responses import TemplateReference, TypeRequirements
from streams.errors import BadInput, GiveUp, TryAgain, Unreachable
from tests.support.aws_double import REGION, ZONES, AwsDouble, aws, aws_server

__all__ = ["aws", "aws_server"]
NO_CAPACITY = (
    "Launching EC2 instance failed.  Status Reason: We currently do not have sufficient p3.2xlarge capacity in the Availability "
    f"Zone you requested ({ZONES[1]}). Our system will be working on provisioning additional capacity."
)


def test_a_group_is_read_with_its_instances_bounds_tags_and_launch_template(aws: AwsDouble) -> None:
    template = aws.template("web")
    (instance,) = aws.group("pool", least=1, most=4, desired=1, tags={"team": "shop"}, template=template)
    aws.sdk("autoscaling").suspend_processes(AutoScalingGroupName="pool", ScalingProcesses=["AZRebalance"])
    found = aws.client().group("pool")
    assert found is not None
    assert (found.name, found.least, found.most, found.desired, found.zones) == ("pool", 1, 4, 1, ZONES[:1])
    assert (found.tags["team"], found.suspended, found.settled) == ("shop", ("AZRebalance",), True)
    assert found.template == TemplateReference(template, "web", "$Latest")
    (seen,) = found.instances
    assert (seen.id, seen.zone, seen.lifecycle, seen.health, seen.type) == (
        instance,
        ZONES[0],
        "InService",
        "Healthy",
        "m5.large",
    )
    assert not seen.leaving
    assert aws.client().group("other") is None


def test_groups_are_found_by_all_their_tags_and_over_several_pages(aws: AwsDouble) -> None:
    template = aws.template("many")
    for number in range(103):
        aws.group(f"pool-{number:03}", template=template, tags={"ours": "" if number else "no"})
    aws.group("other", template=template, tags={"team": "x"})
    client = aws.client()
    assert [group.name for group in client.groups_with_tags({"ours": ""})] == [f"pool-{number:03}" for number in range(103)]
    assert [group.name for group in client.groups_with_tags({"ours": "no"})] == ["pool-000"]
    names = [f"pool-{number:03}" for number in range(120)]
    assert len(client.groups(names)) == 103


def test_a_mixed_policy_and_an_attribute_based_one_are_read(aws: AwsDouble) -> None:
    template = {"LaunchTemplateSpecification": {"LaunchTemplateId": aws.template("mixed"), "Version": "1"}}
    types = [{"InstanceType": "m5.large"}, {"InstanceType": "m4.large"}]
    aws.group(
        "mixed",
        MixedInstancesPolicy={
            "LaunchTemplate": {**template, "Overrides": types},
            "InstancesDistribution": {"OnDemandPercentageAboveBaseCapacity": 0},
        },
    )
    found = aws.client().group("mixed")
    assert found is not None
    assert found.mixed is not None
    assert (found.mixed.types, found.mixed.spot) == (("m5.large", "m4.large"), True)
    assert found.mixed.template is not None
    assert found.mixed.template.fixed


def test_a_launch_template_names_its_type_and_the_number_of_its_newest_version(aws: AwsDouble) -> None:
    client, template = aws.client(), aws.template("web", "c5.xlarge")
    version = client.launch_template(TemplateReference(template, version="$Latest"))
    assert version is not None
    assert (version.id, version.number, version.instance_type) == (template, "1", "c5.xlarge")
    assert version.image.startswith("ami-")
    assert client.launch_template(TemplateReference("lt-0123456789abcdef0")) is None


def test_the_first_type_that_fits_requirements_is_asked_for_with_the_processor_of_the_image(aws: AwsDouble) -> None:
    client = aws.client()
    version = client.launch_template(TemplateReference(aws.template("by-size")))
    assert version is not None
    aws.answer(
        "GetInstanceTypesFromInstanceRequirements",
        "<R><instanceTypeSet><item><instanceType>m6i.xlarge</instanceType></item>"
        "<item><instanceType>m7i.xlarge</instanceType></item></instanceTypeSet></R>",
    )
    demanded = {"VCpuCount": {"Min": 4}, "MemoryMiB": {"Min": 8192}}
    assert client.first_fitting_type(version.image, TypeRequirements(4, 8192, asked=demanded)) == "m6i.xlarge"
    (asked,) = aws.calls("GetInstanceTypesFromInstanceRequirements")
    assert asked["ArchitectureType.1"] in ("x86_64", "arm64", "i386")
    assert asked["InstanceRequirements.VCpuCount.Min"] == "4"


def test_instance_sizes_have_processors_memory_and_graphics(aws: AwsDouble) -> None:
    sizes = aws.client().instance_sizes()
    large, graphics, arm = sizes["m5.large"], sizes["p3.8xlarge"], sizes["m6g.large"]
    assert (large.vcpus, large.memory_mib, large.gpus, large.architecture) == (2, 8192, 0, "amd64")
    assert (graphics.gpus, arm.architecture) == (4, "arm64")


def test_an_activity_that_failed_says_what_was_tried_where_and_why(aws: AwsDouble) -> None:
    aws.group("pool")
    aws.fail("pool", "an old one", ago=timedelta(hours=2))
    aws.fail("pool", NO_CAPACITY, details=f'{{"Availability Zone":"{ZONES[1]}"}}')
    aws.fail(
        "pool", "Could not launch Spot Instances. MaxSpotInstanceCountExceeded - Max spot instance count exceeded.", details="?"
    )
    aws.fail("pool", "You have requested more vCPU capacity than your current vCPU limit of 32 allows for the instance bucket")
    aws.fail("pool", "Something that nobody has a word for")
    found = aws.client().activities_since("pool", datetime.now(UTC) - timedelta(hours=1))
    assert [(one.code, one.instance_type) for one in found] == [
        ("LaunchFailed", ""),
        ("VcpuLimitExceeded", ""),
        ("MaxSpotInstanceCountExceeded", ""),
        ("InsufficientInstanceCapacity", "p3.2xlarge"),
    ]
    assert found[-1].zone == ZONES[1]
    assert all(one.failed for one in found)


def test_an_instance_is_found_in_its_group_and_in_ec2_until_it_is_terminated(aws: AwsDouble) -> None:
    first, second = aws.group("pool", desired=2)
    client = aws.client()
    found = client.group_instance(first)
    assert found is not None
    assert (found[0], found[1].id) == ("pool", first)
    client.terminate(first)
    assert (aws.instances("pool"), aws.desired("pool")) == ([second], 1)
    assert client.group_instance(first) is None
    states = client.instance_states([first, second, "i-0123456789abcdef0"])
    assert {name: state.gone for name, state in states.items()} == {first: True, second: False}
    assert states[second].launched is not None
    (call,) = aws.calls("TerminateInstanceInAutoScalingGroup")
    assert call["ShouldDecrementDesiredCapacity"] == "true"


def test_a_group_only_ever_grows(aws: AwsDouble) -> None:
    aws.group("pool", desired=2)
    client = aws.client()
    group = client.group("pool")
    assert group is not None
    client.raise_desired(group, 3)
    assert (aws.desired("pool"), len(aws.instances("pool"))) == (3, 3)
    for to in (2, 1, 0, -1):
        with pytest.raises(ValueError, match="wants 2 nodes"):
            client.raise_desired(group, to)
    assert [call["DesiredCapacity"] for call in aws.calls("SetDesiredCapacity")] == ["3"]


def test_instances_are_protected_from_their_groups_own_choice(aws: AwsDouble) -> None:
    (instance,) = aws.group("pool", desired=1)
    client = aws.client()
    client.protect("pool", [instance], protected=True)
    found = client.group("pool")
    assert found is not None
    assert found.instances[0].protected


@pytest.mark.parametrize(
    ("code", "message", "status", "detail", "final"),
    [
        ("AccessDenied", "User: arn:x is not authorized", 403, OutcomeDetail.FORBIDDEN, True),
        ("ExpiredToken", "The security token is expired", 403, OutcomeDetail.FORBIDDEN, False),
        ("ScalingActivityInProgress", "busy", 400, OutcomeDetail.MOVED, False),
        ("ResourceContention", "pending update", 500, OutcomeDetail.MOVED, False),
        ("InternalFailure", "sorry", 500, OutcomeDetail.SERVER_ERROR, False),
        ("ValidationError", "New SetDesiredCapacity value 9 is above max value 5", 400, OutcomeDetail.AT_LIMIT, True),
        ("ValidationError", "AutoScalingGroup name not found - no such group", 400, OutcomeDetail.NOT_FOUND, True),
        ("ValidationError", "nonsense", 400, OutcomeDetail.INVALID, True),
        ("InsufficientInstanceCapacity", "none left", 500, OutcomeDetail.NO_CAPACITY, True),
    ],
)
def test_a_refusal_says_what_it_came_down_to(  # noqa: PLR0917  # the columns of its table
    aws: AwsDouble, code: str, message: str, status: int, detail: OutcomeDetail, final: bool
) -> None:
    (instance,) = aws.group("pool", desired=1)
    aws.refuse("TerminateInstanceInAutoScalingGroup", code, message, status=status, times=9)
    with pytest.raises(GiveUp if final else TryAgain) as raised:
        aws.client().terminate(instance)
    assert raised.value.detail is detail
    assert message in str(raised.value)
    assert instance in str(raised.value)


def test_a_missing_right_is_named_with_what_it_was_asked_about_and_no_encoded_message(aws: AwsDouble) -> None:
    said = "You are not authorized to perform this operation. Encoded authorization failure message: c2VjcmV0"
    aws.refuse("DescribeInstances", "UnauthorizedOperation", said, status=403)
    with pytest.raises(GiveUp, match="the IAM right 'ec2:DescribeInstances' on 'i-0123456789abcdef0' is missing") as raised:
        aws.client().instance_states(["i-0123456789abcdef0"])
    assert "c2VjcmV0" not in str(raised.value)


def test_throttling_is_waited_out_by_the_sdk_and_said_when_it_does_not_end(aws: AwsDouble) -> None:
    aws.group("pool")
    aws.refuse("DescribeAutoScalingGroups", "Throttling", "Rate exceeded", times=1)
    assert aws.client().group("pool") is not None
    aws.refuse("DescribeAutoScalingGroups", "Throttling", "Rate exceeded", times=9)
    with pytest.raises(TryAgain, match="Rate exceeded") as raised:
        aws.client().group("pool")
    assert raised.value.detail is OutcomeDetail.THROTTLED


def test_nobody_answers(aws: AwsDouble) -> None:
    aws.down = True
    with pytest.raises(Unreachable, match="AWS gave no answer") as raised:
        aws.client().group("pool")
    assert raised.value.detail is OutcomeDetail.NO_ANSWER


def test_missing_credentials_are_one_sentence(aws: AwsDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(TryAgain, match="no usable AWS credentials were found") as raised:
        connect(AwsOptions(REGION, aws.url)).group("pool")
    assert raised.value.detail is OutcomeDetail.FORBIDDEN


def test_a_missing_region_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(BadInput, match="region"):
        connect(AwsOptions())


def test_the_region_of_the_environment_counts_where_no_setting_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    assert "eu-north-1" in connect(AwsOptions()).address
    assert "eu-central-1" in connect(AwsOptions("eu-central-1")).address


def test_an_answer_without_an_end_is_given_up(aws: AwsDouble) -> None:
    body = "<DescribeAutoScalingGroupsResult><AutoScalingGroups/><NextToken>again</NextToken></DescribeAutoScalingGroupsResult>"
    aws.answer("DescribeAutoScalingGroups", f"<DescribeAutoScalingGroupsResponse>{body}</DescribeAutoScalingGroupsResponse>")
    with pytest.raises(GiveUp, match="the next page has the same token as this one"):
        aws.client().groups_with_tags({"x": ""})
    assert len(aws.calls("DescribeAutoScalingGroups")) == 2


def test_a_look_needs_every_right_that_is_asked_for_before_acting(aws: AwsDouble) -> None:
    client = aws.client()
    client.look()
    for action in ("DescribeAutoScalingGroups", "DescribeAutoScalingInstances", "DescribeInstances"):
        aws.refuse(action, "AccessDenied", "User is not authorized", times=1)
        with pytest.raises(GiveUp, match="not authorized"):
            client.look()
    client.look()
