"""Which groups grow, by how many nodes, for which pending pods; and why the others do not.

Upstream's order (core/scaleup/orchestrator): leave out groups that may not grow, find which shapes a new node of each other group
would take, estimate, choose, cap, balance. Unlike upstream, the decision can go on with the pods that are left.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from agents.logic.nodes.growth import expanders, node_estimator, pending_pods, similar_node_groups
from agents.logic.nodes.growth.expanders import Expander, ExpanderContext, ExpanderOption
from agents.logic.nodes.growth.node_estimator import EstimatorLimits, GroupRow, GroupTemplate, PodGroup
from agents.logic.nodes.growth.similar_node_groups import SimilarityRules, SimilarNodeGroups, TemplateKind
from agents.logic.nodes.scheduling import placement, scheduler_filters
from agents.logic.nodes.scheduling.node_columns import ShapeId
from agents.logic.nodes.scheduling.pod_shapes import PodShape
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster
from agents.logic.nodes.scheduling.topology_counts import Counts
from schemas.pod_requests import CPU, MEMORY

MOST_ESTIMATES = 256
"""Different templates that one decision estimates; groups beyond that are left out with a reason."""
MOST_ROUNDS = 32
"""Groups that one decision lets grow one after the other."""

NOT_READY = "not ready for scale-up"
BACKED_OFF = "in backoff after failed scale-up"
AT_MAXIMUM = "max node group size reached"
TOO_MANY = "too many different templates in one decision"
MAX_NODES = "max total nodes in cluster reached"


@dataclass(frozen=True, slots=True)
class ClusterLimits:
    """Most nodes of the cluster and of one scale-up (0: no limit), and most of each resource of the cluster's capacity."""

    nodes: int = 0
    at_once: int = 1000
    resources: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScaleUpSettings:
    """How to choose. `likeness`: balance similar groups; `several`: go on with the pods that the chosen group leaves."""

    expanders: tuple[Expander, ...] = (Expander.LEAST_WASTE,)
    limits: ClusterLimits = field(default_factory=ClusterLimits)
    likeness: SimilarityRules | None = None  # Balances similar groups.
    # Goes on with the pods that the chosen group leaves, unlike upstream.
    several: bool = False
    fast_path: bool = False


@dataclass(frozen=True, slots=True)
class GroupIncrease:
    """A group that grows. `pods`: places of the pending pods that it is for; a similar group that shares the load has none."""

    group: str
    before: int
    after: int
    # Places of the pending pods that it is for; a similar group that shares the load has none.
    pods: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExpanderQuestion:
    """What an external expander is asked: options, the shapes of waiting pods with places, and each option's pods by shape."""

    options: tuple[ExpanderOption, ...]
    shapes: tuple[tuple[PodShape, tuple[int, ...]], ...]
    placed: Mapping[str, Sequence[int]]


@dataclass(slots=True)
class ScaleUp:
    """A decision. Places are those of the pending pods."""

    increases: list[GroupIncrease] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    awaiting: list[int] = field(default_factory=list)
    """Pods that another group would take, to be considered again."""
    remaining: list[int] = field(default_factory=list)
    """Pods that no group takes."""
    choices: list[expanders.ExpanderChoice] = field(default_factory=list)
    question: ExpanderQuestion | None = None
    refused: str = ""

    @property
    def triggered(self) -> list[int]:
        """Pods that the growth is for."""
        return sorted(place for increase in self.increases for place in increase.pods)


