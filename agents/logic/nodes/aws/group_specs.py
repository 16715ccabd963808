"""Which groups to manage, as users write it: 'min:max:name' for one, and tags to discover many."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LARGEST = 2**63


class SpecError(ValueError):
    """A spec that means nothing; the message is upstream's."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group named by hand; its limits win over those that AWS knows."""

    name: str
    least: int
    most: int


def explicit(text: str) -> GroupSpec:
    """A group from 'min:max:name'; raises SpecError. Source: SpecFromString in config/dynamic/node_group_spec.go."""
    parts = text.split(":", 2)
    wrong = "failed to parse node group spec: "
    if len(parts) != len(("min", "max", "name")):
        raise SpecError(f"{wrong}wrong nodes configuration: {text}")
    least = _integer(parts[0], f"{wrong}failed to set min size: ")
    most = _integer(parts[1], f"{wrong}failed to set max size: ")
    invalid = f"{wrong}invalid node group spec: "
    if least < 0:
        raise SpecError(f"{invalid}min size must be >= 0")
    if most < least:
        raise SpecError(f"{invalid}max size must be greater or equal to min size")
    if not parts[2]:
        raise SpecError(f"{invalid}name must not be blank")
    return GroupSpec(parts[2], least, most)


def discovery(specs: Iterable[str]) -> dict[str, str]:
    """The tags that a group must all carry, from specs like 'asg:tag=k1,k2=v2'; raises SpecError.

    Source: parseASGAutoDiscoverySpec in cloudprovider/aws/aws_manager.go.
    """
    # One map of all specs, as upstream has it: a group must carry the tags of every spec, and the last value of a key wins.
    tags: dict[str, str] = {}
    for spec in specs:
        tags.update(_tags(spec))
    return tags


def _tags(spec: str) -> dict[str, str]:
    discoverer, colon, parameter = spec.partition(":")
    if not colon:
        raise SpecError(f"invalid node group auto discovery spec specified via --node-group-auto-discovery: {spec}")
    if discoverer != "asg":
        raise SpecError(f"unsupported discoverer specified: {discoverer}")
    key, equal, value = parameter.partition("=")
    if not equal:
        raise SpecError(f"invalid key=value pair [{parameter}]")
    if key != "tag":
        only = 'The only supported key is "tag"'
        raise SpecError(f'unsupported parameter key "{key}" is specified for discoverer "{discoverer}". {only}')
    if not value:
        raise SpecError("tag value not supplied")
    return {name: wanted for name, _equal, wanted in (tag.partition("=") for tag in value.split(","))}


def _integer(text: str, wrong: str) -> int:
    if _INTEGER.fullmatch(text) is None or not -_LARGEST <= int(text[:40]) < _LARGEST:
        raise SpecError(f"{wrong}{text}, expected integer")
    return int(text)
