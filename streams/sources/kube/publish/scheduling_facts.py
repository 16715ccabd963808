"""Pods, nodes, budgets and controllers as the facts that node scaling needs. A bad quantity is refused and quoted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b

import msgspec

from schemas import exact_quantity, pod_requests
from schemas.bounds import kept_labels
from schemas.exact_quantity import NotAQuantityError
from schemas.facts.nodes import NodeDetailsChanged, NodeTaint
from schemas.facts.scheduled_pods import (
    AttachedVolume,
    ControllingOwner,
    LabelDemand,
    LabelQuery,
    NodeQuery,
    PodHostPort,
    PodPlacementChanged,
    PodShapeSeen,
    PodToleration,
    RequiredPodAffinity,
    SpreadConstraint,
)
from schemas.facts.update_facts import PodDisruptionBudgetChanged, ReplicaControllerChanged
from schemas.names import PodName
from schemas.pod_requests import CPU, ContainerRequests, ContainerResize
from schemas.units import Seconds
from schemas.well_known_labels import DO_NOT_DISRUPT, MIRROR_POD, NODE_NAME_FIELD
from streams.clients.kube.pod_objects import AnnotatedMeta, ContainerStatus, OwnerReference, StatusCondition
from streams.clients.kube.scheduling_objects import (
    CsiNodeObject,
    DaemonPodTemplate,
    DaemonSetObject,
    DetailedNodeObject,
    DisruptionBudgetObject,
    NodeSelectorTerm,
    PodAffinity,
    ScheduledContainer,
    ScheduledPodObject,
    ScheduledPodSpec,
    SelectorTermExpression,
    TopologySpreadObject,
)
from streams.clients.kube.watched_objects import ControllerObject, LabelSelector, ReplicationControllerObject

PREFIX = "cluster-autoscaler.kubernetes.io/"
SOURCE = "kubernetes.io/config.source"
OWN_LABELS = frozenset(
    ("statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index")
)
"""Labels that tell the pods of one controller apart."""
_LONGEST = 64
"""Characters of a quantity."""
_LONGEST_WORDS = 500
"""Characters of a sentence about a pod."""
_MOST = 10**15  # amounts above are cut to it: no node has them, so no pod that asks for them fits anywhere
FINISHED = ("Succeeded", "Failed")


def node(node: DetailedNodeObject, cluster: str, at: datetime) -> NodeDetailsChanged:
    """The fact about a node. Raises ValueError for a bad quantity."""
    meta = node.metadata
    return NodeDetailsChanged(
        at=at,
        cluster=cluster,
        node=meta.name,
        uid=meta.uid,
        created=meta.creation_timestamp or at,
        provider_id=node.spec.provider_id,
        labels=kept_labels(meta.labels or {}),
        taints=tuple(NodeTaint(taint.key, taint.value, taint.effect) for taint in node.spec.taints or ()),
        unschedulable=node.spec.unschedulable,
        conditions={
            condition.type: condition.status for condition in sorted(node.status.conditions, key=lambda condition: condition.type)
        },
        allocatable=amounts(node.status.allocatable),
        capacity=amounts(node.status.capacity),
        annotations=_annotations(meta.annotations),
    )


def attach_limits(node: CsiNodeObject) -> dict[str, int]:
    """How many volumes each driver attaches to a node, if it says so."""
    limits = {driver.name: driver.allocatable.count for driver in node.spec.drivers or () if driver.allocatable is not None}
    return {name: count for name, count in sorted(limits.items()) if count is not None and count >= 0}


def budget(budget: DisruptionBudgetObject, cluster: str, at: datetime) -> PodDisruptionBudgetChanged:
    """The fact about a disruption budget."""
    status = budget.status
    return PodDisruptionBudgetChanged(
        at,
        cluster,
        budget.metadata.namespace,
        budget.metadata.name,
        _query(budget.spec.selector),
        status.disruptions_allowed,
        status.current_healthy,
        status.desired_healthy,
        status.expected_pods,
        unready_go=budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
    )


def controller(
    item: ControllerObject | ReplicationControllerObject, kind: str, cluster: str, at: datetime
) -> ReplicaControllerChanged | None:
    """The fact about a controller; None for one that wants no pods, as the old ReplicaSets of a Deployment.

    A DaemonSet wants as many as its status says, and is published even if that is none.
    """
    replicas, owner, meta = item.spec.replicas, controlling(item.metadata.owner_references), item.metadata
    template = daemon(item, cluster, at) if isinstance(item, DaemonSetObject) else None
    if kind == "DaemonSet" and isinstance(item, ControllerObject):
        replicas = item.status.desired_number_scheduled
    elif replicas == 0:
        return None
    return ReplicaControllerChanged(at, cluster, meta.namespace, kind, meta.name, replicas, owner, template=template)


def daemon(daemon_set: DaemonSetObject, cluster: str, at: datetime) -> PodShapeSeen:
    """The shape of the pods that a DaemonSet makes. Raises ValueError for a bad quantity."""
    meta = daemon_set.metadata
    mine = OwnerReference("DaemonSet", meta.name, controller=True, api_version="apps/v1")
    seen = meta.creation_timestamp or at  # so that a fact about an unchanged DaemonSet is no news
    return of_template(daemon_set.spec.template, meta.namespace, cluster, seen, [mine])


def of_template(
    template: DaemonPodTemplate, namespace: str, cluster: str, at: datetime, owners: Sequence[OwnerReference] = ()
) -> PodShapeSeen:
    """The shape of pods that are made from a template. Raises ValueError for a bad quantity."""
    labels, annotations = template.metadata.labels, template.metadata.annotations
    meta = AnnotatedMeta("", namespace, labels=labels, annotations=annotations, owner_references=list(owners))
    return shape(ScheduledPodObject(metadata=meta, spec=template.spec), cluster, at)


def placement(pod: ScheduledPodObject, shape: str, cluster: str, at: datetime) -> PodPlacementChanged | None:
    """The fact where a pod is; None for one that is finished."""
    meta, status = pod.metadata, pod.status
    if status.phase in FINISHED or meta.creation_timestamp is None:
        return None
    waits = next(
        (condition for condition in status.conditions if condition.type == "PodScheduled" and condition.status == "False"), None
    )
    return PodPlacementChanged(
        at=at,
        cluster=cluster,
        pod=PodName(meta.namespace, meta.name, meta.uid),
        shape=shape,
        phase=status.phase,
        created=meta.creation_timestamp,
        node=pod.spec.node_name,
        unschedulable="" if waits is None or pod.spec.node_name else waits.reason,
        deleted=meta.deletion_timestamp,
        pinned=_pinned(pod.spec),
        nominated="" if pod.spec.node_name else status.nominated_node_name,
        message="" if waits is None or pod.spec.node_name else waits.message[:_LONGEST_WORDS],
    )


def shaping_labels(meta: AnnotatedMeta) -> dict[str, str]:
    """A pod's labels without those with which each pod of a StatefulSet would have a shape of its own."""
    return {name: text for name, text in (meta.labels or {}).items() if name not in OWN_LABELS}


