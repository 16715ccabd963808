"""Counts that rules between pods rest on: how many pods of an audience are in each topology domain, updated pod by pod.

A rule between pods concerns every pod of the cluster. Upstream counts them again for each query, which makes it slow with
affinity; here a count is built once, at the first pod with the rule, and updated by each placement. Indexes by label find which
rules concern which shapes; they return a superset, and the rule itself decides.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Self

import numpy as np
import numpy.typing as npt

from agents.logic.nodes.scheduling.pod_shapes import AffinityTerm, Audience, NodeTerm, Pairs, PodShape, Toleration
from agents.logic.nodes.scheduling.scheduling_selectors import LabelOperator, LabelRequirement, SchedulingSelector

# Node labels as columns: a number for each row and key, so that a requirement is evaluated once for each value.

Mask = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]

ABSENT = -1


def grown(array: npt.NDArray[np.generic], rows: int) -> npt.NDArray[np.generic]:
    """The same array with room for at least so many rows; new ones are zero."""
    if rows <= array.shape[0]:
        return array
    # Twice as large, so that nodes that come one by one are not copied each time.
    larger = np.zeros((max(rows, 2 * array.shape[0]), *array.shape[1:]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


class Column:
    """The values of one label key: `ids[row]` is an index into `values`, or ABSENT."""

    __slots__ = ("_index", "_known", "ids", "values")

    def __init__(self) -> None:
        self.ids: Ids = np.zeros(64, np.int32)
        self.values: list[str] = []
        self._index: dict[str, int] = {}
        self._known: dict[LabelRequirement, list[bool]] = {}

    def extend(self, row: int, values: Iterable[str | None]) -> None:
        """The values of the rows from `row` on."""
        ids = [ABSENT if value is None else self.number(value) for value in values]
        self.ids = grown(self.ids, row + len(ids))  # type: ignore[assignment]  # grown keeps the dtype
        self.ids[row : row + len(ids)] = ids

    def number(self, value: str) -> int:
        """The index of a value; added if new."""
        index = self._index.get(value)
        if index is None:
            index = self._index[value] = len(self.values)
            self.values.append(value)
        return index

    def meets(self, requirement: LabelRequirement, rows: slice) -> Mask:
        """Which of the rows meet a requirement."""
        # A verdict for each value and not for each node, because many nodes share few values.
        verdicts = self._known.setdefault(requirement, [requirement.accepts(None)])
        verdicts.extend(requirement.accepts(value) for value in self.values[len(verdicts) - 1 :])
        result: Mask = np.array(verdicts, np.bool_)[self.ids[rows] + 1]
        return result


class LabelTable:
    """The labels of all nodes. A key costs nothing until a rule asks for it."""

    __slots__ = ("_columns", "_rows")

    def __init__(self) -> None:
        self._rows: list[dict[str, str]] = []
        self._columns: dict[str, Column] = {}

    def add_all(self, rows: list[dict[str, str]]) -> None:
        """The labels of further nodes."""
        for key, column in self._columns.items():
            column.extend(len(self._rows), (labels.get(key) for labels in rows))
        self._rows += rows

    def cut(self, rows: int) -> None:
        """Forget all rows from `rows` on."""
        del self._rows[rows:]

    def column(self, key: str) -> Column:
        """The column of a key."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = Column()
            column.extend(0, (labels.get(key) for labels in self._rows))
        return column

    def meets(self, demands: Sequence[LabelRequirement], rows: slice) -> Mask:
        """Which of the rows meet all of the demands."""
        result = np.ones(len(range(*rows.indices(len(self._rows)))), np.bool_)
        for demand in demands:
            result &= self.column(demand.key).meets(demand, rows)
        return result

    def of(self, row: int) -> dict[str, str]:
        """The labels of one node."""
        return self._rows[row]


Namespaces = Mapping[str, Mapping[str, str]]
"""The labels of every namespace; one that is missing has none."""


def hears(audience: Audience, shape: PodShape, namespaces: Namespaces) -> bool:
    """Whether a pod belongs to an audience. Source: AffinityTerm.Matches in the scheduler's framework/types.go."""
    if shape.namespace not in audience.namespaces and not audience.namespace_labels.matches(namespaces.get(shape.namespace, {})):
        return False
    return audience.selector.matches(dict(shape.labels))


