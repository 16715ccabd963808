"""Sharing new nodes out among similar groups, so that they stay equally large."""

import heapq
from collections.abc import Sequence

from agents.logic.nodes.growth.group_row import GroupRow

MOST_NODES = 100_000
"""More new nodes than this are not shared out in one decision."""


def share(groups: Sequence[GroupRow], nodes: int) -> dict[str, int]:
    """The new targets of the groups that grow by `nodes` together, as far as their maxima let them.

    One node at a time goes to the group with the lowest target, the earlier one among equals; groups at or above their maximum
    get none. Source: BalanceScaleUpBetweenGroups in processors/nodegroupset/balancing_processor.go.
    """
    able = [(group.target, place) for place, group in enumerate(groups) if group.target < group.most]
    heapq.heapify(able)
    targets: dict[str, int] = {}
    for _node in range(min(nodes, MOST_NODES)):
        if not able:
            break
        target, place = able[0]
        group = groups[place]
        targets[group.name] = target + 1
        if target + 1 < group.most:
            heapq.heapreplace(able, (target + 1, place))
        else:
            heapq.heappop(able)
    return targets
