"""Whether two groups are similar enough to grow together: same hardware, same labels except for their location."""

from collections.abc import Mapping
from dataclasses import dataclass

from agents.logic.nodes.scheduling.pod_shapes import REGION, ZONE, SchedulingNode
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


def bucket(node: SchedulingNode, rules: SimilarityRules) -> tuple[tuple[str, str], ...] | None:
    """The labels that two nodes must share to be alike; None for a node that is like no other."""
    if not rules.labels:
        return tuple(pair for pair in node.labels if pair[0] not in rules.ignored)
    mine = dict(node.labels)
    return tuple((key, mine[key]) for key in rules.labels) if mine.keys() >= set(rules.labels) else None


def alike(one: TemplateUsage, other: TemplateUsage, rules: SimilarityRules) -> bool:
    """Whether two templates are similar. Source: IsCloudProviderNodeInfoSimilar in processors/nodegroupset."""
    if rules.labels:
        mine, yours = dict(one.node.labels), dict(other.node.labels)
        return all(key in mine and key in yours and mine[key] == yours[key] for key in rules.labels)
    return (
        _same_size(one.node.capacity, other.node.capacity, rules.memory)
        and _all_within(one.node.allocatable, other.node.allocatable, rules.allocatable)
        and _all_within(_free(one), _free(other), rules.free)
        and _labels(one.node, rules) == _labels(other.node, rules)
    )


def _same_size(mine: Mapping[str, int], yours: Mapping[str, int], memory: float) -> bool:
    """The same resources, each of them equal but memory, which may differ a little."""
    if set(mine) != set(yours):
        return False
    return all(_within(mine[name], yours[name], memory if name == MEMORY else 0.0) for name in mine)


def _free(one: TemplateUsage) -> dict[str, int]:
    return {name: amount - one.used.get(name, 0) for name, amount in one.node.allocatable.items()}


def _all_within(mine: Mapping[str, int], yours: Mapping[str, int], share: float) -> bool:
    return set(mine) == set(yours) and all(_within(mine[name], yours[name], share) for name in mine)


def _within(mine: int, yours: int, share: float) -> bool:
    larger, smaller = max(mine, yours), min(mine, yours)
    return larger - smaller <= larger * share


def _labels(node: SchedulingNode, rules: SimilarityRules) -> dict[str, str]:
    return {key: value for key, value in node.labels if key not in rules.ignored}