@dataclass(frozen=True, slots=True)
class EligibleNodes:
    """Which nodes a spread constraint counts: those with all of the pod's topology keys and, if honoured, its node rules."""

    keys: tuple[str, ...]
    node_selector: Pairs | None
    node_terms: tuple[NodeTerm, ...] | None
    tolerations: tuple[Toleration, ...] | None


@dataclass(frozen=True, slots=True)
class AllOf:
    """Counts pods that belong to every one of the audiences: what a pod with these affinity terms looks for."""

    audiences: tuple[Audience, ...]
    key: str

    def takes(self, shape: PodShape, namespaces: Namespaces) -> bool:
        """Whether a pod of this shape is counted."""
        return all(hears(audience, shape, namespaces) for audience in self.audiences)


@dataclass(frozen=True, slots=True)
class AntiAffinityHolders:
    """Counts pods that hold an anti-affinity term themselves, and so keep its audience away."""

    term: AffinityTerm

    @property
    def key(self) -> str:
        """The topology key."""
        return self.term.key

    def takes(self, shape: PodShape, namespaces: Namespaces) -> bool:  # noqa: ARG002 - the three kinds are asked alike
        """Whether a pod of this shape is counted."""
        return self.term in shape.anti_affinity


@dataclass(frozen=True, slots=True)
class SpreadCounts:
    """Counts pods for a spread constraint: of one namespace, not terminating, and on eligible nodes only.

    An empty selector counts nobody. Source: countPodsMatchSelector in the scheduler's plugins/podtopologyspread/common.go.
    """

    selector: SchedulingSelector
    namespace: str
    key: str
    eligible: EligibleNodes

    def takes(self, shape: PodShape, namespaces: Namespaces) -> bool:  # noqa: ARG002 - the three kinds are asked alike
        """Whether a pod of this shape is counted."""
        if shape.terminating or shape.namespace != self.namespace or self.selector.empty:
            return False
        return self.selector.matches(dict(shape.labels))


Counting = AllOf | AntiAffinityHolders | SpreadCounts
Judge = Callable[[EligibleNodes, slice], Mask]


@dataclass(slots=True)
class DomainCounts:
    """One count by domain of a topology key. `counted[row]` and `nodes[domain]` are kept for spread only."""

    rule: Counting
    column: Column
    counts: Counts = field(default_factory=lambda: np.zeros(64, np.int64))
    nodes: Counts = field(default_factory=lambda: np.zeros(64, np.int64))
    counted: Mask = field(default_factory=lambda: np.zeros(64, np.bool_))

    def fit(self) -> Self:
        """Make room for the domains that the column has learned of."""
        if len(self.counts) < len(self.column.values):
            self.counts = grown(self.counts, len(self.column.values))  # type: ignore[assignment]  # grown keeps the dtype
            self.nodes = grown(self.nodes, len(self.column.values))  # type: ignore[assignment]  # grown keeps the dtype
        return self

    def cover(self, rows: slice, judge: Judge) -> None:
        """Take in new nodes, of which those that the rule counts give their domain a place in the minimum: for spread alone."""
        if isinstance(self.rule, SpreadCounts):
            self.fit()
            self.counted = grown(self.counted, rows.stop)  # type: ignore[assignment]  # grown keeps the dtype
            mine = judge(self.rule.eligible, rows)
            self.counted[rows] = mine
            np.add.at(self.nodes, self.column.ids[rows][mine], 1)

    def uncover(self, rows: slice) -> None:
        """Let nodes go, whose pods have been taken off before."""
        if isinstance(self.rule, SpreadCounts):
            mine = self.counted[rows]
            np.subtract.at(self.nodes, self.column.ids[rows][mine], 1)
            self.counted[rows] = False

    def move(self, rows: Counts, pods: Counts) -> None:
        """Count pods that came to (or, negative, left) rows."""
        self.fit()
        ids = self.column.ids[rows]
        mine = self.counted[rows] if isinstance(self.rule, SpreadCounts) else ids >= 0
        # One pod on one node is the usual case, and `add.at` is slow.
        if len(ids) == 1:
            if mine[0]:
                self.counts[ids[0]] += pods[0]
        else:
            # Not `counts[ids] +=`, which counts a domain once, however many of the rows are in it.
            np.add.at(self.counts, ids[mine], pods[mine])

    def least(self, min_domains: int) -> int:
        """The smallest count of any domain, or 0 if there are fewer domains than wanted; very large if there is none."""
        domains = self.nodes > 0
        number = int(np.count_nonzero(domains))
        # As long as domains are missing, the next pod is to open one: an empty domain is the least.
        if number < min_domains:
            return 0
        # As upstream: where there is no domain, no skew is too large.
        return int(self.counts[domains].min()) if number else 2**31 - 1


