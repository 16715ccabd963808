"""Launch templates, mixed-instances policies and requirements on instance types, read from AWS's responses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
