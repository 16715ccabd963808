"""Publishes what node scaling needs: nodes, shapes of pods, where pods are, budgets and controllers.

A shape is published before the first pod that has it and forgotten with the last one, as its readers do. After a restart only
what changed meanwhile is published.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from schemas.facts.nodes import (
    CapacityBufferGone,
    CapacityBufferSeen,
    ExpanderPrioritiesGone,
    ExpanderPrioritiesSeen,
    NodeDetailsChanged,
    NodeDetailsRemoved,
    NodeEvent,
)
from schemas.facts.scheduled_pods import AttachedVolume, PodPlacementChanged, PodPlacementRemoved, PodShapeSeen
from schemas.facts.update_facts import (
    NAMESPACE,
    ObjectMetadataChanged,
    ObjectMetadataRemoved,
    PodDisruptionBudgetChanged,
    PodDisruptionBudgetRemoved,
    ReplicaControllerChanged,
    ReplicaControllerRemoved,
)
from streams.clients.kube.scheduling_objects import (
    CapacityBufferObject,
    ClaimObject,
    ConfigMapObject,
    CsiNodeObject,
    DetailedNodeObject,
    DisruptionBudgetObject,
    PodTemplateObject,
    ScheduledPodObject,
    ScheduledPodSpec,
    StorageClassObject,
    VolumeObject,
)
from streams.clients.kube.watched_objects import ControllerObject, KubeObject, LabelledObject, ReplicationControllerObject
from streams.log_context import LogContext
from streams.publishing.published_state import PublishedState, newest
from streams.sources.kube.publish import priority_config_map, scheduling_facts, update_resources
from streams.sources.kube.publish.capacity_buffers import TEMPLATED, CapacityBuffers
from streams.sources.kube.publish.pod_volumes import VolumeIndex, claims_of
from streams.sources.kube.publish.publisher import PublishedFacts, Publisher, SubjectPublisher, withdrawal
from streams.sources.kube.watch.notifications import ObjectGone, ObjectUnread
from streams.sources.kube.watch.watched_resources import CONTROLLERS, NAMESPACES, PRIORITIES

TOPIC = "scheduling-changes"
STORAGE = ("persistentvolumeclaims", "persistentvolumes", "storageclasses")
"""What says where the volumes of pods are. Pods that have some are published once all of it was listed."""
MOST = 1_000_000
"""Records to read back at a start."""
_IN_NO_NAMESPACE = frozenset({"nodes", "csinodes", "namespaces"})


_REMOVED: Mapping[type[Any], type[Any]] = {
    NodeDetailsChanged: NodeDetailsRemoved,
    PodDisruptionBudgetChanged: PodDisruptionBudgetRemoved,
    ReplicaControllerChanged: ReplicaControllerRemoved,
    ExpanderPrioritiesSeen: ExpanderPrioritiesGone,
    ObjectMetadataChanged: ObjectMetadataRemoved,
    CapacityBufferSeen: CapacityBufferGone,
    PodPlacementChanged: PodPlacementRemoved,
}
"""Each fact that is published of an object, and what ends it."""
_CHANGED = {removed: changed for changed, removed in _REMOVED.items()}


class SchedulingPublisher(SubjectPublisher):
    """Everything in one cluster that decides which pod runs where."""

    def __init__(self, publisher: Publisher, context: LogContext) -> None:
        self._publisher, self._context, self._cluster = publisher, context, context.cluster
        self._at = datetime.min  # noqa: DTZ901  # before anything was seen
        self._shapes: dict[str, PodShapeSeen] = {}
        self._remembered = RememberedShapes()
        self._uses: dict[str, int] = {}
        self._published_shapes: set[str] = set()
        self._shape_of: dict[str, str] = {}
        self._volumes = VolumeIndex()
        self._with_claims: dict[str, ScheduledPodObject] = {}
        self._unlisted = set(STORAGE)
        self._attachable: dict[str, Mapping[str, int]] = {}
        self._bare_nodes: dict[str, NodeDetailsChanged] = {}
        """Nodes without what their drivers say, by name."""
        self._buffer_objects = CapacityBuffers(self._cluster)
        self._facts = {changed: publisher.facts(removed, lambda: self._at) for changed, removed in _REMOVED.items()}
        self._pods = self._facts[PodPlacementChanged] = PublishedFacts(
            self._publish_pod, lambda fact: publisher.publish(withdrawal(PodPlacementRemoved, fact, self._at))
        )
        self._nodes, self._controllers = self._facts[NodeDetailsChanged], self._facts[ReplicaControllerChanged]
        self._buffers = self._facts[CapacityBufferSeen]
        self._simple: Mapping[str, PublishedFacts[Any]] = {
            "nodes": self._nodes,
            "poddisruptionbudgets": self._facts[PodDisruptionBudgetChanged],
            PRIORITIES: self._facts[ExpanderPrioritiesSeen],
            "namespaces": self._facts[ObjectMetadataChanged],
        }
        """Facts that follow from one object each, by the kind of its watch."""

    # The log

    def restore(self, _published: PublishedState, at: datetime) -> None:
        """Read back what was published before, and publish what differs. Raises LogUnavailable."""
        self._at = at
        published, self._published_shapes = self._read()
        for changed, facts in self._facts.items():
            facts.restore(published[changed])

    def _read(self) -> tuple[Mapping[type[Any], Mapping[str, Any]], set[str]]:
        """The newest fact about each thing in the log, by class and name, and the shapes that readers still have."""
        published: dict[type[Any], dict[str, Any]] = {changed: {} for changed in _REMOVED}
        shapes = set[str]()
        topic, partition = self._context.cluster_partition(TOPIC)
        for record in newest(self._context.log, topic, partition, MOST):
            event: Any = self._context.codec.decode_or_none(record)
            if getattr(event, "cluster", "") != self._cluster:
                continue
            if isinstance(event, PodShapeSeen):
                shapes.add(event.shape)
            elif type(event) in _REMOVED:
                published[type(event)][_key(event)] = event
            elif type(event) in _CHANGED:
                published[_CHANGED[type(event)]].pop(_key(event), None)
        # Readers forget a shape with its last pod, so it must be published again for the next one.
        return published, shapes & {pod.shape for pod in published[PodPlacementChanged].values()}

    # The cluster

    def _publish_node(self, name: str) -> None:
        node = self._bare_nodes.get(name)  # a node and its CSINode come by two watches, in any order
        if node is not None:
            self._nodes.upsert(name, replace(node, at=self._at, attachable=self._attachable.get(name, {})))

    def publish_due(self, at: datetime) -> None:
        """Publish pods again that may get another free volume: once for all changes of volumes since the last call."""
        self._at = at
        self._pods_again(self._volumes.users_of(self._volumes.take_reconsidered()))

    def _pods_again(self, uids: Iterable[str]) -> None:
        """Publish pods again whose volumes may look different."""
        for uid in sorted(uids):
            pod = self._with_claims.get(uid)
            if pod is not None:
                self._place(pod)

    def _controller(self, kind: str, item: ControllerObject | ReplicationControllerObject) -> None:
        name = f"{kind}/{item.metadata.namespace}/{item.metadata.name}"
        self._controllers.put(name, scheduling_facts.controller(item, kind, self._cluster, self._at))
        if isinstance(item, TEMPLATED):
            self._publish_buffers(self._buffer_objects.workload(kind, item, self._at))

    def _publish_buffers(self, names: Iterable[str]) -> None:
        for name in names:
            self._buffers.put(name, self._buffer_objects.fact(name, self._at))

    def _pod(self, pod: ScheduledPodObject) -> None:
        uid = pod.metadata.uid
        ended = pod.status.phase in scheduling_facts.FINISHED
        others = self._volumes.use(uid, None if ended else pod)
        if not ended and claims_of(pod):
            self._with_claims[uid] = pod
        else:
            self._with_claims.pop(uid, None)
        self._place(pod)
        # The second pod of a claim makes it shared, and the last but one makes it a single pod's again.
        self._pods_again(others)

    def _place(self, pod: ScheduledPodObject) -> None:
        """Publish where a pod is, or may be, once the places of its volumes are known."""
        uid, at = pod.metadata.uid, self._at
        if uid in self._with_claims and self._unlisted:  # with an unlisted volume it would seem to fit nowhere
            return
        shape = self._remembered.of(pod, self._cluster, at, self._volumes.volumes_of(pod))
        fact = scheduling_facts.placement(pod, shape.shape, self._cluster, at)
        if fact is None:
            self._forget_pod(uid)
            return
        before = self._shape_of.get(uid)
        if before != shape.shape:
            self._shape_of[uid] = shape.shape
            if shape.shape not in self._shapes:
                self._shapes[shape.shape] = replace(shape, at=at)  # it may have been made for a pod of long ago
            self._uses[shape.shape] = self._uses.get(shape.shape, 0) + 1
        self._pods.upsert(uid, fact)  # the new shape before the old one goes, as the readers need it
        if before is not None and before != shape.shape:
            self._release(before)

    def gone(self, gone: ObjectGone, at: datetime) -> None:
        """An object is gone."""
        self._at = at
        name = _name(gone)
        match gone.kind:
            case "pods":
                self._forget_pod(gone.uid)
            case "csinodes":
                self._attachable.pop(name, None)
                self._publish_node(name)
            case "capacitybuffers" | "podtemplates":
                self._publish_buffers(self._buffer_objects.gone(gone.kind, name))
            case _ if gone.kind in STORAGE:
                self._pods_again(self._volumes.users_of(self._volumes.gone(gone.kind, gone.namespace, gone.name)))
            case _ if gone.kind in self._simple:
                if gone.kind == "nodes":
                    self._bare_nodes.pop(name, None)
                self._simple[gone.kind].remove(name)
            case _ if gone.kind in CONTROLLERS:
                controller = CONTROLLERS[gone.kind]
                self._controllers.remove(f"{controller}/{name}")
                self._publish_buffers(self._buffer_objects.workload_gone(controller, name))

    def unread(self, unread: ObjectUnread) -> None:
        """What was published of an object that cannot be read is kept."""
        name = _name(unread)
        match unread.kind:
            case "pods":
                self._pods.keep(unread.uid)
            case "capacitybuffers":
                self._buffers.keep(name)
            case _ if unread.kind in self._simple:
                self._simple[unread.kind].keep(name)
            case _ if unread.kind in CONTROLLERS:
                self._controllers.keep(f"{CONTROLLERS[unread.kind]}/{name}")

    def synced(self, kind: str, *, controllers: bool, at: datetime) -> None:
        """Everything of a kind that exists was seen: what was published and was not seen is gone."""
        self._at = at
        match kind:
            case "pods":
                self._pods.mark_synced(waiting=self._with_claims if self._unlisted else ())
                self._published_shapes &= self._uses.keys()  # pods that went while nobody watched took their shapes along
            case _ if kind in STORAGE:
                self._unlisted.discard(kind)
                if not self._unlisted:
                    self._pods_again(self._with_claims)
            case _ if kind in self._simple:
                self._simple[kind].mark_synced()
            case _ if controllers:
                self._controllers.mark_synced()
        self._publish_buffers(self._buffer_objects.synced(kind))
        if self._buffer_objects.listed:
            self._buffers.mark_synced(waiting=self._buffer_objects.waiting)

    def refused(self, kind: str, at: datetime) -> None:
        """Our account may not see a kind."""
        self._at = at
        self._publish_buffers(self._buffer_objects.refused(kind))

    def republish(self, at: datetime, older: timedelta) -> None:
        """Publish again what was last published this long ago, shapes with the pods that cite them."""
        self._at = at
        for shape, fact in self._shapes.items():
            if at - fact.at >= older and shape in self._published_shapes:
                self._shapes[shape] = again = replace(fact, at=at)
                self._publisher.publish(again)
        for facts in (*self._simple.values(), self._controllers, self._buffers, self._pods):
            facts.republish(at, older)

    def seen(self, kind: str, item: KubeObject, at: datetime) -> None:
        """What node scaling needs of an object."""
        self._at, name = at, f"{item.metadata.namespace}/{item.metadata.name}"
        match item:
            case ScheduledPodObject():
                self._pod(item)
            case DetailedNodeObject():
                self._bare_nodes[item.metadata.name] = scheduling_facts.node(item, self._cluster, at)
                self._publish_node(item.metadata.name)
            case DisruptionBudgetObject():
                self._simple["poddisruptionbudgets"].upsert(name, scheduling_facts.budget(item, self._cluster, at))
            case CsiNodeObject():
                self._attachable[item.metadata.name] = scheduling_facts.attach_limits(item)
                self._publish_node(item.metadata.name)
            case ClaimObject() | VolumeObject() | StorageClassObject():
                # The pods that it concerns may fit elsewhere now.
                self._pods_again(self._volumes.users_of(self._volumes.see(item)))
            case ConfigMapObject():
                self._simple[PRIORITIES].upsert(name, priority_config_map.seen(item, self._cluster, at))
            case LabelledObject() if kind == NAMESPACES.name:
                namespace = update_resources.metadata(NAMESPACE, item, self._cluster, at)
                self._simple["namespaces"].put(item.metadata.name, namespace)
            case CapacityBufferObject() | PodTemplateObject():
                self._publish_buffers(self._buffer_objects.see(item, at))
            case ControllerObject() | ReplicationControllerObject():
                self._controller(CONTROLLERS[kind], item)

    # Pods and their shapes

    def _publish_pod(self, fact: PodPlacementChanged) -> None:
        if fact.shape not in self._published_shapes and fact.shape in self._shapes:
            self._published_shapes.add(fact.shape)
            self._publisher.publish(self._shapes[fact.shape])
        self._publisher.publish(fact)

    def _forget_pod(self, uid: str) -> None:
        self._with_claims.pop(uid, None)
        self._pods_again(self._volumes.use(uid, None))
        self._pods.remove(uid)
        shape = self._shape_of.pop(uid, None)
        if shape is not None:
            self._release(shape)

    def _release(self, shape: str) -> None:
        self._uses[shape] -= 1
        if not self._uses[shape]:  # readers forget it, too, so it must be published again for the next pod
            del self._uses[shape], self._shapes[shape]
            self._published_shapes.discard(shape)


def _key(event: Any) -> str:
    """Under which name a fact, or what ends it, is kept: that of the object that it is about."""
    match event:
        case NodeEvent():
            return event.node
        case PodPlacementChanged() | PodPlacementRemoved():
            return event.pod.uid
        case ObjectMetadataChanged() | ObjectMetadataRemoved():
            return event.namespace
        case ReplicaControllerChanged() | ReplicaControllerRemoved():
            return f"{event.kind}/{event.namespace}/{event.name}"
        case _:
            return f"{event.namespace}/{event.name}"


def _name(of: ObjectGone | ObjectUnread) -> str:
    return of.name if of.kind in _IN_NO_NAMESPACE else f"{of.namespace}/{of.name}"


class RememberedShapes:
    """The shapes of pods, made once for those of a controller that come one after the other.

    A rollout shows each pod half a dozen times, and to make its shape is a quarter of what the source does with it.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[str, str, str], tuple[tuple[object, ...], PodShapeSeen]] = {}

    def of(self, pod: ScheduledPodObject, cluster: str, at: datetime, volumes: tuple[AttachedVolume, ...]) -> PodShapeSeen:
        """As `scheduling_facts.shape`, and of pods that are alike with the time of the first. Raises ValueError."""
        meta, spec = pod.metadata, pod.spec
        owner = scheduling_facts.controlling(meta.owner_references)
        if owner is None:
            return scheduling_facts.shape(pod, cluster, at, volumes)
        key, local = (meta.namespace, owner.kind, owner.name), scheduling_facts.local_volumes(spec)
        labels, status = scheduling_facts.shaping_labels(meta), _resizes(pod)
        follows_from = (labels, meta.annotations, owner, local, volumes, status, *_shaping(spec))
        made = self._made.pop(key, None)
        if made is None or made[0] != follows_from:
            made = follows_from, scheduling_facts.shape(pod, cluster, at, volumes)
        # Those that came last stay: each holds a pod's whole specification.
        self._made[key] = made
        if len(self._made) > _REMEMBERED:
            del self._made[next(iter(self._made))]
        return made[1]


_REMEMBERED = 500
"""Controllers whose last shape is remembered."""
_shaping = attrgetter(*(name for name in ScheduledPodSpec.__struct_fields__ if name not in ("node_name", "volumes")))


def _resizes(pod: ScheduledPodObject) -> object:
    """What a pod's status adds to what its containers ask for: nothing unless they are being resized."""
    spec, status = pod.spec, pod.status
    wanted = {container.name: container.resources.requests or {} for container in (*spec.containers, *spec.init_containers)}
    others = []
    for item in (*status.container_statuses, *status.init_container_statuses):
        actual = {} if item.resources is None else item.resources.requests or {}
        if item.resources is not None and (actual != wanted.get(item.name) or item.allocated_resources not in (None, actual)):
            others.append((item.name, actual, item.allocated_resources))
    return others and (others, any(scheduling_facts.is_infeasible(condition) for condition in status.conditions))
