"""Which groups are similar enough to grow together, and which of them one simulation represents.

Similar groups have the same hardware and the same labels except for their location. Thousands of groups are of few kinds.
"""

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agents.logic.nodes.growth.node_estimator import GroupRow, GroupTemplate
from agents.logic.nodes.scheduling.node_columns import ShapeId
from agents.logic.nodes.scheduling.pod_shapes import REGION, ZONE, PodShape, SchedulingNode
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster
from schemas.pod_requests import MEMORY
from schemas.well_known_labels import HOSTNAME

GENERIC_IGNORED = frozenset(
    (
        HOSTNAME,
        ZONE,
        REGION,
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/fluentd-ds-ready",
        "kops.k8s.io/instancegroup",
    )
)
# Of these each group or zone has its own value, though its nodes do the same work.
AWS_IGNORED = GENERIC_IGNORED | frozenset(
    (
        "alpha.eksctl.io/instance-id",
        "alpha.eksctl.io/nodegroup-name",
        "eks.amazonaws.com/nodegroup",
        "k8s.amazonaws.com/eniConfig",
        "lifecycle",
        "topology.ebs.csi.aws.com/zone",
        "topology.k8s.aws/zone-id",
    )
)


@dataclass(frozen=True, slots=True)
class SimilarityRules:
    """What counts as alike: shares by which amounts may differ (of the larger one), and labels that do not matter.

    With `labels`, equality of these labels is all that is asked. Source: flags of processors/nodegroupset.
    """

    memory: float = 0.015
    allocatable: float = 0.05
    free: float = 0.05
    ignored: frozenset[str] = AWS_IGNORED
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TemplateUsage:
    """A group's template node, and what its own pods ask for, by resource."""

    node: SchedulingNode
    used: Mapping[str, int]


TemplateKind = tuple[object, ...]
"""What two groups must have in common for one simulation to speak for both."""
Template = GroupTemplate | None


def distinguishing_labels(cluster: ScheduledCluster, shapes: Iterable[ShapeId], templates: Iterable[Template]) -> Collection[str]:
    """The keys of labels by which these pods can tell new nodes apart: their own, and those of counts that there are."""
    # Groups that differ only in labels that nobody asks for are of one kind, and one simulation speaks for all of them.
    own = {key for shape in shapes for key in _keys(cluster.shapes[shape])}
    pods = {id(pod): pod for template in templates if template is not None for pod in template.pods}
    return own | {rule.key for rule in cluster.tallies} | {key for pod in pods.values() for key in _keys(pod)}


def _keys(shape: PodShape) -> Iterator[str]:
    yield from (key for key, _value in shape.node_selector)
    for term in (*(shape.node_terms or ()), *(term for volume in shape.volumes for term in volume.terms)):
        yield from (expression.key for expression in term.expressions)
    yield from (term.key for term in (*shape.affinity, *shape.anti_affinity))
    yield from (constraint.key for constraint in shape.spread)


def of(template: GroupTemplate, keys: Collection[str]) -> TemplateKind:
    """The kind of a template: all of it but its name, and of its labels those with these keys."""
    node = template.node
    labels = tuple(pair for pair in node.labels if pair[0] in keys and pair[0] != HOSTNAME)
    amounts = tuple(sorted(node.allocatable.items())), tuple(sorted(node.attachable.items()))
    # Pods by identity: equal ones of several groups are one object, and comparing shapes costs more.
    return labels, node.taints, node.unschedulable, amounts, tuple(map(id, template.pods))


