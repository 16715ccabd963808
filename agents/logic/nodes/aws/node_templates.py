"""How an empty new node of a group would look, for scaling from zero."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.logic.nodes.scheduling.pod_shapes import REGION, ZONE, SchedulingNode, Taint, pairs
from schemas import exact_quantity
from schemas.pod_requests import CPU, MEMORY, PODS
from schemas.well_known_labels import HOSTNAME, INSTANCE_TYPE

GPU = "nvidia.com/gpu"
GPU_LABEL = "k8s.amazonaws.com/accelerator"
POD_SLOTS = 110
"""Upstream's constant; the limit that network interfaces set is not looked at."""
KUBE_PROXY_CPU = 100
"""Thousandths of a core that the kube-proxy of a node from a template takes."""
MIB = 2**20

MOST_UNREAD = 20
"""Tags of one group that are said not to be readable."""
_SHOWN = 80
_TEMPLATE = "k8s.io/cluster-autoscaler/node-template/"
_TAINT = re.compile(r":(?:NoSchedule|NoExecute|PreferNoSchedule)")
_EKS_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}


class TemplateError(ValueError):
    """A group without a template; the message says why, as upstream does."""


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A type of instance: its size and its processor's architecture, as Kubernetes spells it."""

    name: str
    vcpus: int
    memory_mib: int
    gpus: int = 0
    architecture: str = "amd64"


@dataclass(frozen=True, slots=True)
class InstanceRequirements:
    """What an attribute-based group demands of a type, as far as the template uses it; None where nothing is demanded."""

    vcpus: int | None = None
    memory_mib: int | None = None
    accelerators: int | None = None
    manufacturers: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchTemplate:
    """A version of a launch template, as far as it decides the type. `fitting`: the first type that AWS names for it."""

    instance_type: str = ""
    image: str = ""
    requirements: InstanceRequirements | None = None
    fitting: str = ""


@dataclass(frozen=True, slots=True)
class MixedPolicy:
    """A mixed-instances policy: overriding types, or an override by requirements with the first type that AWS names for it."""

    template: LaunchTemplate | None
    template_name: str = ""
    types: tuple[str, ...] = ()
    requirements: InstanceRequirements | None = None
    fitting: str = ""


@dataclass(frozen=True, slots=True)
class NodegroupAnswer:
    """EKS's description of a managed node group. Taints are (key, value, effect) in EKS's form."""

    labels: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[tuple[str, str, str], ...] = ()
    disk_size: int | None = None
    ami_type: str = ""
    capacity_type: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class LaunchSource:
    """How a group starts instances. `configured` is the type of its launch configuration, None if it has none or it is gone.

    `failure`: AWS's code, if it could not be asked.
    """

    failure: str = ""
    configured: str | None = None
    template: LaunchTemplate | None = None
    mixed: MixedPolicy | None = None


@dataclass(frozen=True, slots=True)
class TemplateSource:
    """A group as a template sees it."""

    name: str
    zones: tuple[str, ...]
    tags: Mapping[str, str]
    launch: LaunchSource
    nodegroup: NodegroupAnswer | None = None


def instance_type(group: TemplateSource) -> str:
    """The name of the type that a group starts; raises TemplateError.

    Source: getInstanceTypesForAsgs in cloudprovider/aws/aws_wrapper.go.
    """
    launch = group.launch
    if launch.failure:
        raise TemplateError(f"could not get instance type for {group.name}: {launch.failure}")
    # A launch configuration wins over a launch template, that over a mixed policy; of a policy's types the first counts.
    name = launch.configured or ""
    if not name and launch.template is not None:
        name = _of_template(launch.template)
    elif not name and launch.mixed is not None:
        policy = launch.mixed
        if policy.types:
            name = policy.types[0]
        elif policy.requirements is not None:
            name = policy.fitting if policy.template is not None and policy.template.image else ""
        elif policy.template is not None:
            name = _of_template(policy.template)
    if not name:
        raise TemplateError(f"could not find instance type for {group.name}")
    return name


def _of_template(template: LaunchTemplate) -> str:
    if template.instance_type:
        return template.instance_type
    return template.fitting if template.requirements is not None and template.image else ""


def node(group: TemplateSource, types: Mapping[str, InstanceType], name: str) -> SchedulingNode:
    """The node that a group would start; raises TemplateError.

    `name` is also its host name. Allocatable equals capacity. Source: buildNodeFromTemplate in cloudprovider/aws/aws_manager.go.
    """
    if not group.zones or not group.zones[0]:
        raise TemplateError(f'unable to get first AvailabilityZone for ASG "{group.name}"')
    kind = types.get(instance_type(group))
    if kind is None:
        raise TemplateError(f'ASG "{group.name}" uses the unknown EC2 instance type "{instance_type(group)}"')
    managed = group.nodegroup if group.nodegroup is not None and _valid(group.nodegroup) else None
    capacity = {PODS: POD_SLOTS, CPU: kind.vcpus * 1000, GPU: kind.gpus, MEMORY: kind.memory_mib * MIB}
    # The later wins: what a policy demands over the type, tags over both, and the node group's own tags over the group's.
    capacity.update(_demanded(group.launch))
    capacity.update(resource_tags(group.tags))
    labels = _generic_labels(kind, group.zones[0], name)
    labels.update(label_tags(group.tags))
    taints = list(taint_tags(group.tags))
    if managed is not None:
        capacity.update(resource_tags(managed.tags))
        labels.update(_nodegroup_labels(managed, labels.get("nodegroup-name", "")))
        taints += [Taint(key, value, _EKS_EFFECTS[effect]) for key, value, effect in managed.taints]
    return SchedulingNode(name, pairs(labels), tuple(taints), unschedulable=False, allocatable=capacity, capacity=dict(capacity))


