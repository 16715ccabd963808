"""The cluster in columns: what each node offers, what is free on it, and how many pods of which shape it carries.

It serves both as a stage's view and as a simulation's scratch pad: `mark` and `revert` undo what was placed or added in between,
at a cost in proportion to the changes. Rows are nodes in the order in which they came; shapes are numbered the same way.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agents.logic.nodes.scheduling import selector_index
from agents.logic.nodes.scheduling.label_columns import Counts, LabelTable, Mask, grown
from agents.logic.nodes.scheduling.pod_shapes import (
    HARD,
    UNSCHEDULABLE_TAINT,
    HostPort,
    NodeTerm,
    Pairs,
    PodShape,
    SchedulingNode,
    Taint,
    Toleration,
)
from agents.logic.nodes.scheduling.scheduling_selectors import equals
from agents.logic.nodes.scheduling.selector_index import RulesByAudience, ShapesByLabel
from agents.logic.nodes.scheduling.topology_counts import (
    AllOf,
    AntiAffinityHolders,
    Counting,
    DomainCounts,
    EligibleNodes,
    Namespaces,
    SpreadCounts,
    hears,
)
from schemas.pod_requests import CPU, EPHEMERAL, MEMORY, PODS

MOST_AMOUNT = 2**50
"""The largest amount of one resource that a pod or a node is taken to have; sums over thousands of pods then fit 64 bits."""
FIRST_RESOURCES = (PODS, CPU, MEMORY, EPHEMERAL)

Row = int
ShapeId = int
Demand = tuple[Pairs, tuple[NodeTerm, ...] | None, tuple[Toleration, ...], str]
"""What a pod demands of a node that no other pod has a say in, but for amounts, ports and volumes."""


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
        self.names: list[str] = []
        self.nodes: list[SchedulingNode] = []
        self.shapes: list[PodShape] = []
        self.labels = LabelTable()
        self.resources: list[str] = list(FIRST_RESOURCES)
        self.free: Counts = np.zeros((64, len(FIRST_RESOURCES)), np.int64, order="F")
        self.offered: Counts = np.zeros((64, len(FIRST_RESOURCES)), np.int64, order="F")
        self.open: Mask = np.zeros(64, np.bool_)
        """Rows that a search may choose: not cordoned, and not withdrawn."""
        self.tallies: dict[Counting, DomainCounts] = {}
        self.on: list[dict[Row, int]] = []
        """By shape: how many pods of it each row carries."""
        self.ports: dict[HostPort, dict[Row, int]] = {}
        self.attached: dict[tuple[str, str], dict[Row, int]] = {}
        self.volumes: dict[str, Counts] = {}
        """By driver: how many volumes each row has attached."""
        self.requests: list[Counts] = []
        self._numbers: dict[PodShape, ShapeId] = {}
        self._demands: list[int] = []
        """By shape: the place of what it demands of a node by itself in `_suited`."""
        self._suited: list[Mask] = []
        self._places: dict[Demand, int] = {}
        self._cordoned: Mask = np.zeros(64, np.bool_)
        self._tainted: dict[tuple[Taint, ...], int] = {}
        self._taints: Counts = np.zeros(64, np.int64)
        self._moves: list[tuple[ShapeId, Counts, Counts]] = []
        self._spread: list[DomainCounts] = []
        self._counting = RulesByAudience()
        self._held = RulesByAudience()
        self._known = ShapesByLabel()
        self._touched: dict[ShapeId, tuple[int, list[DomainCounts]]] = {}
        self._feared: dict[ShapeId, tuple[int, list[DomainCounts]]] = {}
        self._liked: dict[ShapeId, tuple[list[DomainCounts], bool]] = {}
        self._avoided: dict[ShapeId, list[DomainCounts]] = {}

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.names)

    @property
    def all(self) -> slice:
        """All rows."""
        return slice(0, len(self.names))

    # Nodes

    def add(self, node: SchedulingNode) -> Row:
        """A node without pods; its row. Names should be unique."""
        return self.add_all((node,))

    def add_all(self, nodes: Sequence[SchedulingNode]) -> Row:
        """Nodes without pods, in rows that follow one another; the first of them."""
        start, stop = len(self.names), len(self.names) + len(nodes)
        for resource in dict.fromkeys(name for node in nodes for name in node.allocatable):
            self._resource(resource)
        self._grow(stop)
        rows = slice(start, stop)
        for column, name in enumerate(self.resources):
            self.offered[rows, column] = [max(min(node.allocatable.get(name, 0), MOST_AMOUNT), 0) for node in nodes]
        self.free[rows] = self.offered[rows]
        self._cordoned[rows] = [node.unschedulable for node in nodes]
        self.open[rows] = ~self._cordoned[rows]
        self._taints[rows] = [self._tainted.setdefault(node.taints, len(self._tainted)) for node in nodes]
        self.names += [node.name for node in nodes]
        self.nodes += nodes
        self.labels.add_all([dict(node.labels) for node in nodes])
        for tally in self._spread:
            tally.cover(rows, self.eligible)
        return start

    def _grow(self, rows: int) -> None:
        if rows > len(self.open):
            self.free = np.asfortranarray(grown(self.free, rows))
            self.offered = np.asfortranarray(grown(self.offered, rows))
            self.open = grown(self.open, rows)  # type: ignore[assignment]  # grown keeps the dtype
            self._cordoned = grown(self._cordoned, rows)  # type: ignore[assignment]  # grown keeps the dtype
            self._taints = grown(self._taints, rows)  # type: ignore[assignment]  # grown keeps the dtype

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
            demand = (shape.node_selector, shape.node_terms, shape.tolerations, shape.node_name)
            self._demands.append(self._places.setdefault(demand, len(self._suited)))
            if self._demands[-1] == len(self._suited):
                self._suited.append(np.zeros(0, np.bool_))
            columns = [(self._resource(name), amount) for name, amount in shape.requests]
            request = np.zeros(len(self.resources), np.int64)
            request[0] = 1
            for column, amount in columns:
                request[column] = min(amount, MOST_AMOUNT)
            self.requests.append(request)
        return number

    def place(self, shape: ShapeId, row: Row, pods: int = 1) -> None:
        """Put pods of a shape on a node, or take them off (negative). Nothing is checked, because running pods run."""
        self.move(shape, np.array([row]), np.array([pods]))

    def move(self, shape: ShapeId, rows: Counts, pods: Counts) -> None:
        """Put so many pods on each of the rows, which must be distinct; negative takes them off."""
        self._moves.append((shape, rows, pods))
        self._apply(shape, rows, pods)

    def _apply(self, shape: ShapeId, rows: Counts, pods: Counts) -> None:
        request = self.requests[shape]
        if len(rows) == 1:
            self.free[int(rows[0])] -= request * int(pods[0])
        else:
            for column in np.flatnonzero(request):
                self.free[rows, column] -= request[column] * pods
        mine, body = self.on[shape], self.shapes[shape]
        for row, number in zip(rows.tolist(), pods.tolist(), strict=True):
            mine[row] = mine.get(row, 0) + number
            if not mine[row]:
                del mine[row]
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
        return Savepoint(len(self._moves), len(self.names), self.open.copy() if openings else None)

    def revert(self, mark: Savepoint) -> None:
        """Take back all that was placed and added since."""
        while len(self._moves) > mark.moves:
            shape, rows, pods = self._moves.pop()
            self._apply(shape, rows, -pods)
        if len(self.names) > mark.rows:
            gone = slice(mark.rows, len(self.names))
            for tally in self._spread:
                tally.uncover(gone)
            del self.names[mark.rows :], self.nodes[mark.rows :]
            self.labels.cut(mark.rows)
            self._suited = [mask[: mark.rows] for mask in self._suited]
        if mark.open is not None:
            self.open[: len(mark.open)] = mark.open

    def settle(self) -> None:
        """Make all changes final: earlier marks become invalid."""
        self._moves.clear()

    # Counts of rules between pods

    def tally(self, rule: AllOf | SpreadCounts) -> DomainCounts:
        """The count of a rule; made at its first use from the pods that are there."""
        found = self.tallies.get(rule)
        if found is None:
            found = self._start(rule)
            for number in self._known.meant(rule):
                if self.on[number] and rule.takes(self.shapes[number], self.namespaces):
                    found.move(*numbers(self.on[number]))
        return found.fit()

    def _start(self, rule: Counting) -> DomainCounts:
        found = self.tallies[rule] = DomainCounts(rule, self.labels.column(rule.key))
        found.cover(self.all, self.eligible)
        if isinstance(rule, SpreadCounts):
            self._spread.append(found)
        (self._held if isinstance(rule, AntiAffinityHolders) else self._counting).add(found)
        return found

    def touched(self, shape: ShapeId) -> list[DomainCounts]:
        """The counts that a pod of this shape is part of."""
        seen, found = self._touched.get(shape, (0, []))
        if seen < self._counting.size:
            body = self.shapes[shape]
            found += [one for one in self._counting.meant(body, seen) if one.rule.takes(body, self.namespaces)]
            self._touched[shape] = (self._counting.size, found)
        return found

    def feared(self, shape: ShapeId) -> list[DomainCounts]:
        """The counts of pods whose anti-affinity is about pods of this shape."""
        seen, found = self._feared.get(shape, (0, []))
        if seen < self._held.size:
            body = self.shapes[shape]
            found += [
                tally
                for tally in self._held.meant(body, seen)
                if all(hears(one, body, self.namespaces) for one in selector_index.audiences(tally.rule))
            ]
            self._feared[shape] = (self._held.size, found)
        return found

    def liked(self, shape: ShapeId) -> tuple[list[DomainCounts], bool]:
        """The counts of pods that a pod of this shape must be near to, one a topology key, and whether it is one of them."""
        found = self._liked.get(shape)
        if found is None:
            body = self.shapes[shape]
            audiences = tuple(dict.fromkeys(term.audience for term in body.affinity))
            keys = dict.fromkeys(term.key for term in body.affinity)
            company = all(hears(one, body, self.namespaces) for one in audiences)
            found = self._liked[shape] = [self.tally(AllOf(audiences, key)) for key in keys], company
        return found

    def avoided(self, shape: ShapeId) -> list[DomainCounts]:
        """The counts of pods that a pod of this shape must keep away from."""
        found = self._avoided.get(shape)
        if found is None:
            terms = dict.fromkeys(self.shapes[shape].anti_affinity)
            found = self._avoided[shape] = [self.tally(AllOf((term.audience,), term.key)) for term in terms]
        return found

    # What depends on the node alone

    def tolerated(self, tolerations: tuple[Toleration, ...], rows: slice) -> Mask:
        """Rows without a taint that keeps such a pod away."""
        verdicts = [tolerates(tolerations, taints) for taints in self._tainted]
        result: Mask = np.array(verdicts, np.bool_)[self._taints[: self.size][rows]]
        return result

    def selected(self, selector: Pairs, terms: tuple[NodeTerm, ...] | None, rows: slice) -> Mask:
        """Rows that meet a node selector and required node affinity."""
        result = self.labels.meets(equals(dict(selector)).requirements, rows)
        if terms is not None:
            any_of = np.zeros(len(result), np.bool_)
            for term in terms:
                if not term.void:
                    any_of |= self._meets(term, rows)
            result &= any_of
        return result

    def _meets(self, term: NodeTerm, rows: slice) -> Mask:
        result = self.labels.meets(term.expressions, rows)
        for one in term.names:
            result &= np.array([one.accepts(name) for name in self.names[rows]], np.bool_)
        return result

    def suited(self, shape: ShapeId) -> Mask:
        """Rows that suit a shape as far as nodes alone decide it: name, cordon, taints, selector and affinity.

        Remembered for all shapes that demand the same.
        """
        place = self._demands[shape]
        known = self._suited[place]
        if len(known) < self.size:
            rows, body = slice(len(known), self.size), self.shapes[shape]
            new = self.named(body, rows) & self.uncordoned(body, rows) & self.tolerated(body.tolerations, rows)
            new &= self.selected(body.node_selector, body.node_terms, rows)
            known = self._suited[place] = np.concatenate((known, new)) if len(known) else new
        return known

    def named(self, shape: PodShape, rows: slice) -> Mask:
        """Rows with the name that the pod asks for, if it asks for one."""
        if not shape.node_name:
            return np.ones(len(range(*rows.indices(self.size))), np.bool_)
        return np.array([name == shape.node_name for name in self.names[rows]], np.bool_)

    def uncordoned(self, shape: PodShape, rows: slice) -> Mask:
        """Rows that are not cordoned, or whose cordon the pod tolerates."""
        if tolerates(shape.tolerations, (Taint(UNSCHEDULABLE_TAINT, "", HARD[0]),)):
            return np.ones(len(range(*rows.indices(self.size))), np.bool_)
        result: Mask = ~self._cordoned[: self.size][rows]
        return result

    def eligible(self, rule: EligibleNodes, rows: slice) -> Mask:
        """Rows that a spread constraint counts."""
        result = np.ones(len(range(*rows.indices(self.size))), np.bool_)
        for key in rule.keys:
            result &= self.labels.column(key).ids[rows] >= 0
        if rule.node_selector is not None:
            result &= self.selected(rule.node_selector, rule.node_terms, rows)
        if rule.tolerations is not None:
            result &= self.tolerated(rule.tolerations, rows)
        return result


def tolerates(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> bool:
    """Whether every taint that keeps pods away is tolerated."""
    return all(any(one.tolerates(taint) for one in tolerations) for taint in taints if taint.effect in HARD)


def numbers(counts: Mapping[Row, int]) -> tuple[Counts, Counts]:
    """Rows and counts as arrays, for `ScheduledCluster.move`."""
    return np.array(list(counts), np.int64), np.array(list(counts.values()), np.int64)
