"""Finds which rules concern which shapes: counts by the labels of their audience, and shapes by their own labels.

Without it every rule would be compared with every shape, which would take for ever in a cluster with thousands of each. The index
returns a superset: the rule itself decides whether it concerns a shape.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import itemgetter

from agents.logic.nodes.scheduling.pod_shapes import Audience, PodShape
from agents.logic.nodes.scheduling.scheduling_selectors import LabelOperator
from agents.logic.nodes.scheduling.topology_counts import AllOf, AntiAffinityHolders, Counting, DomainCounts

MOST_KEYS = 16
"""An audience of more namespaces and values than this counts as one that may mean anybody."""
NamespacedLabel = tuple[str, str, str]
"""Namespace, key and value."""


class RulesByAudience:
    """Counts in the order in which they came, found by a shape's labels."""

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
