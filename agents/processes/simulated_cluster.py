"""Wires the simulated shop to a log: `ullage source simulated` runs it, and the demo in memory runs it in its own process.

The cluster source publishes what happens in the shop, with what `source kube` publishes besides pods: controllers, quotas,
LimitRanges, budgets and nodes. The webhook's own code answers for its new pods. A policy says which pods may be changed: without
one, or with mode `Off`, a new pod stays as it is. Where the shop has node groups or deployments with a scaling, their sources and
consumers run here, too: on the cluster's own time, because a day may pass in a minute.

The webhook answers the same reviews, without HTTPS in between. A simulated pod knows its Deployment, so there are no look-ups of
owners. It only has requests and limits, so only these parts of a patch are applied; of the annotations it keeps admission's note.
"""

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from agents.logic.admission.vpa_manifest import AdmissionSettings
from agents.logic.vertical.vertical_settings import VerticalSettings
from agents.processes.admission_reviewer import AdmissionReviewer
from agents.processes.simulated_replicas import SourceAndConsumer, open_replicas
from agents.processes.source_asg import node_template
from schemas import admission_notes
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.scheduled_pods import ControllingOwner, LabelQuery
from schemas.facts.update_facts import (
    PodDisruptionBudgetChanged,
    PodDisruptionBudgetRemoved,
    ReplicaControllerChanged,
    ReplicaControllerRemoved,
    ResourceQuotaChanged,
    ResourceQuotaRemoved,
)
from schemas.names import Amounts
from schemas.policies.limit_ranges import LimitRangeChanged, LimitRangeRemoved
from schemas.units import Bytes, Cores
from schemas.well_known_labels import ADMISSION_NOTE
from streams.clients.aws.aws_client import AwsClient
from streams.clients.cluster_port import AdmissionHook, Patch, Pod, admit_unchanged
from streams.clients.kube.controllers import ControllerKey
from streams.clients.kube.node_drain_client import NodeDrainClient
from streams.clients.kube.quantities import read_amounts
from streams.consumers.nodes.asg_consumer import asg_consumer
from streams.consumers.nodes.buffer_status import CapacityBufferClient
from streams.consumers.nodes.node_removal import NodeWorld, RemovalOptions
from streams.consumers.webhook.admission import Admission, AdmissionView
from streams.consumers.webhook.outcome_queue import OutcomeQueue
from streams.log.log_port import Log
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.publishing.published_state import REPUBLISH_AFTER
from streams.simulated import kube_json, pod_admission
from streams.simulated.api_server import KubernetesPaths, SimulatedApi, SimulatedClient
from streams.simulated.cluster import SimulatedCluster, replica_set_of
from streams.simulated.cluster_nodes import ClusterNode
from streams.simulated.cluster_spec import SimulatedDeployment
from streams.simulated.demo_shop import ShopSettings
from streams.simulated.kube_json import SchedulingChanges
from streams.simulated.pod_admission import SimulatedQuota, spelled
from streams.sources.asg.asg_source import AsgSource, GroupSelection
from streams.sources.kube.publish.publisher import PublishedFacts, Publisher
from streams.sources.simulated_cluster_poller import SimulatedClusterPoller, SimulatedSchedulingPoller
from streams.topics import Topics

_COUNTED = ("ReplicaSet", "StatefulSet", "DaemonSet", "Job")


