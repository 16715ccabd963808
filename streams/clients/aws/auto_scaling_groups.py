"""Auto Scaling Groups, their instances and their scaling activities, read from AWS's responses."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from streams import typed_json
from streams.clients.aws import launch_templates
from streams.clients.aws.launch_templates import MixedInstances, TemplateReference

FAILED = "Failed"
NO_CAPACITY = "InsufficientInstanceCapacity"
UNNAMED_FAILURE = "LaunchFailed"
"""The code of a failure for which AWS's message has none."""
_CODE = re.compile(
    r"\b(?:[A-Z][A-Za-z]*\.)?(?:[A-Z][a-z]+){1,5}(?:Exceeded|Capacity|NotFound|Failure|Operation|Value|Supported|Fault)\b"
)
_SENTENCES = (
    (re.compile(r"do(?:es)? not have sufficient (?P<type>[a-z][a-z0-9-]*\.[a-z0-9-]+)? ?capacity", re.IGNORECASE), NO_CAPACITY),
    (re.compile(r"there is no (?:spot )?capacity available", re.IGNORECASE), NO_CAPACITY),
    (re.compile(r"vCPU (?:capacity|limit)", re.IGNORECASE), "VcpuLimitExceeded"),
    (re.compile(r"(?:quota|limit) (?:for|of) .{0,80}(?:instances|requests)", re.IGNORECASE), "InstanceLimitExceeded"),
)
"""What AWS writes into activities where no code stands, and the code that EC2 has for it."""
_ZONE = re.compile(r"[a-z]{2}(?:-[a-z]+)+-[0-9][a-z]")
_READ = 4_000
"""Characters of a message that are looked at."""


@dataclass(frozen=True, slots=True)
class GroupInstance:
    """An instance of a group. `lifecycle` and `health` are AWS's words.

    `protected`: the group does not choose it when it shrinks.
    """

    id: str
    zone: str
    lifecycle: str
    health: str = ""
    type: str = ""
    template: TemplateReference | None = None
    protected: bool = False

    @property
    def leaving(self) -> bool:
        """Whether it is on its way out of its group, or out already."""
        return self.lifecycle.startswith(("Terminat", "Detach"))


@dataclass(frozen=True, slots=True)
class AutoScalingGroup:
    """A group. Instances are started from a launch configuration, a launch template or a mixed-instances policy."""

    name: str
    least: int
    most: int
    desired: int
    zones: tuple[str, ...] = ()
    instances: tuple[GroupInstance, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    launch_configuration: str = ""
    template: TemplateReference | None = None
    mixed: MixedInstances | None = None
    suspended: tuple[str, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether AWS has no more to do: as many instances as wanted, all in service."""
        working = sum(one.lifecycle == "InService" for one in self.instances)
        return working == self.desired == len(self.instances)


@dataclass(frozen=True, slots=True)
class GroupActivity:
    """A scaling activity. For one that failed, `code` is EC2's; the type and zone that it tried are there if AWS names them."""

    id: str
    status: str
    started: datetime
    code: str = ""
    message: str = ""
    instance_type: str = ""
    zone: str = ""

    @property
    def failed(self) -> bool:
        """Whether AWS gave up."""
        return self.status == FAILED


class _Details(msgspec.Struct):
    zone: str = msgspec.field(default="", name="Availability Zone")


def read_group(answer: Mapping[str, Any]) -> AutoScalingGroup:
    """A group of DescribeAutoScalingGroups. Raises LookupError, TypeError and ValueError for what is none."""
    mixed = answer.get("MixedInstancesPolicy")
    return AutoScalingGroup(
        name=answer["AutoScalingGroupName"],
        least=int(answer["MinSize"]),
        most=int(answer["MaxSize"]),
        desired=int(answer["DesiredCapacity"]),
        zones=tuple(answer.get("AvailabilityZones") or ()),
        instances=tuple(read_instance(one) for one in answer.get("Instances") or ()),
        tags={tag["Key"]: tag.get("Value") or "" for tag in answer.get("Tags") or ()},
        launch_configuration=answer.get("LaunchConfigurationName") or "",
        template=launch_templates.read_reference(answer.get("LaunchTemplate")),
        mixed=None if not mixed else launch_templates.read_mixed(mixed),
        suspended=tuple(sorted(one["ProcessName"] for one in answer.get("SuspendedProcesses") or ())),
    )


def read_instance(answer: Mapping[str, Any]) -> GroupInstance:
    """An instance of a group, or of DescribeAutoScalingInstances. Raises as `read_group`."""
    return GroupInstance(
        id=answer["InstanceId"],
        zone=answer.get("AvailabilityZone") or "",
        lifecycle=answer.get("LifecycleState") or "",
        health=(answer.get("HealthStatus") or "").capitalize(),
        type=answer.get("InstanceType") or "",
        template=launch_templates.read_reference(answer.get("LaunchTemplate")),
        protected=bool(answer.get("ProtectedFromScaleIn")),
    )


def read_activity(answer: Mapping[str, Any]) -> GroupActivity:
    """An activity of DescribeScalingActivities. Raises as `read_group`."""
    message, status = str(answer.get("StatusMessage") or "")[:_READ], str(answer["StatusCode"])
    found = GroupActivity(str(answer["ActivityId"]), status, answer["StartTime"], message=message)
    if not found.failed:
        return found
    code, kind = _failure(message)
    zone = _zone(str(answer.get("Details") or "")) or next(iter(_ZONE.findall(message)), "")
    return GroupActivity(found.id, status, found.started, code, message, kind, zone)


def _failure(message: str) -> tuple[str, str]:
    """EC2's code for a failure, and the instance type that the message names."""
    for pattern, code in _SENTENCES:
        if (match := pattern.search(message)) is not None:
            return code, match.groupdict().get("type") or ""
    named: Sequence[str] = _CODE.findall(message)
    return (named[0] if named else UNNAMED_FAILURE), ""


def _zone(details: str) -> str:
    try:
        return typed_json.decode(details, _Details).zone
    except ValueError:
        return ""