class _Round:
    """The rest of a decision after the groups that were chosen so far."""

    def __init__(self, cluster: ScheduledCluster, groups: Sequence[GroupRow], settings: ScaleUpSettings) -> None:
        self.cluster = cluster
        self.groups = {group.name: group for group in groups}
        self.targets = {group.name: group.target for group in groups}
        self.settings = settings
        self.kinds: dict[str, TemplateKind] = {}

    def sort(self, shapes: Iterable[ShapeId]) -> None:
        """Find the kind of each group, as far as these pods can distinguish groups."""
        keys = similar_node_groups.distinguishing_labels(self.cluster, shapes, [group.template for group in self.groups.values()])
        templates = ((name, group.template) for name, group in self.groups.items())
        self.kinds = {name: similar_node_groups.of(template, keys) for name, template in templates if template is not None}

    @property
    def capacity(self) -> dict[str, int]:
        """What all nodes have together of the limited resources."""
        limited = self.settings.limits.resources
        return {name: sum(node.capacity.get(name, 0) for node in self.cluster.columns.nodes) for name in limited}

    def affordable(self, group: GroupRow, capacity: Mapping[str, int]) -> tuple[int | None, list[str]]:
        """How many nodes the limits on resources allow (None: any number), and which resources allow none."""
        least, short = None, []
        node = group.template.node if group.template is not None else None
        for name, most in self.settings.limits.resources.items():
            size = node.capacity.get(name, 0) if node is not None else 0
            if size > 0:
                number = max(most - capacity[name], 0) // size
                least = number if least is None else min(least, number)
                if not number:
                    short.append(name)
        return least, short

    def skip(self, group: GroupRow, capacity: Mapping[str, int]) -> str:
        """Why a group may not grow, empty if it may."""
        if group.stopped:
            return group.stopped
        if group.backed_off:
            return BACKED_OFF
        if not group.healthy or group.template is None:
            return NOT_READY
        if self.targets[group.name] >= group.most:
            return AT_MAXIMUM
        short = self.affordable(group, capacity)[1]
        return f'exceeded quota: "cluster-wide", resources: {", ".join(sorted(short))}' if short else ""


def decide(
    cluster: ScheduledCluster, groups: Sequence[GroupRow], pending: Counts, settings: ScaleUpSettings, around: ExpanderContext
) -> ScaleUp:
    """Decide for the pending pods, given by their shapes; the cluster is left as it was.

    `cluster` holds all nodes, the upcoming ones among them, and none of the pending pods.
    """
    mark = cluster.mark()
    decision = ScaleUp()
    work = _Round(cluster, groups, settings)
    work.sort(np.unique(pending).tolist())
    left = np.arange(len(pending))
    for number in range(MOST_ROUNDS if settings.several else 1):
        left = _round(work, pending, left, decision, around)
        # A round that chose nothing, or may not pay for its choice, would only be repeated.
        if not len(left) or len(decision.increases) == 0 or decision.refused or number + 1 > len(decision.choices):
            break
    cluster.revert(mark)
    return decision


def _round(work: _Round, pending: Counts, left: Counts, decision: ScaleUp, around: ExpanderContext) -> Counts:
    """Choose one group for the pods that are left; the answer is which are left then."""
    shapes = pending_pods.by_shape(pending[left])
    capacity = work.capacity
    able = _able(work, capacity, decision)
    fits = _fits(work, able, [shape for shape, _places in shapes])
    options, placed = _options(work, able, shapes, fits)
    # Groups of one kind share one set, so that a thousand groups are a handful of sets.
    welcome = set().union(*{id(fit): fit for fit in fits.values()}.values())
    decision.remaining = [int(left[p]) for shape, places in shapes if shape not in welcome for p in places]
    decision.awaiting = sorted(set(left.tolist()) - set(decision.remaining))
    choice = expanders.choose(work.settings.expanders, options, around.after_choice if decision.choices else around)
    if choice.ask:
        kinds = tuple((work.cluster.shapes[shape], tuple(left[places].tolist())) for shape, places in shapes)
        decision.question = ExpanderQuestion(choice.ask, kinds, {option.group: placed[option.group] for option in choice.ask})
    if choice.best is None:
        return left
    best = choice.best
    nodes, refused = _capped(work, best, capacity)
    if nodes < 1:
        decision.refused = refused
        return left
    decision.choices.append(choice)
    taken = [int(left[p]) for (_shape, places), number in zip(shapes, placed[best.group], strict=True) for p in places[:number]]
    _grow(work, best, nodes, taken, decision)
    mine = set(taken)
    rest = np.array([place for place in left.tolist() if place not in mine], np.int64)
    decision.awaiting = [place for place in decision.awaiting if place not in mine]
    _assume(work, best, nodes, pending, np.array(taken, np.int64))
    return rest


def _able(work: _Round, capacity: Mapping[str, int], decision: ScaleUp) -> list[GroupRow]:
    """The groups that may grow; the others are recorded with their reason."""
    able = []
    for group in work.groups.values():
        reason = work.skip(group, capacity)
        if reason:
            decision.skipped.setdefault(group.name, reason)
        else:
            able.append(group)
    kinds = dict.fromkeys(work.kinds[group.name] for group in able)
    if len(kinds) > MOST_ESTIMATES:
        allowed = set(list(kinds)[:MOST_ESTIMATES])
        decision.skipped.update({group.name: TOO_MANY for group in able if work.kinds[group.name] not in allowed})
        able = [group for group in able if work.kinds[group.name] in allowed]
    return able


