"""Converts facts into the values that node scaling computes with: nodes, natures of pods, budgets, templates.

The facts keep Kubernetes' own terms, so `placement_rules` reads them, and a rule that it refuses becomes a shape that no node
takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agents.logic.nodes.aws import node_templates
from agents.logic.nodes.cluster.transient_taints import TransientTaints
from agents.logic.nodes.removal.drain_rules import DisruptionBudget
from agents.logic.nodes.scheduling import placement_rules
from agents.logic.nodes.scheduling.placement_rules import REQUIRED, JsonMapping, RuleOwner, Unreadable
from agents.logic.nodes.scheduling.pod_scheduling_needs import PodNature, PodOwner
from agents.logic.nodes.scheduling.pod_shapes import (
    NodeTerm,
    PodShape,
    SchedulingNode,
    Taint,
    Volume,
    pairs,
)
from agents.logic.nodes.scheduling.scheduled_cluster import MOST_AMOUNT
from agents.logic.nodes.scheduling.scheduling_selectors import NOTHING
from schemas.facts.node_groups import NodeTemplateSeen
from schemas.facts.nodes import NodeDetailsChanged, NodeTaint
from schemas.facts.scheduled_pods import (
    LabelDemand,
    LabelQuery,
    NodeQuery,
    PodShapeSeen,
    RequiredPodAffinity,
    SpreadConstraint,
)
from schemas.facts.update_facts import PodDisruptionBudgetChanged
from schemas.well_known_labels import DELETION_CANDIDATE, HOSTNAME

MOST_NODE_DEMANDS = 250
MOST_NODE_VALUES = 2500
"""Demands of one pod on the labels of its node, of its affinity and its volumes together, and their values."""
NOT_UNDERSTOOD = "not understood"
ATTACHABLE = "attachable-volumes-"


def node(fact: NodeDetailsChanged) -> SchedulingNode:
    """A node as it is."""
    return SchedulingNode(
        name=fact.node,
        labels=pairs(dict(fact.labels)),
        taints=_taints(fact.taints),
        unschedulable=fact.unschedulable,
        allocatable=_bounded(fact.allocatable),
        capacity=_bounded(fact.capacity),
        attachable={**_attachable(fact.allocatable), **_bounded(fact.attachable)},
    )


def like(fact: NodeDetailsChanged, passing: TransientTaints) -> SchedulingNode:
    """A new node of a node's group: like that node, without its individual parts."""
    made = node(fact)
    taints = tuple(taint for taint in made.taints if not passing.passes(taint.key))
    labels = tuple(pair for pair in made.labels if pair[0] != HOSTNAME)
    name = f"new node like {fact.node}"
    return replace(made, name=name, taints=taints, unschedulable=False, labels=pairs({**dict(labels), HOSTNAME: name}))


def template(group: str, seen: NodeTemplateSeen, passing: TransientTaints) -> SchedulingNode:
    """A new node of a group as its cloud describes it."""
    name = f"new node of {group}"
    amounts = _bounded(seen.allocatable)
    return SchedulingNode(
        name,
        pairs({**seen.labels, HOSTNAME: name}),
        tuple(taint for taint in _taints(seen.taints) if not passing.passes(taint.key)),
        allocatable=amounts,
        capacity=_bounded(seen.capacity) or amounts,
        attachable=_attachable(seen.allocatable),
    )


def soft_tainted(fact: NodeDetailsChanged) -> bool:
    """Whether a node has the taint of one that may go soon."""
    return any(taint.key == DELETION_CANDIDATE for taint in fact.taints)


def gpu(made: SchedulingNode) -> str:
    """The resource that alone counts for the use of a node, empty if it has no GPU."""
    return node_templates.GPU if node_templates.gpu_of(made) is not None else ""


def nature(fact: PodShapeSeen, refused: str = "") -> PodNature:
    """What pods of a shape share. A rule that cannot be read, or is `refused`, makes it a shape that no node takes."""
    owner = () if fact.owner is None else (PodOwner(fact.owner.kind, fact.owner.name, fact.owner.api_version),)
    made = _shape(fact)
    unread = f"{NOT_UNDERSTOOD}: {', '.join(fact.unread)}" if fact.unread else ""
    refusal = refused or made.refused or unread or next((volume.missing for volume in fact.volumes if volume.missing), "")
    return PodNature(
        shape=replace(made, refused=refusal) if refusal else made,
        owners=owner,
        annotations=fact.annotations,
        restart_policy=fact.restart_policy,
        priority=fact.priority,
        grace=fact.grace,
        local=fact.local,
    )


