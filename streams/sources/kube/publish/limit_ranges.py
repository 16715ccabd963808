"""LimitRanges as policies. Entries for what is neither a container nor a pod are left out; amounts that are none are refused."""

from collections.abc import Mapping
from datetime import datetime

from schemas.names import Amounts
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitRangeRemoved, LimitType
from streams.clients.kube import amounts
from streams.clients.kube.watched_objects import LimitItem, LimitRangeObject

_TYPES = {each.value for each in LimitType}


def changed(found: LimitRangeObject, cluster: str, at: datetime) -> LimitRangeChanged:
    """A limit range as it is. Raises ValueError for a quantity that is none."""
    limits = tuple(_limit(item) for item in found.spec.limits if item.type in _TYPES)
    return LimitRangeChanged(at, cluster, found.metadata.namespace, found.metadata.name, limits)


def removed(said: LimitRangeChanged, at: datetime) -> LimitRangeRemoved:
    """It is gone."""
    return LimitRangeRemoved(at, said.cluster, said.namespace, said.name)


def _limit(item: LimitItem) -> Limit:
    return Limit(
        LimitType(item.type),
        least=_amounts(item.min),
        most=_amounts(item.max),
        default_limits=_amounts(item.default),
        default_requests=_amounts(item.default_request),
        ratios={name: amounts.number(ratio) for name, ratio in sorted((item.max_limit_request_ratio or {}).items())},
    )


def _amounts(quantities: Mapping[str, str] | None) -> Amounts:
    return Amounts() if quantities is None else amounts.read(quantities)
