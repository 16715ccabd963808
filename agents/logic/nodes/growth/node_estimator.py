"""How many new nodes of a group would take how many of the pending pods: bin packing by group of alike pods, largest first.

The rules are upstream's (binpackingEstimator in estimator/binpacking_estimator.go at 33c3f97), including some odd ones: once
nodes are added only the newest one is considered, and an existing node counts as new if the fallback for spread puts a pod on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from agents.logic.nodes.aws.group_options import GroupOptions
from agents.logic.nodes.scheduling import placement, scheduler_filters
from agents.logic.nodes.scheduling.node_columns import Row, ShapeId
from agents.logic.nodes.scheduling.pod_shapes import PodShape, SchedulingNode
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster
from schemas.pod_requests import CPU, MEMORY
from schemas.well_known_labels import HOSTNAME

MOST_NODES = 100_000
"""No estimate adds more nodes than this, whatever the limits say."""


@dataclass(frozen=True, slots=True)
class GroupTemplate:
    """A group's new node, with the pods that come with it (of DaemonSets, and static ones)."""

    node: SchedulingNode
    pods: tuple[PodShape, ...] = ()
    # The node that it was learned from, empty if a cloud describes it.
    like: str = ""


@dataclass(frozen=True, slots=True)
class PodGroup:
    """So many pods of one shape."""

    shape: PodShape
    count: int


@dataclass(frozen=True, slots=True)
class EstimatorLimits:
    """What limits an estimate (see `limit`), and whether the last group is computed rather than simulated."""

    thresholds: tuple[int, ...] = ()
    fast_path: bool = False


@dataclass(frozen=True, slots=True)
class NodeEstimate:
    """The nodes that took a pod, and how many pods of each group were placed. `limited`: more would have fitted on more nodes."""

    nodes: int
    placed: tuple[int, ...]
    limited: bool = False


def limit(thresholds: Sequence[int]) -> int | None:
    """How many nodes may be added: none if a threshold is negative, no limit (None) if none is positive, else the smallest.

    Source: thresholdBasedEstimationLimiter in estimator/threshold_based_limiter.go.
    """
    if any(threshold < 0 for threshold in thresholds):
        return 0
    return min((threshold for threshold in thresholds if threshold > 0), default=None)


def estimate(
    cluster: ScheduledCluster, template: GroupTemplate, groups: Sequence[PodGroup], rules: EstimatorLimits
) -> NodeEstimate:
    """How many copies of the template the groups of pods need in this cluster, which is left as it was."""
    mark = cluster.mark()
    most = limit(rules.thresholds)
    work = _Packing(cluster, template, MOST_NODES if most is None else min(most, MOST_NODES))
    placed = [0] * len(groups)
    places = order(groups, template.node)
    if rules.fast_path:
        places = _best_last(places, groups, template.node)
    for place in places:
        group = groups[place]
        shortly = rules.fast_path and place == places[-1] and _computable(group.shape)
        placed[place] = (work.pack_shortly if shortly else work.pack)(cluster.shape(group.shape), group.count)
    estimated = NodeEstimate(len(work.used) + work.reckoned, tuple(placed), limited=work.refused)
    cluster.revert(mark)
    return estimated


def order(groups: Sequence[PodGroup], node: SchedulingNode) -> list[int]:
    """The groups' places, those whose pods take most of a node first. Source: estimator/decreasing_pod_orderer.go."""
    cpu, memory = node.allocatable.get(CPU, 0), node.allocatable.get(MEMORY, 0)

    def score(group: PodGroup) -> float:
        share = group.shape.request(CPU) / cpu if cpu else 0.0
        return share + (group.shape.request(MEMORY) / memory if memory else 0.0)

    return sorted(range(len(groups)), key=lambda place: -score(groups[place]))


