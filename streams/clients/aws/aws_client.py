"""The calls of AutoScaling, EC2, EKS and SQS that node groups need, each bounded in time and pages.

No call here lowers a group's size below the instances that it has, because AWS would then choose the victim. The SDK makes each
call three times at most, adapts its rate to throttling, and finds credentials as it always does. Calls block, so an
event loop makes them in a thread. Every call raises TryAgain and GiveUp, and nothing else.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from schemas.outcomes import OutcomeDetail
from schemas.units import Seconds, counted
from streams.clients.aws import ec2_instances, group_responses, interruption_notices
from streams.clients.aws.ec2_instances import InstanceSize, InstanceState
from streams.clients.aws.group_responses import (
    AutoScalingGroup,
    EksNodeGroup,
    GroupActivity,
    GroupInstance,
    TemplateReference,
    TemplateVersion,
    TypeRequirements,
)
from streams.clients.aws.interruption_notices import QueueMessage
from streams.clients.bounded_answers import PageTokens
from streams.errors import BadInput, EdgeError, GiveUp, TryAgain

T = TypeVar("T")
TIMEOUT = Seconds(10.0)
MOST_PAGES = 200
"""Pages of one answer that are read: 20,000 groups or instances."""
TRIES = 3  # with the first one
_AT_ONCE = 100  # the most that AWS gives in one page of groups or of instance types
_NAMES_AT_ONCE = 50  # AWS takes no more names in one call
_CONNECT = 5.0
_ACTIVITIES = 100  # AWS's own maximum
_MESSAGES = 10  # the most that SQS gives in one call


_REFRESHING = frozenset(("Pending", "InProgress", "Cancelling", "RollbackInProgress", "Baking"))
"""AWS's words for a refresh of instances that is not over."""


@dataclass(frozen=True, slots=True)
class AwsOptions:
    """Where AWS is: a region and an endpoint, each None where the environment or the profile says it.

    `timeout` bounds each wait for an answer.
    """

    region: str | None = None
    endpoint: str | None = None
    timeout: Seconds = TIMEOUT


@dataclass(frozen=True, slots=True)
class _AwsRequest:
    """One call: the service's client, the operation in AWS's words, and what its error says if it fails."""

    service: str
    operation: str
    doing: str
    to: str
    arguments: Mapping[str, Any]

    @property
    def action(self) -> str:
        """The right that it takes, as IAM spells it."""
        return f"{self.service}:{self.operation}"