def local_volumes(spec: ScheduledPodSpec) -> tuple[str, ...]:
    """Volumes of a pod that are lost with its node."""
    return tuple(sorted(volume.name for volume in spec.volumes or () if _lives_on_node(volume.empty_dir, volume.host_path)))


def shape(pod: ScheduledPodObject, cluster: str, at: datetime, volumes: tuple[AttachedVolume, ...] = ()) -> PodShapeSeen:
    """The shape of a pod that brings these volumes along. Raises ValueError for a bad quantity."""
    meta, spec = pod.metadata, pod.spec
    affinity = spec.affinity
    labels = shaping_labels(meta)
    fact = PodShapeSeen(
        at=at,
        cluster=cluster,
        shape="",
        namespace=meta.namespace,
        requests=requests(pod),
        labels=kept_labels(labels),
        node_selector=kept_labels(spec.node_selector or {}),
        node_terms=_node_terms(spec),
        tolerations=tuple(
            PodToleration(toleration.key, toleration.operator, toleration.value, toleration.effect)
            for toleration in spec.tolerations or ()
        ),
        ports=_ports(
            [*spec.containers, *(container for container in spec.init_containers if container.restart_policy == "Always")]
        ),
        affinity=_between(affinity.pod_affinity if affinity is not None else None),
        anti_affinity=_between(affinity.pod_anti_affinity if affinity is not None else None),
        spread=tuple(_spread(constraint, labels) for constraint in spec.topology_spread_constraints or ()),
        volumes=volumes,
        owner=controlling(meta.owner_references),
        annotations=_annotations(meta.annotations),
        restart_policy=spec.restart_policy,
        priority=spec.priority,
        grace=None if spec.termination_grace_period_seconds is None else Seconds(float(spec.termination_grace_period_seconds)),
        local=local_volumes(spec),
        unread=_unread(spec),
        containers=_together(spec),
        starting=_starting(spec),
    )
    return replace(fact, shape=_id(fact))


