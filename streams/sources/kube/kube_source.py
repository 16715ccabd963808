"""The kube source: what comes in from the cluster becomes facts in the log.

One thread calls it: `restore` once the log can be read, then `handle` and `publish_due` in turn. After a restart it publishes
only what changed meanwhile and what is gone. It does the same after it had to drop facts because the log was away for too long.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import structlog

from schemas.facts.sources import SourceReported
from schemas.names import Workload
from schemas.policies.vpa import VpaChanged
from schemas.units import Seconds
from streams.clients.kube import controllers, pod_objects
from streams.clients.kube.controllers import ControllerKey
from streams.clients.kube.pod_objects import PodObject
from streams.clients.kube.watched_objects import (
    ControllerObject,
    CronJobObject,
    EventObject,
    KubeObject,
    ReplicationControllerObject,
    VpaObject,
)
from streams.errors import LogUnavailable
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.publishing.published_state import REPUBLISH_AFTER, PublishedState, read_all
from streams.sources.kube.owners.pod_owners import PodOwners
from streams.sources.kube.owners.topmost_controller import REFRESH_AFTER, OwnerGraph
from streams.sources.kube.owners.vpa_targets import VpaTargets
from streams.sources.kube.publish import vpa_policies
from streams.sources.kube.publish.autoscaler_publisher import AutoscalerPublisher, MetricQueries, no_queries
from streams.sources.kube.publish.cluster_control import ClusterControlPublisher, ControlDoor
from streams.sources.kube.publish.constraint_publisher import UpdateConstraintPublisher
from streams.sources.kube.publish.nodes_and_limit_ranges import LIMIT_RANGES, NODES, OneKindPublisher
from streams.sources.kube.publish.pod_publisher import PodPublisher
from streams.sources.kube.publish.policy_objects import PolicyDoor, PolicyObjectPublisher
from streams.sources.kube.publish.publisher import NamesNothingError, Publisher, SubjectPublisher
from streams.sources.kube.publish.scheduling_publisher import STORAGE, SchedulingPublisher
from streams.sources.kube.publish.update_resources import UPDATE_RESOURCES
from streams.sources.kube.publish.vpa_policies import VpaPublisher
from streams.sources.kube.watch.notifications import (
    CheckpointsFound,
    ForgetKinds,
    LookupChange,
    Notification,
    ObjectGone,
    ObjectSeen,
    ObjectUnread,
    ScaleFound,
    ScaleLookup,
    WatchFailed,
    WatchSynced,
)
from streams.sources.kube.watch.sync_status import SyncStatus
from streams.sources.kube.watch.watched_resources import (
    CONTROLLERS,
    CONTROLS,
    EHPAS,
    HPAS,
    POLICIES,
    PRIORITIES,
    TSPS,
    PrioritiesMap,
    WebhookLease,
)

_log = structlog.get_logger(__name__)
NAME = "kube"
REPORT_PERIOD = timedelta(seconds=30)
"""How often the source reports that it is at work."""
UPKEEP_PERIOD = timedelta(minutes=1)
"""How often it looks for what is due by time alone."""
_OTHER_KINDS = (
    *STORAGE,
    "capacitybuffers",
    "podtemplates",
    PRIORITIES,
    *(row.resource.name for row in UPDATE_RESOURCES),
    "replicasets",
    "leases",
    CONTROLS.name,
    POLICIES.name,
)
_KINDS = ("pods", "nodes", "limitranges", "verticalpodautoscalers", EHPAS.name, TSPS.name, HPAS.name)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """`now` gives event time. `namespaces` are the only ones watched, none means all; `period` is how often it reports.

    `nodes`: whether to publish what node scaling needs, which takes all namespaces; with `priorities`, that ConfigMap, too.
    `replicas`: whether to publish EHPAs and scales, with `queries`. `webhook`: its Lease; without one, other constraints on
    updates are not published. `control`: what the object that commands the cluster takes; without it, nobody reads that object.
    `policies`: the same for VerticalPolicies.
    """

    now: Callable[[], datetime]
    namespaces: tuple[str, ...] = ()
    period: timedelta = REPORT_PERIOD
    nodes: bool = False
    replicas: bool = False
    queries: MetricQueries = no_queries
    webhook: WebhookLease | None = None
    priorities: PrioritiesMap | None = None
    control: ControlDoor | None = None
    policies: PolicyDoor | None = None


class KubeSource:
    """One cluster into one log. `look_up` starts look-ups, whose answers come back as notifications."""

    def __init__(
        self,
        context: LogContext,
        options: SourceOptions,
        sync_status: SyncStatus,
        look_up: Callable[[LookupChange], None],
        outbox: Outbox | None = None,
    ) -> None:
        """`outbox` is another one in tests of its bound."""
        self._context, self._options, self._sync_status, self._look_up = context, options, sync_status, look_up
        self._outbox = Outbox(context) if outbox is None else outbox
        self._cluster, self._now = context.cluster, options.now
        publisher = self._publisher = Publisher(context)
        self._graph = OwnerGraph(self._now, lambda key: look_up(ScaleLookup(key)))
        published = PublishedState()
        self._pod_owners, self._pods = PodOwners(self._graph, published), PodPublisher(publisher, published)
        self._vpa_targets, self._vpas = VpaTargets(self._graph), VpaPublisher(publisher, self._now, look_up)
        self._publishers = _publishers(context, options, publisher)
        self._keepers = (*(publisher.unread for publisher in self._publishers), self._keep)
        self._reported: datetime | None = None
        self._upkeep = self._refreshed = self._now()
        self._must_restore = self._first_pods_published = False

    @property
    def dropped(self) -> Mapping[str, int]:
        """Records dropped since the start because the log was away for too long, by topic (wire name)."""
        return self._outbox.dropped

    def restore(self) -> None:
        """Read from the log what was published before, and publish what differs. Raises LogUnavailable."""
        published = read_all(self._context)
        published.keep_namespaces(self._options.namespaces)
        self._pods.restore(published)
        self._publish_pods(self._pod_owners.restore(published, self._now()))
        self._vpas.restore(published.vpas)
        for publisher in self._publishers:
            publisher.restore(published, self._now())
        # Watches that are in sync already do not say so again.
        for kind in _KINDS:
            self._mark_synced(kind)
        for kind in _OTHER_KINDS:
            self._mark_published_synced(kind)

    def handle(self, notifications: Sequence[Notification]) -> None:
        """Handle notifications, in order. The resulting records wait for `publish_due`."""
        for notification in notifications:
            match notification:
                case ObjectSeen():
                    self._object_seen(notification)
                case ObjectUnread():
                    self._object_unread(notification)
                case ObjectGone():
                    self._object_gone(notification)
                case WatchSynced():
                    self._sync_status.mark_synced(notification.watch)
                    self._mark_synced(self._sync_status.kind_of(notification.watch))
                case WatchFailed():
                    self._sync_status.mark_failed(notification.watch, notification.reason, refused=notification.refused)
                    self._mark_unseen(self._sync_status.kind_of(notification.watch), notification)
                case ScaleFound():
                    if self._graph.record_scale(notification.key, notification.scale, notification.reason):
                        self._controller_changed(notification.key)
                case CheckpointsFound():
                    self._vpas.publish_checkpoints(notification.namespace, notification.checkpoints)

    def publish_due(self) -> bool:
        """Publish what is due by time, then append everything. False when the log is away and the facts wait."""
        at = self._now()
        # Before that an owner that is not known may just not be listed yet.
        if self._sync_status.all_heard_of(CONTROLLERS):
            self._publish_pods(self._pod_owners.retry_waiting(at))
        if self._sync_status.synced("pods") and not self._pod_owners.waiting:
            self._first_pods_published = True
        # A checkpoint belongs to the workload that its VPA targets.
        if not self._vpa_targets.waiting:
            self._vpas.request_checkpoints()
        if at - self._upkeep >= UPKEEP_PERIOD:
            self._upkeep = at
            self._do_upkeep(at)
        for publisher in self._publishers:
            publisher.publish_due(at)
        facts = self._publisher.drain()
        self._report(at)
        self._outbox.publish(facts=facts, scrapes=self._publisher.drain())
        flushed = self._outbox.flush()
        if flushed and (self._outbox.report_losses() or self._must_restore):
            return self._restored()
        return flushed

    def _restored(self) -> bool:
        self._must_restore = True  # facts were dropped, so the log does not hold what we believe to have published
        try:
            self.restore()
        except LogUnavailable:
            return False
        self._must_restore = False
        return True

    def _do_upkeep(self, at: datetime) -> None:
        self._pods.republish(at)
        for publisher in self._publishers:
            publisher.republish(at, REPUBLISH_AFTER)
        self._graph.prune()
        if at - self._refreshed >= REFRESH_AFTER:
            self._refreshed = at
            self._look_up(ForgetKinds())
        self._publish_vpas(self._vpa_targets.refresh_scales())

    def _report(self, at: datetime) -> None:
        if self._reported is None or at - self._reported >= self._options.period:
            self._reported = at
            period = Seconds(self._options.period.total_seconds())
            # Pods only after the first list is published: one that still waits for its owners would look absent.
            sees = self._sync_status.synced_topics(unpublished=() if self._first_pods_published else ("pods",))
            self._publisher.publish(SourceReported(at, self._cluster, NAME, sees, period))

    def _object_seen(self, seen: ObjectSeen) -> None:
        at, about = self._now(), seen.object.metadata
        faults: dict[str, ValueError] = {}
        readers = [partial(publisher.seen, seen.kind, seen.object, at) for publisher in self._publishers]
        readers.append(partial(self._upsert, seen.kind, seen.object, at))
        for read, keep in zip(readers, self._keepers, strict=True):
            try:  # each apart from the others, who may need nothing of what one of them cannot read
                read()
            except ValueError as error:
                faults.setdefault(str(error), error)
                if not isinstance(error, NamesNothingError):
                    keep(ObjectUnread(seen.kind, about.namespace, about.name, about.uid))
        name = f"{about.namespace}/{about.name}"
        for reason, fault in faults.items():
            # It may be the object's or ours, which only the traceback tells; whoever writes objects must not end the source.
            _log.error("an object cannot be read", resource=seen.kind, object=name, reason=reason, exc_info=fault)

    def _object_unread(self, unread: ObjectUnread) -> None:
        for keep in self._keepers:
            keep(unread)

    def _keep(self, unread: ObjectUnread) -> None:
        match unread.kind:
            case "pods":
                self._pods.keep(unread)
            case "verticalpodautoscalers":
                self._vpas.keep(f"{self._cluster}/{unread.namespace}/{unread.name}")

    def _upsert(self, kind: str, item: KubeObject, at: datetime) -> None:
        match item:
            case PodObject():
                pod = pod_objects.read_pod(self._cluster, item)
                owner = controllers.owner_of(item.metadata.namespace, item.metadata.owner_references)
                self._pods.upsert(pod, self._pod_owners.upsert(pod, owner, at), at)
            case VpaObject():
                self._publish_vpas(self._vpa_targets.upsert(vpa_policies.changed(item, self._cluster, at)))
            case EventObject():
                self._pods.record_eviction(item)
            case ControllerObject() | ReplicationControllerObject() | CronJobObject():
                controller = controllers.from_object(CONTROLLERS[kind], item)
                if self._graph.upsert(controller):
                    self._controller_changed(controller.key)
            case _:
                pass

    def _object_gone(self, gone: ObjectGone) -> None:
        for publisher in self._publishers:
            publisher.gone(gone, self._now())
        match gone.kind:
            case "pods":
                self._pod_owners.remove(gone.uid)
                self._pods.remove(gone, self._now())
            case "verticalpodautoscalers":
                key = f"{self._cluster}/{gone.namespace}/{gone.name}"
                self._vpa_targets.remove(key)
                self._vpas.remove(key)
            case kind if kind in CONTROLLERS:
                controller = ControllerKey(gone.namespace, CONTROLLERS[kind], gone.name)
                self._graph.remove(controller)
                self._controller_changed(controller)

    def _controller_changed(self, key: ControllerKey) -> None:
        self._publish_pods(self._pod_owners.controller_changed(key, self._now()))
        self._publish_vpas(self._vpa_targets.controller_changed(key))

    def _mark_synced(self, kind: str) -> None:
        """A watch is in sync. If all watches of its kind are, every published object that was not seen is gone."""
        if not self._sync_status.synced(kind):
            return
        self._mark_published_synced(kind)
        match kind:
            case "pods":
                self._pods.mark_synced(self._now())
            case "verticalpodautoscalers":
                self._vpas.mark_synced(self._vpa_targets.waiting)
            case _ if kind in CONTROLLERS:
                self._graph.mark_synced(CONTROLLERS[kind])
                self._retry_waiting()

    def _mark_published_synced(self, kind: str) -> None:
        if self._sync_status.synced(kind):
            controllers = all(self._sync_status.synced(controller) for controller in CONTROLLERS)
            for publisher in self._publishers:
                publisher.synced(kind, controllers=controllers, at=self._now())

    def _mark_unseen(self, kind: str, failed: WatchFailed) -> None:
        for publisher in self._publishers if failed.refused else ():
            publisher.refused(kind, self._now())
        if kind in CONTROLLERS:
            self._graph.mark_unseen(CONTROLLERS[kind], failed.reason)
            self._retry_waiting()

    def _retry_waiting(self) -> None:
        self._publish_pods(self._pod_owners.retry_waiting(self._now()))
        self._publish_vpas(self._vpa_targets.retry_waiting())

    def _publish_pods(self, resolved: Sequence[tuple[str, Workload]]) -> None:
        for uid, workload in resolved:
            self._pods.publish(uid, workload, self._now())

    def _publish_vpas(self, resolved: Sequence[VpaChanged]) -> None:
        for vpa in resolved:
            self._vpas.publish(vpa)


def _publishers(context: LogContext, options: SourceOptions, publisher: Publisher) -> list[SubjectPublisher]:
    """Whoever publishes objects whose facts need no look at their owners."""
    listed: list[SubjectPublisher] = []
    if options.nodes:
        listed.append(SchedulingPublisher(publisher, context))
    if options.replicas:
        listed.append(AutoscalerPublisher(publisher, context.cluster, options.now, options.queries))
    listed += [OneKindPublisher(publisher, context.cluster, kind) for kind in (NODES, LIMIT_RANGES)]
    if options.webhook is not None:
        lease = f"{options.webhook.namespace}/{options.webhook.name}"
        listed.append(UpdateConstraintPublisher(publisher, context.cluster, lease))
    if options.control is not None:
        listed.append(ClusterControlPublisher(context, options.control))
    if options.policies is not None:
        listed.append(PolicyObjectPublisher(context, options.policies, options.namespaces))
    return listed
