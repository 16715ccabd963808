"""Where a group's instances come from: a pool for each instance type, zone and market, and which failures are about pools.

Spot and on-demand instances of one type in one zone are two pools of AWS: one may be empty while the other has plenty. A failure
about anything else, such as a limit of the account, the group's settings or its launch template, says nothing of a pool.
"""

from collections.abc import Iterator

from schemas.facts.nodes import NodeGroupSeen, ScalingActivityFailed

SPOT, ON_DEMAND = "spot", "on-demand"
OUT_OF_CAPACITY = frozenset(
    ("InsufficientInstanceCapacity", "InsufficientHostCapacity", "UnfulfillableCapacity", "InsufficientCapacity")
)
"""EC2's codes for a pool that has no more instances."""
OUT_OF_PRICE = frozenset(("SpotMaxPriceTooLow",))
"""A code for a spot pool that costs more than the group pays."""
NOT_OFFERED = frozenset(("Unsupported",))
"""EC2's code where a zone does not have the type at all, whatever the market."""


def of_group(fact: NodeGroupSeen) -> tuple[str, ...]:
    """The pools that a group takes instances from."""
    # One that starts some of its instances as spot instances needs those.
    market = SPOT if fact.spot else ON_DEMAND
    return tuple(key(kind, zone, market) for kind in fact.instance_types for zone in fact.zones)


def empty(failure: ScalingActivityFailed, *, spot: bool) -> Iterator[str]:
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
