"""The cluster in columns: what each node offers, what is free on it, and how many pods of which shape it carries.

It serves both as a stage's view and as a simulation's scratch pad: `mark` and `revert` undo what was placed or added in between,
at a cost in proportion to the changes. Rows are nodes in the order in which they came; shapes are numbered the same way.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agents.logic.nodes.scheduling import topology_counts
from agents.logic.nodes.scheduling.node_columns import DemandId, NodeColumns, Row, ShapeId, tolerates
from agents.logic.nodes.scheduling.pod_shapes import (
    HARD,
    HostPort,
    PodShape,
    SchedulingNode,
    Taint,
)
from agents.logic.nodes.scheduling.topology_counts import (
    AllOf,
    AntiAffinityHolders,
    Counting,
    Counts,
    DomainCounts,
    Mask,
    Namespaces,
    RulesByAudience,
    ShapesByLabel,
    SpreadCounts,
    grown,
    hears,
)
from schemas.pod_requests import CPU, EPHEMERAL, MEMORY, PODS
from schemas.well_known_labels import TO_BE_DELETED

MOST_AMOUNT = 2**50
"""The largest amount of one resource that a pod or a node is taken to have; sums over thousands of pods then fit 64 bits."""
FIRST_RESOURCES = (PODS, CPU, MEMORY, EPHEMERAL)

_WITHDRAWAL: ShapeId = -1
"""Stands in the list of moves for a node that was withdrawn."""
_GOING = Taint(TO_BE_DELETED, "", HARD[0])


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A point to revert to. `open`: which rows took pods then, if that is to be restored, too."""

    moves: int
    rows: int
    open: Mask | None = None


