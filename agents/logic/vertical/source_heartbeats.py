"""Which sources are running, because "no OOM kill was seen" means nothing without a source.

A source reports each period, and counts as dead after three silent ones. The state is the last report of each source of a
cluster, in the source's own time.
"""

from collections.abc import Iterable
from datetime import datetime

from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Recorded
from schemas.decisions.recommendations import OomSource, OomSourceState
from schemas.facts.sources import SourceReported

_PERIODS = 3
"""Periods without a report after which a source counts as silent."""

_OOMS = "oom-events"


class SourceHeartbeats:
    """The last report of each source."""

    def __init__(self) -> None:
        self.table: ObjectTable[SourceReported] = ObjectTable("sources", SourceReported, 1)

    def ingest(self, records: Iterable[Recorded]) -> None:
        """Take reports in."""
        for recorded in records:
            event = recorded.event
            if isinstance(event, SourceReported):
                key = f"{event.cluster}/{event.source}"
                old = self.table.get(key)
                # The latest one counts, in whatever order they come; `at` is the source's own time.
                if old is None or old.at <= event.at:
                    self.table.upsert(key, event)

    def ooms(self, cluster: str, at: datetime) -> OomSource:
        """The source of OOM kills in a cluster that reported last, and whether it is alive at `at`."""
        seeing = [r for r in self.table.values() if r.cluster == cluster and _OOMS in r.sees]
        if not seeing:
            return OomSource(OomSourceState.NONE)
        last = max(seeing, key=lambda report: (_alive(report, at), report.at, report.source))
        return OomSource(OomSourceState.ALIVE if _alive(last, at) else OomSourceState.SILENT, last.source, last.at)


def _alive(report: SourceReported, at: datetime) -> bool:
    """Whether a report still counts."""
    return (at - report.at).total_seconds() <= _PERIODS * report.period
