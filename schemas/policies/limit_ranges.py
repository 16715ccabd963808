"""LimitRange objects as policies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from schemas.names import Amounts, KeyedObjectEvent


class LimitType(StrEnum):
    """What an entry of a LimitRange bounds."""

    CONTAINER = "Container"
    POD = "Pod"


@dataclass(frozen=True, slots=True)
class Limit:
    """One entry of a LimitRange. Amounts that are None are not bounded; ratios are limit to request, by resource."""

    type: LimitType
    least: Amounts = Amounts()
    most: Amounts = Amounts()
    default_limits: Amounts = Amounts()
    default_requests: Amounts = Amounts()
    ratios: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LimitRangeChanged(KeyedObjectEvent):
    """A LimitRange object was made or changed. Entries of other types than those of LimitType are left out."""

    KIND = "LimitRange"
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class LimitRangeRemoved(KeyedObjectEvent):
    """A LimitRange object is gone."""

    KIND = "LimitRange"
