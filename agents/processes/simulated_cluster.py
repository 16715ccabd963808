"""Wires the simulated shop to a log: `ullage source simulated` runs it, and the demo in memory runs it in its own process.

The cluster source publishes what happens in the shop, and the webhook's own code answers for its new pods. A policy says which
pods may be changed: without one, or with mode `Off`, a new pod stays as it is. Where the shop has node groups or deployments
with a scaling, their sources and consumers run here, too.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from agents.logic.admission.vpa_manifest import AdmissionSettings
from agents.logic.vertical.vertical_settings import VerticalSettings
from agents.processes.admission_reviewer import AdmissionReviewer
from agents.processes.simulated_admission import SimulatedAdmission
from agents.processes.simulated_constraints import SimulatedConstraints, SimulatedNodeFacts
from agents.processes.simulated_node_groups import open_node_groups
from agents.processes.simulated_replicas import open_replicas
from streams.clients.cluster_port import AdmissionHook, admit_unchanged
from streams.clients.kube.controllers import ControllerKey
from streams.consumers.webhook.admission import Admission
from streams.consumers.webhook.admission_view import AdmissionView
from streams.consumers.webhook.outcome_queue import OutcomeQueue
from streams.log.log_port import Log
from streams.log_context import LogContext
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.demo_shop import ShopSettings
from streams.simulated.simulated_client import SimulatedClient
from streams.sources.simulated_cluster_poller import SimulatedClusterPoller
from streams.topics import Topics


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
        if another is None:
            view.catch_up()
        admission.settle()
        outcomes.flush()

    def coming(owner: ControllerKey) -> int | None:
        return shop.cluster.coming(owner.namespace, owner.name)

    answer = partial(admission.answer, coming=coming)
    shop = _shop(settings, log, topics, admit=SimulatedAdmission(answer), after=after)
    shop = _joined(shop, SimulatedConstraints(shop.cluster, context()).publish, lambda: None)
    if any(deployment.scaling is not None for deployment in settings.deployments):
        replicas = open_replicas(shop.cluster, context)
        shop = _joined(shop, replicas.publish, replicas.act)
    if not settings.groups:
        return shop
    groups = open_node_groups(shop.cluster, context, apart=settings.period)
    return _joined(shop, groups.publish, groups.act)


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

    return _joined(shop, publish, lambda: None)


def _joined(shop: Shop, publish: Callable[[datetime], object], act: Callable[[], object]) -> Shop:
    """The shop with another source and another consumer."""

    def scrape(at: datetime) -> None:
        shop.scrape(at)
        publish(at)

    def after() -> None:
        shop.after()
        act()

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
    return _joined(shop, SimulatedNodeFacts(cluster, context).publish, lambda: None)
