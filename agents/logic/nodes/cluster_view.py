"""The view of one cluster for a decision, built from the scaler's state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from agents.logic.nodes import fact_conversion, planned_replicas, priority_config
from agents.logic.nodes.aws import group_options
from agents.logic.nodes.aws.asg_provider import DYING
from agents.logic.nodes.cluster_state_registry import SeenInstance
from agents.logic.nodes.drain_rules import DisruptionBudgets, KnownControllers
from agents.logic.nodes.expanders import Expander, ExpanderContext, Prices
from agents.logic.nodes.node_decision_values import GroupSeen, NodeDecisionInputs, NodeSeen
from agents.logic.nodes.node_estimator import GroupTemplate
from agents.logic.nodes.planned_replicas import PlannedPods
from agents.logic.nodes.pod_scheduling_needs import PodNature, is_daemon
from agents.logic.nodes.priority_config import Priorities, PrioritiesError
from agents.logic.nodes.scaler_settings import ScalerSettings
from agents.logic.nodes.scaler_state import ScalerState
from agents.logic.nodes.scaler_table_values import KnownGroup, KnownNode, KnownPriorities
from agents.logic.nodes.scheduling import daemonset_pods
from agents.logic.nodes.transient_taints import TransientTaints
from schemas import times
from schemas.facts.node_groups import NodeGroupSeen, NodeInstanceSeen
from schemas.names import Place
from schemas.well_known_labels import OPTION_TAG, TO_BE_DELETED


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One cluster at one moment. Nodes and groups by name; `instance_of` gives the instance of each node that has one."""

    inputs: NodeDecisionInputs
    seen: Mapping[str, NodeSeen]
    sized: Mapping[str, GroupSeen]
    nodes: Mapping[str, KnownNode]
    groups: Mapping[str, KnownGroup]
    instance_of: Mapping[str, NodeInstanceSeen]
    unregistered: Mapping[str, NodeInstanceSeen]
    ready: int
    shared: frozenset[str] = frozenset()
    """Nodes whose instance another node has, or may have as well; none of them may be removed."""
    priorities: KnownPriorities | None = None
    planned: Mapping[str, Place] = field(default_factory=dict)
    """For each pod that is planned and does not exist, by namespace and name: where its plan stands."""


def view(state: ScalerState, cluster: str, settings: ScalerSettings) -> ClusterView:
    """The cluster as the facts and our own open plans have it.

    A group counts as having the size that it was last let grow to while that plan is open.
    """
    prefix = f"{cluster}/"
    nodes = {known.fact.node: known for key, known in state.nodes.items() if key.startswith(prefix)}
    groups = {known.fact.group: known for key, known in state.groups.items() if key.startswith(prefix)}
    instances = [one for key, one in state.instances.items() if key.startswith(prefix) and one.group in groups]
    by_provider = {one.provider_id: one for one in instances}
    claims = {name: by_provider[known.fact.provider_id] for name, known in nodes.items() if known.fact.provider_id in by_provider}
    taken = {one.provider_id for one in claims.values()}
    shared = _shared(claims, nodes)
    instance_of = {name: one for name, one in claims.items() if name not in shared}
    unregistered = {one.instance: one for one in sorted(instances, key=lambda one: one.instance) if one.provider_id not in taken}
    passing = TransientTaints.of(settings)
    seen = [_node(state, cluster, nodes[name], instance_of.get(name), passing) for name in sorted(nodes)]
    waiting = state.ready_index().waiting(cluster)
    planned = PlannedPods()
    if settings.planned_replicas:
        planned = planned_replicas.pods(state, cluster, max(settings.most_planned - len(waiting), 0))
    inputs = NodeDecisionInputs(
        nodes=seen,
        groups=_groups(state, cluster, [groups[name].fact for name in sorted(groups)], _typical(seen, nodes), settings),
        waiting=waiting,
        instances=[SeenInstance(one.instance, one.group, one.lifecycle in DYING) for one in unregistered.values()],
        workloads=_controllers(state, prefix),
        namespaces={one.namespace: one.labels for key, one in state.namespaces.items() if key.startswith(prefix)},
        planned=planned.pods,
        budgets=DisruptionBudgets(
            [fact_conversion.budget(state.budgets.get(key)) for key in sorted(state.budgets) if key.startswith(prefix)]  # type: ignore[arg-type]  # the key is one of the table
        ),
    )
    by_name = {one.node.name: one for one in seen}
    sized = {one.name: one for one in inputs.groups}
    return ClusterView(
        inputs,
        by_name,
        sized,
        nodes,
        groups,
        instance_of,
        unregistered,
        sum(one.ready for one in seen),
        shared,
        state.priorities.get(cluster),
        planned.places,
    )