def _together(spec: ScheduledPodSpec) -> dict[str, dict[str, int]]:
    """The requests of the containers that run together; none where the pod requests as a whole."""
    if spec.resources is not None and spec.resources.requests:
        return {}
    lasting = [*spec.containers, *(container for container in spec.init_containers if container.restart_policy == "Always")]
    return {container.name: requests_of for container in lasting if (requests_of := amounts(container.resources.requests or {}))}


def _starting(spec: ScheduledPodSpec) -> dict[str, int]:
    """What a pod without its containers would ask for."""
    init = (
        (amounts(container.resources.requests or {}), container.restart_policy == "Always") for container in spec.init_containers
    )
    total = pod_requests.of_pod(
        (), (ContainerRequests(*container_and_kind) for container_and_kind in init), amounts(spec.overhead or {})
    )
    return {name: amount for name, amount in sorted(total.items()) if amount}


def _unread(spec: ScheduledPodSpec) -> tuple[str, ...]:
    """What the scheduler reads of a pod and nobody here understands, in words."""
    claims = ", ".join(f"'{claim.name}'" for claim in spec.resource_claims or ())
    return (f"its resource claims {claims} (dynamic resource allocation)"[:_LONGEST_WORDS],) if claims else ()


def _id(fact: PodShapeSeen) -> str:
    """A hash of everything that makes a shape; the time at which it was seen does not."""
    content = msgspec.json.encode(replace(fact, at=datetime.min, cluster=""), order="sorted")  # noqa: DTZ901  # no time at all
    return blake2b(content, digest_size=12).hexdigest()


def controlling(references: Sequence[OwnerReference]) -> ControllingOwner | None:
    """The owner that controls an object."""
    owner = next((reference for reference in references if reference.controller), None)
    # A mirror pod is owned by its node, whose name says nothing of its shape.
    return None if owner is None else ControllingOwner(owner.kind, "" if owner.kind == "Node" else owner.name, owner.api_version)


def requests(pod: ScheduledPodObject) -> dict[str, int]:
    """What a pod asks of its node: during a resize, the largest of wanted, allocated and actual amounts."""
    spec, status = pod.spec, pod.status
    # Then what is wanted will never be given, and the scheduler counts it no more.
    infeasible = any(is_infeasible(condition) for condition in status.conditions)
    statuses = {item.name: item for item in (*status.container_statuses, *status.init_container_statuses)}

    def of(container: ScheduledContainer) -> ContainerRequests:
        wanted = amounts(container.resources.requests or {})
        resize = _resize(statuses.get(container.name), infeasible=infeasible)
        return ContainerRequests(wanted, container.restart_policy == "Always", resize)

    level = amounts(spec.resources.requests or {}) if spec.resources is not None else {}
    total = pod_requests.of_pod(map(of, spec.containers), map(of, spec.init_containers), amounts(spec.overhead or {}), level)
    return {name: amount for name, amount in sorted(total.items()) if amount}


def is_infeasible(condition: StatusCondition) -> bool:
    """Whether it says that a node can never give what a resize asks for."""
    return condition.type == "PodResizePending" and condition.status == "True" and condition.reason == "Infeasible"


def _resize(status: ContainerStatus | None, *, infeasible: bool) -> ContainerResize | None:
    if status is None or status.resources is None:
        return None
    actual = amounts(status.resources.requests or {})
    allocated = amounts(status.allocated_resources) if status.allocated_resources is not None else actual
    return ContainerResize(allocated, actual, infeasible)


def amounts(quantities: Mapping[str, str]) -> dict[str, int]:
    """Whole amounts by resource, rounded up: CPU in thousandths. Raises ValueError that quotes what is no quantity."""
    whole = {}
    for name, text in sorted(quantities.items()):
        if len(text) > _LONGEST:
            msg = f"'{text[:_LONGEST]}…' is no quantity of {name[:80]}: it has {len(text)} characters"
            raise ValueError(msg)
        try:
            amount = exact_quantity.parse(text)
        except NotAQuantityError as error:
            msg = f"'{text}' is no quantity of {name[:80]}: {error}"
            raise ValueError(msg) from None
        whole[name] = max(min(amount.milli if name == CPU else amount.whole, _MOST), 0)
    return whole


