"""The scheduler's filters: for a shape, which nodes each of them lets through, all nodes at once.

They are those of the default profile of Kubernetes 1.37, in its order; the first that fails is the one that is reported. Scores
and pre-emption are left out. Each filter takes a range of rows, so that a single node is cheap.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from agents.logic.nodes.scheduling.node_columns import Row, ShapeId
from agents.logic.nodes.scheduling.pod_shapes import PodShape, TopologySpread
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster
from agents.logic.nodes.scheduling.topology_counts import EligibleNodes, Mask, SpreadCounts
from schemas.pod_requests import PODS

Filter = Callable[[ScheduledCluster, ShapeId, slice], Mask]

SKEWED = "node(s) didn't match pod topology spread constraints"


@dataclass(frozen=True, slots=True)
class FilterFailure:
    """Why a node does not take a pod: upstream's name of the filter, and its reasons in upstream's words."""

    plugin: str
    reasons: tuple[str, ...]


def passes(cluster: ScheduledCluster, shape: ShapeId, rows: slice | None = None) -> Mask:
    """Which nodes take one more pod of the shape. A cordoned node counts if the pod tolerates the cordon."""
    within = cluster.columns.all if rows is None else rows
    result = by_node(cluster, shape, within)
    for rule in between_pods(cluster, shape):
        result &= rule(cluster, shape, within)
    return result


def by_node(cluster: ScheduledCluster, shape: ShapeId, rows: slice) -> Mask:
    """Which nodes take it, without rules between pods; this depends only on the node and its pods."""
    body = cluster.shapes[shape]
    result: Mask = cluster.suited(shape)[rows] & resources(cluster, shape, rows)
    if body.ports:
        result &= ports(cluster, shape, rows)
    if body.volumes:
        result &= volumes_single(cluster, shape, rows) & volumes_limit(cluster, shape, rows) & volumes_place(cluster, shape, rows)
    # What its rule would say nobody knows, so no node may be promised to it.
    if body.refused:
        result[:] = False
    return result


def between_pods(cluster: ScheduledCluster, shape: ShapeId) -> list[Filter]:
    """The rules between pods that concern a shape now; most pods have none."""
    body = cluster.shapes[shape]
    rules: list[Filter] = [topology_spread] if any(constraint.required for constraint in body.spread) else []
    if body.affinity or body.anti_affinity or cluster.feared(shape):
        rules.append(pod_affinity)
    return rules


def explain(cluster: ScheduledCluster, shape: ShapeId) -> list[FilterFailure | None]:
    """For each node the first filter that keeps the shape away, or None if it fits."""
    failures: list[FilterFailure | None] = [None] * cluster.size
    left = np.ones(cluster.size, np.bool_)
    for plugin, rule in FILTERS:
        passed = rule(cluster, shape, cluster.columns.all)
        for row in np.flatnonzero(left & ~passed).tolist():
            failures[row] = FilterFailure(plugin, REASONS[plugin](cluster, shape, row))
        left &= passed
    return failures


# Filters, each with what it says


def node_name(cluster: ScheduledCluster, shape: ShapeId, rows: slice) -> Mask:
    """NodeName: the node that the pod names."""
    return cluster.columns.named(cluster.shapes[shape], rows)


def unschedulable(cluster: ScheduledCluster, shape: ShapeId, rows: slice) -> Mask:
    """NodeUnschedulable: no cordon, or one that is tolerated."""
    return cluster.columns.uncordoned(cluster.shapes[shape], rows)


def taints(cluster: ScheduledCluster, shape: ShapeId, rows: slice) -> Mask:
    """TaintToleration: every NoSchedule and NoExecute taint is tolerated."""
    return cluster.columns.tolerated(cluster.shapes[shape].tolerations, rows)


def node_affinity(cluster: ScheduledCluster, shape: ShapeId, rows: slice) -> Mask:
    """NodeAffinity: node selector and required node affinity."""
    body = cluster.shapes[shape]
    return cluster.columns.selected(body.node_selector, body.node_terms, rows)


def ports(cluster: ScheduledCluster, shape: ShapeId, rows: slice) -> Mask:
    """NodePorts: no pod of the node holds a conflicting host port."""
    wanted = cluster.shapes[shape].ports
    taken = np.zeros(cluster.size, np.bool_)
    for port, users in cluster.ports.items():
        if any(port.conflicts(other) for other in wanted):
            taken[list(users)] = True
    result: Mask = ~taken[rows]
    return result


def resources(cluster: ScheduledCluster, shape: ShapeId, rows: slice) -> Mask:
    """NodeResourcesFit: what is requested is free."""
    # A resource that is not requested does not matter, even if it is overdrawn.
    start, stop, _step = rows.indices(cluster.size)
    result = np.ones(stop - start, np.bool_)
    for column, amount in cluster.wanted[shape]:
        result &= cluster.free[start:stop, column] >= amount
    return result


def volumes_single(cluster: ScheduledCluster, shape: ShapeId, rows: slice) -> Mask:
    """VolumeRestrictions: a volume for a single pod has no user yet, on any node."""
    # A volume that each pod has of its own can have no other user.
    wanted = [volume for volume in cluster.shapes[shape].volumes if volume.exclusive and not volume.own]
    free = not any(cluster.attached.get((volume.driver, volume.handle)) for volume in wanted)
    return np.full(len(range(*rows.indices(cluster.size))), free)


def volumes_limit(cluster: ScheduledCluster, shape: ShapeId, rows: slice) -> Mask:
    """NodeVolumeLimits: a driver attaches no more volumes to the node than it can."""
    wanted = dict.fromkeys(cluster.shapes[shape].volumes)
    within = range(*rows.indices(cluster.size))
    result = np.ones(len(within), np.bool_)
    for driver in dict.fromkeys(volume.driver for volume in wanted):
        held = cluster.volumes.get(driver)
        for place, row in enumerate(within):
            limit = cluster.columns.nodes[row].attachable.get(driver)
            if limit is not None:
                # A volume that another pod of the node has attached already costs nothing.
                mine = [volume for volume in wanted if volume.driver == driver]
                new = sum(volume.own or row not in cluster.attached.get((driver, volume.handle), {}) for volume in mine)
                used = 0 if held is None or row >= len(held) else int(held[row])
                result[place] &= not new or used + new <= limit
    return result


def volumes_place(cluster: ScheduledCluster, shape: ShapeId, rows: slice) -> Mask:
    """VolumeBinding and VolumeZone: every volume can be where the node is."""
    result = np.ones(len(range(*rows.indices(cluster.size))), np.bool_)
    for volume in cluster.shapes[shape].volumes:
        if volume.terms:
            result &= cluster.columns.selected((), volume.terms, rows)
    return result


def topology_spread(cluster: ScheduledCluster, shape: ShapeId, rows: slice) -> Mask:
    """PodTopologySpread: with this pod no domain is further above the emptiest than the skew allows."""
    body = cluster.shapes[shape]
    result = np.ones(len(range(*rows.indices(cluster.size))), np.bool_)
    own = dict(body.labels)
    for constraint, rule in spread_rules(body):
        tally = cluster.tally(rule)
        # The pod itself counts only if its own labels match.
        room = constraint.max_skew + tally.least(constraint.min_domains) - constraint.selector.matches(own)
        ids = tally.column.ids[rows]
        result &= (ids >= 0) & (tally.counts[ids] <= room)
    return result


def spread_rules(shape: PodShape) -> list[tuple[TopologySpread, SpreadCounts]]:
    """A shape's required spread constraints, each with what it counts."""
    needed = [constraint for constraint in shape.spread if constraint.required]
    # A node without one of the keys counts for none of the constraints, as upstream has it.
    keys = tuple(sorted({constraint.key for constraint in needed}))
    rules = []
    for constraint in needed:
        selector, terms = (shape.node_selector, shape.node_terms) if constraint.honor_affinity else (None, None)
        eligible = EligibleNodes(keys, selector, terms, shape.tolerations if constraint.honor_taints else None)
        rules.append((constraint, SpreadCounts(constraint.selector, shape.namespace, constraint.key, eligible)))
    return rules


