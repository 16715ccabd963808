"""The simulated shop, wired to a log: what `ullage source simulated` runs, and what the in-memory demo runs in its own process.

The cluster speaks through the cluster source; the patcher answers for its new pods. Which pods the patcher may touch is a
policy's business: without a policy, or with `Off`, a new pod stays as it is.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from agents.engine.turn import Recorded
from agents.logic.policies import Policies
from agents.logic.resources.proportional_limits import proportional
from schemas.decisions.recommendations import RequestsRecommended
from schemas.names import Workload
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged, VerticalPolicyRemoved
from streams.clients.cluster_port import admit_unchanged
from streams.codec.event_codec import Codec
from streams.consumers.executing.executor import Post
from streams.consumers.pods.patcher import Patcher
from streams.decision_view import View
from streams.errors import LogUnavailable
from streams.log.port import Log, Record
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.demo_shop import demo_cluster
from streams.simulated.simulated_client import SimulatedClient
from streams.sources.cluster_poller import ClusterSource
from streams.topics import Topics


class Advice:
    """The newest recommendation for new pods, where a policy allows it. One thread refreshes; others may ask."""

    def __init__(self, log: Log, topics: Topics, codec: Codec) -> None:
        """Reads `recommendations` and the first copy of `policies`."""
        self._log, self._codec = log, codec
        recommendations, self._wire = topics.wire("recommendations"), topics.wire("policies")
        self._view = View(log, codec, recommendations)
        self._policies = Policies()
        places = [(self._wire, 0), *((recommendations, p) for p in range(topics.partitions))]
        self._next = {place: log.begin(*place) for place in places}

    def refresh(self, wait: float = 0.0) -> None:
        """Take in what is new; waits up to `wait` seconds for the first. While the log is away, what is known holds."""
        try:
            while records := self._log.poll(self._next, wait=wait):
                for record in records:
                    self._next[record.topic, record.partition] = record.offset + 1
                    self._take(record)
                wait = 0.0
        except LogUnavailable:
            return

    def follow(self) -> threading.Thread:
        """Refresh for ever in a thread of its own, for a log whose answers take time."""
        thread = threading.Thread(target=self._for_ever, name="advice", daemon=True)
        thread.start()
        return thread

    def _for_ever(self) -> None:
        while True:
            self.refresh(wait=1.0)

    def of(self, workload: Workload) -> RequestsRecommended | None:
        """The recommendation that a new pod of this workload may be given."""
        held = self._policies.of(workload.key)
        seen = self._view.get(workload.key)
        if held is None or held.policy.update_mode is UpdateMode.OFF or seen is None:
            return None
        return seen.decision if isinstance(seen.decision, RequestsRecommended) else None

    def _take(self, record: Record) -> None:
        if record.topic != self._wire:
            self._view.take(record)
            return
        event = self._codec.event(record)
        if isinstance(event, VerticalPolicyChanged | VerticalPolicyRemoved):
            self._policies.take(Recorded(event, record.place))


@dataclass(frozen=True, slots=True)
class Plot:
    """Which shop: the cluster's name, the seed of its chance, when it begins, and how often it is looked at."""

    name: str
    seed: int
    start: datetime
    period: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Shop:
    """A simulated cluster with its source; `after` lets the patcher see what is new and say what it did.

    `dropped` are the source's records that the log could not take, by topic (wire name).
    """

    cluster: SimulatedCluster
    client: SimulatedClient
    scrape: Callable[[datetime], object]
    after: Callable[[], object]
    dropped: Callable[[], Mapping[str, int]]


def open_shop(plot: Plot, log: Log, topics: Topics, *, another: Callable[[], Log] | None = None) -> Shop:
    """A shop before its first pod. `another` opens the same log again: its readers then do not stand in each other's way."""
    codec = Codec(topics)
    advice = Advice(log if another is None else another(), topics, codec)
    aside = log if another is None else another()
    patcher = Patcher(Post(aside, topics, codec, plot.name), recommended=advice.of, limits=proportional)
    cluster = demo_cluster(plot.seed, start=plot.start, name=plot.name, admit=patcher.admit)
    client = SimulatedClient(cluster)
    source = ClusterSource(client, log, topics=topics, codec=codec)
    if another is not None:
        advice.follow()

    def after() -> None:
        if another is None:
            advice.refresh()
        patcher.poll_once()

    return Shop(cluster, client, source.scrape, after, lambda: source.dropped)


def open_untouched(plot: Plot, log: Log, topics: Topics) -> Shop:
    """The same shop with nobody to change it."""
    cluster = demo_cluster(plot.seed, start=plot.start, name=plot.name, admit=admit_unchanged)
    client = SimulatedClient(cluster)
    source = ClusterSource(client, log, topics=topics, codec=Codec(topics))
    return Shop(cluster, client, source.scrape, lambda: None, lambda: source.dropped)