def _shared(claims: Mapping[str, NodeInstanceSeen], nodes: Mapping[str, KnownNode]) -> frozenset[str]:
    """Nodes that claim the same instance, except the only ready one; the others are leftovers or errors."""
    claimants: dict[str, list[str]] = {}
    for name, one in claims.items():
        claimants.setdefault(one.instance, []).append(name)
    found: set[str] = set()
    for names in claimants.values():
        ready = [name for name in names if nodes[name].ready]
        if len(names) > 1:
            found |= {*names} - ({*ready} if len(ready) == 1 else set())
    return frozenset(found)


def _controllers(state: ScalerState, prefix: str) -> KnownControllers:
    found = {
        (one.kind, one.namespace, one.name): one.replicas for key, one in state.controllers.items() if key.startswith(prefix)
    }
    return KnownControllers(found)


def _node(
    state: ScalerState, cluster: str, known: KnownNode, instance: NodeInstanceSeen | None, passing: TransientTaints
) -> NodeSeen:
    fact = known.fact
    key = f"{cluster}/{fact.node}"
    plan = state.plans.get(f"{cluster}/node/{fact.node}")
    taint = next((one for one in fact.taints if one.key == TO_BE_DELETED), None)
    deleting = plan.since if plan is not None else _seconds(taint.value) if taint is not None else None
    made = fact_conversion.node(fact)
    return NodeSeen(
        made,
        "" if instance is None else instance.group,
        state.index.on(key),
        times.to_seconds(fact.created),
        ready=known.ready and passing.usable(fact),
        gone=instance is not None and instance.lifecycle in DYING,
        deleting=deleting,
        draining=plan.draining if plan is not None else False,
        soft_tainted=fact_conversion.soft_tainted(fact),
        annotations=fact.annotations,
        gpu=fact_conversion.gpu(made),
    )


def _seconds(text: str) -> float:
    """The time that the taint of a deletion carries; long ago if it carries none."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < len("9999999999999") else 0.0


def _typical(seen: list[NodeSeen], nodes: Mapping[str, KnownNode]) -> dict[str, KnownNode]:
    """For each group with a node in good order the first such node."""
    found: dict[str, KnownNode] = {}
    for one in seen:
        if one.group and one.ready and one.deleting is None and not one.node.unschedulable:
            found.setdefault(one.group, nodes[one.node.name])
    return found


def _groups(
    state: ScalerState, cluster: str, facts: list[NodeGroupSeen], typical: Mapping[str, KnownNode], settings: ScalerSettings
) -> list[GroupSeen]:
    daemons, passing = state.ready_index().daemons(cluster), TransientTaints.of(settings)
    found = []
    for fact in facts:
        template = _template(fact, typical.get(fact.group), daemons, passing)
        plan = state.plans.get(f"{cluster}/group/{fact.group}")
        found.append(
            GroupSeen(
                fact.group,
                min(fact.least, fact.most),
                fact.most,
                max(fact.desired, plan.after if plan is not None else 0),
                template,
                group_options.of_group({OPTION_TAG + key: text for key, text in fact.options.items()}, settings.group_defaults),
                gpu=template is not None and bool(fact_conversion.gpu(template.node)),
                sources=_sources(fact) if settings.capacity_memory else (),
            )
        )
    return found


def capacity_key(instance_type: str, zone: str) -> str:
    """The key of failures for an instance type in a zone; no group's name has this form."""
    return f"{instance_type} in {zone}"


def _sources(fact: NodeGroupSeen) -> tuple[str, ...]:
    return tuple(capacity_key(kind, zone) for kind in fact.instance_types for zone in fact.zones)


def _template(
    fact: NodeGroupSeen, typical: KnownNode | None, daemons: list[PodNature], passing: TransientTaints
) -> GroupTemplate | None:
    """How a new node looks: like one of the group, else as the cloud describes it; with the DaemonSets' pods on it."""
    if typical is not None:
        node = fact_conversion.like(typical.fact, passing)
    elif fact.template is not None:
        node = fact_conversion.template(fact.group, fact.template, passing)
    else:
        return None
    pods = [one.shape for one in daemons if is_daemon(one) and daemonset_pods.runs(one.shape, node)[0]]
    return GroupTemplate(node, tuple(pods))


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


@lru_cache(maxsize=8)
def _read_priorities(patterns: tuple[tuple[str, tuple[str, ...]], ...]) -> Priorities:
    return priority_config.read({priority: list(listed) for priority, listed in patterns})


def expander_context(found: ClusterView, settings: ScalerSettings, turn: int) -> ExpanderContext:
    """What the expanders may know besides the options."""
    priced = {name: known.fact.price for name, known in found.groups.items() if known.fact.price is not None}
    prices = Prices(priced, settings.core_price, settings.memory_price) if priced else None
    priorities = priorities_of(found.priorities) if Expander.PRIORITY in settings.chain() else None
    known = priorities if isinstance(priorities, Priorities) else None
    return ExpanderContext(known, prices, cluster_nodes=len(found.nodes), seed=settings.seed * 1_000_003 + turn // 1000)
