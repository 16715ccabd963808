"""Wires the simulated shop to a log: `ullage source simulated` runs it, and the demo in memory runs it in its own process.

The cluster source publishes what happens in the shop, and the patcher answers for its new pods. A policy says which pods the
patcher may change: without one, or with mode `Off`, a new pod stays as it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from agents.engine.turn import Recorded
from agents.logic.policies import Policies
from agents.logic.resources.proportional_limits import proportional
from schemas.catalogue import Event
from schemas.names import Place
from schemas.policies.vertical import UpdateMode
from streams.clients.cluster_port import Admission, admit_unchanged
from streams.codec.event_codec import Codec
from streams.consumers.pods.new_pod_recommendations import NewPodRecommendations
from streams.consumers.pods.patcher import Patcher
from streams.log.port import Log
from streams.log_context import LogContext
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.demo_shop import ShopSettings, demo_cluster
from streams.simulated.simulated_client import SimulatedClient
from streams.sources.cluster_poller import ClusterPoller
from streams.topics import Topics


class GoverningModes:
    """The update modes of workloads, as the stages' own index of policies has them."""

    def __init__(self) -> None:
        self._policies = Policies()

    def apply(self, event: Event, place: Place) -> None:
        """Take in one event of `policies`."""
        self._policies.take(Recorded(event, place))

    def mode(self, workload: str) -> UpdateMode | None:
        """The mode of the policy that governs a workload key; None when none does."""
        governing = self._policies.of(workload)
        return None if governing is None else governing.policy.update_mode


@dataclass(frozen=True, slots=True)
class Shop:
    """A simulated cluster with its source.

    `after` lets the patcher read what is new and append its outcomes. `dropped` counts the source's records that the log could
    not take, by topic (wire name).
    """

    cluster: SimulatedCluster
    client: SimulatedClient
    scrape: Callable[[datetime], object]
    after: Callable[[], object]
    dropped: Callable[[], Mapping[str, int]]


def open_shop(settings: ShopSettings, log: Log, topics: Topics, *, another: Callable[[], Log] | None = None) -> Shop:
    """A shop before its first pod. `another` opens the same log again, so that its readers do not wait for each other."""
    codec = Codec(topics)
    recommendations = NewPodRecommendations(log if another is None else another(), topics, codec, modes=GoverningModes())
    context = LogContext(log if another is None else another(), topics, codec, settings.name)
    patcher = Patcher(context, recommended=recommendations.of, limits=proportional)
    if another is not None:
        recommendations.follow()

    def after() -> None:
        if another is None:
            recommendations.catch_up()
        patcher.poll_once()

    return _shop(settings, log, topics, admit=patcher.admit, after=after)


def open_untouched(settings: ShopSettings, log: Log, topics: Topics) -> Shop:
    """The same shop with nobody to change it."""
    return _shop(settings, log, topics, admit=admit_unchanged, after=lambda: None)


def _shop(settings: ShopSettings, log: Log, topics: Topics, *, admit: Admission, after: Callable[[], object]) -> Shop:
    cluster = demo_cluster(settings.seed, start=settings.start, name=settings.name, admit=admit)
    client = SimulatedClient(cluster)
    source = ClusterPoller(client, LogContext.of(log, topics, client.cluster))
    return Shop(cluster, client, source.scrape, after, lambda: source.dropped)