class ScheduledCluster:
    """Nodes and the pods on them; see the module."""

    def __init__(self, namespaces: Namespaces | None = None) -> None:
        self.namespaces: Namespaces = namespaces or {}
        self.columns = NodeColumns()
        self.shapes: list[PodShape] = []
        self._demands: list[DemandId] = []
        """By shape: what it demands of a node by itself."""
        self.resources: list[str] = list(FIRST_RESOURCES)
        # Columns lie together in memory, because filters go through one resource of all nodes.
        self.free: Counts = np.zeros((64, len(FIRST_RESOURCES)), np.int64, order="F")
        self.offered: Counts = np.zeros((64, len(FIRST_RESOURCES)), np.int64, order="F")
        self.open: Mask = np.zeros(64, np.bool_)
        """Rows that a search may choose: not withdrawn. Whether a cordon keeps a pod off, `suited` says."""
        self.tallies: dict[Counting, DomainCounts] = {}
        self.on: list[dict[Row, int]] = []
        """By shape: how many pods of it each row carries."""
        self.ports: dict[HostPort, dict[Row, int]] = {}
        self.attached: dict[tuple[str, str], dict[Row, int]] = {}
        self.volumes: dict[str, Counts] = {}
        """By driver: how many volumes each row has attached."""
        self.requests: list[Counts] = []
        self.wanted: list[tuple[tuple[int, int], ...]] = []
        """By shape: the columns of the resources that a pod requests, and how much of each."""
        self._bound: list[bool] = []
        """By shape: whether its pods take ports, volumes or distance to others with them."""
        self._ruled = False
        """Whether a shape has rules between pods."""
        self._numbers: dict[PodShape, ShapeId] = {}
        self._moves: list[tuple[ShapeId, Counts | Row, Counts | int]] = []
        self._spread: list[DomainCounts] = []
        self._withdrawn: set[Row] = set()
        self._counting = RulesByAudience()
        self._held = RulesByAudience()
        self._known = ShapesByLabel()
        # By shape, how many of the rules were looked at, and which of them concern it: rules come, and none ever goes.
        self._touched: dict[ShapeId, tuple[int, list[DomainCounts]]] = {}
        self._feared: dict[ShapeId, tuple[int, list[DomainCounts]]] = {}
        self._liked: dict[ShapeId, tuple[list[DomainCounts], bool]] = {}
        self._avoided: dict[ShapeId, list[DomainCounts]] = {}

    # Nodes

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return self.columns.size

    def suited(self, shape: ShapeId) -> Mask:
        """Rows that suit a shape as far as nodes alone decide it."""
        return self.columns.suited(self._demands[shape], self.shapes[shape])

    def add(self, node: SchedulingNode) -> Row:
        """A node without pods; its row. Names should be unique."""
        return self.add_all((node,))

    def add_all(self, nodes: Sequence[SchedulingNode]) -> Row:
        """Nodes without pods, in rows that follow one another; the first of them."""
        start, stop = self.size, self.size + len(nodes)
        for resource in dict.fromkeys(name for node in nodes for name in node.allocatable):
            self._resource(resource)
        self._grow(stop)
        rows = slice(start, stop)
        for column, name in enumerate(self.resources):
            self.offered[rows, column] = [max(min(node.allocatable.get(name, 0), MOST_AMOUNT), 0) for node in nodes]
        self.free[rows] = self.offered[rows]
        self.columns.add(nodes)
        self.open[rows] = True
        for tally in self._spread:
            tally.cover(rows, self.columns.eligible)
        return start

    def _grow(self, rows: int) -> None:
        if rows > len(self.open):
            self.free = np.asfortranarray(grown(self.free, rows))
            self.offered = np.asfortranarray(grown(self.offered, rows))
            self.open = grown(self.open, rows)  # type: ignore[assignment]  # grown keeps the dtype

    def _resource(self, name: str) -> int:
        if name not in self.resources:
            self.resources.append(name)
            self.free = np.asfortranarray(np.pad(self.free, ((0, 0), (0, 1))))
            self.offered = np.asfortranarray(np.pad(self.offered, ((0, 0), (0, 1))))
            self.requests = [np.pad(request, (0, 1)) for request in self.requests]
        return self.resources.index(name)

    # Shapes

    def shape(self, shape: PodShape) -> ShapeId:
        """The number of a shape; added if new."""
        number = self._numbers.get(shape)
        if number is None:
            number = self._numbers[shape] = len(self.shapes)
            self.shapes.append(shape)
            self._known.add(number, shape)
            self.on.append({})
            self._demands.append(self.columns.demand(shape))
            columns = [(self._resource(name), amount) for name, amount in shape.requests]
            request = np.zeros(len(self.resources), np.int64)
            # Each pod takes one of its node's places for pods, which are the first column.
            request[0] = 1
            for column, amount in columns:
                request[column] = min(amount, MOST_AMOUNT)
            self.requests.append(request)
            self.wanted.append(tuple((column, int(request[column])) for column in np.flatnonzero(request).tolist()))
            self._bound.append(bool(shape.ports or shape.volumes or shape.anti_affinity))
            self._ruled = self._ruled or bool(shape.spread or shape.affinity or shape.anti_affinity)
        return number

    def plain(self, shape: ShapeId) -> bool:
        """Whether nothing but the node itself and its free resources decides where a pod of the shape goes."""
        body = self.shapes[shape]
        alone = not (self._bound[shape] or body.affinity or body.spread or body.refused)
        return alone and not (self._held.size and self.feared(shape))

    def uncounted(self, shape: ShapeId) -> bool:
        """Whether pods of the shape count for nothing but the resources of their node, now and when a rule is first asked."""
        return not self._bound[shape] and not self._ruled

    def place(self, shape: ShapeId, row: Row, pods: int = 1) -> None:
        """Put pods of a shape on a node, or take them off (negative)."""
        # Nothing is checked, because running pods run.
        self._moves.append((shape, row, pods))
        self._apply_one(shape, row, pods)

    def move(self, shape: ShapeId, rows: Counts, pods: Counts) -> None:
        """Put so many pods on each of the rows, which must be distinct; negative takes them off."""
        self._moves.append((shape, rows, pods))
        self._apply(shape, rows, pods)

    def _apply_one(self, shape: ShapeId, row: Row, pods: int) -> None:
        """As `_apply`, for one row."""
        # Most moves of a simulation are of a pod or two, for which numpy costs more than it saves.
        for column, amount in self.wanted[shape]:
            self.free[row, column] -= amount * pods
        mine = self.on[shape]
        number = mine.get(row, 0) + pods
        if number:
            mine[row] = number
        else:
            del mine[row]
        if self._bound[shape] or self._counting.size:
            self._count_rules(shape, np.array([row]), np.array([pods]))

    def _apply(self, shape: ShapeId, rows: Counts, pods: Counts) -> None:
        for column, amount in self.wanted[shape]:
            self.free[rows, column] -= amount * pods
        mine = self.on[shape]
        for row, number in zip(rows.tolist(), pods.tolist(), strict=True):
            mine[row] = mine.get(row, 0) + number
            if not mine[row]:
                del mine[row]
        self._count_rules(shape, rows, pods)

    def _count_rules(self, shape: ShapeId, rows: Counts, pods: Counts) -> None:
        """Count pods where ports, volumes and rules between pods are counted."""
        body = self.shapes[shape]
        if body.ports or body.volumes:
            self._occupy(body, rows, pods)
        for term in dict.fromkeys(body.anti_affinity):
            rule = AntiAffinityHolders(term)
            (self.tallies.get(rule) or self._start(rule)).move(rows, pods)
        for tally in self.touched(shape):
            tally.move(rows, pods)

    def _occupy(self, shape: PodShape, rows: Counts, pods: Counts) -> None:
        for port in shape.ports:
            self._count(self.ports.setdefault(port, {}), rows, pods)
        for volume in dict.fromkeys(shape.volumes):
            if volume.own:
                changed = dict(zip(rows.tolist(), pods.tolist(), strict=True))
            else:
                changed = self._count(self.attached.setdefault((volume.driver, volume.handle), {}), rows, pods)
            held = self.volumes.setdefault(volume.driver, np.zeros(len(self.free), np.int64))
            held = self.volumes[volume.driver] = grown(held, len(self.free))  # type: ignore[assignment]  # grown keeps the dtype
            held[list(changed)] += list(changed.values())

    @staticmethod
    def _count(users: dict[Row, int], rows: Counts, pods: Counts) -> dict[Row, int]:
        """Count users of a port or a volume; the answer says on which rows it came (1) or went (-1)."""
        changed: dict[Row, int] = {}
        for row, number in zip(rows.tolist(), pods.tolist(), strict=True):
            before, after = users.get(row, 0), users.get(row, 0) + number
            users[row] = after
            if not after:
                del users[row]
            if bool(before) != bool(after):
                changed[row] = 1 if after else -1
        return changed

    # Taking back

    def mark(self, *, openings: bool = False) -> Savepoint:
        """A point that `revert` comes back to; with `openings` also to which rows take pods."""
        return Savepoint(len(self._moves), self.size, self.open.copy() if openings else None)

    def revert(self, mark: Savepoint) -> None:
        """Take back all that was placed and added since."""
        while len(self._moves) > mark.moves:
            shape, rows, pods = self._moves.pop()
            if isinstance(rows, np.ndarray):
                self._apply(shape, rows, np.negative(pods))
            elif shape == _WITHDRAWAL:
                self._readmit(rows)
            else:
                self._apply_one(shape, rows, -int(pods))
        if self.size > mark.rows:
            gone = slice(mark.rows, self.size)
            for tally in self._spread:
                tally.uncover(gone)
            self.columns.cut(mark.rows)
        if mark.open is not None:
            self.open[: len(mark.open)] = mark.open

    def settle(self) -> None:
        """Make all changes final: earlier marks become invalid."""
        self._moves.clear()

    def withdraw(self, row: Row) -> None:
        """Let a node take no pods any more, as one with the taint of a node that goes; undone by `revert`."""
        self._moves.append((_WITHDRAWAL, row, 0))
        self._withdrawn.add(row)
        # A spread constraint that honours taints counts neither the node nor its pods from now on.
        for tally in self._honouring():
            if tally.counted[row]:
                self._count_row(tally, row, -1)

    def _readmit(self, row: Row) -> None:
        """The pods of the row are those of the moment in which it was withdrawn."""
        self._withdrawn.discard(row)
        here = slice(row, row + 1)
        for tally in self._honouring():
            if not isinstance(tally.rule, SpreadCounts) or tally.counted[row]:
                continue
            if self.columns.eligible(tally.rule.eligible, here)[0]:
                self._count_row(tally, row, 1)

    def _honouring(self) -> Iterator[DomainCounts]:
        for tally in self._spread:
            own = tally.rule.eligible.tolerations if isinstance(tally.rule, SpreadCounts) else None
            if own is not None and not tolerates(own, (_GOING,)):
                yield tally.fit()

    def _count_row(self, tally: DomainCounts, row: Row, sign: int) -> None:
        domain = int(tally.column.ids[row])
        meant = (number for number in self._known.meant(tally.rule) if row in self.on[number])
        pods = sum(self.on[number][row] for number in meant if tally.rule.takes(self.shapes[number], self.namespaces))
        tally.counts[domain] += sign * pods
        tally.nodes[domain] += sign
        tally.counted[row] = sign > 0

    # Counts of rules between pods

    def tally(self, rule: AllOf | SpreadCounts) -> DomainCounts:
        """The count of a rule; made at its first use from the pods that are there."""
        tally = self.tallies.get(rule)
        if tally is None:
            tally = self._start(rule)
            for number in self._known.meant(rule):
                if self.on[number] and rule.takes(self.shapes[number], self.namespaces):
                    tally.move(*numbers(self.on[number]))
        return tally.fit()

    def _start(self, rule: Counting) -> DomainCounts:
        tally = self.tallies[rule] = DomainCounts(rule, self.columns.labels.column(rule.key))
        tally.cover(self.columns.all, self.columns.eligible)
        if isinstance(rule, SpreadCounts):
            self._spread.append(tally)
            gone = [] if rule.eligible.tolerations is None or tolerates(rule.eligible.tolerations, (_GOING,)) else self._withdrawn
            for row in gone:
                tally.uncover(slice(row, row + 1))
        (self._held if isinstance(rule, AntiAffinityHolders) else self._counting).add(tally)
        return tally

    def touched(self, shape: ShapeId) -> list[DomainCounts]:
        """The counts that a pod of this shape is part of."""
        seen, tallies = self._touched.get(shape, (0, []))
        if seen < self._counting.size:
            body = self.shapes[shape]
            # Only those that came since: a rule that did not take the shape never will.
            tallies += [tally for tally in self._counting.meant(body, seen) if tally.rule.takes(body, self.namespaces)]
            self._touched[shape] = (self._counting.size, tallies)
        return tallies

    def feared(self, shape: ShapeId) -> list[DomainCounts]:
        """The counts of pods whose anti-affinity is about pods of this shape."""
        seen, tallies = self._feared.get(shape, (0, []))
        if seen < self._held.size:
            body = self.shapes[shape]
            tallies += [
                tally
                for tally in self._held.meant(body, seen)
                if all(hears(audience, body, self.namespaces) for audience in topology_counts.audiences(tally.rule))
            ]
            self._feared[shape] = (self._held.size, tallies)
        return tallies

    def liked(self, shape: ShapeId) -> tuple[list[DomainCounts], bool]:
        """The counts of pods that a pod of this shape must be near to, one a topology key, and whether it is one of them."""
        cached = self._liked.get(shape)
        if cached is None:
            body = self.shapes[shape]
            audiences = tuple(dict.fromkeys(term.audience for term in body.affinity))
            keys = dict.fromkeys(term.key for term in body.affinity)
            company = all(hears(audience, body, self.namespaces) for audience in audiences)
            cached = self._liked[shape] = [self.tally(AllOf(audiences, key)) for key in keys], company
        return cached

    def avoided(self, shape: ShapeId) -> list[DomainCounts]:
        """The counts of pods that a pod of this shape must keep away from."""
        cached = self._avoided.get(shape)
        if cached is None:
            terms = dict.fromkeys(self.shapes[shape].anti_affinity)
            cached = self._avoided[shape] = [self.tally(AllOf((term.audience,), term.key)) for term in terms]
        return cached


def numbers(counts: Mapping[Row, int]) -> tuple[Counts, Counts]:
    """Rows and counts as arrays, for `ScheduledCluster.move`."""
    return np.array(list(counts), np.int64), np.array(list(counts.values()), np.int64)
