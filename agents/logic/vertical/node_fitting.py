"""Cuts pods down to a node of their cluster, so that what is recommended can run at all.

A pod is measured against the node that cuts its targets least, then its upper bounds least. All its containers are cut alike,
after the bounds of their policies, so also below a minimum that no node could give.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agents.engine.tables.row_table import Floats, Indices
from agents.logic.vertical.estimation import MILLI
from agents.logic.vertical.node_caps import Node, Nodes
from schemas.names import cluster_of

_RESOURCES = 2


@dataclass(frozen=True, slots=True)
class Fit:
    """By pod: the node that it was measured against, None where its cluster has none, and its amounts before."""

    pods: Indices
    """The pod of each row of amounts."""
    nodes: Sequence[Node | None]
    sums: Floats
    """Lower, target and upper millicores, then bytes."""

    def node(self, row: int) -> Node | None:
        """The node that the pod of a row of amounts was measured against."""
        return self.nodes[int(self.pods[row])]


def fit(amounts: Floats, workloads: Sequence[str], nodes: Nodes) -> tuple[Floats, Fit]:
    """The amounts of which those of one workload together are no more than a node has, and how they were cut.

    amount * allocatable / sum, cut to a whole number, where the sum of a pod is more; NaN counts as nothing.
    """
    numbers: dict[str, int] = {}
    pods = np.array([numbers.setdefault(workload, len(numbers)) for workload in workloads], np.int64)
    known = np.nan_to_num(amounts)
    columns = [np.bincount(pods, weights=column, minlength=len(numbers)) for column in known.T]
    sums = np.asarray(np.column_stack(columns), np.float64)
    chosen = _choose(sums, [cluster_of(workload) for workload in numbers], nodes)
    room = np.array([_room(node) for node in chosen]).reshape(-1, _RESOURCES).repeat(sums.shape[1] // _RESOURCES, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        cut = np.trunc(amounts * room[pods] / sums[pods])
    return np.where((sums > room)[pods], cut, amounts), Fit(pods, chosen, sums)


def _choose(sums: Floats, clusters: Sequence[str], nodes: Nodes) -> list[Node | None]:
    chosen: list[Node | None] = [None] * len(clusters)
    for cluster in sorted(set(clusters)):
        largest = nodes.largest(cluster)
        if not largest:
            continue
        here = np.array([place for place, name in enumerate(clusters) if name == cluster])
        room = np.array([_room(node) for node in largest])
        target, upper = (_share(sums[here][:, places], room) for places in ((1, 4), (2, 5)))
        best = np.where(target == target.max(axis=1, keepdims=True), upper, -1.0).argmax(axis=1)
        for place, node in zip(here.tolist(), best.tolist(), strict=True):
            chosen[place] = largest[node]
    return chosen


def _share(wanted: Floats, room: Floats) -> Floats:
    """What part of itself each pod (line) would get on each node (column), by the resource that is cut more."""
    with np.errstate(divide="ignore"):
        parts = room[None, :, :] / wanted[:, None, :]
    return np.asarray(np.minimum(parts, 1.0).min(axis=2))


def _room(node: Node | None) -> tuple[float, float]:
    return (np.inf, np.inf) if node is None else (node.cpu * MILLI, node.memory)
