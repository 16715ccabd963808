"""How far the updater has come in the turns of its partition, and in which of them something was seen or planned."""

from dataclasses import dataclass, replace

from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Turn
from agents.logic.updates.update_settings import UpdateSettings
from schemas.facts.sources import SourceReported
from schemas.outcomes import Action
from schemas.units import Seconds


@dataclass(frozen=True, slots=True)
class TurnsTaken:
    """The first and the last turn that were taken."""

    first: int
    turn: int


@dataclass(frozen=True, slots=True)
class PlansMade:
    """How many evictions and resizes were planned for a cluster in the interval that began with the turn `since`."""

    # Counts and not pods: what is known of a pod is forgotten with it, and an evicted one may be gone before its interval ends.

    since: int
    evictions: int = 0
    resizes: int = 0

    def of(self, action: Action) -> int:
        """The plans of one kind."""
        return self.resizes if action is Action.RESIZE else self.evictions

    def one_more(self, action: Action) -> "PlansMade":
        """The same after another plan."""
        resized = action is Action.RESIZE
        return PlansMade(self.since, self.evictions + (not resized), self.resizes + resized)


@dataclass(frozen=True, slots=True)
class LastPodFact:
    """The last turn that held a fact about a pod of a cluster, and the last in which a source reported that it sees the pods.

    `reported` is None where no source has ever reported: then nothing but the facts shows that somebody looks.
    """

    seen: int
    reported: int | None = None

    def sign_of_life(self, settings: UpdateSettings) -> tuple[str, int, Seconds]:
        """What shows that the pods are still looked at, the turn in which that was seen last, and for how long it counts."""
        if self.reported is None:
            return "pod fact", self.seen, settings.facts_within
        return "report of a source that sees pods", self.reported, settings.reports_within


class PodFactTurns:
    """When the pods of each cluster were seen last."""

    def __init__(self) -> None:
        self.table: ObjectTable[LastPodFact] = ObjectTable("facts", LastPodFact, 1)

    def pod_seen(self, cluster: str, turn: int) -> None:
        """There is a fact about a pod of a cluster."""
        last = self.table.get(cluster) or LastPodFact(turn)
        self.table.upsert(cluster, replace(last, seen=turn))

    def ingest_reports(self, turn: Turn) -> None:
        """Take in the reports of sources."""
        for recorded in turn.of("cluster-changes"):
            event = recorded.event
            # Every partition hears of the sources of all clusters, and has pods of its own clusters only.
            last = self.table.get(event.cluster) if isinstance(event, SourceReported) else None
            if isinstance(event, SourceReported) and last is not None and "pod-changes" in event.sees:
                self.table.upsert(event.cluster, replace(last, reported=turn.number))
