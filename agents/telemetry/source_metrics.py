"""The metrics of sources: what each appends, observed through its log, the fate of the usage source's rows, and the clock's.

Sizes of node groups are those that their source saw last, under the names of the Cluster Autoscaler, where it means the same.
"""

import time
from collections import Counter as Count
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from schemas.facts.nodes import NodeGroupGone, NodeGroupSeen
from schemas.facts.sources import SourceReported
from schemas.times import to_seconds
from streams.clock_rules import FILL, PROBE, TICK
from streams.codec.event_codec import Codec, header
from streams.errors import LogUnavailable
from streams.log.log_port import NewRecord, Record
from streams.topics import CLOCK, Topics

Namespace = tuple[str, str]
"""A cluster and a namespace of it."""
OTHERS = "(others)"
"""No name of a namespace, because of its brackets."""
_MOST_NAMESPACES = 1_000


class NamespaceLabels:
    """The first thousand namespaces have labels of their own. All others are shown as `OTHERS` of their cluster."""

    def __init__(self) -> None:
        self._own: set[Namespace] = set()
        self._clusters: set[str] = set()

    def of(self, cluster: str, namespace: str) -> Namespace:
        """The labels under which a namespace is shown."""
        names = cluster, namespace
        if names in self._own:
            return names
        # Whoever may write facts can name any number of namespaces, and of clusters, that do not exist.
        if len(self._clusters) < _MOST_NAMESPACES:
            self._clusters.add(cluster)
        if len(self._own) < _MOST_NAMESPACES:
            self._own.add(names)
            return names
        return cluster if cluster in self._clusters else OTHERS, OTHERS

    def forget(self, names: Namespace) -> None:
        """This namespace is shown no more; another may have its place."""
        self._own.discard(names)


class AgeGauge:
    """One gauge of ages, by labels. A label set without an event yet is not shown."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...], registry: CollectorRegistry) -> None:
        """The arguments are those of prometheus_client's own metrics."""
        self._gauge = Gauge(name, text, labels, registry=registry)
        self._since: dict[tuple[str, ...], float] = {}

    def happened(self, *labels: str) -> None:
        """Count from now on."""
        new = labels not in self._since
        self._since[labels] = time.monotonic()
        if new:
            gauge = self._gauge.labels(*labels) if labels else self._gauge
            # A function, so that the age is that of the scrape, also when nothing happens any more.
            gauge.set_function(lambda: time.monotonic() - self._since.get(labels, time.monotonic()))

    def forget(self, *labels: str) -> None:
        """Stop showing this label set."""
        self._gauge.remove(*labels)
        self._since.pop(labels, None)


_NAMESPACE = ("cluster", "namespace")


class SourceMetrics:
    """Observes the log of one source."""

    def __init__(self, registry: CollectorRegistry, topics: Topics, source: str) -> None:
        """`source` is its name, the value of the label."""
        self._topics, self._source = topics, source
        self._records = Counter("ullage_source_records", "Records appended", ("source", "topic"), registry=registry)
        self._failures = Counter("ullage_source_failures", "Appends the log did not take", ("source",), registry=registry)
        self._dropped = Counter("ullage_source_dropped", "Records over the bound", ("source", "topic"), registry=registry)
        self._kills = Counter("ullage_oom_kills", "OOM kills that were seen", _NAMESPACE, registry=registry)
        self._labels = NamespaceLabels()
        self._shown: Count[str] = Count()
        self._age = AgeGauge("ullage_source_age_seconds", "Real time since something seen was appended", ("source",), registry)
        self._codec = Codec(topics)

    def appended(self, records: Sequence[NewRecord]) -> None:
        """Count records by topic."""
        for topic, count in Count(record.topic for record in records).items():
            self._records.labels(self._source, self._topics.short(topic)).inc(count)
        for key in (record.key or b"" for record in records if self._topics.short(record.topic) == "oom-events"):
            cluster, namespace = key.decode().split("/")[:2]  # a workload's key
            self._kills.labels(*self._labels.of(cluster, namespace)).inc()
        if any(self._was_seen(record) for record in records):
            self._age.happened(self._source)

    def _was_seen(self, record: NewRecord) -> bool:
        seen_at = Record(record.topic, record.partition, 0, record.key, record.value, record.headers)
        # A report that a source sees nothing counts as an append, but not as something seen.
        if "source-reported" not in (header(seen_at, "ce_type") or ""):
            return True
        report = self._codec.decode_or_none(seen_at)
        return isinstance(report, SourceReported) and bool(report.sees)

    def read(self, records: Sequence[Record]) -> None:
        """Ignore what the source reads."""

    def failed(self, _error: LogUnavailable) -> None:
        """Count a failed append. The source tries again, and drops what is over its bound."""
        self._failures.labels(self._source).inc()

    def dropped(self, counts: Mapping[str, int]) -> None:
        """Update the counter to the source's own count of dropped records since its start, by topic (wire name)."""
        for topic, count in counts.items():
            # Prometheus' counters only add, and the source counts since its own start.
            self._dropped.labels(self._source, self._topics.short(topic)).inc(count - self._shown[topic])
            self._shown[topic] = count