def pod_affinity(cluster: ScheduledCluster, shape: ShapeId, rows: slice) -> Mask:
    """InterPodAffinity: required affinity and anti-affinity, the pod's own and that of pods against it."""
    return attracted(cluster, shape, rows) & unopposed(cluster, shape, rows) & unfeared(cluster, shape, rows)


def attracted(cluster: ScheduledCluster, shape: ShapeId, rows: slice) -> Mask:
    """Each affinity term has a pod that meets all terms in the node's domain.

    Source: satisfyPodAffinity in the scheduler's plugins/interpodaffinity/filtering.go.
    """
    body = cluster.shapes[shape]
    exist = np.ones(len(range(*rows.indices(cluster.size))), np.bool_)
    if not body.affinity:
        return exist
    labelled = exist.copy()
    anybody = False
    tallies, company = cluster.liked(shape)
    for tally in tallies:
        counts = tally.fit().counts
        ids = tally.column.ids[rows]
        labelled &= ids >= 0
        exist &= counts[ids] > 0
        anybody = anybody or bool(counts.any())
    if company and not anybody:
        # The first pod of a group that wants to be together would wait for ever, so that its own labels are enough.
        return labelled
    return labelled & exist


def unopposed(cluster: ScheduledCluster, shape: ShapeId, rows: slice) -> Mask:
    """No pod of an anti-affinity term's audience is in the node's domain."""
    result = np.ones(len(range(*rows.indices(cluster.size))), np.bool_)
    for tally in cluster.avoided(shape):
        ids = tally.fit().column.ids[rows]
        result &= (ids < 0) | (tally.counts[ids] <= 0)
    return result