class SimulatedConstraints:
    """Publishes what changed since the last call."""

    def __init__(self, cluster: SimulatedCluster, context: LogContext) -> None:
        self._cluster, self._outbox = cluster, Outbox(context)
        self._publisher = publisher = Publisher(context)
        self._at = cluster.now
        self._controllers, self._quotas, self._budgets = (
            publisher.facts(removed, lambda: self._at, for_updates=True)
            for removed in (ReplicaControllerRemoved, ResourceQuotaRemoved, PodDisruptionBudgetRemoved)
        )
        self._limit_ranges: PublishedFacts[LimitRangeChanged] = publisher.facts(LimitRangeRemoved, lambda: self._at)

    def publish(self, at: datetime) -> None:
        """Publish what is new at this time."""
        self._at = at
        cluster = self._cluster
        with cluster.lock:
            for deployment in cluster.deployments:
                namespace, kind, name = deployment.namespace, deployment.kind, deployment.name
                owner = None
                if kind == "Deployment":
                    kind, name, owner = "ReplicaSet", replica_set_of(deployment), ControllingOwner(kind, name, "apps/v1")
                wants, refusal = cluster.wanted(deployment), cluster.refusal(deployment)
                # what a controller of another kind wants, the real source cannot read either
                fact = ReplicaControllerChanged(at, cluster.name, namespace, kind, name, wants, owner, refusal)
                self._controllers.put(f"{namespace}/{kind}/{name}", fact if wants and kind in _COUNTED else None)
                if deployment.keep:
                    self._budgets.upsert(f"{namespace}/{deployment.name}", self._budget(deployment, at))
            for quota in cluster.rules.quotas:
                there = quota.begin <= at.timestamp() < quota.end
                self._quotas.put(f"{quota.namespace}/{quota.name}", self._quota(quota, at) if there else None)
        for bounds in cluster.rules.limit_ranges:
            limit_range = LimitRangeChanged(at, cluster.name, bounds.namespace, bounds.name, bounds.limits)
            self._limit_ranges.upsert(f"{bounds.namespace}/{bounds.name}", limit_range)
        for facts in (self._controllers, self._quotas, self._limit_ranges, self._budgets):
            # stated again, as `source kube` does, for readers that began later
            facts.republish(at, REPUBLISH_AFTER)
        self._outbox.publish(facts=self._publisher.drain(), scrapes=())
        self._outbox.flush()

    def _budget(self, deployment: SimulatedDeployment, at: datetime) -> PodDisruptionBudgetChanged:
        cluster = self._cluster
        return PodDisruptionBudgetChanged(
            at,
            cluster.name,
            deployment.namespace,
            deployment.name,
            LabelQuery({"app": deployment.name}),
            allowed=cluster.allowed_disruptions(deployment),
            healthy=cluster.healthy(deployment),
            desired=deployment.keep,
            expected=cluster.wanted(deployment),
        )

    def _quota(self, quota: SimulatedQuota, at: datetime) -> ResourceQuotaChanged:
        used = pod_admission.used(quota, self._cluster.pods_by_name.values())
        texts = [{name: spelled(name, amounts[name]) for name in sorted(quota.hard)} for amounts in (quota.hard, used)]
        return ResourceQuotaChanged(at, self._cluster.name, quota.namespace, quota.name, texts[0], texts[1])


# Publishes the simulated cluster's nodes in the short form, as the Kubernetes source does for real ones.


class SimulatedNodeFacts:
    """`publish` is called at each look. After a restart every node is published again, which is harmless."""

    def __init__(self, cluster: SimulatedCluster, context: LogContext) -> None:
        self._cluster, self._context = cluster, context
        self._outbox = Outbox(context)
        self._published: dict[str, NodeChanged] = {}

    def publish(self, at: datetime) -> None:
        """Publish what is new about nodes. They wait while the log is away."""
        source, key = f"/ullage/source/{self._context.cluster}", self._context.cluster
        facts = [
            record
            for event in self._news(at)
            for record in self._context.codec.encode_for_all(event, topic="cluster-changes", key=key, source=source)
        ]
        self._outbox.publish(facts=facts, scrapes=[])
        self._outbox.flush()

    def _news(self, at: datetime) -> Iterator[NodeChanged | NodeRemoved]:
        with self._cluster.lock:
            now = {node.name: _fact(node, self._context.cluster, at) for node in self._cluster.nodes}
        for name in sorted(self._published.keys() - now.keys()):
            del self._published[name]
            yield NodeRemoved(at, self._context.cluster, name)
        for name, fact in sorted(now.items()):
            before = self._published.get(name)
            if before is None or at - before.at >= REPUBLISH_AFTER or replace(before, at=at) != fact:
                self._published[name] = fact
                yield fact


