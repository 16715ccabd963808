"""LimitRanges as policies. Only entries for containers and pods count; a bad quantity is refused and quoted."""

from collections.abc import Mapping
from datetime import datetime

from schemas.names import Amounts
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitRangeRemoved, LimitType
from streams.clients.kube import quantities
from streams.clients.kube.watched_objects import LimitRangeItem, LimitRangeObject

_TYPES = {each.value for each in LimitType}


def changed(found: LimitRangeObject, cluster: str, at: datetime) -> LimitRangeChanged:
    """The policy that a limit range makes. Raises ValueError for a bad quantity."""
    limits = tuple(_limit(item) for item in found.spec.limits if item.type in _TYPES)
    return LimitRangeChanged(at, cluster, found.metadata.namespace, found.metadata.name, limits)


def removed(published: LimitRangeChanged, at: datetime) -> LimitRangeRemoved:
    """The policy that a limit range is gone, from what was last published about it."""
    return LimitRangeRemoved(at, published.cluster, published.namespace, published.name)


def _limit(item: LimitRangeItem) -> Limit:
    return Limit(
        LimitType(item.type),
        least=_amounts(item.min),
        most=_amounts(item.max),
        default_limits=_amounts(item.default),
        default_requests=_amounts(item.default_request),
        ratios={name: quantities.parse(ratio) for name, ratio in sorted((item.max_limit_request_ratio or {}).items())},
    )


def _amounts(texts: Mapping[str, str] | None) -> Amounts:
    return Amounts() if texts is None else quantities.read_amounts(texts)
