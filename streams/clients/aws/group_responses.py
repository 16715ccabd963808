"""Auto Scaling Groups, their instances, activities and launch templates, and EKS's node groups, read from AWS's responses."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from streams import typed_json

# What AWS takes for a reference that names no version.
DEFAULT_VERSION = "$Default"


@dataclass(frozen=True, slots=True)
class TemplateReference:
    """A version of a launch template, named by its id or its name. The version may be `$Default` or `$Latest`."""

    id: str
    name: str = ""
    version: str = DEFAULT_VERSION

    @property
    def key(self) -> str:
        """The id or name, and the version: `lt-0abc:7`."""
        return f"{self.id or self.name}:{self.version}"

    @property
    def fixed(self) -> bool:
        """Whether the version is a number, whose content never changes."""
        return self.version.isdecimal()


@dataclass(frozen=True, slots=True)
class TypeRequirements:
    """The minimums that an attribute-based group demands of a type; None for no demand. `asked` is all of it in AWS's form."""

    vcpus: int | None = None
    memory_mib: int | None = None
    accelerators: int | None = None
    manufacturers: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    asked: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class TemplateVersion:
    """What a version of a launch template starts. `number` is the version that `$Default` or `$Latest` stood for."""

    id: str
    number: str
    instance_type: str = ""
    image: str = ""
    requirements: TypeRequirements | None = None
    spot: bool = False


@dataclass(frozen=True, slots=True)
class MixedInstances:
    """A mixed-instances policy. `types` are the overriding ones, by preference; `spot`: some of the instances are spot.

    `weights`: how much of the group's size an instance of each of the types counts for, as far as that is said. `own_templates`:
    those of types that are started from another template than the others.
    """

    template: TemplateReference | None
    types: tuple[str, ...] = ()
    requirements: TypeRequirements | None = None
    spot: bool = False
    weights: tuple[int, ...] = ()
    own_templates: tuple[TemplateReference, ...] = ()


def read_reference(answer: Mapping[str, Any] | None) -> TemplateReference | None:
    """A LaunchTemplateSpecification; None for none."""
    if not answer:
        return None
    return TemplateReference(
        answer.get("LaunchTemplateId") or "", answer.get("LaunchTemplateName") or "", answer.get("Version") or DEFAULT_VERSION
    )


def read_mixed(answer: Mapping[str, Any]) -> MixedInstances:
    """A MixedInstancesPolicy. Raises LookupError, TypeError and ValueError for what is none."""
    launch, distribution = answer.get("LaunchTemplate") or {}, answer.get("InstancesDistribution") or {}
    overrides = launch.get("Overrides") or ()
    weights = tuple(int(override["WeightedCapacity"]) for override in overrides if override.get("WeightedCapacity"))
    own = (read_reference(override.get("LaunchTemplateSpecification")) for override in overrides)
    demanded = next((override["InstanceRequirements"] for override in overrides if override.get("InstanceRequirements")), None)
    return MixedInstances(
        template=read_reference(launch.get("LaunchTemplateSpecification")),
        types=tuple(override["InstanceType"] for override in overrides if override.get("InstanceType")),
        requirements=None if demanded is None else read_requirements(demanded),
        # AWS's own default is 100: nothing is spot unless somebody says so.
        spot=int(distribution.get("OnDemandPercentageAboveBaseCapacity", 100)) < 100,  # noqa: PLR2004  # all of them
        weights=weights,
        own_templates=tuple(dict.fromkeys(override for override in own if override is not None)),
    )


def read_requirements(answer: Mapping[str, Any]) -> TypeRequirements:
    """An InstanceRequirements. Raises as `read_mixed`."""
    return TypeRequirements(
        vcpus=_least(answer.get("VCpuCount")),
        memory_mib=_least(answer.get("MemoryMiB")),
        accelerators=_least(answer.get("AcceleratorCount")),
        manufacturers=tuple(answer.get("AcceleratorManufacturers") or ()),
        kinds=tuple(answer.get("AcceleratorTypes") or ()),
        asked=dict(answer),
    )