MOST_KEYS = 16
"""An audience of more namespaces and values than this counts as one that may mean anybody."""
NamespacedLabel = tuple[str, str, str]
"""Namespace, key and value."""


class RulesByAudience:
    """Counts in the order in which they came, found by a shape's labels."""

    # Without it every rule would be compared with every shape, of both of which a cluster may have thousands.

    def __init__(self) -> None:
        self.size = 0
        self._narrow: dict[NamespacedLabel, list[tuple[int, DomainCounts]]] = {}
        self._broad: list[tuple[int, DomainCounts]] = []

    def add(self, tally: DomainCounts) -> None:
        """One more count."""
        choices = [labels for audience in audiences(tally.rule) for labels in keys(audience)]
        entry = (self.size, tally)
        self.size += 1
        if not choices:
            self._broad.append(entry)
            return
        # Under the demand that fewest others are found by: a shape that has none of its labels cannot be meant.
        for label in min(choices, key=lambda labels: sum(len(self._narrow.get(label, ())) for label in labels)):
            self._narrow.setdefault(label, []).append(entry)

    def meant(self, shape: PodShape, since: int) -> Iterator[DomainCounts]:
        """The counts that may mean a shape, from the number `since` on."""
        lists: list[list[tuple[int, DomainCounts]]] = [self._broad]
        lists += [self._narrow[label] for label in _labels(shape) if label in self._narrow]
        for entries in lists:
            for _number, tally in entries[bisect_left(entries, since, key=itemgetter(0)) :]:
                yield tally


class ShapesByLabel:
    """The numbers of shapes, found by what a rule wants of them."""

    def __init__(self) -> None:
        self._all: list[int] = []
        self._by_label: dict[NamespacedLabel, list[int]] = {}

    def add(self, number: int, shape: PodShape) -> None:
        """One more shape."""
        self._all.append(number)
        for label in _labels(shape):
            self._by_label.setdefault(label, []).append(number)

    def meant(self, rule: Counting) -> Iterable[int]:
        """The shapes that a rule may mean, in their order."""
        choices = [
            [self._by_label.get(label, []) for label in labels] for audience in audiences(rule) for labels in keys(audience)
        ]
        if not choices:
            return self._all
        best = min(choices, key=lambda lists: sum(map(len, lists)))
        return sorted({number for shapes in best for number in shapes})


def audiences(rule: Counting) -> tuple[Audience, ...]:
    """All of these must mean a pod that is counted."""
    if isinstance(rule, AllOf):
        return rule.audiences
    if isinstance(rule, AntiAffinityHolders):
        return (rule.term.audience,)
    return (Audience(rule.selector, frozenset((rule.namespace,))),)


def keys(audience: Audience) -> Iterator[list[NamespacedLabel]]:
    """For each demand that names values the labels of which a pod must have one; nothing for an audience that may be anybody."""
    if not audience.namespace_labels.nothing:
        return
    for requirement in audience.selector.requirements:
        if requirement.operator is LabelOperator.IN and len(requirement.values) * len(audience.namespaces) <= MOST_KEYS:
            yield [
                (namespace, requirement.key, value)
                for namespace in sorted(audience.namespaces)
                for value in sorted(requirement.values)
            ]


def _labels(shape: PodShape) -> Iterator[NamespacedLabel]:
    for key, value in shape.labels:
        yield shape.namespace, key, value
