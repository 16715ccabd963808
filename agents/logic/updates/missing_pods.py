"""Which pods are missing of those that controllers want, and since when the successors of evicted pods do not come.

Most controllers say how many pods they want. Of one that does not, which we may not even watch, as many count as were seen at
most within the last hour. A pod that is there without a node, that does not begin, or whose containers fail again and again is
missing to whoever needs it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agents.engine.tables.chunked_state import StatePart
from agents.engine.tables.object_table import ObjectTable
from agents.logic.guards.shared_guards import Headcount
from agents.logic.updates import eviction_tolerance
from agents.logic.updates.eviction_tolerance import PodsBefore, ReplicaCounts, WorkloadEviction
from agents.logic.updates.updater_records import controller_key
from agents.logic.updates.updater_state import UpdaterState
from schemas.names import cluster_of

REMEMBERED = 3_600_000
"""Milliseconds for which the most pods of a controller count that says nothing: later it may just want fewer."""
OWED = 86_400_000
"""Milliseconds for which successors are owed where nobody says how many pods are wanted: later the controller may want fewer."""
AFTER_EVICTION = 600_000
"""Milliseconds within which pods must be missing after an eviction for that to be because of it."""


@dataclass(frozen=True, slots=True)
class PodsSeen:
    """The most pods that were seen of each direct controller of a workload that does not say how many it wants.

    `short`: the first turn in which one of them had fewer.
    """

    most: Mapping[str, int] = field(default_factory=dict)
    short: int | None = None


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The first turn in which successors of evicted pods were missing, and have been since."""

    since: int


class MissingPods:
    """Counts the pods of workloads. What it remembers is brought up to date once before each use of the guards."""

    def __init__(self, clusters: UpdaterState) -> None:
        self._clusters = clusters
        self.seen: ObjectTable[PodsSeen] = ObjectTable("pods-seen", PodsSeen, 64)
        self.shortfalls: ObjectTable[Shortfall] = ObjectTable("shortfalls", Shortfall, 16)

    def tables(self) -> tuple[StatePart, ...]:
        """What is remembered."""
        return self.seen, self.shortfalls

    def note(self, now: int) -> None:
        """Remember what pods and controllers show since the last call, and forget what is over."""
        changed = self._clusters.recounted
        concerned = {key for key, seen in self.seen.items() if seen.short is not None} | set(self.shortfalls) | changed.keys
        # As after a restart. What did not change gives the same again, so that nothing depends on how much is looked at.
        if changed.all:
            concerned |= {*self._clusters.pods_of, *self.seen}
        changed.clear()
        for workload in sorted(concerned):
            groups = self.groups(workload)
            self._note_seen(workload, groups.values(), now)
            self._note_shortfall(workload, groups.values(), now)

    def _note_seen(self, workload: str, groups: Iterable[ReplicaCounts], now: int) -> None:
        before = self.seen.get(workload) or PodsSeen()
        there = {counts.controller: counts.members for counts in groups if _silent(workload, counts)}
        most = {name: max(count, before.most.get(name, 0)) for name, count in there.items()}
        short = None if most == there else (now if before.short is None else before.short)
        if short is not None and now - short >= REMEMBERED:
            most, short = there, None
        if not most:
            self.seen.remove(workload)
        elif (seen := PodsSeen(most, short)) != before:
            self.seen.upsert(workload, seen)
            # What was counted of it is old.
            self._clusters.changed.keys.add(workload)

    def _note_shortfall(self, workload: str, groups: Collection[ReplicaCounts], now: int) -> None:
        evicted, short = self._clusters.evictions.get(workload), self.shortfalls.get(workload)
        if short is not None and now - short.since >= OWED and not all(counts.known for counts in groups):
            self._clusters.evictions.remove(workload)
            evicted = None
        if evicted is None or not is_short(groups, evicted):
            self.shortfalls.remove(workload)
        elif workload not in self.shortfalls and now - evicted.at < AFTER_EVICTION:
            self.shortfalls.upsert(workload, Shortfall(now))

    def since(self, workload: str) -> int | None:
        """The first turn in which successors of a workload's evicted pods were missing; None while none are."""
        short = self.shortfalls.get(workload)
        return None if short is None else short.since

    def evicted_of_late(self, cluster: str, now: int) -> list[str]:
        """The workloads of a cluster of which a pod was evicted so short a time ago that its successor may not be seen yet."""
        evictions = self._clusters.evictions.items()
        return sorted(key for key, last in evictions if cluster_of(key) == cluster and now - last.at < AFTER_EVICTION)

    def before(self, workload: str) -> PodsBefore:
        """How many pods of a workload should be there again after one more eviction: those that are owed count."""
        evicted, groups = self._clusters.evictions.get(workload), list(self.groups(workload).values())
        owed = PodsBefore() if evicted is None or workload not in self.shortfalls else evicted.before
        return PodsBefore(
            max(owed.there, sum(counts.members for counts in groups)),
            max(owed.serving, sum(counts.serving for counts in groups)),
            max(owed.ready, sum(counts.ready for counts in groups)),
        )

    def groups(self, workload: str, begun: Callable[[str], int] = lambda _controller: 0) -> dict[str, ReplicaCounts]:
        """The pods of a workload by direct controller, also of those that have none but want some."""
        clusters, constraints = self._clusters, self._clusters.constraints
        pods = (pod.fact for pod in clusters.pods_of.get(workload, {}).values())
        groups = eviction_tolerance.replica_counts(pods, lambda name: constraints.configured(workload, name), begun)
        for name in constraints.controllers_of(workload):
            if name not in groups and not clusters.index.workloads_of(controller_key(workload, name)):
                groups[name] = ReplicaCounts(name, constraints.configured(workload, name))
        seen = self.seen.get(workload)
        if seen is not None:
            for name, most in seen.most.items():
                if name in groups:
                    groups[name].most = most
        evicted = clusters.evictions.get(workload)
        if evicted is not None and workload in self.shortfalls:
            _leave_out_unready(groups.values(), evicted)
        return groups

    def count(self, workload: str) -> Headcount:
        """The pods of a workload, none of which counts as being changed."""
        groups = self.groups(workload).values()
        count = Headcount(
            live=sum(counts.should_be for counts in groups),
            running=sum(counts.serving for counts in groups),
            missing=sum(counts.missing for counts in groups),
            down=sum(counts.running - counts.serving for counts in groups),
        )
        if workload not in self._clusters.evictions:
            # We took no pod away, and somebody may just have scaled the workload down.
            count.guessed = sum(counts.missing for counts in groups if not counts.known)
        return count

    def of_no_pod(self, cluster: str) -> Iterator[tuple[str, int]]:
        """The workloads of a cluster without any pod, and how many pods their controllers want."""
        for workload in sorted(self._clusters.constraints.workloads(cluster)):
            if workload not in self._clusters.pods_of:
                wanted = sum(counts.should_be for counts in self.groups(workload).values())
                if wanted:
                    yield workload, wanted