def read_version(answer: Mapping[str, Any]) -> TemplateVersion:
    """A version of DescribeLaunchTemplateVersions. Raises as `read_mixed`."""
    data = answer.get("LaunchTemplateData") or {}
    demanded = data.get("InstanceRequirements")
    return TemplateVersion(
        id=answer["LaunchTemplateId"],
        # A number here, and text in each reference to it.
        number=str(answer["VersionNumber"]),
        instance_type=data.get("InstanceType") or "",
        image=data.get("ImageId") or "",
        requirements=None if not demanded else read_requirements(demanded),
        spot=(data.get("InstanceMarketOptions") or {}).get("MarketType") == "spot",
    )


def _least(bounds: Mapping[str, Any] | None) -> int | None:
    least = (bounds or {}).get("Min")
    return None if least is None else int(least)


FAILED = "Failed"
NODES = "units"
"""AWS's word for sizes that count instances."""
NO_CAPACITY = "InsufficientInstanceCapacity"
UNNAMED_FAILURE = "LaunchFailed"
"""The code of a failure for which AWS's message has none."""
# AWS gives no code of a failed activity, only sentences, some of which quote EC2's code.
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
        """Whether it is on its way out of its group, or out already; one that goes back to a warm pool is out, too."""
        # AWS's words go on with a colon: Terminating:Wait, Terminating:Proceed.
        return self.lifecycle.startswith(("Terminat", "Detach")) or self.warm

    @property
    def warm(self) -> bool:
        """Whether it waits in the group's warm pool, so that the group's size does not count it."""
        return self.lifecycle.startswith("Warmed")

    @property
    def standby(self) -> bool:
        """Whether somebody has put it aside: it runs, but the group's size does not count it."""
        return self.lifecycle.endswith("Standby")


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
    units: str = NODES
    """What its sizes count: nodes, or the vCPUs or the memory of its nodes."""
    deleting: bool = False
    lifetime: int = 0
    """Seconds after which AWS replaces an instance by itself, without a drain; 0 for never."""
    rebalances: bool = False
    """Whether AWS replaces a spot instance by itself when it recommends that."""
    operator: str = ""
    """The service of AWS that alone may change it; empty for none."""

    @property
    def unscalable(self) -> str:
        """Why its sizes cannot be used, in a sentence; empty if they can."""
        if self.deleting:
            return "AWS is deleting it"
        if self.operator:
            return f"only '{self.operator}' may change it (Operator)"
        if self.units != NODES:
            return f"its sizes count '{self.units}' and not nodes (DesiredCapacityType)"
        # Plans count nodes, so a size must count instances.
        weights = {1} if self.mixed is None else {1, *self.mixed.weights}
        if weights != {1}:
            return f"an instance counts for up to {max(weights)} of its size (WeightedCapacity), which is no number of nodes"
        return ""

    @property
    def existing(self) -> int:
        """How many instances its size counts: not those on their way out, in its warm pool or put aside."""
        return sum(not instance.leaving and not instance.standby for instance in self.instances)

    @property
    def settled(self) -> bool:
        """Whether AWS has no more to do: as many instances as wanted, all in service."""
        # One on its way out counts, because AWS is not done until it is gone.
        counted = [instance for instance in self.instances if not instance.standby and not instance.warm]
        working = sum(instance.lifecycle == "InService" for instance in counted)
        return working == self.desired == len(counted)


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
        instances=tuple(read_instance(item) for item in answer.get("Instances") or ()),
        tags={tag["Key"]: tag.get("Value") or "" for tag in answer.get("Tags") or ()},
        launch_configuration=answer.get("LaunchConfigurationName") or "",
        template=read_reference(answer.get("LaunchTemplate")),
        mixed=None if not mixed else read_mixed(mixed),
        suspended=tuple(sorted(item["ProcessName"] for item in answer.get("SuspendedProcesses") or ())),
        units=answer.get("DesiredCapacityType") or NODES,
        deleting=bool(answer.get("Status")),  # AWS has no other status than that a group is being deleted
        lifetime=int(answer.get("MaxInstanceLifetime") or 0),
        rebalances=bool(answer.get("CapacityRebalance")),
        operator=str((answer.get("Operator") or {}).get("Principal") or ""),
    )


