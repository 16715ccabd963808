"""Places pods: each goes to the first node, in the order of rows, that takes it.

Pods of one shape that have no rules between pods are placed all at once, by how many of them each node still takes. The others go
one by one; then only the node that took the last one is checked again, and the counts of the rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agents.logic.nodes.scheduling import scheduler_filters
from agents.logic.nodes.scheduling.node_columns import Row, ShapeId
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster
from agents.logic.nodes.scheduling.topology_counts import Counts, Mask

Placed = tuple[Counts, Counts]
"""Rows, and how many pods each of them took."""

NOWHERE = -1


def alike(cluster: ScheduledCluster, shape: ShapeId) -> bool:
    """Whether one pod of the shape changes nothing for the next but what is free on its node."""
    body = cluster.shapes[shape]
    special = body.ports or body.volumes or body.affinity or body.anti_affinity
    return not special and not any(constraint.required for constraint in body.spread)


def room(cluster: ScheduledCluster, shape: ShapeId, rows: Counts) -> Counts:
    """How many pods of the shape the resources of each of the rows still take."""
    result = np.full(len(rows), np.iinfo(np.int64).max)
    for column, amount in cluster.wanted[shape]:
        np.minimum(result, cluster.free[rows, column] // amount, out=result)
    least: Counts = np.maximum(result, 0)
    return least


def last(cluster: ScheduledCluster, shape: ShapeId) -> Row:
    """Place a pod of a plain shape on the last open row that takes it; NOWHERE if none does."""
    size = cluster.size
    mask = cluster.suited(shape) & cluster.open[:size]
    for column, amount in cluster.wanted[shape]:
        mask &= cluster.free[:size, column] >= amount
    place = int(mask[::-1].argmax()) if size else 0
    row = size - 1 - place
    # `argmax` is also 0 where no row takes it.
    if not size or not mask[row]:
        return NOWHERE
    cluster.place(shape, row)
    return row


class Scatter:
    """Draws that decide which of several nodes takes a pod: any of them, and the same ones each time."""

    # Upstream searches nodes in the order of a hash map, so that its pods end up scattered over all nodes that take them. Filling
    # node after node would empty the others and give smaller estimates than upstream's.

    __slots__ = ("_drawn",)

    def __init__(self) -> None:
        self._drawn = 0

    def draw(self, count: int, places: int) -> Counts:
        """So many numbers below `places`. The mixing is SplitMix64's (Steele, Lea and Flood 2014)."""
        state = np.arange(self._drawn + 1, self._drawn + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        self._drawn += count
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        drawn: Counts = ((state ^ (state >> np.uint64(31))) % np.uint64(places)).astype(np.int64)
        return drawn


def fill(
    cluster: ScheduledCluster, shape: ShapeId, pods: int, among: Mask | None = None, way: Scatter | Counts | None = None
) -> Placed:
    """Place up to so many pods of a shape on the open nodes (of those `among`); the rest fits nowhere.

    One node is filled before the next, in the order of rows or in one that is given as `way`; or the pods are scattered.
    """
    allowed = cluster.open[: cluster.size] if among is None else cluster.open[: cluster.size] & among
    if pods <= 0 or not cluster.size:
        return _none()
    place = _together if alike(cluster, shape) else _singly
    return place(cluster, _Wanted(shape, pods, way), allowed)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Pods to be placed, and how."""

    shape: ShapeId
    pods: int
    way: Scatter | Counts | None


def _together(cluster: ScheduledCluster, wanted: _Wanted, allowed: Mask) -> Placed:
    mask = scheduler_filters.passes(cluster, wanted.shape) & allowed
    if wanted.pods == 1:
        row = _next(mask, wanted.way)
        if row == NOWHERE:
            return _none()
        cluster.place(wanted.shape, row)
        return np.array([row]), np.ones(1, np.int64)
    rows = wanted.way[mask[wanted.way]] if isinstance(wanted.way, np.ndarray) else np.flatnonzero(mask)
    if not len(rows):
        return _none()
    if not isinstance(wanted.way, Scatter):
        # Each of them takes one at least.
        rows = rows[: wanted.pods]
    takes = np.minimum(room(cluster, wanted.shape, rows), wanted.pods)
    if not isinstance(wanted.way, Scatter):
        before = np.cumsum(takes) - takes
        takes = np.minimum(takes, np.maximum(wanted.pods - before, 0))
    elif int(takes.sum()) > wanted.pods:
        takes = _scattered(takes, wanted.pods, wanted.way)
    used = takes > 0
    rows, takes = rows[used], takes[used]
    cluster.move(wanted.shape, rows, takes)
    return rows, takes


def _scattered(takes: Counts, pods: int, scatter: Scatter) -> Counts:
    """How many pods each row takes when each pod draws its row, and draws again where there is no room left."""
    given = np.zeros_like(takes)
    while pods:
        able = np.flatnonzero(takes > given)
        drawn = np.bincount(scatter.draw(pods, len(able)), minlength=len(able))
        drawn = np.minimum(drawn, (takes - given)[able])
        given[able] += drawn
        pods -= int(drawn.sum())
    return given


def _singly(cluster: ScheduledCluster, wanted: _Wanted, allowed: Mask) -> Placed:
    shape = wanted.shape
    able = scheduler_filters.by_node(cluster, shape, cluster.columns.all) & allowed
    counts: dict[Row, int] = {}
    for _pod in range(wanted.pods):
        row = _next(_between(cluster, shape, able), wanted.way)
        if row == NOWHERE:
            break
        cluster.place(shape, row)
        counts[row] = counts.get(row, 0) + 1
        # A placement changes what is free on its own node, and nothing on any other.
        able[row] = scheduler_filters.by_node(cluster, shape, slice(row, row + 1))[0]
        if cluster.shapes[shape].volumes:
            able &= scheduler_filters.volumes_single(cluster, shape, cluster.columns.all)
    return np.array(list(counts), np.int64), np.array(list(counts.values()), np.int64)


def _between(cluster: ScheduledCluster, shape: ShapeId, able: Mask) -> Mask:
    """The rows that the rules between pods leave."""
    mask = able.copy()
    for rule in scheduler_filters.between_pods(cluster, shape):
        mask &= rule(cluster, shape, cluster.columns.all)
    return mask


def _next(mask: Mask, way: Scatter | Counts | None) -> Row:
    """The row of a mask that takes the next pod."""
    if isinstance(way, Scatter):
        rows = np.flatnonzero(mask)
        return int(rows[way.draw(1, len(rows))[0]]) if len(rows) else NOWHERE
    if way is not None:
        place = int(mask[way].argmax())
        return int(way[place]) if mask[way[place]] else NOWHERE
    row = int(mask.argmax())
    return row if mask[row] else NOWHERE


def schedule(cluster: ScheduledCluster, pods: Sequence[ShapeId], among: Mask | None = None) -> Counts:
    """Place pods in their order; for each its row, or NOWHERE. Neighbours of one shape go together."""
    result = np.full(len(pods), NOWHERE, np.int64)
    shapes = np.asarray(pods, np.int64)
    if not len(shapes):
        return result
    starts = np.concatenate(([0], np.flatnonzero(np.diff(shapes)) + 1, [len(shapes)]))
    hopeless: set[ShapeId] = set()
    for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        shape = int(shapes[start])
        if shape in hopeless:
            continue
        rows, takes = fill(cluster, shape, stop - start, among)
        placed = np.repeat(rows, takes)
        result[start : start + len(placed)] = placed
        # A shape that fits nowhere is not tried again: placements make no room. With rules between pods they can, so that shapes
        # with such rules are tried each time.
        if len(placed) < stop - start and alike(cluster, shape):
            hopeless.add(shape)
    return result


def _none() -> Placed:
    return np.zeros(0, np.int64), np.zeros(0, np.int64)
