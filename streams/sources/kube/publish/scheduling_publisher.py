"""Publishes what node scaling needs: nodes, shapes of pods, where pods are, budgets and controllers.

A shape is published before the first pod that has it and forgotten with the last one, as its readers do. After a restart only
what changed meanwhile is published.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from schemas.facts.nodes import (
    CapacityBufferGone,
    CapacityBufferSeen,
    ExpanderPrioritiesGone,
    ExpanderPrioritiesSeen,
    NodeDetailsChanged,
    NodeDetailsRemoved,
)
from schemas.facts.scheduled_pods import PodPlacementChanged, PodPlacementRemoved, PodShapeSeen
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
    NamespaceObject,
    PodTemplateObject,
    ScheduledPodObject,
    StorageClassObject,
    VolumeObject,
)
from streams.clients.kube.watched_objects import ControllerObject, KubeObject, ReplicationControllerObject
from streams.log_context import LogContext
from streams.publishing.published_state import PublishedState, newest
from streams.sources.kube.publish import priority_config_map, scheduling_facts, update_resources
from streams.sources.kube.publish.capacity_buffers import TEMPLATED, CapacityBuffers
from streams.sources.kube.publish.pod_volumes import VolumeIndex, claims_of
from streams.sources.kube.publish.publisher import PublishedFacts, Publisher
from streams.sources.kube.watch.notifications import ObjectGone, ObjectUnread

TOPIC = "scheduling-changes"
STORAGE = ("persistentvolumeclaims", "persistentvolumes", "storageclasses")
"""What says where the volumes of pods are. Pods that have some are published once all of it was listed."""
StorageObject = ClaimObject | VolumeObject | StorageClassObject
MOST = 1_000_000
"""Records to read back at a start."""
_IN_NO_NAMESPACE = frozenset({"nodes", "csinodes", "namespaces"})


@dataclass(slots=True)
class PublishedScheduling:
    """The newest fact about each thing in the log, by name."""

    nodes: dict[str, NodeDetailsChanged] = field(default_factory=dict)
    budgets: dict[str, PodDisruptionBudgetChanged] = field(default_factory=dict)
    controllers: dict[str, ReplicaControllerChanged] = field(default_factory=dict)
    priorities: dict[str, ExpanderPrioritiesSeen] = field(default_factory=dict)
    namespaces: dict[str, ObjectMetadataChanged] = field(default_factory=dict)
    buffers: dict[str, CapacityBufferSeen] = field(default_factory=dict)
    pods: dict[str, PodPlacementChanged] = field(default_factory=dict)
    shapes: set[str] = field(default_factory=set)


class SchedulingPublisher:
    """Everything in one cluster that decides which pod runs where."""

    def __init__(self, publisher: Publisher, context: LogContext) -> None:
        self._publisher, self._context, self._cluster = publisher, context, context.cluster
        self._at = datetime.min  # noqa: DTZ901  # before anything was seen
        self._shapes: dict[str, PodShapeSeen] = {}
        self._uses: dict[str, int] = {}
        self._published_shapes: set[str] = set()
        self._shape_of: dict[str, str] = {}
        self._volumes = VolumeIndex()
        self._with_claims: dict[str, ScheduledPodObject] = {}
        self._unlisted = set(STORAGE)
        self._attachable: dict[str, Mapping[str, int]] = {}
        self._bare_nodes: dict[str, NodeDetailsChanged] = {}
        """Nodes without what their drivers say, by name."""
        publish = publisher.publish
        self._nodes: PublishedFacts[NodeDetailsChanged] = PublishedFacts(
            publish, lambda node: publish(NodeDetailsRemoved(self._at, node.cluster, node.node))
        )
        self._budgets: PublishedFacts[PodDisruptionBudgetChanged] = PublishedFacts(
            publish, lambda fact: publish(PodDisruptionBudgetRemoved(self._at, fact.cluster, fact.namespace, fact.name))
        )
        self._controllers: PublishedFacts[ReplicaControllerChanged] = PublishedFacts(
            publish, lambda fact: publish(ReplicaControllerRemoved(self._at, fact.cluster, fact.namespace, fact.kind, fact.name))
        )
        self._priorities: PublishedFacts[ExpanderPrioritiesSeen] = PublishedFacts(
            publish, lambda fact: publish(ExpanderPrioritiesGone(self._at, fact.cluster, fact.namespace, fact.name))
        )
        self._namespaces: PublishedFacts[ObjectMetadataChanged] = PublishedFacts(
            publish, lambda fact: publish(ObjectMetadataRemoved(self._at, fact.cluster, fact.kind, fact.namespace, fact.name))
        )
        self._buffer_objects = CapacityBuffers(self._cluster)
        self._buffers: PublishedFacts[CapacityBufferSeen] = PublishedFacts(
            publish, lambda fact: publish(CapacityBufferGone(self._at, fact.cluster, fact.namespace, fact.name))
        )
        self._pods: PublishedFacts[PodPlacementChanged] = PublishedFacts(self._publish_pod, self._withdraw_pod)
        self._simple: Mapping[str, PublishedFacts[Any]] = {
            "nodes": self._nodes,
            "poddisruptionbudgets": self._budgets,
            "configmaps": self._priorities,
            "namespaces": self._namespaces,
        }
        """Facts that follow from one object each, by the kind of its watch."""

    # The log

    def restore(self, _published: PublishedState, at: datetime) -> None:
        """Read back what was published before, and publish what differs. Raises LogUnavailable."""
        self._at = at
        published = self._read()
        self._published_shapes = published.shapes
        self._nodes.restore(published.nodes)
        self._budgets.restore(published.budgets)
        self._controllers.restore(published.controllers)
        self._priorities.restore(published.priorities)
        self._namespaces.restore(published.namespaces)
        self._buffers.restore(published.buffers)
        self._pods.restore(published.pods)

    def _read(self) -> PublishedScheduling:
        published = PublishedScheduling()
        topic, partition = self._context.cluster_partition(TOPIC)
        for record in newest(self._context.log, topic, partition, MOST):
            match self._context.codec.decode_or_none(record):
                case PodPlacementChanged(cluster=self._cluster) as event:
                    published.pods[event.pod.uid] = event
                case PodPlacementRemoved(cluster=self._cluster) as event:
                    published.pods.pop(event.pod.uid, None)
                case PodShapeSeen(cluster=self._cluster) as event:
                    published.shapes.add(event.shape)
                case NodeDetailsChanged(cluster=self._cluster) as event:
                    published.nodes[event.node] = event
                case NodeDetailsRemoved(cluster=self._cluster) as event:
                    published.nodes.pop(event.node, None)
                case CapacityBufferSeen(cluster=self._cluster) as event:
                    published.buffers[f"{event.namespace}/{event.name}"] = event
                case CapacityBufferGone(cluster=self._cluster) as event:
                    published.buffers.pop(f"{event.namespace}/{event.name}", None)
                case event:
                    self._read_object(published, event)
        # Readers forget a shape with its last pod, so it must be published again for the next one.
        published.shapes &= {pod.shape for pod in published.pods.values()}
        return published

    def _read_object(self, published: PublishedScheduling, event: object) -> None:
        match event:
            case PodDisruptionBudgetChanged(cluster=self._cluster):
                published.budgets[f"{event.namespace}/{event.name}"] = event
            case PodDisruptionBudgetRemoved(cluster=self._cluster):
                published.budgets.pop(f"{event.namespace}/{event.name}", None)
            case ReplicaControllerChanged(cluster=self._cluster):
                published.controllers[f"{event.kind}/{event.namespace}/{event.name}"] = event
            case ReplicaControllerRemoved(cluster=self._cluster):
                published.controllers.pop(f"{event.kind}/{event.namespace}/{event.name}", None)
            case ObjectMetadataChanged(cluster=self._cluster):
                published.namespaces[event.namespace] = event
            case ObjectMetadataRemoved(cluster=self._cluster):
                published.namespaces.pop(event.namespace, None)
            case ExpanderPrioritiesSeen(cluster=self._cluster):
                published.priorities[f"{event.namespace}/{event.name}"] = event
            case ExpanderPrioritiesGone(cluster=self._cluster):
                published.priorities.pop(f"{event.namespace}/{event.name}", None)

    # The cluster

    def node(self, node: DetailedNodeObject, at: datetime) -> None:
        """A node exists."""
        self._at = at
        self._bare_nodes[node.metadata.name] = scheduling_facts.node(node, self._cluster, at)
        self._publish_node(node.metadata.name)

    def drivers(self, node: CsiNodeObject, at: datetime) -> None:
        """The drivers of a node state how many volumes they attach."""
        self._at = at
        self._attachable[node.metadata.name] = scheduling_facts.attach_limits(node)
        self._publish_node(node.metadata.name)

    def _publish_node(self, name: str) -> None:
        node = self._bare_nodes.get(name)  # a node and its CSINode come by two watches, in any order
        if node is not None:
            self._nodes.upsert(name, replace(node, at=self._at, attachable=self._attachable.get(name, {})))

    def storage(self, storage: StorageObject, at: datetime) -> None:
        """A claim, a volume or a class exists: the pods that it concerns may fit elsewhere now."""
        self._at = at
        self._pods_again(self._volumes.users_of(self._volumes.see(storage)))

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

    def budget(self, budget: DisruptionBudgetObject, at: datetime) -> None:
        """A disruption budget exists."""
        self._at = at
        name = f"{budget.metadata.namespace}/{budget.metadata.name}"
        self._budgets.upsert(name, scheduling_facts.budget(budget, self._cluster, at))

    def controller(self, kind: str, item: ControllerObject | ReplicationControllerObject, at: datetime) -> None:
        """A controller exists."""
        self._at = at
        name = f"{kind}/{item.metadata.namespace}/{item.metadata.name}"
        self._controllers.put(name, scheduling_facts.controller(item, kind, self._cluster, at))
        if isinstance(item, TEMPLATED):
            self._publish_buffers(self._buffer_objects.workload(kind, item, at))

    def priorities(self, config_map: ConfigMapObject, at: datetime) -> None:
        """The ConfigMap of the priority expander exists."""
        self._at = at
        name = f"{config_map.metadata.namespace}/{config_map.metadata.name}"
        self._priorities.upsert(name, priority_config_map.seen(config_map, self._cluster, at))

    def namespace(self, namespace: NamespaceObject, at: datetime) -> None:
        """A namespace exists."""
        self._at = at
        self._namespaces.put(namespace.metadata.name, update_resources.metadata(NAMESPACE, namespace, self._cluster, at))

    def buffers(self, item: CapacityBufferObject | PodTemplateObject, at: datetime) -> None:
        """A CapacityBuffer exists, or a PodTemplate that some may name."""
        self._at = at
        self._publish_buffers(self._buffer_objects.see(item, at))

    def _publish_buffers(self, names: Iterable[str]) -> None:
        for name in names:
            self._buffers.put(name, self._buffer_objects.fact(name, self._at))

    def pod(self, pod: ScheduledPodObject, at: datetime) -> None:
        """A pod exists."""
        self._at = at
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
        shape = scheduling_facts.shape(pod, self._cluster, at, self._volumes.volumes_of(pod))
        fact = scheduling_facts.placement(pod, shape.shape, self._cluster, at)
        if fact is None:
            self._forget_pod(uid)
            return
        before = self._shape_of.get(uid)
        if before != shape.shape:
            self._shape_of[uid] = shape.shape
            self._shapes.setdefault(shape.shape, shape)
            self._uses[shape.shape] = self._uses.get(shape.shape, 0) + 1
        self._pods.upsert(uid, fact)  # the new shape before the old one goes, as the readers need it
        if before is not None and before != shape.shape:
            self._release(before)

    def gone(self, gone: ObjectGone, controller: str, at: datetime) -> None:
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
            case _:
                self._controllers.remove(f"{controller}/{name}")
                self._publish_buffers(self._buffer_objects.workload_gone(controller, name))

    def unread(self, unread: ObjectUnread, controller: str) -> None:
        """What was published of an object that cannot be read is kept."""
        name = _name(unread)
        match unread.kind:
            case "pods":
                self._pods.keep(unread.uid)
            case "capacitybuffers":
                self._buffers.keep(name)
            case _ if unread.kind in self._simple:
                self._simple[unread.kind].keep(name)
            case _:
                self._controllers.keep(f"{controller}/{name}")

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

    def seen(self, controller: str, item: KubeObject, at: datetime) -> None:  # one line for each kind
        """What node scaling needs of an object."""
        match item:
            case ScheduledPodObject():
                self.pod(item, at)
            case DetailedNodeObject():
                self.node(item, at)
            case DisruptionBudgetObject():
                self.budget(item, at)
            case CsiNodeObject():
                self.drivers(item, at)
            case ClaimObject() | VolumeObject() | StorageClassObject():
                self.storage(item, at)
            case ConfigMapObject():
                self.priorities(item, at)
            case NamespaceObject():
                self.namespace(item, at)
            case CapacityBufferObject() | PodTemplateObject():
                self.buffers(item, at)
            case ControllerObject() | ReplicationControllerObject():
                self.controller(controller, item, at)

    # Pods and their shapes

    def _publish_pod(self, fact: PodPlacementChanged) -> None:
        if fact.shape not in self._published_shapes and fact.shape in self._shapes:
            self._published_shapes.add(fact.shape)
            self._publisher.publish(self._shapes[fact.shape])
        self._publisher.publish(fact)

    def _withdraw_pod(self, fact: PodPlacementChanged) -> None:
        self._publisher.publish(PodPlacementRemoved(self._at, fact.cluster, fact.pod))

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


def _name(of: ObjectGone | ObjectUnread) -> str:
    return of.name if of.kind in _IN_NO_NAMESPACE else f"{of.namespace}/{of.name}"