def _best_last(places: list[int], groups: Sequence[PodGroup], node: SchedulingNode) -> list[int]:
    """The same order, but with the group last whose computation saves most simulations, the later one of several.

    Source: determineBestPEGToFastpath in estimator/binpacking_estimator.go.
    """
    able = [place for place in places if _computable(groups[place].shape)]
    if not able:
        return places
    best = max(reversed(able), key=lambda place: groups[place].count - groups[place].count // _roughly(groups[place], node))
    return [place for place in places if place != best] + [best]


def _roughly(group: PodGroup, node: SchedulingNode) -> int:
    """How many nodes a group needs at least, by CPU and by memory."""
    offered = ((name, node.capacity.get(name, 0)) for name in (CPU, MEMORY))
    return max(1, *(-(-group.count * group.shape.request(name) // amount) if amount else 0 for name, amount in offered))


def _computable(shape: PodShape) -> bool:
    """Whether one node tells of all: the pods are not spread, and do not keep away from one another."""
    return not shape.spread and not any(term.audience.selector.matches(dict(shape.labels)) for term in shape.anti_affinity)


class _Packing:
    """One estimate at work."""

    def __init__(self, cluster: ScheduledCluster, template: GroupTemplate, most: int) -> None:
        self.cluster = cluster
        self.template = template
        self.left = most
        self.first = cluster.size
        self.used: set[Row] = set()
        self.refused = False
        self.reckoned = 0
        self.scatter = placement.Scatter()
        self._pods = [cluster.shape(shape) for shape in template.pods]

    def pack(self, shape: ShapeId, pods: int) -> int:
        """Place pods of one shape; how many were."""
        done = self._on_added(shape, pods)
        alike = placement.alike(self.cluster, shape)
        while done < pods:
            # What an empty node took its copies take as well, and those that come after it are all empty.
            untouched = self.cluster.size - 1 not in self.used
            taken = self._on_last(shape, pods - done) if alike else self._one_on_last(shape)
            if not taken and not self._add(shape):
                break
            done += taken
            if alike and taken and untouched:
                done += self._on_copies(shape, pods - done, taken)
        return done

    def _on_copies(self, shape: ShapeId, pods: int, share: int) -> int:
        """Pods on as many further new nodes as they need, if each takes a share, but for the last of them."""
        # All at once, because a loop would take a time in proportion to the nodes.
        number = min(pods // share, self.left)
        if not number:
            return 0
        start = self.cluster.size
        self.left -= number
        self.cluster.add_all([copy(self.template.node, start + i) for i in range(number)])
        rows = np.arange(start, start + number)
        for pod in self._pods:
            self.cluster.move(pod, rows, np.ones(number, np.int64))
        self.cluster.move(shape, rows, np.full(number, share))
        self.used.update(rows.tolist())
        return number * share

    def pack_shortly(self, shape: ShapeId, pods: int) -> int:
        """Place pods of one shape on one new node, and compute how many more such nodes the others need."""
        done = self._on_added(shape, pods)
        if done == pods or not self._new():
            return done
        row = self.cluster.size - 1
        share = (
            self._on_last(shape, pods - done) if placement.alike(self.cluster, shape) else self._while_fits(shape, pods - done)
        )
        done += share
        while share and done < pods and self.left:
            self.left -= 1
            self.reckoned += 1
            done += min(share, pods - done)
        self.refused = self.refused or (done < pods and not self.left)
        if share:
            self.used.add(row)
        return done

    def _while_fits(self, shape: ShapeId, pods: int) -> int:
        row = self.cluster.size - 1
        for done in range(pods):
            if not scheduler_filters.passes(self.cluster, shape, slice(row, row + 1))[0]:
                return done
            self.cluster.place(shape, row)
        return pods

    def _on_added(self, shape: ShapeId, pods: int) -> int:
        """Fill the nodes that this estimate has added, until a pod fits on none of them."""
        # Not the nodes that are there: pods that fit on one of them were placed before.
        among = np.zeros(self.cluster.size, np.bool_)
        among[self.first :] = True
        rows, takes = placement.fill(self.cluster, shape, pods, among, self.scatter)
        self.used.update(rows.tolist())
        return int(takes.sum())

    def _on_last(self, shape: ShapeId, pods: int) -> int:
        """As many pods on the newest node as fit, and on as many more empty copies of it as they need."""
        last = self.cluster.size - 1
        if last < self.first or not scheduler_filters.passes(self.cluster, shape, slice(last, last + 1))[0]:
            return 0
        takes = min(int(placement.room(self.cluster, shape, np.array([last]))[0]), pods)
        self.cluster.place(shape, last, takes)
        self.used.add(last)
        return takes

    def _one_on_last(self, shape: ShapeId) -> int:
        """One pod on the newest node; where its spread over hosts forbids that, on any other, existing ones included."""
        last = self.cluster.size - 1
        if last < self.first:
            return 0
        here = slice(last, last + 1)
        if scheduler_filters.passes(self.cluster, shape, here)[0]:
            row = last
        elif self.cluster.shapes[shape].spreads_over_hosts and _only_spread_fails(self.cluster, shape, here):
            others = np.ones(self.cluster.size, np.bool_)
            others[last] = False
            rows, _takes = placement.fill(self.cluster, shape, 1, others, self.scatter)
            self.used.update(rows.tolist())
            return len(rows)
        else:
            return 0
        self.cluster.place(shape, row)
        self.used.add(row)
        return 1

    def _add(self, shape: ShapeId) -> bool:
        """Add a node for a pod that fits on none; False if it is useless to go on with pods of this shape."""
        last = self.cluster.size - 1
        # The last node that was added took no pod of this shape, and neither would the next one.
        if (last >= self.first and last not in self.used) or not self._new():
            return False
        return bool(scheduler_filters.passes(self.cluster, shape, slice(last + 1, last + 2))[0])

    def _new(self) -> bool:
        """A new node with its own pods, if there may be one."""
        if not self.left:
            self.refused = True
            return False
        self.left -= 1
        row = self.cluster.add(copy(self.template.node, self.cluster.size))
        for pod in self._pods:
            self.cluster.place(pod, row)
        return True


def add(cluster: ScheduledCluster, template: GroupTemplate | None) -> None:
    """Add a copy of a template, with the pods that come with it."""
    if template is not None:
        row = cluster.add(copy(template.node, cluster.size))
        for pod in template.pods:
            cluster.place(cluster.shape(pod), row)


def copy(node: SchedulingNode, number: int) -> SchedulingNode:
    """A template's node under a name of its own, which is also its host name."""
    name = f"{node.name}-{number}"
    # With one host name for all, rules over host names would take the copies for one host.
    kept = tuple((key, value) for key, value in node.labels if key != HOSTNAME)
    return replace(node, name=name, labels=tuple(sorted((*kept, (HOSTNAME, name)))))


def _only_spread_fails(cluster: ScheduledCluster, shape: ShapeId, here: slice) -> bool:
    """Whether the skew of a spread constraint is the first thing that keeps a pod away."""
    if not scheduler_filters.by_node(cluster, shape, here)[0] or scheduler_filters.topology_spread(cluster, shape, here)[0]:
        return False
    return scheduler_filters.REASONS["PodTopologySpread"](cluster, shape, here.start) == (scheduler_filters.SKEWED,)


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A node group of a decision, as its provider has it, and below `kept` what the decision has found out about it."""

    name: str
    least: int
    most: int
    target: int
    """The nodes that it wants; once a decision has judged it, without those that its cloud failed to deliver."""
    template: GroupTemplate | None = None  # None if it is unknown how its next node would look.
    options: GroupOptions = field(default_factory=GroupOptions)
    gpu: bool = False
    # What its nodes can come from: backed off all of them, so is the group.
    sources: tuple[str, ...] = ()
    # Why its cloud starts no node of it, whatever it is asked for.
    stopped: str = ""
    kept: str = ""  # Why its cloud ends none.
    healthy: bool = True
    backed_off: bool = False
    out: bool = False
    """Whether it is left alone, because too many of its nodes are not ready."""
    stumbled: bool = False
    """Whether a node of it could not be removed a short while ago."""
    grew: bool = False
    """Whether it grew so short a while ago that no node of it goes yet."""
    deleting: int = 0
    """How many of its nodes are being deleted."""