class SimilarNodeGroups:
    """Groups that can share each other's growth: alike, and able to run all that the other would.

    Equal kinds are compared once. `takes`: the shapes that a new node of each group takes.
    """

    def __init__(self, groups: Sequence[tuple[str, Template]], takes: Mapping[str, set[ShapeId]], rules: SimilarityRules) -> None:
        self._rules = rules
        self._place = {name: place for place, (name, _template) in enumerate(groups)}
        self._class_of: dict[str, TemplateKind] = {}
        self._members: dict[TemplateKind, list[str]] = {}
        self._sample: dict[TemplateKind, tuple[TemplateUsage, set[ShapeId]]] = {}
        self._rivals: dict[object, list[TemplateKind]] = {}
        self._peers: dict[TemplateKind, list[str]] = {}
        for name, template in groups:
            if template is not None:
                self._add(name, template, takes[name])

    def _add(self, name: str, template: GroupTemplate, takes: set[ShapeId]) -> None:
        shared = bucket(template.node, self._rules)
        if shared is None:
            return
        usage = _empty(template)
        amounts = (template.node.capacity, template.node.allocatable, usage.used)
        # The set by identity, for groups of one kind share one.
        kind = (shared, *(tuple(sorted(amount.items())) for amount in amounts), id(takes))
        if kind not in self._members:
            self._members[kind], self._sample[kind] = [], (usage, takes)
            self._rivals.setdefault(shared, []).append(kind)
        self._class_of[name] = kind
        self._members[kind].append(name)

    def of(self, name: str) -> list[str]:
        """The groups that can share a group's growth, in their order."""
        kind = self._class_of.get(name)
        if kind is None:
            return []
        if kind not in self._peers:
            mine, takes = self._sample[kind]
            similar = [
                other
                for other in self._rivals[kind[0]]
                # Who shares a growth must be able to run all that the chosen group would.
                if takes <= self._sample[other][1] and alike(mine, self._sample[other][0], self._rules)
            ]
            peers = (member for other in similar for member in self._members[other])
            self._peers[kind] = sorted(peers, key=self._place.__getitem__)
        return [peer for peer in self._peers[kind] if peer != name]


def bucket(node: SchedulingNode, rules: SimilarityRules) -> tuple[tuple[str, str], ...] | None:
    """The labels that two nodes must share to be alike; None for a node that is like no other."""
    if not rules.labels:
        return tuple(pair for pair in node.labels if pair[0] not in rules.ignored)
    mine = dict(node.labels)
    return tuple((key, mine[key]) for key in rules.labels) if mine.keys() >= set(rules.labels) else None


def alike(first: TemplateUsage, other: TemplateUsage, rules: SimilarityRules) -> bool:
    """Whether two templates are similar. Source: IsCloudProviderNodeInfoSimilar in processors/nodegroupset."""
    if rules.labels:
        mine, yours = dict(first.node.labels), dict(other.node.labels)
        return all(key in mine and key in yours and mine[key] == yours[key] for key in rules.labels)
    return (
        _same_size(first.node.capacity, other.node.capacity, rules.memory)
        and _all_within(first.node.allocatable, other.node.allocatable, rules.allocatable)
        and _all_within(_free(first), _free(other), rules.free)
        and _labels(first.node, rules) == _labels(other.node, rules)
    )


def _same_size(mine: Mapping[str, int], yours: Mapping[str, int], memory: float) -> bool:
    """The same resources, each of them equal but memory, which may differ a little."""
    if set(mine) != set(yours):
        return False
    return all(_within(mine[name], yours[name], memory if name == MEMORY else 0.0) for name in mine)


def _free(template: TemplateUsage) -> dict[str, int]:
    return {name: amount - template.used.get(name, 0) for name, amount in template.node.allocatable.items()}


def _all_within(mine: Mapping[str, int], yours: Mapping[str, int], share: float) -> bool:
    return set(mine) == set(yours) and all(_within(mine[name], yours[name], share) for name in mine)


def _within(mine: int, yours: int, share: float) -> bool:
    larger, smaller = max(mine, yours), min(mine, yours)
    return larger - smaller <= larger * share


def _labels(node: SchedulingNode, rules: SimilarityRules) -> dict[str, str]:
    return {key: value for key, value in node.labels if key not in rules.ignored}


def _empty(template: GroupTemplate) -> TemplateUsage:
    used: dict[str, int] = {}
    for pod in template.pods:
        for name, amount in pod.requests:
            used[name] = used.get(name, 0) + amount
    return TemplateUsage(template.node, used)


# Sharing new nodes out among similar groups, so that they stay equally large.


MOST_NODES = 100_000
"""More new nodes than this are not shared out in one decision."""


def share_nodes(groups: Sequence[GroupRow], nodes: int) -> dict[str, int]:
    """The new targets of the groups that grow by `nodes` together, as far as their maxima let them.

    Source: BalanceScaleUpBetweenGroups in processors/nodegroupset/balancing_processor.go.
    """
    # One node at a time goes to the group with the lowest target, the earlier one among equals.
    able = [(group.target, place) for place, group in enumerate(groups) if group.target < group.most]
    heapq.heapify(able)
    targets: dict[str, int] = {}
    for _node in range(min(nodes, MOST_NODES)):
        if not able:
            break
        target, place = able[0]
        group = groups[place]
        targets[group.name] = target + 1
        if target + 1 < group.most:
            heapq.heapreplace(able, (target + 1, place))
        else:
            heapq.heappop(able)
    return targets