def _annotations(annotations: Mapping[str, str] | None) -> dict[str, str]:
    """The annotations that node scaling obeys."""
    # Not all: many change with each apply, and each change would make another shape.
    kept = {name: text for name, text in (annotations or {}).items() if PREFIX in name or name in (SOURCE, DO_NOT_DISRUPT)}
    # Its value differs between nodes, and would make a shape of each mirror pod.
    mirror = {MIRROR_POD: "mirror"} if MIRROR_POD in (annotations or {}) else {}
    return kept_labels({**kept, **mirror})


def _lives_on_node(empty_dir: object, host_path: object) -> bool:
    # As upstream's isLocalVolume (utils/drain/drain.go): what is in memory alone binds no pod to its node.
    return host_path is not None or (empty_dir is not None and getattr(empty_dir, "medium", "") != "Memory")


def _ports(containers: Sequence[ScheduledContainer]) -> tuple[PodHostPort, ...]:
    taken = {
        (port.host_port, port.protocol, port.host_ip)
        for container in containers
        for port in container.ports or ()
        if port.host_port
    }
    return tuple(PodHostPort(*port_key) for port_key in sorted(taken))


def _terms(spec: ScheduledPodSpec) -> list[NodeSelectorTerm] | None:
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None or affinity.required is None:
        return None
    return affinity.required.node_selector_terms or []


def _pinned(spec: ScheduledPodSpec) -> str:
    """The one node that every term names, as those of a DaemonSet's pod do; empty if there is no such node."""
    terms = _terms(spec)
    named = {_named(term) for term in terms} if terms else set()
    return named.pop() if len(named) == 1 else ""


def _named(term: NodeSelectorTerm) -> str:
    # So the DaemonSet controller binds its pods (ReplaceDaemonSetPodNodeNameNodeAffinity in daemonset_util.go).
    fields = term.match_fields or []
    field = fields[0] if len(fields) == 1 else None
    fits = field is not None and field.key == NODE_NAME_FIELD and field.operator == "In" and len(field.values or ()) == 1
    return (field.values or [""])[0] if field is not None and fits else ""


def _node_terms(spec: ScheduledPodSpec) -> tuple[NodeQuery, ...] | None:
    """The terms without the one node of a DaemonSet's pod; None if nothing else was in them."""
    terms = _terms(spec)
    if terms is None:
        return None
    pinned = bool(_pinned(spec))
    queries = tuple(NodeQuery(_demands(term.match_expressions), () if pinned else _demands(term.match_fields)) for term in terms)
    return None if pinned and any(not query.expressions for query in queries) else queries


def _demands(expressions: Iterable[SelectorTermExpression] | None) -> tuple[LabelDemand, ...]:
    return tuple(
        LabelDemand(expression.key, expression.operator, tuple(expression.values or ())) for expression in expressions or ()
    )


def _query(selector: LabelSelector | None) -> LabelQuery | None:
    if selector is None:
        return None
    demands = tuple(
        LabelDemand(expression.key, expression.operator, tuple(expression.values or ()))
        for expression in selector.match_expressions or ()
    )
    return LabelQuery(dict(sorted((selector.match_labels or {}).items())), demands)


def _between(affinity: PodAffinity | None) -> tuple[RequiredPodAffinity, ...]:
    terms = affinity.required or [] if affinity is not None else []
    return tuple(
        RequiredPodAffinity(
            term.topology_key, _query(term.label_selector), tuple(term.namespaces or ()), _query(term.namespace_selector)
        )
        for term in terms
    )


def _spread(constraint: TopologySpreadObject, labels: Mapping[str, str]) -> SpreadConstraint:
    """A constraint; keys of labels whose values count are taken from the pod's own labels."""
    query = _query(constraint.label_selector)
    own = {key: labels[key] for key in constraint.match_label_keys or () if key in labels}
    if own and query is not None:
        query = replace(query, labels={**query.labels, **own})
    return SpreadConstraint(
        constraint.topology_key,
        constraint.max_skew,
        query,
        # The API's own default.
        1 if constraint.min_domains is None else constraint.min_domains,
        honor_affinity=constraint.node_affinity_policy == "Honor",
        honor_taints=constraint.node_taints_policy == "Honor",
        required=constraint.when_unsatisfiable == "DoNotSchedule",
    )