class AwsClient:
    """AutoScaling, EC2, SQS and EKS of one region of one account. Any thread may call."""

    def __init__(self, autoscaling: Any, ec2: Any, sqs: Any = None, eks: Any = None) -> None:
        """All are clients of the SDK; `connect` makes them."""
        self._clients = {"autoscaling": autoscaling, "ec2": ec2, "sqs": sqs, "eks": eks}

    @property
    def address(self) -> str:
        """Where calls about groups go."""
        return str(self._clients["autoscaling"].meta.endpoint_url)

    # Looking

    def look(self) -> None:
        """Make each read-only call once, about things that do not exist, to see whether AWS can be reached and used.

        Raises TryAgain and GiveUp, a missing right among the reasons.
        """
        # Calls that change something have no dry run, so a missing right for those only shows when they are made.
        self.group("ullage-sign-of-life")
        self.group_instance("i-00000000000000000")
        self.instance_states(["i-00000000000000000"])

    def groups(self, names: Sequence[str]) -> list[AutoScalingGroup]:
        """The groups of these names that exist."""
        groups: list[AutoScalingGroup] = []
        for some in _batches(names, _NAMES_AT_ONCE):
            groups += self._groups(", ".join(some)[:200], AutoScalingGroupNames=list(some))
        return groups

    def group(self, name: str) -> AutoScalingGroup | None:
        """The group of this name now; None when there is none."""
        return next(iter(self.groups([name])), None)

    def groups_with_tags(self, tags: Mapping[str, str]) -> list[AutoScalingGroup]:
        """The groups that carry all these tags; an empty value stands for any."""
        return self._groups(f"tags {', '.join(sorted(tags))}"[:200], Filters=group_responses.tag_filters(tags))

    def group_instance(self, instance: str) -> tuple[str, GroupInstance] | None:
        """The group that an instance is in, with its state there; None when it is in none."""
        request = _request("autoscaling", "DescribeAutoScalingInstances", "describing instance", instance, InstanceIds=[instance])
        members = self._read(
            request,
            "AutoScalingInstances",
            lambda item: (str(item["AutoScalingGroupName"]), group_responses.read_instance(item)),
        )
        return next(iter(members), None)

    def activities_since(self, group: str, since: datetime) -> list[GroupActivity]:
        """The scaling activities of a group that began at `since` or later, newest first."""
        request = _request(
            "autoscaling",
            "DescribeScalingActivities",
            "reading activities of group",
            group,
            AutoScalingGroupName=group,
            MaxRecords=_ACTIVITIES,
        )
        recent: list[GroupActivity] = []
        for page in self._pages(request):
            activities = _decoded(request, page.get("Activities") or (), group_responses.read_activity)
            recent += [activity for activity in activities if activity.started >= since]
            # They come newest first, so no later page has one that is wanted.
            if any(activity.started < since for activity in activities):
                break
        return recent

    def scheduled_actions(self) -> dict[str, list[str]]:
        """The names of the scheduled actions of the region, by group."""
        request = _request("autoscaling", "DescribeScheduledActions", "reading scheduled actions of", "the region")
        return self._by_group(request, "ScheduledUpdateGroupActions", "ScheduledActionName")

    def scaling_policies(self) -> dict[str, list[str]]:
        """The names of the scaling policies of the region that are switched on, by group."""
        request = _request("autoscaling", "DescribePolicies", "reading scaling policies of", "the region")
        return self._by_group(request, "ScalingPolicies", "PolicyName")

    def refreshes(self, group: str) -> bool:
        """Whether AWS is replacing the instances of a group now."""
        request = _request(
            "autoscaling",
            "DescribeInstanceRefreshes",
            "reading refreshes of group",
            group,
            AutoScalingGroupName=group,
            MaxRecords=1,  # they come newest first, and only the newest can run
        )
        newest = _decoded(request, self._call(request).get("InstanceRefreshes") or (), lambda refresh: str(refresh["Status"]))
        return bool(newest) and newest[0] in _REFRESHING

    def instance_states(self, instances: Sequence[str]) -> dict[str, InstanceState]:
        """The states of these instances in EC2, by id. One that EC2 no longer knows is absent."""
        instance_states: dict[str, InstanceState] = {}
        for some in _batches(instances, _AT_ONCE):
            # A filter, and not the ids themselves: EC2 refuses a whole call for one id that it does not know.
            filters = [{"Name": "instance-id", "Values": list(some)}]
            request = _request("ec2", "DescribeInstances", "describing instances", some[0], Filters=filters)
            for states in self._read(request, "Reservations", ec2_instances.read_reservation):
                instance_states.update({state.id: state for state in states})
        return instance_states

    def launch_template(self, reference: TemplateReference) -> TemplateVersion | None:
        """A version of a launch template; None when it is gone."""
        named = {"LaunchTemplateId": reference.id} if reference.id else {"LaunchTemplateName": reference.name}
        request = _request(
            "ec2",
            "DescribeLaunchTemplateVersions",
            "reading launch template",
            reference.key,
            Versions=[reference.version],
            **named,
        )
        try:
            versions = self._read(request, "LaunchTemplateVersions", group_responses.read_version)
        except GiveUp as refused:
            if refused.detail is OutcomeDetail.NOT_FOUND:
                return None
            raise
        return next(iter(versions), None)

    def managed_group(self, cluster: str, name: str) -> EksNodeGroup:
        """What EKS knows of a managed node group."""
        where = f"{cluster}/{name}"
        request = _request("eks", "DescribeNodegroup", "reading managed group", where, clusterName=cluster, nodegroupName=name)
        return _decoded(request, [self._call(request)], group_responses.read_node_group)[0]

    def launch_configuration_types(self, names: Sequence[str]) -> dict[str, str]:
        """The instance types of launch configurations, by name; those that there are."""
        types: dict[str, str] = {}
        for some in _batches(names, _NAMES_AT_ONCE):
            request = _request(
                "autoscaling",
                "DescribeLaunchConfigurations",
                "reading launch configurations",
                ", ".join(some)[:200],
                LaunchConfigurationNames=list(some),
            )
            pairs = self._read(
                request,
                "LaunchConfigurations",
                lambda item: (str(item["LaunchConfigurationName"]), str(item.get("InstanceType") or "")),
            )
            types.update(pairs)
        return types

    def first_fitting_type(self, image: str, requirements: TypeRequirements) -> str:
        """The first type that AWS names for these requirements and an image's processor; empty when there is none."""
        looked_up = _request("ec2", "DescribeImages", "describing image", image, ImageIds=[image])
        kinds = self._read(
            looked_up,
            "Images",
            lambda item: (str(item.get("Architecture") or "x86_64"), str(item.get("VirtualizationType") or "hvm")),
        )
        if not kinds:
            return ""
        request = _request(
            "ec2",
            "GetInstanceTypesFromInstanceRequirements",
            "finding instance types for image",
            image,
            # AWS requires both of these, and only the image says what they are.
            ArchitectureTypes=[kinds[0][0]],
            VirtualizationTypes=[kinds[0][1]],
            InstanceRequirements=dict(requirements.asked),
        )
        for page in self._pages(request):
            names = _decoded(request, page.get("InstanceTypes") or (), lambda item: str(item["InstanceType"]))
            if names:
                return names[0]
        return ""

    def instance_sizes(self) -> dict[str, InstanceSize]:
        """All types that the region offers, by name."""
        request = _request("ec2", "DescribeInstanceTypes", "describing instance types of", "the region", MaxResults=_AT_ONCE)
        return {size.name: size for size in self._read(request, "InstanceTypes", ec2_instances.read_size)}

    def messages(self, queue: str) -> list[QueueMessage]:
        """Up to ten messages of a queue (its URL).

        Others do not see them for a while; the caller removes each one that it has handled.
        """
        request = _request("sqs", "ReceiveMessage", "reading queue", queue, QueueUrl=queue, MaxNumberOfMessages=_MESSAGES)
        return _decoded(request, self._call(request).get("Messages") or (), interruption_notices.read_message)

    def remove_messages(self, queue: str, messages: Sequence[QueueMessage]) -> None:
        """Remove messages that one call of `messages` read from a queue."""
        entries = [{"Id": str(place), "ReceiptHandle": message.receipt} for place, message in enumerate(messages)]
        request = _request("sqs", "DeleteMessageBatch", "removing messages from queue", queue, QueueUrl=queue, Entries=entries)
        # SQS answers 200 even where it refused some of the entries.
        kept = self._call(request).get("Failed") or ()
        if kept:
            answer = f"{len(kept)} of {len(entries)} stay: {kept[0].get('Code')}: {kept[0].get('Message')}"[:600]
            raise TryAgain(doing=request.doing, to=request.to, answer=answer, after=Seconds(5.0))

    # Changing

    def raise_desired(self, group: AutoScalingGroup, to: int) -> None:
        """Let a group grow to `to` nodes. Raises ValueError if `group`, which was read just before, wants as many already."""
        if to <= group.desired:
            msg = f"group '{group.name}' wants {counted(group.desired, 'node')}, and {to} are no more"
            raise ValueError(msg)
        # With the cooldown honoured AWS would refuse whatever follows soon upon another activity.
        arguments = {"AutoScalingGroupName": group.name, "DesiredCapacity": to, "HonorCooldown": False}
        self._call(_request("autoscaling", "SetDesiredCapacity", "raising group", group.name, **arguments))

    def give_up_missing(self, group: AutoScalingGroup, to: int) -> None:
        """Let a group want only `to` nodes, because AWS did not deliver the others.

        Raises ValueError if `group`, which was read just before, has more instances, or wants no more.
        """
        if not group.existing <= to < group.desired:
            msg = f"group '{group.name}' wants {counted(group.desired, 'node')} and has {group.existing}, so it cannot want {to}"
            raise ValueError(msg)
        # A group's size below the instances that it has would let AWS choose the victim.
        arguments = {"AutoScalingGroupName": group.name, "DesiredCapacity": to, "HonorCooldown": False}
        self._call(_request("autoscaling", "SetDesiredCapacity", "lowering group", group.name, **arguments))

    def terminate(self, instance: str, *, replaced: bool = False) -> None:
        """Terminate an instance of a group, and let the group want one node less in the same call, unless it is `replaced`."""
        arguments = {"InstanceId": instance, "ShouldDecrementDesiredCapacity": not replaced}
        self._call(_request("autoscaling", "TerminateInstanceInAutoScalingGroup", "terminating instance", instance, **arguments))

    def protect(self, group: str, instances: Sequence[str], *, protected: bool) -> None:
        """Set whether a group may choose these instances itself when it shrinks."""
        for some in _batches(instances, _NAMES_AT_ONCE):
            arguments = {"AutoScalingGroupName": group, "InstanceIds": list(some), "ProtectedFromScaleIn": protected}
            self._call(_request("autoscaling", "SetInstanceProtection", "protecting instances of group", group, **arguments))

    def _by_group(self, request: _AwsRequest, field: str, name: str) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        # Scheduled actions have no such field; a scaling policy may be switched off.
        switched_on = (item for page in self._pages(request) for item in page.get(field) or () if item.get("Enabled", True))
        for group, named in _decoded(request, switched_on, lambda item: (str(item["AutoScalingGroupName"]), str(item[name]))):
            names.setdefault(group, []).append(named)
        return names

    def _groups(self, to: str, **arguments: Any) -> list[AutoScalingGroup]:
        request = _request("autoscaling", "DescribeAutoScalingGroups", "describing groups", to, MaxRecords=_AT_ONCE, **arguments)
        return self._read(request, "AutoScalingGroups", group_responses.read_group)

    def _read(self, request: _AwsRequest, field: str, read: Callable[[Mapping[str, Any]], T]) -> list[T]:
        """The items in a field of all pages, decoded."""
        return [item for page in self._pages(request) for item in _decoded(request, page.get(field) or (), read)]

    def _pages(self, request: _AwsRequest) -> Iterator[Mapping[str, Any]]:
        """All pages of an answer. Raises GiveUp for one that does not end."""
        token, pages = "", PageTokens(request.doing, request.to, MOST_PAGES)
        while True:
            page = self._call(request, **({"NextToken": token} if token else {}))
            yield page
            token = pages.following(page.get("NextToken"))
            if not token:
                return

    def _call(self, request: _AwsRequest, **more: str) -> Mapping[str, Any]:
        try:
            answer: Mapping[str, Any] = getattr(self._clients[request.service], _method(request.operation))(
                **request.arguments, **more
            )
        except EdgeError:  # the simulated cloud raises our own errors
            raise
        except Exception as error:
            # It needs the SDK, which the simulated cloud does without.
            from streams.clients.aws import aws_refusals

            if not isinstance(error, aws_refusals.OF_SDK):  # a fault of ours or of the SDK is no answer of AWS
                raise
            raise aws_refusals.error_for_sdk(error, doing=request.doing, to=request.to, action=request.action) from error
        return answer