class ReceiverMetrics:
    """The metrics of what senders bring. They follow the counts that the samples keep themselves."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """One for each process."""
        self._requests = Counter("ullage_received_requests", "Requests of senders", ("protocol", "code"), registry=registry)
        self._samples = Counter("ullage_received_samples", "Samples that senders brought", ("what",), registry=registry)
        self._series = Gauge("ullage_received_series", "Series that are kept", registry=registry)
        self._ends = Gauge("ullage_receiver_certificate_end_seconds", "When the certificate ends", registry=registry)
        self._shown = Counter("ullage_receiver_certificates", "Certificates", ("what",), registry=registry)
        self._seen: Count[str] = Count()

    def answered(self, protocol: str, code: int) -> None:
        """A request was answered with this status."""
        self._requests.labels(protocol, str(code)).inc()

    def shown(self, ends: datetime) -> None:
        """From now on a certificate is shown that is valid until `ends`."""
        self._ends.set(to_seconds(ends))
        self._shown.labels("shown").inc()

    def refused(self) -> None:
        """A new certificate was unusable, or there was none."""
        self._shown.labels("refused").inc()

    def samples(self, counts: Mapping[str, int], series: int) -> None:
        """Update the counters to the counts of samples since the start."""
        for what, count in counts.items():
            self._samples.labels(what).inc(count - self._seen[what])
            self._seen[what] = count
        self._series.set(series)


class UsageMetrics:
    """The usage source's own metrics. They follow the counts that the source keeps itself."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """One for each process."""
        self._rows = Counter("ullage_usage_rows", "Rows of usage read", ("what",), registry=registry)
        self._held = Gauge("ullage_usage_held_rows", "Rows that wait until the log names their pod", registry=registry)
        self._seconds = Histogram("ullage_usage_scrape_seconds", "Real time of one scrape", registry=registry)
        self._failures = Counter("ullage_usage_failures", "Scrapes that did not work", registry=registry)
        self._used = tuple(
            Gauge(f"ullage_used_{name}", f"{text} that containers used", _NAMESPACE, registry=registry)
            for name, text in (("cpu_cores", "CPU"), ("memory_bytes", "Memory"))
        )
        self._labels = NamespaceLabels()
        self._using: set[Namespace] = set()
        self._seen: Count[str] = Count()

    def scraped(self, seconds: float) -> None:
        """A scrape succeeded and took this many seconds."""
        self._seconds.observe(seconds)

    def failed(self) -> None:
        """A scrape failed."""
        self._failures.inc()

    def used(self, cluster: str, namespaces: Mapping[str, tuple[float, float]]) -> None:
        """What the newest answer says that each namespace used: cores and bytes."""
        sums: defaultdict[Namespace, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for namespace, (cores, memory) in namespaces.items():
            total = sums[self._labels.of(cluster, namespace)]
            total[0] += cores
            total[1] += memory
        for names, amounts in sums.items():
            for gauge, amount in zip(self._used, amounts, strict=True):
                gauge.labels(*names).set(amount)
        for gone in self._using - sums.keys():
            self._labels.forget(gone)
            for gauge in self._used:
                gauge.remove(*gone)
        self._using = set(sums)

    def rows(self, counts: Mapping[str, int], held: int) -> None:
        """Update the counters to the source's own counts of rows since its start."""
        for what, count in counts.items():
            self._rows.labels(what).inc(count - self._seen[what])
            self._seen[what] = count
        self._held.set(held)


class ClockMetrics:
    """Observes the log of one clock. Until the first tick, the age of the last one counts from when this object was made."""

    def __init__(self, registry: CollectorRegistry, topics: Topics) -> None:
        self._wire = topics.wire(CLOCK)
        self._ticks = Counter("ullage_clock_ticks", "Ticks appended", registry=registry)
        self._skew = Gauge("ullage_clock_skew_seconds", "This clock less the log's, at the last look", registry=registry)
        self._age = AgeGauge("ullage_clock_tick_age_seconds", "Real time since this clock's last tick", (), registry)
        self._lost = Gauge("ullage_clock_lost_ends", "Partitions that end before the end that turns wait for", registry=registry)
        self._filled = Counter("ullage_clock_filled", "Records without meaning in the place of lost ones", registry=registry)
        self._failures = Counter("ullage_clock_failures", "Appends that the log did not take", registry=registry)
        self._age.happened()

    def appended(self, records: Sequence[NewRecord]) -> None:
        """Count a tick, and what fills up partitions."""
        self._filled.inc(sum(record.key == FILL for record in records))
        if any(record.topic == self._wire and record.key == TICK for record in records):
            self._ticks.inc()
            self._age.happened()

    def read(self, records: Sequence[Record]) -> None:
        """Compare a probe that came back: its value is this machine's time, its timestamp the log's."""
        for record in records:
            if record.topic == self._wire and record.key == PROBE and record.timestamp_ms >= 0:
                probe_time = record.value or b""
                if probe_time.isdigit():
                    self._skew.set((int(probe_time) - record.timestamp_ms) / 1000)

    def lost_ends(self, count: int) -> None:
        """How many partitions end before their ends in force now."""
        self._lost.set(count)

    def failed(self, _error: LogUnavailable) -> None:
        """Count a tick or probe that the log did not accept."""
        self._failures.inc()


class NodeGroupMetrics(SourceMetrics):
    """The metrics of the source of groups. It shows what is in the log, so also what was published before a restart."""

    def __init__(self, registry: CollectorRegistry, topics: Topics, source: str) -> None:
        """As any source's."""
        super().__init__(registry, topics, source)
        self._groups, group = topics.wire("node-group-changes"), "cluster_autoscaler_node_group"
        self._sizes = tuple(
            Gauge(f"{group}_{name}_count", text, ("node_group",), registry=registry)
            for name, text in (("min", "Fewest nodes"), ("max", "Most nodes"), ("target", "Nodes that the group wants"))
        )
        self._known: set[str] = set()
        count = Gauge("cluster_autoscaler_node_groups_count", "Groups", ("node_group_type",), registry=registry)
        count.labels("autoscaled").set_function(lambda: float(len(self._known)))

    def appended(self, records: Sequence[NewRecord]) -> None:
        """Count, and show the sizes that are new."""
        super().appended(records)
        self.read([Record(record.topic, record.partition, 0, record.key, record.value, record.headers) for record in records])

    def read(self, records: Sequence[Record]) -> None:
        """Show the sizes that were published."""
        for record in records:
            match self._codec.decode_or_none(record) if record.topic == self._groups else None:
                case NodeGroupSeen(group=group, least=least, most=most, desired=desired):
                    self._known.add(group)
                    for gauge, value in zip(self._sizes, (least, most, desired), strict=True):
                        gauge.labels(group).set(value)
                case NodeGroupGone(group=group) if group in self._known:
                    self._known.remove(group)
                    for gauge in self._sizes:
                        gauge.remove(group)
                case _:
                    pass
