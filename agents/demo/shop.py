"""The simulated shop, wired to a log: what `ullage source simulated` runs, and what the in-memory demo runs in its own process.

The cluster speaks through the cluster source; the patcher answers for its new pods. Which pods the patcher may touch is a
policy's business: without a policy, or with `Off`, a new pod stays as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from agents.logic.policies import Policies
from agents.logic.turns import Recorded
from agents.logic.updates.limits import proportional
from schemas.decisions import RequestsRecommended
from schemas.names import Workload
from schemas.policies import UpdateMode, VerticalPolicyChanged, VerticalPolicyRemoved
from streams.clients import admit_unchanged
from streams.codec import Codec, tick_number
from streams.consumers.acting import Post
from streams.consumers.patcher import Patcher
from streams.errors import BadRecord, LogUnavailable
from streams.log import Log, Record
from streams.simulated.client import SimulatedClient
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.demo import demo_cluster
from streams.sources.cluster import ClusterSource
from streams.topics import Topics
from streams.view import View


class Advice:
    """The newest recommendation for new pods, where a policy allows it. Refreshed by whoever owns it."""

    def __init__(self, log: Log, topics: Topics, codec: Codec) -> None:
        """Reads `recommendations` and the first copy of `policies`."""
        self._log, self._codec = log, codec
        self._view = View(log, codec, topics.wire("recommendations"))
        self._policies = Policies()
        self._next = {(topics.wire("policies"), 0): log.begin(topics.wire("policies"), 0)}

    def refresh(self) -> None:
        """Take in what is new. While the log is away, what is known holds."""
        try:
            self._view.refresh()
            while records := self._log.poll(self._next):
                for record in records:
                    self._next[record.topic, record.partition] = record.offset + 1
                    if tick_number(record) is None:
                        self._take(record)
        except LogUnavailable:
            return

    def of(self, workload: Workload) -> RequestsRecommended | None:
        """The recommendation that a new pod of this workload may be given."""
        held = self._policies.of(workload.key)
        seen = self._view.get(workload.key)
        if held is None or held.policy.update_mode is UpdateMode.OFF or seen is None:
            return None
        return seen.decision if isinstance(seen.decision, RequestsRecommended) else None

    def _take(self, record: Record) -> None:
        try:
            event = self._codec.decode(record)
        except BadRecord:
            return
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
    """A simulated cluster with its source; `after` lets the patcher see what is new and say what it did."""

    cluster: SimulatedCluster
    client: SimulatedClient
    scrape: Callable[[datetime], object]
    after: Callable[[], object]


def open_shop(plot: Plot, log: Log, topics: Topics) -> Shop:
    """A shop before its first pod."""
    codec = Codec(topics)
    advice = Advice(log, topics, codec)
    patcher = Patcher(Post(log, topics, codec, plot.name), recommended=advice.of, limits=proportional)
    cluster = demo_cluster(plot.seed, start=plot.start, name=plot.name, admit=patcher.admit)
    client = SimulatedClient(cluster)
    source = ClusterSource(client, log, topics=topics, codec=codec)

    def after() -> None:
        advice.refresh()
        patcher.poll_once()

    return Shop(cluster, client, source.scrape, after)


def open_untouched(plot: Plot, log: Log, topics: Topics) -> Shop:
    """The same shop with nobody to change it."""
    cluster = demo_cluster(plot.seed, start=plot.start, name=plot.name, admit=admit_unchanged)
    client = SimulatedClient(cluster)
    return Shop(cluster, client, ClusterSource(client, log, topics=topics, codec=Codec(topics)).scrape, lambda: None)
