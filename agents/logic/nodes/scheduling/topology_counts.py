"""Counts that rules between pods rest on: how many pods of an audience are in each topology domain, updated pod by pod.

A rule between pods concerns every pod of the cluster. Upstream counts them again for each query, which makes it slow with
affinity; here a count is built once, at the first pod with the rule, and updated by each placement.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from agents.logic.nodes.scheduling.label_columns import Column, Counts, Mask, grown
from agents.logic.nodes.scheduling.pod_shapes import AffinityTerm, Audience, NodeTerm, Pairs, PodShape, Toleration
from agents.logic.nodes.scheduling.scheduling_selectors import SchedulingSelector

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
        if number < min_domains:
            return 0
        return int(self.counts[domains].min()) if number else 2**31 - 1