def _leave_out_unready(groups: Collection[ReplicaCounts], evicted: WorkloadEviction) -> None:
    """Take successors that run and are not ready for pods that do not serve, as far as fewer are ready than before."""
    should_be, ready = (sum(counts.should_be for counts in groups), sum(counts.ready for counts in groups))
    owed = min(evicted.before.ready, should_be) - ready
    for counts in groups:
        unready = max(0, min(owed, counts.serving - counts.ready))
        counts.serving -= unready
        counts.unready += unready
        owed -= unready


def is_short(groups: Iterable[ReplicaCounts], evicted: WorkloadEviction) -> bool:
    """Whether fewer pods are there, serve or are ready than before the last eviction, and are still wanted as far as is known."""
    should_be, there, serving, ready = 0, 0, 0, 0
    for counts in groups:
        should_be += counts.should_be if counts.known else max(counts.should_be, evicted.before.there)
        there += counts.members
        serving += counts.serving
        ready += counts.ready
    pairs = (there, evicted.before.there), (serving, evicted.before.serving), (ready, evicted.before.ready)
    return any(now < min(before, should_be) for now, before in pairs)


def shortage(groups: Iterable[ReplicaCounts], evicted: WorkloadEviction) -> str:
    """What is missing, as in: of the 10 pods that should be there 1 does not exist and 2 have no node."""
    counted = list(groups)
    should_be, ready = sum(counts.should_be for counts in counted), sum(counts.ready for counts in counted)
    parts = [
        (sum(counts.missing for counts in counted), "not made"),
        (sum(counts.members - counts.live for counts in counted), "without a node that takes it"),
        (sum(counts.live - counts.running for counts in counted), "on a node without having begun"),
        (
            sum(counts.running - counts.serving - counts.unready for counts in counted),
            "with a container that fails again and again",
        ),
    ]
    clauses = [f"{count} {'is' if count == 1 else 'are'} {what}" for count, what in parts if count > 0]
    if not clauses:
        clauses = [f"{ready} are ready, and {evicted.before.ready} were"]
    killed = sum(counts.killed for counts in counted)
    clauses += [f"{killed} of them {'was' if killed == 1 else 'were'} OOM-killed last"] if killed else []
    return f"of the {should_be} pods that should be there {', '.join(clauses)}"


def _silent(workload: str, counts: ReplicaCounts) -> bool:
    """Whether a controller with pods does not say how many it wants, so that the most that were seen count."""
    # Nothing makes a bare pod anew, and Jobs come to an end.
    kinds = workload.split("/")[2], counts.kind
    return counts.members > 0 and not counts.known and "Pod" not in kinds and "Job" not in kinds
