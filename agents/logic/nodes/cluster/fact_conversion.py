"""Converts facts into the values that node scaling computes with: nodes, natures of pods, budgets, templates.

The facts keep Kubernetes' own terms, so `placement_rules` reads them, and a rule that it refuses becomes a shape that no node
takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from agents.engine.tables.object_table import ObjectTable
from agents.logic.nodes.aws import node_templates
from agents.logic.nodes.cluster.scaler_table_values import KnownNode
from agents.logic.nodes.removal.drain_rules import DisruptionBudget
from agents.logic.nodes.scaler_settings import ScalerSettings
from agents.logic.nodes.scheduling import placement_rules
from agents.logic.nodes.scheduling.placement_rules import REQUIRED, JsonMapping, RuleOwner, Unreadable
from agents.logic.nodes.scheduling.pod_shapes import (
    UNSCHEDULABLE_TAINT,
    NodeTerm,
    PodNature,
    PodOwner,
    PodShape,
    SchedulingNode,
    Taint,
    Volume,
    pairs,
)
from agents.logic.nodes.scheduling.scheduled_cluster import MOST_AMOUNT
from agents.logic.nodes.scheduling.scheduling_selectors import NOTHING
from schemas import times
from schemas.facts.nodes import NodeDetailsChanged, NodeTaint, NodeTemplateSeen
from schemas.facts.scheduled_pods import (
    LabelDemand,
    LabelQuery,
    NodeQuery,
    PodShapeSeen,
    RequiredPodAffinity,
    SpreadConstraint,
)
from schemas.facts.update_facts import PodDisruptionBudgetChanged
from schemas.well_known_labels import DELETION_CANDIDATE, HOSTNAME, TO_BE_DELETED

_NOT_READY = frozenset(
    ("node.kubernetes.io/not-ready", "node.kubernetes.io/disk-pressure", "node.kubernetes.io/network-unavailable")
)
_UNUSABLE = ("DiskPressure", "NetworkUnavailable")
"""Conditions that a ready node does not have."""
_PASSING = _NOT_READY | {
    TO_BE_DELETED,
    DELETION_CANDIDATE,
    UNSCHEDULABLE_TAINT,
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cloudprovider.kubernetes.io/shutdown",
    "NodeWithImpairedVolumes",
    "ullage.internal/removal",
    # Of others that end a node, or say that it ended; the keys of the AWS Node Termination Handler begin alike.
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "node.kubernetes.io/out-of-service",
}
_ENDING = ("aws-node-termination-handler/",)
_STARTUP = ("startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/")
_STATUS = ("status-taint.cluster-autoscaler.kubernetes.io/",)


@dataclass(frozen=True, slots=True)
class TransientTaints:
    """Taints that describe one node at one moment and not its group: the configured keys, besides those that every cluster has.

    A new node of a group is simulated without such taints, because it would not have them for long. A start-up taint also says
    that its node is not ready yet; a status taint does not. Source: utils/taints/taints.go and utils/kubernetes/ready.go.
    """

    startup: frozenset[str] = frozenset()
    status: frozenset[str] = frozenset()

    @classmethod
    def of(cls, settings: ScalerSettings) -> Self:
        """As the settings say."""
        return cls(frozenset(settings.startup_taint_keys), frozenset(settings.status_taint_keys))

    def passes(self, key: str) -> bool:
        """Whether a new node would not have such a taint for long."""
        return key in _PASSING or self._starts(key) or key in self.status or key.startswith((*_STATUS, *_ENDING))

    def usable(self, fact: NodeDetailsChanged) -> bool:
        """Whether no condition or taint makes the node unusable, whatever its kubelet says of being ready."""
        return not any(fact.conditions.get(condition) == "True" for condition in _UNUSABLE) and not any(
            taint.key in _NOT_READY or self._starts(taint.key) for taint in fact.taints
        )

    def _starts(self, key: str) -> bool:
        return key in self.startup or key.startswith(_STARTUP)


MOST_NODE_DEMANDS = 250
MOST_NODE_VALUES = 2500
"""Demands of one pod on the labels of its node, of its affinity and its volumes together, and their values."""
NOT_UNDERSTOOD = "not understood"
# Kubelets that tell limits of volumes among a node's resources put the driver behind this.
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
    # A cordon is of that node alone.
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


@dataclass(frozen=True, slots=True)
class ConvertedNode:
    """What follows from a node's fact. Seconds since the epoch: `created`, and `leaving`, which is None without that taint."""

    fact: NodeDetailsChanged
    node: SchedulingNode
    created: float
    leaving: float | None
    soft_tainted: bool
    gpu: str


class NodeConversions:
    """Nodes as decisions compute with them, by the key of the node, which is its cluster and name."""

    def __init__(self) -> None:
        # Made once for each fact, because few nodes change between two decisions. It follows from the facts, and so is no state.
        self._made: dict[str, ConvertedNode] = {}

    def of(self, key: str, fact: NodeDetailsChanged) -> ConvertedNode:
        """A node by the newest fact about it."""
        made = self._made.get(key)
        # By identity: the table has the same object until a new fact comes.
        if made is None or made.fact is not fact:
            made = self._made[key] = _converted(fact)
        return made

    def forget(self, present: ObjectTable[KnownNode]) -> None:
        """Forget all nodes but these."""
        for key in [key for key in self._made if key not in present]:
            del self._made[key]


def _converted(fact: NodeDetailsChanged) -> ConvertedNode:
    made = node(fact)
    taint = next((taint for taint in fact.taints if taint.key == TO_BE_DELETED), None)
    return ConvertedNode(
        fact,
        made,
        times.to_seconds(fact.created),
        None if taint is None else _seconds(taint.value),
        soft_tainted(fact),
        gpu(made),
    )


def _seconds(text: str) -> float:
    """The time that the taint of a deletion carries; long ago if it carries none."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < len("9999999999999") else 0.0