def check_policy(launch: LaunchSource) -> None:
    """Raise TemplateError if a mixed policy rests on a launch template that is gone."""
    policy = launch.mixed
    # Upstream then refuses to start.
    if policy is not None and policy.template is None and not policy.types and policy.requirements is None:
        gone = f"unable to find template versions for launch template {policy.template_name}"
        raise TemplateError(f"unable to retrieve instance requirements from mixed instance policy, err: {gone}")


def label_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """The labels in a group's tags, including those of EKS."""
    labels: dict[str, str] = {}
    for mark in (f"{_TEMPLATE}label/", "eks:"):
        labels.update({key: value for key, value in _after(tags, mark).items() if key})
    return labels


def taint_tags(tags: Mapping[str, str]) -> list[Taint]:
    """The taints in a group's tags, by key."""
    taints = []
    for key, text in sorted(_after(tags, f"{_TEMPLATE}taint/").items()):
        # As in upstream, an effect may occur anywhere in the value, and value and effect are split at the first colon.
        if _TAINT.search(text):
            value, _colon, effect = text.partition(":")
            taints.append(Taint(key, value, effect))
    return taints


def resource_tags(tags: Mapping[str, str]) -> dict[str, int]:
    """The resources in a group's tags; invalid quantities are left out."""
    resources: dict[str, int] = {}
    for name, text in _after(tags, f"{_TEMPLATE}resources/").items():
        try:
            amount = exact_quantity.parse(text)
        except exact_quantity.NotAQuantityError:
            continue
        if name:
            resources[name] = amount.milli if name == CPU else amount.whole
    return resources


def unread_tags(tags: Mapping[str, str]) -> list[str]:
    """A sentence for each tag with a resource or a taint that cannot be read, and so does not count. At most `MOST_UNREAD`."""
    resources = _after(tags, f"{_TEMPLATE}resources/")
    taints = _after(tags, f"{_TEMPLATE}taint/")
    read = resource_tags(tags).keys()
    faults = [_unread("resources", name, text, "no quantity") for name, text in resources.items() if name not in read]
    plain = ", ".join(sorted(_EKS_EFFECTS.values()))
    form = f"not value:effect with one of the effects {plain}"
    return (faults + [_unread("taint", key, text, form) for key, text in taints.items() if not _TAINT.search(text)])[:MOST_UNREAD]


def _unread(part: str, name: str, text: str, why: str) -> str:
    return f"tag '{_TEMPLATE}{part}/{name[:_SHOWN]}' says '{text[:_SHOWN]}', which is {why}, so it does not count"


def gpu_of(made: SchedulingNode) -> str | None:
    """The kind of GPU of a node, empty if it is not named, or None if the node has none.

    Source: NodeHasGpu in utils/gpu/gpu.go: the label says so, or there is some of the resource.
    """
    named = made.label(GPU_LABEL)
    return (named or "") if named is not None or made.allocatable.get(GPU, 0) else None


def _after(tags: Mapping[str, str], mark: str) -> dict[str, str]:
    """The part of a tag's name after a mark, up to the mark's next occurrence."""
    # As in upstream, the mark may be anywhere in a tag.
    return {tag.split(mark)[1]: value for tag, value in sorted(tags.items()) if mark in tag}


def _demanded(launch: LaunchSource) -> dict[str, int]:
    """The minimum that an attribute-based policy guarantees. Source: updateCapacityWithRequirementsOverrides."""
    policy = launch.mixed
    if policy is None or policy.types or launch.configured or launch.template is not None:
        return {}
    wanted = policy.requirements or (policy.template.requirements if policy.template is not None else None)
    if wanted is None:
        return {}
    capacity: dict[str, int] = {}
    if wanted.vcpus is not None:
        capacity[CPU] = wanted.vcpus * 1000
    if wanted.memory_mib is not None:
        # Upstream multiplies in 32 bits, so that 2048 MiB and more wrap; here as there.
        capacity[MEMORY] = (wanted.memory_mib * MIB + 2**31) % 2**32 - 2**31
    if wanted.accelerators is not None and "nvidia" in wanted.manufacturers and "gpu" in wanted.kinds:
        capacity[GPU] = wanted.accelerators
    return capacity


def _generic_labels(kind: InstanceType, zone: str, name: str) -> dict[str, str]:
    return {
        "kubernetes.io/arch": kind.architecture,
        "kubernetes.io/os": "linux",
        INSTANCE_TYPE: kind.name,
        REGION: zone[:-1],
        ZONE: zone,
        "topology.ebs.csi.aws.com/zone": zone,
        HOSTNAME: name,
    }


def _valid(answer: NodegroupAnswer) -> bool:
    """Whether EKS's answer can be used; a single unknown effect makes all of it unusable."""
    return all(effect in _EKS_EFFECTS for _key, _value, effect in answer.taints)


def _nodegroup_labels(answer: NodegroupAnswer, name: str) -> dict[str, str]:
    labels = {
        "diskSize": "" if answer.disk_size is None else str(answer.disk_size),
        "amiType": answer.ami_type,
        "k8sVersion": answer.version,
        "eks.amazonaws.com/capacityType": answer.capacity_type,
        "eks.amazonaws.com/nodegroup": name,
    }
    return {**{key: value for key, value in labels.items() if value}, **answer.labels}