def connect(options: AwsOptions) -> AwsClient:
    """A client of AWS. Raises BadInput where the SDK is not installed, or no region is set."""
    try:
        import boto3
        from botocore import exceptions
        from botocore.config import Config
    except ImportError as error:
        raise BadInput(
            f"node groups on AWS need the AWS SDK, which is not installed: pip install -e '.[aws]' ({error})"
        ) from error
    how = Config(
        connect_timeout=min(_CONNECT, options.timeout),
        read_timeout=options.timeout,
        retries={"total_max_attempts": TRIES, "mode": "adaptive"},
        user_agent_extra="ullage",
    )
    try:
        # Pods on EKS and most other SDKs have AWS_REGION; this SDK reads AWS_DEFAULT_REGION only.
        session = boto3.session.Session(region_name=options.region or os.environ.get("AWS_REGION"))
        services = ("autoscaling", "ec2", "sqs", "eks")
        clients = [session.client(name, endpoint_url=options.endpoint, config=how) for name in services]
    except exceptions.NoRegionError as error:
        raise BadInput("no AWS region is set: set aws.region (--set aws.region=eu-central-1) or AWS_REGION") from error
    except exceptions.BotoCoreError as error:
        raise BadInput(f"AWS cannot be asked with these settings (aws.region, aws.endpoint, AWS_PROFILE): {error}") from error
    return AwsClient(*clients)


def _request(service: str, operation: str, doing: str, to: str, **arguments: Any) -> _AwsRequest:
    return _AwsRequest(service, operation, doing, to, arguments)


def _method(operation: str) -> str:
    """The name of the method of the SDK for an operation: the same words in lower case, with underscores."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation).lstrip("_")


def _decoded(request: _AwsRequest, answers: Iterable[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], T]) -> list[T]:
    try:
        return [read(answer) for answer in answers]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        answer = f"an answer that cannot be read: {type(error).__name__}: {error}"
        raise TryAgain(doing=request.doing, to=request.to, answer=answer, after=Seconds(5.0)) from error


def _batches(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]