def _fits(work: _Round, able: list[GroupRow], shapes: list[ShapeId]) -> dict[str, set[ShapeId]]:
    """For each group the shapes that an empty new node of it takes."""
    cluster = work.cluster
    kinds: dict[object, list[GroupRow]] = {}
    for group in able:
        kinds.setdefault(work.kinds[group.name], []).append(group)
    templates = [alike[0].template for alike in kinds.values()]
    mark = cluster.mark()
    start = cluster.size
    for template in templates:
        node_estimator.add(cluster, template)
    rows = slice(start, cluster.size)
    # Filters that look at the node alone are asked for the new nodes of all groups at once; rules between pods group by group,
    # because the new nodes of two groups must not count for one another.
    taken = {shape: scheduler_filters.by_node(cluster, shape, rows) for shape in shapes}
    cluster.revert(mark)
    fits: dict[str, set[ShapeId]] = {}
    for number, alike in enumerate(kinds.values()):
        mine = {shape for shape in shapes if taken[shape][number]}
        mine = {shape for shape in mine if not scheduler_filters.between_pods(cluster, shape)} | _between(
            cluster, templates[number], mine
        )
        fits.update({group.name: mine for group in alike})
    return fits


def _between(cluster: ScheduledCluster, template: GroupTemplate | None, shapes: set[ShapeId]) -> set[ShapeId]:
    """The shapes with rules between pods that a new node takes."""
    bound = [shape for shape in sorted(shapes) if scheduler_filters.between_pods(cluster, shape)]
    if not bound:
        return set()
    mark = cluster.mark()
    row = cluster.size
    node_estimator.add(cluster, template)
    taken = {shape for shape in bound if scheduler_filters.passes(cluster, shape, slice(row, row + 1))[0]}
    cluster.revert(mark)
    return taken


def not_growing(cluster: ScheduledCluster, groups: Sequence[GroupRow], settings: ScaleUpSettings) -> dict[str, str]:
    """The groups that may not grow by a node now, each with the reason; the estimator's limits are not asked."""
    work = _Round(cluster, groups, settings)
    capacity = work.capacity
    reasons = {group.name: work.skip(group, capacity) for group in groups}
    return {name: reason for name, reason in reasons.items() if reason}


Shapes = list[tuple[ShapeId, Counts]]


def _options(
    work: _Round, able: list[GroupRow], shapes: Shapes, fits: dict[str, set[ShapeId]]
) -> tuple[list[ExpanderOption], dict[str, list[int]]]:
    """What each group would add, and how many pods of each shape would run there."""
    options: list[ExpanderOption] = []
    placed: dict[str, list[int]] = {}
    estimates: dict[object, _Estimated] = {}
    rules = work.settings.likeness
    families = None if rules is None else SimilarNodeGroups([(group.name, group.template) for group in able], fits, rules)
    for group in able:
        template = group.template
        if template is None or not fits[group.name]:
            continue
        similar = () if families is None else families.of(group.name)
        limits = EstimatorLimits(_thresholds(work, group, similar), work.settings.fast_path)
        # Groups of one kind and with equal limits get one estimate, which is what costs here.
        key = (work.kinds[group.name], limits)
        if key not in estimates:
            estimates[key] = _estimate(work, template, shapes, fits[group.name], limits)
        estimate = estimates[key]
        if estimate.nodes and estimate.pods:
            wanted = (estimate.pods, estimate.cpu, estimate.memory)
            option = ExpanderOption(group.name, estimate.nodes, template.node, *wanted, gpu=group.gpu, similar=tuple(similar))
            options.append(option)
            placed[group.name] = estimate.counts
    return options, placed


@dataclass(frozen=True, slots=True)
class _Estimated:
    """The estimate for new nodes of one kind of group: how many, how many pods of each shape, and their requests."""

    nodes: int
    counts: list[int]
    pods: int
    cpu: int
    memory: int


def _estimate(work: _Round, template: GroupTemplate, shapes: Shapes, fits: set[ShapeId], limits: EstimatorLimits) -> _Estimated:
    mine = [place for place, (shape, _places) in enumerate(shapes) if shape in fits]
    wanted = [PodGroup(work.cluster.shapes[shapes[place][0]], len(shapes[place][1])) for place in mine]
    estimate = node_estimator.estimate(work.cluster, template, wanted, limits)
    counts = [0] * len(shapes)
    for place, number in zip(mine, estimate.placed, strict=True):
        counts[place] = number
    asked = [(work.cluster.shapes[shape], number) for (shape, _places), number in zip(shapes, counts, strict=True)]
    cpu, memory = (sum(body.request(name) * number for body, number in asked) for name in (CPU, MEMORY))
    return _Estimated(estimate.nodes, counts, sum(counts), cpu, memory)