def unfeared(cluster: ScheduledCluster, shape: ShapeId, rows: slice) -> Mask:
    """No pod in the node's domain has an anti-affinity term about this one."""
    result = np.ones(len(range(*rows.indices(cluster.size))), np.bool_)
    for tally in cluster.feared(shape):
        ids = tally.fit().column.ids[rows]
        result &= (ids < 0) | (tally.counts[ids] <= 0)
    return result


def _readable(cluster: ScheduledCluster, shape: ShapeId, rows: slice) -> Mask:
    return np.full(len(range(*rows.indices(cluster.size))), not cluster.shapes[shape].refused)


# In upstream's order, for the first that fails is the one that is reported.
FILTERS: tuple[tuple[str, Filter], ...] = (
    ("Unreadable", _readable),
    ("NodeName", node_name),
    ("NodeUnschedulable", unschedulable),
    ("TaintToleration", taints),
    ("NodeAffinity", node_affinity),
    ("NodePorts", ports),
    ("NodeResourcesFit", resources),
    ("VolumeRestrictions", volumes_single),
    ("NodeVolumeLimits", volumes_limit),
    ("VolumeBinding", volumes_place),
    ("PodTopologySpread", topology_spread),
    ("InterPodAffinity", pod_affinity),
)

Reason = Callable[[ScheduledCluster, ShapeId, Row], tuple[str, ...]]


def _says(sentence: str) -> Reason:
    return lambda _cluster, _shape, _row: (sentence,)


def _short(cluster: ScheduledCluster, shape: ShapeId, row: Row) -> tuple[str, ...]:
    lacking = np.flatnonzero((cluster.requests[shape] > 0) & (cluster.free[row] < cluster.requests[shape]))
    names = [cluster.resources[column] for column in lacking.tolist()]
    return tuple("Too many pods" if name == PODS else f"Insufficient {name}" for name in names)


def _spread_reason(cluster: ScheduledCluster, shape: ShapeId, row: Row) -> tuple[str, ...]:
    """The first constraint that fails, as upstream goes through them."""
    body = cluster.shapes[shape]
    for constraint, rule in spread_rules(body):
        tally = cluster.tally(rule)
        domain = int(tally.column.ids[row])
        if domain < 0:
            return (f"{SKEWED} (missing required label)",)
        if (
            tally.counts[domain] + constraint.selector.matches(dict(body.labels)) - tally.least(constraint.min_domains)
            > constraint.max_skew
        ):
            break
    return (SKEWED,)


def _affinity_reason(cluster: ScheduledCluster, shape: ShapeId, row: Row) -> tuple[str, ...]:
    here = slice(row, row + 1)
    if not attracted(cluster, shape, here)[0]:
        return ("node(s) didn't match pod affinity rules",)
    if not unopposed(cluster, shape, here)[0]:
        return ("node(s) didn't match pod anti-affinity rules",)
    return ("node(s) didn't satisfy existing pods anti-affinity rules",)


REASONS: Mapping[str, Reason] = {
    "Unreadable": lambda cluster, shape, _row: (cluster.shapes[shape].refused,),
    "NodeName": _says("node(s) didn't match the requested node name"),
    "NodeUnschedulable": _says("node(s) were unschedulable"),
    "TaintToleration": _says("node(s) had untolerated taint(s)"),
    "NodeAffinity": _says("node(s) didn't match Pod's node affinity/selector"),
    "NodePorts": _says("node(s) didn't have free ports for the requested pod ports"),
    "NodeResourcesFit": _short,
    "VolumeRestrictions": _says("node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"),
    "NodeVolumeLimits": _says("node(s) exceed max volume count"),
    "VolumeBinding": _says("node(s) didn't match PersistentVolume's node affinity"),
    "PodTopologySpread": _spread_reason,
    "InterPodAffinity": _affinity_reason,
}
