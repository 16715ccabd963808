"""The view of one cluster for a decision, built from the scaler's state."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import attrgetter
from typing import Self

from agents.logic.guards import shared_guards
from agents.logic.nodes.autoscaler.cluster_state_registry import SeenInstance
from agents.logic.nodes.autoscaler.node_autoscaler import CarriedState, removals_of
from agents.logic.nodes.autoscaler.node_decision_values import NodeDecisionInputs
from agents.logic.nodes.aws import group_options
from agents.logic.nodes.cluster import capacity_buffers, fact_conversion, group_patterns, planned_replicas
from agents.logic.nodes.cluster.capacity_buffers import BufferPods
from agents.logic.nodes.cluster.fact_conversion import ConvertedNode, TransientTaints
from agents.logic.nodes.cluster.group_patterns import GroupPatterns
from agents.logic.nodes.cluster.planned_replicas import PlannedPods, QuotaRoom
from agents.logic.nodes.cluster.scaler_state import ScalerState
from agents.logic.nodes.cluster.scaler_table_values import AskedExpander, KnownGroup, KnownNode, KnownPriorities, LearnedPattern
from agents.logic.nodes.growth import expanders
from agents.logic.nodes.growth.expanders import Expander, ExpanderAnswer, ExpanderContext, Prices, Priorities, PrioritiesError
from agents.logic.nodes.growth.node_estimator import GroupRow
from agents.logic.nodes.removal.drain_rules import DisruptionBudgets, KnownControllers
from agents.logic.nodes.scaler_settings import ScalerProfile, ScalerSettings
from agents.logic.nodes.scheduling.node_columns import NodeRow
from agents.logic.nodes.scheduling.pod_shapes import PodNature, SchedulablePod, is_daemon, is_kubelets
from schemas import times
from schemas.facts.nodes import BufferShown, NodeGroupSeen, NodeInstanceSeen
from schemas.facts.scheduled_pods import PodShapeSeen
from schemas.names import Place
from schemas.policies.control import Mode
from schemas.well_known_labels import OPTION_TAG, is_leaving

DYING = frozenset(
    ("Terminated", "Terminating", "Terminating:Wait", "Terminating:Proceed", "Terminating:Retained", "Detaching", "Detached")
)
"""AWS's words for an instance that ends."""
ASIDE = frozenset(("EnteringStandby", "Standby"))
"""AWS's words for an instance that somebody put aside: its group's size does not count it, and it is not ours to remove."""
LAUNCH, TERMINATE = "Launch", "Terminate"
SUSPENDED = f"its process '{LAUNCH}' is suspended, so its cloud starts no node of it"
KEPT = f"its process '{TERMINATE}' is suspended, so its cloud ends no node of it"
REFRESHING = "its cloud is replacing all its instances, so no other node of it goes until that is over"


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One cluster at one moment. Nodes and groups by name; `instance_of` gives the instance of each node that has one."""

    inputs: NodeDecisionInputs
    seen: Mapping[str, NodeRow]
    sized: Mapping[str, GroupRow]
    nodes: Mapping[str, KnownNode]
    groups: Mapping[str, KnownGroup]
    instance_of: Mapping[str, NodeInstanceSeen]
    unregistered: Mapping[str, NodeInstanceSeen]
    ready: int
    aside: frozenset[str] = frozenset()
    """Nodes whose instances somebody put aside; they belong to no group."""
    shared: frozenset[str] = frozenset()
    """Nodes whose instance another node has, or may have as well; none of them may be removed."""
    priorities: KnownPriorities | None = None
    planned: Mapping[str, Place] = field(default_factory=dict)
    """For each pod that is planned and does not exist, by namespace and name: where its plan stands."""
    patterns: Mapping[str, LearnedPattern] = field(default_factory=dict)
    """By group: what its nodes have taught."""
    buffers: Mapping[str, BufferShown] = field(default_factory=dict)
    """By the key of each CapacityBuffer: what its status is to show."""


_by_name = attrgetter("instance")


def view(state: ScalerState, cluster: str, settings: ScalerSettings, now: float) -> ClusterView:
    """The cluster as the facts and our own open plans have it."""
    prefix = f"{cluster}/"
    nodes = {known.fact.node: known for key, known in state.nodes.items() if key.startswith(prefix)}
    groups = {known.fact.group: known for key, known in state.groups.items() if key.startswith(prefix)}
    instances, aside = _instances(state, prefix, groups)
    by_provider = {instance.provider_id: instance for instance in instances}
    claims = {name: by_provider[known.fact.provider_id] for name, known in nodes.items() if known.fact.provider_id in by_provider}
    taken = {claim.provider_id for claim in claims.values()}
    shared = _shared(claims, nodes)
    instance_of = {name: instance for name, instance in claims.items() if name not in shared}
    unregistered = {seen.instance: seen for seen in sorted(instances, key=_by_name) if seen.provider_id not in taken}
    facts = _counted(groups, instances)
    learned = {fact.group: state.patterns.get(prefix + fact.group) for fact in facts}
    devices = {fact.group: group_patterns.promised(fact, learned[fact.group]) for fact in facts}
    look = _NodeLook.begun(state, cluster, settings, now, devices)
    seen = [look.seen(row, nodes[name], instance_of.get(name)) for row, name in enumerate(sorted(nodes))]
    patterns = _learned(state, facts, learned, _typical(seen, nodes, instance_of, settings), now)
    waiting = state.ready_index().waiting(cluster)
    successors = _successors(state, cluster, settings)
    planned, buffers = _to_come(state, cluster, settings, successors, settings.most_planned - len(waiting))
    inputs = NodeDecisionInputs(
        nodes=seen,
        groups=_groups(state, facts, _patterns(state, cluster, patterns, settings), settings, now),
        waiting=waiting,
        instances=[SeenInstance(seen.instance, seen.group, seen.lifecycle in DYING) for seen in unregistered.values()],
        workloads=_controllers(state, prefix),
        namespaces={fact.namespace: fact.labels for key, fact in state.namespaces.items() if key.startswith(prefix)},
        planned=[*planned.pods, *buffers.pods],
        successors=successors,
        joined=frozenset(claim.instance for claim in claims.values()),
        budgets=DisruptionBudgets(
            [fact_conversion.budget(state.budgets.get(key)) for key in sorted(state.budgets) if key.startswith(prefix)]  # type: ignore[arg-type]  # the key is one of the table
        ),
    )
    return ClusterView(
        inputs,
        {row.node.name: row for row in seen},
        {group.name: group for group in inputs.groups},
        nodes,
        groups,
        instance_of,
        unregistered,
        sum(row.ready for row in seen),
        frozenset(name for name, known in nodes.items() if known.fact.provider_id in aside),
        shared,
        state.priorities.get(cluster),
        {**planned.places, **buffers.places},
        patterns,
        buffers.statuses,
    )


def _instances(
    state: ScalerState, prefix: str, groups: Mapping[str, KnownGroup]
) -> tuple[list[NodeInstanceSeen], frozenset[str]]:
    """The instances that the sizes of groups count, and the provider ids of those that somebody put aside."""
    seen = [fact for key, fact in state.instances.items() if key.startswith(prefix) and fact.group in groups]
    aside = frozenset(fact.provider_id for fact in seen if fact.lifecycle in ASIDE)
    return [fact for fact in seen if fact.provider_id not in aside], aside


def _counted(groups: Mapping[str, KnownGroup], instances: list[NodeInstanceSeen]) -> list[NodeGroupSeen]:
    """The facts about the groups."""
    # A group whose sizes are no numbers of nodes has, as far as anybody knows, just the nodes that it has.
    counts = Counter(instance.group for instance in instances)
    facts = [groups[name].fact for name in sorted(groups)]
    return [
        replace(fact, least=0, most=counts[fact.group], desired=counts[fact.group]) if fact.unscalable else fact for fact in facts
    ]


def _shared(claims: Mapping[str, NodeInstanceSeen], nodes: Mapping[str, KnownNode]) -> frozenset[str]:
    """Nodes that claim the same instance, except the only ready one; the others are leftovers or errors."""
    claimants: dict[str, list[str]] = {}
    for name, instance in claims.items():
        claimants.setdefault(instance.instance, []).append(name)
    shared: set[str] = set()
    for names in claimants.values():
        ready = [name for name in names if nodes[name].ready]
        if len(names) > 1:
            shared |= {*names} - ({*ready} if len(ready) == 1 else set())
    return frozenset(shared)


def _successors(state: ScalerState, cluster: str, settings: ScalerSettings) -> dict[PodNature, PodNature]:
    """What recommendations in force make of new pods, where the webhook applies them."""
    applied = settings.recommended_requests and settings.profile != ScalerProfile.UPSTREAM
    if not applied or shared_guards.mode(state.control.get(cluster)) is not Mode.APPLY:
        return {}
    return state.successors.of(cluster, state.ready_index().natures(cluster), state.controllers)


def _to_come(
    state: ScalerState, cluster: str, settings: ScalerSettings, successors: Mapping[PodNature, PodNature], most: int
) -> tuple[PlannedPods, BufferPods]:
    """The pods that nobody made yet, `most` together: those that are planned, and those that buffers want room for."""
    planned, quotas = PlannedPods(), QuotaRoom.of(state, cluster)
    if settings.planned_replicas:
        planned = planned_replicas.pods(state, cluster, max(most, 0), successors, quotas)
    if not settings.capacity_buffers:
        return planned, BufferPods()
    return planned, capacity_buffers.pods(state, cluster, max(most - len(planned.pods), 0), successors, quotas)


def _controllers(state: ScalerState, prefix: str) -> KnownControllers:
    facts = (fact for key, fact in state.controllers.items() if key.startswith(prefix))
    return KnownControllers({(fact.kind, fact.namespace, fact.name): fact.replicas for fact in facts})


@dataclass(frozen=True, slots=True)
class _NodeLook:
    """What nodes are seen by. `devices`: by group the resources of devices that its nodes have."""

    state: ScalerState
    cluster: str
    settings: ScalerSettings
    now: float
    devices: Mapping[str, frozenset[str]]
    passing: TransientTaints

    @classmethod
    def begun(
        cls, state: ScalerState, cluster: str, settings: ScalerSettings, now: float, devices: Mapping[str, frozenset[str]]
    ) -> Self:
        """A look that remembers no node that is gone."""
        state.conversions.forget(state.nodes)
        return cls(state, cluster, settings, now, devices, TransientTaints.of(settings))

    def seen(self, row: int, known: KnownNode, instance: NodeInstanceSeen | None) -> NodeRow:
        """A node as decisions see it."""
        fact, state, key = known.fact, self.state, f"{self.cluster}/{known.fact.node}"
        made = state.conversions.of(key, fact)
        group = "" if instance is None else instance.group
        plan = state.plans.get(f"{self.cluster}/node/{fact.node}")
        # For so long only: a device that never comes must not keep its node out for ever.
        young = made.created + self.settings.max_startup > self.now
        incomplete = young and group_patterns.incomplete(fact, self.devices.get(group, frozenset()))
        return NodeRow(
            row,
            made.node,
            group,
            state.ready_index().on(key),
            made.created,
            ready=known.ready and self.passing.usable(fact) and not incomplete,
            gone=instance is not None and instance.lifecycle in DYING,
            deleting=plan.since if plan is not None else self._leaving(made),
            draining=plan.draining if plan is not None else False,
            soft_tainted=made.soft_tainted,
            annotations=fact.annotations,
            gpu=made.gpu,
            incomplete=incomplete,
        )

    def _leaving(self, made: ConvertedNode) -> float | None:
        """Since when others remove a node."""
        # A taint that somebody left behind must not count as a removal for ever: the next drain would wait for its end.
        since = made.leaving
        return since if since is not None and is_leaving(since, self.now) else None


def _typical(
    seen: list[NodeRow], nodes: Mapping[str, KnownNode], instance_of: Mapping[str, NodeInstanceSeen], settings: ScalerSettings
) -> dict[str, tuple[KnownNode, NodeInstanceSeen]]:
    """For each group with a node in good order the newest one; the first one by name as upstream has it."""
    typical: dict[str, tuple[KnownNode, NodeInstanceSeen]] = {}
    good = [node for node in seen if node.group and node.ready and node.deleting is None and not node.node.unschedulable]
    if settings.profile != ScalerProfile.UPSTREAM:
        # Somebody may have changed the group since the others came.
        good.sort(key=lambda node: (-node.created, node.node.name))
    for node in good:
        typical.setdefault(node.group, (nodes[node.node.name], instance_of[node.node.name]))
    return typical


def _learned(
    state: ScalerState,
    facts: list[NodeGroupSeen],
    before: Mapping[str, LearnedPattern | None],
    typical: Mapping[str, tuple[KnownNode, NodeInstanceSeen]],
    now: float,
) -> dict[str, LearnedPattern]:
    """What is known of the nodes of each group, with what this look adds."""
    index = state.ready_index()
    patterns = {}
    for fact in facts:
        newest = typical.get(fact.group)
        pods: list[PodShapeSeen] = []
        served = False
        if newest is not None:
            on = index.on(f"{fact.cluster}/{newest[0].fact.node}")
            settled = times.to_seconds(newest[0].fact.created) + group_patterns.SETTLED <= now
            served = settled or any(not _owned(pod) for pod in on)
            pods = group_patterns.own_pods(
                [index.shape(index.shape_of(pod)) for pod in on if pod.deleted is None and _owned(pod)]
            )
        learned = group_patterns.learn(fact, before[fact.group], newest, pods, served=served)
        if learned is not None and newest is None:
            learned = group_patterns.trusting(learned, now)
        if learned is not None:
            patterns[fact.group] = learned
    return patterns


def _owned(pod: SchedulablePod) -> bool:
    return is_daemon(pod.nature) or is_kubelets(pod.nature.annotations)


def _patterns(state: ScalerState, cluster: str, learned: Mapping[str, LearnedPattern], settings: ScalerSettings) -> GroupPatterns:
    daemons = [daemon for daemon in state.ready_index().daemons(cluster) if is_daemon(daemon)]
    known = {group_patterns.daemon_name(daemon) for daemon in daemons}
    sets = {
        f"{controller.namespace}/{controller.name}": controller
        for controller in state.controllers.values()
        if controller.cluster == cluster and controller.kind == "DaemonSet"
    }
    unseen = [sets[name].template for name in sorted(sets) if name not in known]
    # A DaemonSet of which no pod was seen yet runs on a new node, too, as its controller's template says.
    daemons += [fact_conversion.nature(template) for template in unseen if template is not None]
    plain = settings.profile == ScalerProfile.UPSTREAM
    return GroupPatterns(learned, daemons, TransientTaints.of(settings), controllers=frozenset(sets), plain=plain)


def _groups(
    state: ScalerState, facts: list[NodeGroupSeen], patterns: GroupPatterns, settings: ScalerSettings, now: float
) -> list[GroupRow]:
    groups = []
    for fact in facts:
        template = patterns.of(fact)
        plan, memory = state.plans.get(f"{fact.cluster}/group/{fact.group}"), state.memory.get(fact.cluster)
        groups.append(
            GroupRow(
                fact.group,
                # A minimum above the maximum is somebody's mistake, and the maximum is what may be spent.
                min(fact.least, fact.most),
                fact.most,
                # The size that it was last let grow to while that plan is open: the source has not seen it yet.
                max(fact.desired, plan.after if plan is not None else 0),
                template,
                group_options.of_group({OPTION_TAG + key: text for key, text in fact.options.items()}, settings.group_defaults),
                gpu=template is not None and bool(fact_conversion.gpu(template.node)),
                sources=group_options.pools_of_group(fact) if settings.capacity_memory else (),
                stopped=fact.unscalable or (SUSPENDED if LAUNCH in fact.suspended else ""),
                kept=fact.unscalable
                or (KEPT if TERMINATE in fact.suspended else REFRESHING if fact.refreshing else "")
                or _raised_again(memory, fact.group, now),
            )
        )
    return groups


def _raised_again(memory: CarriedState | None, group: str, now: float) -> str:
    """Why no node of a group goes for a while: each would have a successor at once."""
    entry = None if memory is None else memory.backoff.get(removals_of(group))
    return "" if entry is None or entry.until < now else entry.failure.message


def priorities_of(known: KnownPriorities | None) -> Priorities | str:
    """The priorities of groups, or a sentence on why there are none; then every option passes, as in upstream."""
    if known is None:
        return "no ConfigMap of priorities was seen"
    if known.fact.unsupported:
        return known.fact.unsupported
    try:
        return _read_priorities(tuple(known.fact.patterns.items()))
    except PrioritiesError as error:
        return str(error)


# Its patterns are judged and compiled, and it rarely changes.
@lru_cache(maxsize=8)
def _read_priorities(patterns: tuple[tuple[str, tuple[str, ...]], ...]) -> Priorities:
    return expanders.read_priorities({priority: list(listed) for priority, listed in patterns})


def expander_context(
    view: ClusterView, settings: ScalerSettings, turn: int, asked: AskedExpander | None = None
) -> ExpanderContext:
    """What the expanders may know besides the options."""
    priced = {name: group.fact.price for name, group in view.groups.items() if group.fact.price is not None}
    prices = Prices(priced, settings.core_price, settings.memory_price) if priced else None
    priorities = priorities_of(view.priorities) if Expander.PRIORITY in settings.chain() else None
    known = priorities if isinstance(priorities, Priorities) else None
    answer = None
    if asked is not None and not asked.open:
        answer = ExpanderAnswer(frozenset(asked.groups), frozenset(asked.kept), asked.failed)
    # From the turn, so that a replay draws the same, and the seed, so that two clusters do not draw alike.
    seed = settings.seed * 1_000_003 + turn // 1000
    return ExpanderContext(known, prices, cluster_nodes=len(view.nodes), seed=seed, answer=answer)
