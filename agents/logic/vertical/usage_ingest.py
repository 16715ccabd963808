"""Takes pods, OOM kills and checkpoints in, and decides what counts.

That is: which aggregate a container belongs to, whose usage is dropped, and what goes with a deleted pod. What never counts is
ignored: init containers, containers that are not in their pod's spec, and, with the memory saver, workloads without a policy. So
that no tenant makes a turn or the state large by its names and labels, both are bounded for each workload.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from sys import intern
from typing import Protocol

import numpy as np

from agents.engine.tables.object_table import ObjectTable
from agents.engine.tables.row_table import RowKey
from agents.engine.turn import Recorded
from agents.logic.governing_policies import Policies
from agents.logic.usage import histogram_checkpoints
from agents.logic.usage.container_usage import ContainerUsage, OomBump, UsageSettings, expire
from agents.logic.usage.pod_index import SEED, UNKNOWN, IndexedPod, PodIndex, matches
from agents.logic.vertical.estimate_rules import entry_of, folding
from agents.logic.vertical.memory_leaks import RisingMemory
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas.bounds import MOST_CONTAINERS, MOST_LABEL_SETS
from schemas.decisions.recommendations import LeakEnd, OomSource, OomSourceState
from schemas.facts.pods import ENDED_PHASES, PodChanged, PodDeleted, PodPhase
from schemas.facts.sources import SourceReported
from schemas.facts.usage import CheckpointSeen, ContainerOOMKilled


class KnownAggregates(Protocol):
    """The aggregates of each workload at the beginning of the turn."""

    def containers(self, workload: str) -> Sequence[tuple[str, int]]:
        """Container names of a workload, and a number for each."""

    def label_sets(self, workload: str) -> int:
        """How many aggregates a workload has."""


class AggregateBounds:
    """Decides under which key a container's usage is kept. `exists`: whether an aggregate is there already."""

    def __init__(self, known: KnownAggregates, exists: Callable[[RowKey], bool]) -> None:
        self._known, self._exists = known, exists
        self._new: dict[str, set[RowKey]] = {}
        self._names: dict[str, set[str]] = {}

    def begin(self) -> None:
        """A turn begins: new aggregates count as known now."""
        self._new.clear()
        self._names.clear()

    def admit(self, key: RowKey) -> RowKey | None:
        """The key of the aggregate that takes this one's usage; None if nothing does."""
        if self._exists(key):
            return key
        workload, container, _ = key
        new = self._new.setdefault(workload, set())
        # Far from both bounds, as nearly every workload is, no names have to be counted.
        if self._known.label_sets(workload) + len(new) < MOST_CONTAINERS:
            new.add(key)
            return key
        names = self._names_of(workload, new)
        if container not in names and len(names) >= MOST_CONTAINERS:
            return None
        if self._known.label_sets(workload) + len(new) >= MOST_LABEL_SETS:
            # It then counts for the workload whatever a VPA's selector is.
            key = (workload, container, UNKNOWN)
        if not self._exists(key):
            new.add(key)
            names.add(container)
        return key

    def reached(self, workload: str) -> str:
        """A sentence on what may be left out of a workload, with the bound; empty while nothing is."""
        if self._known.label_sets(workload) < MOST_CONTAINERS:
            return ""
        if len(self._known.containers(workload)) >= MOST_CONTAINERS:
            return f"container names beyond {MOST_CONTAINERS:,} of one workload are left out"
        if self._known.label_sets(workload) >= MOST_LABEL_SETS:
            return f"usage under label sets beyond {MOST_LABEL_SETS:,} of one workload counts as that of pods without labels"
        return ""

    def _names_of(self, workload: str, new: set[RowKey]) -> set[str]:
        """All names of a workload that comes near its bound; found once in a turn."""
        names = self._names.get(workload)
        if names is None:
            names = {name for name, _ in self._known.containers(workload)} | {name for _, name, _ in new}
            self._names[workload] = names
        return names


def usage_settings(settings: VerticalSettings) -> UsageSettings:
    """The settings that folding usage depends on."""
    return UsageSettings(
        cpu_half_life=settings.cpu_half_life,
        memory_half_life=settings.memory_half_life,
        window=settings.memory_window,
        oom_ratio=settings.oom_ratio,
        oom_minimum=settings.oom_minimum,
        expires=settings.memory_expires,
        zero_is_absent=settings.zero_is_absent,
        window_peaks=settings.window_peaks,
        cpu_peaks=settings.cpu_peaks,
        leak_hours=settings.leak_hours,
    )


