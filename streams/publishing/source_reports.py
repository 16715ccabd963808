"""Which sources are running for which clusters, according to the end of the log.

A source that was silent for longer does not count.
"""

from collections.abc import Iterator

from schemas.facts.sources import SourceReported
from streams import reverse_log_reader
from streams.codec.event_codec import header
from streams.errors import BadInput
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.log_range import has_topic

_REPORTS = 8_000  # records at the end of `cluster-changes`: sources repeat their report each minute or so
_LATELY = 500  # looked at first: some minutes, in which a source at work repeats its report
_SCRAPES = 500  # at the end of each partition of `pod-metrics`, for traces, of which no source reports


def newest_reports(context: LogContext, most: int = _REPORTS) -> dict[tuple[str, str], SourceReported]:
    """The newest report of each source, by cluster and source, among so many records."""
    return {(report.cluster, report.source): report for report in reports(context, most)}


def reports(context: LogContext, most: int = _REPORTS) -> Iterator[SourceReported]:
    """The reports among the last records of the log, at most so many, oldest first."""
    for record in _last(context, "cluster-changes", 0, most):
        if "source-reported" in (header(record, "ce_type") or ""):
            event = context.codec.decode_or_none(record)
            if isinstance(event, SourceReported):
                yield event


def late(report: SourceReported) -> float:
    """Seconds after this report of a source within which another must come, or it is silent."""
    return 2.5 * report.period


def clusters(context: LogContext) -> set[str]:
    """The clusters that sources have named lately."""
    return _reported(context) | _scraped(context)


def _reported(context: LogContext, most: int = _REPORTS) -> set[str]:
    return {cluster for cluster, _ in newest_reports(context, most)} - {""}


def _scraped(context: LogContext) -> set[str]:
    named = set[str]()
    for partition in range(context.topics.partitions):
        for record in _last(context, "pod-metrics", partition, _SCRAPES):
            named.add((header(record, "ce_subject") or "").partition("/")[0])
    return named - {""}


def others(context: LogContext, cluster: str) -> set[str]:
    """The clusters that sources have named lately, if this is none of them; else nothing."""
    reported = set[str]()
    for most in (_LATELY, _REPORTS):
        reported = _reported(context, most)
        if cluster in reported:  # scrapes are large, and not needed then
            return set()
    named = reported | _scraped(context)
    return set() if cluster in named else named


def require_cluster(context: LogContext, cluster: str) -> None:
    """Raise BadInput for a cluster that no source has named, with the names there are. A log that names none accepts all."""
    named = others(context, cluster)
    if named:
        there_are = ", ".join(f"'{name}'" for name in sorted(named))
        raise BadInput(
            f"no source has named a cluster '{cluster}'; the log has {there_are}. "
            "Give one of these with --cluster or the setting cluster.name, or start a source of the new one first"
        )


def _last(context: LogContext, name: str, partition: int, count: int) -> Iterator[Record]:
    """The last records of a partition, oldest first."""
    wire = context.topics.wire(name)
    if has_topic(context.log, wire):
        end = context.log.end(wire, partition)
        yield from reverse_log_reader.between(
            context.log, wire, partition, max(context.log.begin(wire, partition), end - count), end
        )
