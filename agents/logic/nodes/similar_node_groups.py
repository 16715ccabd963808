"""Which groups one simulation represents, and which are similar enough to grow together: thousands of groups are of few kinds."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from agents.logic.nodes import similarity_rules
from agents.logic.nodes.node_estimator import GroupTemplate
from agents.logic.nodes.scheduling.pod_shapes import PodShape
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster, ShapeId
from agents.logic.nodes.similarity_rules import SimilarityRules, TemplateUsage
from schemas.well_known_labels import HOSTNAME

TemplateKind = tuple[object, ...]
"""What two groups must have in common for one simulation to speak for both."""
Template = GroupTemplate | None


def distinguishing_labels(cluster: ScheduledCluster, shapes: Iterable[ShapeId], templates: Iterable[Template]) -> Collection[str]:
    """The keys of labels by which these pods can tell new nodes apart: their own, and those of counts that there are."""
    own = {key for shape in shapes for key in _keys(cluster.shapes[shape])}
    pods = {id(pod): pod for template in templates if template is not None for pod in template.pods}
    return own | {rule.key for rule in cluster.tallies} | {key for pod in pods.values() for key in _keys(pod)}


def _keys(shape: PodShape) -> Iterator[str]:
    yield from (key for key, _value in shape.node_selector)
    for term in (*(shape.node_terms or ()), *(term for volume in shape.volumes for term in volume.terms)):
        yield from (one.key for one in term.expressions)
    yield from (one.key for one in (*shape.affinity, *shape.anti_affinity))
    yield from (one.key for one in shape.spread)


def of(template: GroupTemplate, keys: Collection[str]) -> TemplateKind:
    """The kind of a template: all of it but its name, and of its labels those with these keys."""
    node = template.node
    labels = tuple(pair for pair in node.labels if pair[0] in keys and pair[0] != HOSTNAME)
    amounts = tuple(sorted(node.allocatable.items())), tuple(sorted(node.attachable.items()))
    return labels, node.taints, node.unschedulable, amounts, tuple(map(id, template.pods))


class SimilarNodeGroups:
    """Groups that can share each other's growth: alike, and able to run all that the other would.

    Equal kinds are compared once. `takes`: the shapes that a new node of each group takes; groups of one kind share one set.
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
        bucket = similarity_rules.bucket(template.node, self._rules)
        if bucket is None:
            return
        usage = _empty(template)
        amounts = (template.node.capacity, template.node.allocatable, usage.used)
        kind = (bucket, *(tuple(sorted(one.items())) for one in amounts), id(takes))
        if kind not in self._members:
            self._members[kind], self._sample[kind] = [], (usage, takes)
            self._rivals.setdefault(bucket, []).append(kind)
        self._class_of[name] = kind
        self._members[kind].append(name)

    def of(self, name: str) -> list[str]:
        """The groups that can share a group's growth, in their order."""
        kind = self._class_of.get(name)
        if kind is None:
            return []
        if kind not in self._peers:
            mine, takes = self._sample[kind]
            alike = [
                other
                for other in self._rivals[kind[0]]
                if takes <= self._sample[other][1] and similarity_rules.alike(mine, self._sample[other][0], self._rules)
            ]
            self._peers[kind] = sorted((one for other in alike for one in self._members[other]), key=self._place.__getitem__)
        return [one for one in self._peers[kind] if one != name]


def _empty(template: GroupTemplate) -> TemplateUsage:
    used: dict[str, int] = {}
    for pod in template.pods:
        for name, amount in pod.requests:
            used[name] = used.get(name, 0) + amount
    return TemplateUsage(template.node, used)