def tag_filters(tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """The filters of DescribeAutoScalingGroups for groups with all of these tags; an empty value stands for any."""
    return [
        {"Name": f"tag:{key}", "Values": [value]} if value else {"Name": "tag-key", "Values": [key]}
        for key, value in sorted(tags.items())
    ]


def read_instance(answer: Mapping[str, Any]) -> GroupInstance:
    """An instance of a group, or of DescribeAutoScalingInstances. Raises as `read_group`."""
    return GroupInstance(
        id=answer["InstanceId"],
        zone=answer.get("AvailabilityZone") or "",
        lifecycle=answer.get("LifecycleState") or "",
        # DescribeAutoScalingInstances says HEALTHY where DescribeAutoScalingGroups says Healthy.
        health=(answer.get("HealthStatus") or "").capitalize(),
        type=answer.get("InstanceType") or "",
        template=read_reference(answer.get("LaunchTemplate")),
        protected=bool(answer.get("ProtectedFromScaleIn")),
    )


def read_activity(answer: Mapping[str, Any]) -> GroupActivity:
    """An activity of DescribeScalingActivities. Raises as `read_group`."""
    message, status = str(answer.get("StatusMessage") or "")[:_READ], str(answer["StatusCode"])
    activity = GroupActivity(str(answer["ActivityId"]), status, answer["StartTime"], message=message)
    if not activity.failed:
        return activity
    code, kind = _failure(message)
    zone = _zone(str(answer.get("Details") or "")) or next(iter(_ZONE.findall(message)), "")
    return GroupActivity(activity.id, status, activity.started, code, message, kind, zone)


def _failure(message: str) -> tuple[str, str]:
    """EC2's code for a failure, and the instance type that the message names."""
    for pattern, code in _SENTENCES:
        if (match := pattern.search(message)) is not None:
            return code, match.groupdict().get("type") or ""
    named: Sequence[str] = _CODE.findall(message)
    return (named[0] if named else UNNAMED_FAILURE), ""


def _zone(details: str) -> str:
    try:
        # AWS promises text here; that it is JSON is only what AWS does.
        return typed_json.decode(details, _Details).zone
    except ValueError:
        return ""


CLUSTER_TAG, GROUP_TAG = "eks:cluster-name", "eks:nodegroup-name"
"""Tags that EKS puts on the Auto Scaling Groups of its node groups."""


@dataclass(frozen=True, slots=True)
class EksNodeGroup:
    """What EKS knows of the nodes of a managed group. Taints are key, value and effect, the effect in EKS's words."""

    labels: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[tuple[str, str, str], ...] = ()
    disk_size: int | None = None
    ami_type: str = ""
    capacity_type: str = ""
    version: str = ""


def managed_by(tags: Mapping[str, str]) -> tuple[str, str] | None:
    """The EKS cluster and the node group whose Auto Scaling Group carries these tags; None for any other group."""
    cluster, name = tags.get(CLUSTER_TAG), tags.get(GROUP_TAG)
    return (cluster, name) if cluster and name else None


def read_node_group(answer: Mapping[str, Any]) -> EksNodeGroup:
    """The answer of DescribeNodegroup. Raises LookupError, TypeError and ValueError for what is none."""
    group = answer["nodegroup"]
    disk = group.get("diskSize")
    return EksNodeGroup(
        dict(group.get("labels") or {}),
        dict(group.get("tags") or {}),
        tuple((str(taint["key"]), str(taint.get("value") or ""), str(taint["effect"])) for taint in group.get("taints") or ()),
        None if disk is None else int(disk),
        str(group.get("amiType") or ""),
        str(group.get("capacityType") or ""),
        str(group.get("version") or ""),
    )
