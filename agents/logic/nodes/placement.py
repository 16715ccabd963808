"""Where pods go: the first node in the order of rows that takes each of them.

Pods of one shape that have no rules between pods are placed all at once, by how many of them each node still takes. The others go
one by one; then only the node that took the last one is looked at again, and the counts of the rules.
"""

from collections.abc import Sequence

import numpy as np

from agents.logic.nodes import filters
from agents.logic.nodes.cluster import Cluster, Row, ShapeId
from agents.logic.nodes.columns import Counts, Mask

Placed = tuple[Counts, Counts]
"""Rows, and how many pods each of them took."""

NOWHERE = -1


def alike(cluster: Cluster, shape: ShapeId) -> bool:
    """Whether one pod of the shape changes nothing for the next but what is free on its node."""
    body = cluster.shapes[shape]
    special = body.ports or body.volumes or body.affinity or body.anti_affinity
    return not special and not any(one.required for one in body.spread)


def room(cluster: Cluster, shape: ShapeId, rows: Counts) -> Counts:
    """How many pods of the shape the resources of each of the rows still take."""
    request = cluster.requests[shape]
    result = np.full(len(rows), np.iinfo(np.int64).max)
    for column in np.flatnonzero(request).tolist():
        np.minimum(result, cluster.free[rows, column] // request[column], out=result)
    return np.maximum(result, 0)


def fill(cluster: Cluster, shape: ShapeId, pods: int, among: Mask | None = None) -> Placed:
    """Place up to so many pods of a shape on the open nodes (of those `among`); the rest fits nowhere."""
    allowed = cluster.open[: cluster.size] if among is None else cluster.open[: cluster.size] & among
    if pods <= 0 or not cluster.size:
        return _none()
    return _together(cluster, shape, pods, allowed) if alike(cluster, shape) else _singly(cluster, shape, pods, allowed)


def _together(cluster: Cluster, shape: ShapeId, pods: int, allowed: Mask) -> Placed:
    rows = np.flatnonzero(filters.passes(cluster, shape) & allowed)
    if not len(rows):
        return _none()
    takes = np.minimum(room(cluster, shape, rows), pods)
    before = np.cumsum(takes) - takes
    takes = np.minimum(takes, np.maximum(pods - before, 0))
    used = takes > 0
    rows, takes = rows[used], takes[used]
    cluster.move(shape, rows, takes)
    return rows, takes


def _singly(cluster: Cluster, shape: ShapeId, pods: int, allowed: Mask) -> Placed:
    able = filters.by_node(cluster, shape, cluster.all) & allowed
    found: dict[Row, int] = {}
    for _pod in range(pods):
        mask = able.copy()
        for rule in filters.between_pods(cluster, shape):
            mask &= rule(cluster, shape, cluster.all)
        row = int(mask.argmax()) if len(mask) else 0
        if not mask[row]:
            break
        cluster.place(shape, row)
        found[row] = found.get(row, 0) + 1
        able[row] = filters.by_node(cluster, shape, slice(row, row + 1))[0]
        if cluster.shapes[shape].volumes:
            able &= filters.volumes_single(cluster, shape, cluster.all)
    return np.array(list(found), np.int64), np.array(list(found.values()), np.int64)


def schedule(cluster: Cluster, pods: Sequence[ShapeId], among: Mask | None = None) -> Counts:
    """Place pods in their order; for each its row, or NOWHERE. Neighbours of one shape go together.

    A shape that fits nowhere is not tried again as long as nothing but placements happens that cannot make room: with rules between
    pods a placement can, so shapes with such rules are tried each time.
    """
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
        if len(placed) < stop - start and alike(cluster, shape):
            hopeless.add(shape)
    return result


def _none() -> Placed:
    return np.zeros(0, np.int64), np.zeros(0, np.int64)