def _fact(node: ClusterNode, cluster: str, at: datetime) -> NodeChanged:
    size = Amounts(Cores(node.amounts["cpu"] / 1000), Bytes(node.amounts["memory"]))
    return NodeChanged(at, cluster, node.name, size, schedulable=not node.unschedulable, labels=dict(node.labels))


OPTIONS = RemovalOptions(evictions=1)  # one after the other, so that the same seed gives the same day


def open_node_groups(
    cluster: SimulatedCluster,
    context: Callable[[], LogContext],
    *,
    world: NodeWorld | None = None,
    apart: timedelta = timedelta(),
) -> SourceAndConsumer:
    """Sources and consumer of the node groups, each with a `context` of its own.

    `world` has other clients in tests of their failures; `apart` is how far apart the moments of `publish` are.
    """
    acted_on = world or node_world(cluster)
    scheduling = SimulatedSchedulingPoller(context(), SchedulingChanges(cluster).take)
    groups = AsgSource(acted_on.aws, context(), GroupSelection(tags={"owner": ""}, prices=cluster.cloud.prices), node_template)
    # a source that is asked less often must not seem silent in between
    groups.period = max(groups.period, apart)
    consumer = asg_consumer(context(), acted_on, OPTIONS)

    def publish(at: datetime) -> None:
        scheduling.poll(at)
        groups.poll(at)

    return SourceAndConsumer(publish, consumer.poll_once)


def node_world(cluster: SimulatedCluster) -> NodeWorld:
    """The real clients on a simulated cluster and its cloud."""
    api = SimulatedApi(KubernetesPaths(cluster))
    return NodeWorld(
        AwsClient(cluster.cloud, cluster.cloud), NodeDrainClient(api), CapacityBufferClient(api), lambda: cluster.now
    )