def _thresholds(work: _Round, group: GroupRow, similar: Sequence[str]) -> tuple[int, ...]:
    """The limits of an estimate: of one scale-up, of the groups, and of the cluster."""
    limits = work.settings.limits
    free = sum(max(work.groups[name].most - work.targets[name], 0) for name in (group.name, *similar))
    left = limits.nodes - work.cluster.size
    # As upstream's limiter reads them: 0 sets no limit, and a negative one allows nothing.
    return limits.at_once, free or -1, (left if left > 0 else -1) if limits.nodes else 0


def _capped(work: _Round, best: ExpanderOption, capacity: Mapping[str, int]) -> tuple[int, str]:
    """How many of an option's nodes the limits of the whole cluster leave, and why none."""
    limits = work.settings.limits
    nodes = best.nodes
    if limits.nodes:
        nodes = min(nodes, limits.nodes - work.cluster.size)
        if nodes < 1:
            return 0, MAX_NODES
    affordable, short = work.affordable(work.groups[best.group], capacity)
    if affordable is not None and affordable < nodes:
        return affordable, f"exceeded quota: {', '.join(sorted(short))}" if not affordable else ""
    return nodes, ""


def _grow(work: _Round, best: ExpanderOption, nodes: int, pods: list[int], decision: ScaleUp) -> None:
    """Share the nodes out among the chosen group and those like it; all of the pods count for the chosen one."""
    names = [best.group, *best.similar]
    targets = similar_node_groups.share_nodes([replace(work.groups[name], target=work.targets[name]) for name in names], nodes)
    for name in names:
        if name in targets:
            mine = tuple(pods) if name == best.group else ()
            decision.increases.append(GroupIncrease(name, work.targets[name], targets[name], mine))
            work.targets[name] = targets[name]
    if pods and best.group not in targets and decision.increases:
        # The whole load went to groups that are like the chosen one.
        last = decision.increases[-1]
        decision.increases[-1] = GroupIncrease(last.group, last.before, last.after, tuple(pods))


def _assume(work: _Round, best: ExpanderOption, nodes: int, pending: Counts, taken: Counts) -> None:
    """Add the new nodes with their pods before the next group is chosen."""
    template = work.groups[best.group].template
    start = work.cluster.size
    # Only where another round follows that has to see them.
    for _node in range(nodes if work.settings.several else 0):
        node_estimator.add(work.cluster, template)
    among = np.zeros(work.cluster.size, np.bool_)
    among[start:] = True
    if work.settings.several:
        placement.schedule(work.cluster, np.sort(pending[taken]).tolist(), among)


def why_not(cluster: ScheduledCluster, groups: Sequence[GroupRow], shape: ShapeId) -> dict[str, scheduler_filters.FilterFailure]:
    """For each group with a template whose new node would not take a pod: the filter that keeps it away, and its reasons."""
    failures: dict[str, scheduler_filters.FilterFailure] = {}
    known: dict[object, scheduler_filters.FilterFailure | None] = {}
    keys = similar_node_groups.distinguishing_labels(cluster, [shape], [group.template for group in groups])
    for group in groups:
        if group.template is None:
            continue
        kind = similar_node_groups.of(group.template, keys)
        if kind not in known:
            mark = cluster.mark()
            node_estimator.add(cluster, group.template)
            known[kind] = scheduler_filters.explain(cluster, shape)[-1]  # the new node stands in the last row
            cluster.revert(mark)
        verdict = known[kind]
        if verdict is not None:
            failures[group.name] = verdict
    return failures


def below_minimum(groups: Sequence[GroupRow], cluster: ScheduledCluster, settings: ScaleUpSettings) -> list[GroupIncrease]:
    """Groups whose target is below their minimum, raised as far as the limits on resources let them."""
    work = _Round(cluster, groups, settings)
    capacity = work.capacity
    raised = []
    for group in groups:
        lacking = group.least - group.target
        affordable, _short = work.affordable(group, capacity)
        number = lacking if affordable is None else min(lacking, affordable)
        if number > 0 and group.template is not None:
            raised.append(GroupIncrease(group.name, group.target, group.target + number, ()))
            for name in capacity:  # what one group gets is no longer there for the next one
                capacity[name] += group.template.node.capacity.get(name, 0) * number
    return raised