def _shape(fact: PodShapeSeen) -> PodShape:
    whose = RuleOwner(fact.namespace, fact.labels)
    try:
        _few_demands(fact)
        affinity = _affinity(fact)
        return PodShape(
            namespace=fact.namespace,
            labels=pairs(dict(fact.labels)),
            requests=placement_rules.amounts(fact.requests.items(), MOST_AMOUNT),
            node_selector=pairs(dict(fact.node_selector)),
            node_terms=placement_rules.node_terms(affinity),
            tolerations=placement_rules.tolerations(
                [{"key": t.key, "operator": t.operator, "value": t.value, "effect": t.effect} for t in fact.tolerations]
            ),
            ports=placement_rules.ports([{"port": p.port, "protocol": p.protocol, "host_ip": p.address} for p in fact.ports]),
            affinity=placement_rules.pod_terms(affinity, "podAffinity", whose),
            anti_affinity=placement_rules.pod_terms(affinity, "podAntiAffinity", whose),
            spread=placement_rules.spread([_spread(constraint) for constraint in fact.spread], whose),
            volumes=tuple(
                Volume(volume.driver, volume.handle, _where(volume.terms), volume.exclusive, volume.own)
                for volume in fact.volumes
            ),
        )
    except Unreadable as refusal:
        return PodShape(namespace=fact.namespace, labels=pairs(dict(fact.labels)), refused=str(refusal))


def _few_demands(fact: PodShapeSeen) -> None:
    """Raises Unreadable for too many requirements on node labels."""
    # Reading them takes proportionally long, and tenants write them.
    terms = [*(fact.node_terms or ()), *(term for volume in fact.volumes for term in volume.terms)]
    demands = [demand for term in terms for demand in (*term.expressions, *term.fields)]
    values = sum(len(demand.values) for demand in demands)
    if len(demands) > MOST_NODE_DEMANDS or values > MOST_NODE_VALUES:
        made = f"node affinity and volumes make {len(demands)} demands with {values} values"
        raise Unreadable(f"{made}; {MOST_NODE_DEMANDS} with {MOST_NODE_VALUES} are the most")


def _affinity(fact: PodShapeSeen) -> JsonMapping:
    affinity = dict(_node_affinity(fact.node_terms))
    for kind, terms in (("podAffinity", fact.affinity), ("podAntiAffinity", fact.anti_affinity)):
        if terms:
            affinity[kind] = {REQUIRED: [_term(term) for term in terms]}
    return affinity


def _node_affinity(terms: Sequence[NodeQuery] | None) -> JsonMapping:
    if terms is None:
        return {}
    stated = [{"matchExpressions": _demands(term.expressions), "matchFields": _demands(term.fields)} for term in terms]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": stated}}}


def _where(terms: Sequence[NodeQuery]) -> tuple[NodeTerm, ...]:
    """Where a volume can be; no terms at all mean anywhere."""
    return (placement_rules.node_terms(_node_affinity(terms)) or ()) if terms else ()


def _term(term: RequiredPodAffinity) -> JsonMapping:
    return {
        "topologyKey": term.topology_key,
        "labelSelector": _query(term.selector),
        "namespaces": list(term.namespaces),
        "namespaceSelector": _query(term.namespace_selector),
    }


def _spread(constraint: SpreadConstraint) -> JsonMapping:
    return {
        "topologyKey": constraint.topology_key,
        "maxSkew": constraint.max_skew,
        "labelSelector": _query(constraint.selector),
        "minDomains": constraint.min_domains,
        "nodeAffinityPolicy": "Honor" if constraint.honor_affinity else "Ignore",
        "nodeTaintsPolicy": "Honor" if constraint.honor_taints else "Ignore",
        "whenUnsatisfiable": "DoNotSchedule" if constraint.required else "ScheduleAnyway",
    }


def _query(query: LabelQuery | None) -> JsonMapping | None:
    """A selector in Kubernetes' words; one without demands is the empty object."""
    if query is None:
        return None
    if not query.labels and not query.expressions:
        return {}
    return {"matchLabels": dict(query.labels), "matchExpressions": _demands(query.expressions)}


def _demands(demands: Sequence[LabelDemand]) -> list[JsonMapping]:
    return [{"key": demand.key, "operator": demand.operator, "values": list(demand.values)} for demand in demands]


def budget(fact: PodDisruptionBudgetChanged) -> DisruptionBudget:
    """A disruption budget."""
    # One whose selector cannot be read protects no pods, as for its controller.
    try:
        chosen = placement_rules.selector(_query(fact.selector))
    except Unreadable:
        chosen = NOTHING
    return DisruptionBudget(fact.name, fact.namespace, chosen, fact.allowed)


def _taints(taints: Sequence[NodeTaint]) -> tuple[Taint, ...]:
    return tuple(Taint(taint.key, taint.value, taint.effect) for taint in taints)


def _attachable(amounts: Mapping[str, int]) -> dict[str, int]:
    """How many volumes of a driver a node attaches, by kubelets that say so among their resources."""
    return {name[len(ATTACHABLE) :]: n for name, n in amounts.items() if name.startswith(ATTACHABLE)}


def _bounded(amounts: Mapping[str, int]) -> dict[str, int]:
    # Sums of amounts are kept in columns of 64 bits.
    return {name: max(min(amount, MOST_AMOUNT), 0) for name, amount in amounts.items()}