class SimulatedAdmission:
    """Called once for each new pod. `answer` is the webhook's function for an AdmissionReview."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer

    def __call__(self, pod: Pod) -> Patch:
        """The patch for a new pod; empty when it is to stay as it is."""
        # through bytes and back, as a real review comes
        answer = json.loads(self._answer(json.dumps(review(pod)).encode()))
        coded = answer["response"].get("patch")
        return Patch() if coded is None else _patch(pod, json.loads(base64.b64decode(coded)))


def review(pod: Pod) -> dict[str, Any]:
    """The review of a new pod, with its workload as its controller."""
    manifest = kube_json.pod(pod)
    owner = {"apiVersion": "apps/v1", "kind": pod.workload.kind, "name": pod.workload.name, "controller": True}
    owners = [owner] if pod.controller else []
    resource = {"group": "", "version": "v1", "resource": "pods"}
    request = {
        "uid": pod.pod.uid,
        "operation": "CREATE",
        "namespace": pod.pod.namespace,
        "name": pod.pod.name,
        "resource": resource,
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "object": {**manifest, "metadata": {**kube_json.metadata(pod), "ownerReferences": owners}, "status": {}},
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _patch(pod: Pod, ops: list[dict[str, Any]]) -> Patch:
    quantities: dict[str, dict[str, dict[str, str]]] = {"requests": {}, "limits": {}}
    names, note = [container.name for container in pod.containers], None
    for op in ops:
        match op["path"].split("/")[1:]:
            case ["spec", "containers", index, "resources", kind, resource]:
                quantities[kind].setdefault(names[int(index)], {})[resource] = op["value"]
            # a JSON pointer spells `/` as `~1`: RFC 6901
            case ["metadata", "annotations", name] if name == ADMISSION_NOTE.replace("/", "~1"):
                note = admission_notes.read(op["value"])
    read: dict[str, dict[str, Amounts]] = {
        kind: {name: read_amounts(of_container) for name, of_container in of_kind.items()} for kind, of_kind in quantities.items()
    }
    return Patch(read["requests"], read["limits"], note)


@dataclass(frozen=True, slots=True)
class Shop:
    """A simulated cluster with its source.

    `after` lets admission and the consumer of node groups read what is new and act. `dropped` counts the source's records that
    the log could not take, by topic (wire name).
    """

    cluster: SimulatedCluster
    client: SimulatedClient
    scrape: Callable[[datetime], object]
    after: Callable[[], object]
    dropped: Callable[[], Mapping[str, int]]


def open_shop(settings: ShopSettings, log: Log, topics: Topics, *, another: Callable[[], Log] | None = None) -> Shop:
    """A shop before its first pod. `another` opens the same log again, so that its readers do not wait for each other."""

    def context() -> LogContext:
        return LogContext.of(log if another is None else another(), topics, settings.name)

    make = partial(AdmissionReviewer, settings.name, settings=AdmissionSettings())
    view = AdmissionView(context(), make, heartbeat=VerticalSettings().heartbeat)
    # a pod of this cluster is seen once in a period at most: an offer must not be given up before
    view.offers.patience = max(view.offers.patience, 2 * settings.period)
    outcomes = OutcomeQueue(context())
    if another is not None:
        threading.Thread(target=view.follow, args=(threading.Event(),), name="admission-view", daemon=True).start()

    admission = Admission(view, outcomes)

    def after() -> None:
        # with one log for all there is no thread that follows it
        if another is None:
            view.catch_up()
        admission.settle()
        outcomes.flush()

    def coming(owner: ControllerKey) -> int | None:
        return shop.cluster.coming(owner.namespace, owner.name)

    answer = partial(admission.answer, coming=coming)
    shop = _shop(settings, log, topics, admit=SimulatedAdmission(answer), after=after)
    shop = _joined(shop, SourceAndConsumer(SimulatedConstraints(shop.cluster, context()).publish))
    if any(deployment.scaling is not None for deployment in settings.deployments):
        shop = _joined(shop, open_replicas(shop.cluster, context))
    if not settings.groups:
        return shop
    return _joined(shop, open_node_groups(shop.cluster, context, apart=settings.period))


def open_untouched(settings: ShopSettings, log: Log, topics: Topics) -> Shop:
    """The same shop without anything that changes it."""
    shop = _shop(settings, log, topics, admit=admit_unchanged, after=lambda: None)
    if not settings.groups:
        return shop
    groups = open_node_groups(shop.cluster, lambda: LogContext.of(log, topics, settings.name), apart=settings.period)
    due = settings.start

    def publish(at: datetime) -> None:
        nonlocal due
        if at >= due:
            # nothing changes these nodes, so they are looked at once in a period
            due = at + settings.period
            groups.publish(at)

    return _joined(shop, SourceAndConsumer(publish))


def _joined(shop: Shop, part: SourceAndConsumer) -> Shop:
    """The shop with another source and another consumer."""

    def scrape(at: datetime) -> None:
        shop.scrape(at)
        part.publish(at)

    def after() -> None:
        shop.after()
        part.act()

    return replace(shop, scrape=scrape, after=after)


def _shop(settings: ShopSettings, log: Log, topics: Topics, *, admit: AdmissionHook, after: Callable[[], object]) -> Shop:
    cluster = SimulatedCluster(
        name=settings.name,
        seed=settings.seed,
        start=settings.start,
        nodes=settings.nodes,
        deployments=settings.deployments,
        groups=settings.groups,
        admit=admit,
        rules=settings.rules,
    )
    client = SimulatedClient(cluster)
    context = LogContext.of(log, topics, client.cluster)
    source = SimulatedClusterPoller(client, context, apart=settings.period)
    shop = Shop(cluster, client, source.scrape, after, lambda: source.dropped)
    return _joined(shop, SourceAndConsumer(SimulatedNodeFacts(cluster, context).publish))
