"""A group's scaling options from its tags, over the defaults of all groups, and the capacity pools of its instances.

A pool is an instance type in a zone and a market. Failures that are about pools name those that are empty.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from schemas.facts.nodes import NodeGroupSeen, ScalingActivityFailed
from schemas.well_known_labels import OPTION_TAG

_FLOAT = re.compile(r"[+-]?(?:[0-9]+(?:_[0-9]+)*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?", re.ASCII)
_HEX = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]{1,9}", re.ASCII)
_DURATION = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+")
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST = 2**63 / 1e9
_MOST_CHARACTERS = 64
_YES = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_NO = frozenset(("0", "f", "F", "false", "FALSE", "False"))


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """The settings that a group may have for itself. Times in seconds, thresholds as shares of what is allocatable."""

    utilization_threshold: float = 0.5
    gpu_utilization_threshold: float = 0.5
    unneeded: float = 600.0
    unready: float = 1200.0
    max_provision: float = 900.0
    max_startup: float = 900.0
    ignore_daemonsets: bool = False
    zero_or_max: bool = False


def duration(text: str) -> float | None:
    """Seconds of a duration as Go writes it ('1h30m', '-5m', '0'), or None if it is none. Source: ParseDuration in Go's time."""
    if text in ("0", "+0", "-0"):
        return 0.0
    # Tags are texts of users: a pattern is only tried on short ones.
    if len(text) > _MOST_CHARACTERS or _DURATION.fullmatch(text) is None:
        return None
    seconds = math.fsum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if seconds > _LONGEST:
        return None
    return -seconds if text.startswith("-") else seconds


def number(text: str) -> float | None:
    """A finite number as Go reads it, hexadecimal too, or None."""
    if len(text) > _MOST_CHARACTERS:
        return None
    value = float.fromhex(text) if _HEX.fullmatch(text) else float(text) if _FLOAT.fullmatch(text) else math.nan
    # Upstream takes infinity and NaN, with which no node would ever be unneeded, or every one.
    return value if math.isfinite(value) else None


def truth(text: str) -> bool | None:
    """A yes or no as Go reads it, or None. Source: ParseBool in Go's strconv."""
    return True if text in _YES else False if text in _NO else None


_READERS: Mapping[str, tuple[str, Callable[[str], float | bool | None]]] = {
    "scaledownutilizationthreshold": ("utilization_threshold", number),
    "scaledowngpuutilizationthreshold": ("gpu_utilization_threshold", number),
    "scaledownunneededtime": ("unneeded", duration),
    "scaledownunreadytime": ("unready", duration),
    "ignoredaemonsetsutilization": ("ignore_daemonsets", truth),
}


_UNREAD_BY_AWS = ("maxnodeprovisiontime", "maxnodestartuptime")
"""Options that upstream has, and does not read on AWS."""


def unread(options: Mapping[str, str]) -> dict[str, str]:
    """The options that have no effect: upstream's names with an unreadable value, and unknown names."""
    known = {**{name: read for name, (_field, read) in _READERS.items()}, **dict.fromkeys(_UNREAD_BY_AWS, duration)}
    return {name: text for name, text in sorted(options.items()) if name not in known or known[name](text) is None}


def of_group(tags: Mapping[str, str], defaults: GroupOptions) -> GroupOptions:
    """The options of a group. Source: GetAutoscalingOptions in aws_manager.go."""
    options: dict[str, float | bool] = {}
    for tag, text in tags.items():
        name = tag.removeprefix(OPTION_TAG)
        if tag.startswith(OPTION_TAG) and name in _READERS:
            option, read = _READERS[name]
            value = read(text)
            # A value that cannot be read leaves the default, and `unread` names it.
            if value is not None:
                options[option] = value
    return replace(defaults, **options)  # type: ignore[arg-type]  # the readers above give each option its type


# Which groups to manage, as users write it: 'min:max:name' for one, and tags to discover many.

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


SPOT, ON_DEMAND = "spot", "on-demand"
OUT_OF_CAPACITY = frozenset(
    ("InsufficientInstanceCapacity", "InsufficientHostCapacity", "UnfulfillableCapacity", "InsufficientCapacity")
)
"""EC2's codes for a pool that has no more instances."""
OUT_OF_PRICE = frozenset(("SpotMaxPriceTooLow",))
"""A code for a spot pool that costs more than the group pays."""
NOT_OFFERED = frozenset(("Unsupported",))
"""EC2's code where a zone does not have the type at all, whatever the market."""


def pools_of_group(fact: NodeGroupSeen) -> tuple[str, ...]:
    """The pools that a group takes instances from."""
    # One that starts some of its instances as spot instances needs those.
    market = SPOT if fact.spot else ON_DEMAND
    return tuple(key(kind, zone, market) for kind in fact.instance_types for zone in fact.zones)


def empty_pools(failure: ScalingActivityFailed, *, spot: bool) -> Iterator[str]:
    """The pools that a failure says are empty. `spot`: its group starts spot instances, maybe among others."""
    if not failure.instance_type or not failure.zone:
        return
    if failure.code in NOT_OFFERED:
        markets: tuple[str, ...] = (SPOT, ON_DEMAND)
    elif failure.code in OUT_OF_PRICE:
        markets = (SPOT,)
    elif failure.code in OUT_OF_CAPACITY:
        markets = (_market(failure.message, spot=spot),)
    else:
        markets = ()
    yield from (key(failure.instance_type, failure.zone, market) for market in markets)


def _market(message: str, *, spot: bool) -> str:
    """The market that a message is about."""
    # A group of both markets may fail in either, and EC2 names spot where it means it.
    words = message.lower()
    if "spot" in words:
        return SPOT
    return ON_DEMAND if not spot or "sufficient" in words else SPOT


def key(instance_type: str, zone: str, market: str) -> str:
    """A pool's key among the backoffs; no group's name has this form."""
    return f"{instance_type} in {zone}, {market}"