class UsageIngest:
    """The usage and the pods of one partition."""

    def __init__(self, settings: VerticalSettings, policies: Policies) -> None:
        self.settings, self.policies = settings, policies
        self.usage = ContainerUsage(usage_settings(settings), self._aggregate_of)
        self.usage.made = self._made
        self.pods = PodIndex()
        self.removed: list[RowKey] = []
        """Aggregates dropped since somebody took this list."""
        self.bounds: AggregateBounds | None = None
        """None: nothing is bounded."""
        self._counts: dict[str, int] = {}

    def begin(self, turn: int) -> None:
        """A turn begins."""
        self.usage.turn, self.usage.now = turn, turn / 1000
        if self.bounds is not None:
            self.bounds.begin()

    def pod(self, event: PodChanged) -> None:
        """Take in the newest fact about a pod."""
        old, new = self.pods.take(event)
        if old != new:
            self.recount(event.workload.key)
        # A pending pod has no usage yet. When it runs, that is another change of it.
        if event.phase is PodPhase.PENDING:
            return
        if old == new:
            self._note(event)
            return
        workload, name = intern(event.workload.key), event.pod.name
        self.usage.lookup.look_again()
        if old is None or old.labels != new.labels:
            self._relabel(workload, name, new)
        for container in new.init_containers:
            self._disregard(workload, name, container)
        for container in new.containers:
            self.usage.see(workload, name, container)
        self._note(event)

    def _note(self, event: PodChanged) -> None:
        """Keep the memory limits and restarts of a pod's containers, which tell when a leak has filled one and when it ends."""
        containers = self.usage.containers
        for seen in event.containers:
            row, limit = containers.find((event.workload.key, event.pod.name, seen.name)), np.float32(seen.limits.memory or 0)
            if row is not None and (containers["limit"][row] != limit or containers["restarts"][row] != seen.restarts):
                # A new run has none of the memory of the one before, so a rise across the two would be none.
                if seen.restarts > containers["restarts"][row]:
                    self.usage.minima.started_anew(row)
                containers["limit"][row], containers["restarts"][row] = limit, seen.restarts
                containers.touch([row])

    def rising(self) -> list[tuple[str, str, RisingMemory]]:
        """Workload, container and series of all that an hour ended for in which they leaked, since the last call."""
        leaking, self.usage.minima.leaking = self.usage.minima.leaking, []
        return [self._rising(row) for row in dict.fromkeys(leaking)]

    def _rising(self, row: int) -> tuple[str, str, RisingMemory]:
        workload, pod, container = self.usage.containers.key(row)
        indexed, limit = self.pods.get(workload, pod), float(self.usage.containers["limit"][row])
        uid, restarts = "" if indexed is None else indexed.uid, int(self.usage.containers["restarts"][row])
        return workload, container, RisingMemory(pod, uid, *self.usage.minima.series(row), limit, restarts)

    def leak_end(self, workload: str, container: str, rising: RisingMemory) -> LeakEnd | None:
        """What gave back the memory of a container that leaked; None while nothing did."""
        row, pod = self.usage.containers.find((workload, rising.pod, container)), self.pods.get(workload, rising.pod)
        if row is None or (rising.uid and (pod is None or pod.uid != rising.uid)):
            return LeakEnd.REPLACED
        if self.usage.containers["restarts"][row] > rising.restarts:
            return LeakEnd.RESTARTED
        # More than half of what it had gained: no collection of garbage that the series had not seen does that.
        released = self.usage.minima.lowest(row) < (rising.first + rising.last) / 2
        return LeakEnd.RELEASED if released else None

    def gone(self, event: PodDeleted, containers: Iterable[str]) -> None:
        """A pod is gone, unless one of the same name has replaced it; `containers`: names it may have had."""
        workload, name = event.workload.key, event.pod.name
        indexed = self.pods.get(workload, name)
        # A StatefulSet's pod comes back under its name, and its creation may be told before the end of the former one.
        if indexed is not None and indexed.uid != event.pod.uid:
            return
        self.pods.drop(workload, name)
        self.recount(workload)
        for container in {*containers, *(indexed.containers if indexed else ())}:
            self.usage.forget((workload, name, container))

    def kill(self, event: ContainerOOMKilled) -> bool:
        """An OOM kill; whether it counts."""
        workload = event.workload.key
        entry = entry_of(self.policies.of(workload), event.container, self.settings)
        ratio = self.settings.oom_ratio if entry.oom_ratio is None else entry.oom_ratio
        least = self.settings.oom_minimum if entry.oom_minimum is None else entry.oom_minimum
        used = event.memory_request if event.memory_used is None else event.memory_used
        bump, at_pod_limit = OomBump(ratio, least), event.at_pod_limit
        # All containers of the pod together had as much as it may have. What this one requests has nothing to do with that.
        if at_pod_limit is not None:
            used, bump = None, OomBump(ratio, least, float(at_pod_limit))
        key = (workload, event.pod.name, event.container)
        return self.usage.kill(key, float(used or 0), event.at.timestamp(), bump)

    def peak(self, event: ContainerOOMKilled) -> float:
        """The most memory that a killed container is known to have used in its window, in bytes."""
        row = self.usage.containers.find((event.workload.key, event.pod.name, event.container))
        return 0.0 if row is None else float(self.usage.containers.floats("peak")[row])

    def most_used(self, workload: str, container: str) -> float:
        """The most memory that a container is known to use in any pod of a workload, in bytes; 0 where nothing is known."""
        rows = (self.usage.containers.find((workload, pod, container)) for pod in self.pods.names(workload))
        return max((float(self.usage.containers.floats("peak")[row]) for row in rows if row is not None), default=0.0)

    def seed(self, event: CheckpointSeen) -> None:
        """Take in the history of another recommender."""
        # Only the first one counts, because a later one would include what was folded here.
        key = (event.workload.key, event.container, f"{SEED}{event.vpa}")
        if key not in self.usage.aggregates and histogram_checkpoints.fault(event) is None and self._bounded(key) == key:
            histogram_checkpoints.load(self.usage, self.usage.aggregate(key), event)

    def count(self, workload: str) -> int:
        """The pods of a workload that its policy is for, Pending ones aside."""
        count = self._counts.get(workload)
        if count is None:
            count = self._counts[workload] = self._count(workload)
        return count

    def _count(self, workload: str) -> int:
        record = self.policies.of(workload)
        selector = record.policy.vpa.selector if record and record.policy.vpa else None
        pods = (pod for pod in self.pods.of(workload) if pod.phase is not PodPhase.PENDING)
        return sum(1 for pod in pods if selector is None or matches(selector, pod.labels))

    def recount(self, workload: str | None = None) -> None:
        """Pods of a workload came, went or changed, or policies did (None: all workloads)."""
        if workload is None:
            # Policies may have changed selectors, which say whose pods count.
            self._counts.clear()
        else:
            self._counts.pop(workload, None)

    def expire(self, at: float) -> None:
        """Drop what is too old to count."""
        self.removed += expire(self.usage, at, self._contributive, lambda workload, pod: self.pods.get(workload, pod) is not None)

    def _contributive(self) -> set[RowKey]:
        """Aggregates that may still get samples: a pod runs, or the controller that the VPA names exists."""
        keys: set[RowKey] = set()
        for workload, _, pod in self.pods.all():
            record = self.policies.of(workload) if pod.phase in ENDED_PHASES else None
            if pod.phase is not PodPhase.PENDING and (
                pod.phase not in ENDED_PHASES or (record is not None and record.policy.vpa is not None)
            ):
                keys |= {(workload, container, pod.labels) for container in pod.containers}
        return keys

    def _aggregate_of(self, workload: str, pod: str, container: str) -> RowKey | None:
        # The memory saver keeps nothing of workloads that no policy names, as upstream's does.
        if self.settings.memory_saver and self.policies.of(workload) is None:
            return None
        indexed = self.pods.get(workload, pod)
        if indexed is None:
            # Scrapes and pod facts come from two sources, so usage may come first. It counts under no labels until the pod is
            # reported.
            return self._bounded((workload, container, UNKNOWN)) if self.settings.unknown_pods else None
        return self._bounded((workload, container, indexed.labels)) if container in indexed.containers else None

    def _bounded(self, key: RowKey) -> RowKey | None:
        return key if self.bounds is None else self.bounds.admit(key)

    def _made(self, row: int, key: RowKey) -> None:
        """Set the folding rules of a new aggregate by the policy in force."""
        how = folding(self.policies.of(key[0]), key[1], self.settings)
        columns = self.usage.aggregates
        columns["window"][row], columns["expires"][row] = how.window, how.expires
        columns["cpu_half_life"][row], columns["memory_half_life"][row] = how.cpu_half_life, how.memory_half_life

    def _relabel(self, workload: str, name: str, pod: IndexedPod) -> None:
        """The containers of a pod belong to other aggregates from now on; the old ones keep what they have."""
        present = [self.usage.containers.find((workload, name, container)) for container in pod.containers]
        rows = np.array([row for row in present if row is not None], np.int64)
        if len(rows):
            self.usage.unlink(rows)

    def _disregard(self, workload: str, name: str, container: str) -> None:
        """Drop an init container's usage, including what was counted as a container's before that was known."""
        if (workload, name, container) in self.usage.containers:
            self.usage.forget((workload, name, container))
            key = (workload, container, UNKNOWN)
            if key in self.usage.aggregates:
                self.usage.drop([key])
                # It was made in this turn, so the index does not know it yet and must not be told of its end.
                if key in self.usage.added:
                    self.usage.added.remove(key)
                else:
                    self.removed.append(key)


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
