"""Workloads that need not be examined: no pod needs a change before some turn, unless the workload changes.

In a settled cluster nearly all workloads are quiet, and the cost of an interval depends on what changed. This is not state: it
follows from the state, and starts empty after a restart.
"""

import sys
from dataclasses import replace

from agents.logic.guards.shared_guards import Headcount
from agents.logic.updates import oom_loops
from agents.logic.updates.changed_workloads import ChangedWorkloads
from agents.logic.updates.pods_by_workload import PodRecord
from agents.logic.updates.update_priority import UpdatePriority
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater_records import NewestRecommendation
from schemas import times

NEVER = sys.maxsize


class QuietWorkloads:
    """Until which turn each workload is quiet, and how many pods it has."""

    def __init__(self) -> None:
        self._until: dict[str, int] = {}
        self._pods: dict[str, Headcount] = {}

    def follow(self, changed: ChangedWorkloads) -> None:
        """Forget the workloads that changed since the last call."""
        if changed.all:
            self._until.clear()
        for workload in changed.keys:
            self._until.pop(workload, None)
            self._pods.pop(workload, None)
        changed.clear()

    def holds(self, workload: str, now: int) -> bool:
        """Whether no pod of a workload needs a change in turn `now`."""
        return now < self._until.get(workload, 0)

    def enter(self, workload: str, until: int) -> None:
        """No pod of a workload needs a change before this turn."""
        self._until[workload] = until

    def counted(self, workload: str) -> Headcount | None:
        """The pods of a workload, none of which counts as being changed; None if they are not counted yet."""
        # A copy, because the guards count in it whom they let go.
        count = self._pods.get(workload)
        return None if count is None else replace(count)

    def count(self, workload: str, count: Headcount) -> None:
        """Remember the pods of a workload."""
        self._pods[workload] = replace(count)


def calm_until(
    pod: PodRecord, recommended: NewestRecommendation, priority: UpdatePriority, settings: UpdateSettings, now: int
) -> int:
    """The first turn in which a pod may need a change, if nothing of it changes; 0 if it may need one now."""
    # Init containers, too: nothing is recommended for them, but somebody has to be told.
    killed = oom_loops.last_kill(pod.fact, init=True)
    if priority.outside or (killed is not None and now - times.to_ms(killed) < settings.quick_oom * 1000):
        return 0
    if recommended.reverted is not None or priority.difference < settings.threshold or pod.fact.started is None:
        return NEVER
    return times.to_ms(pod.fact.started) + int(settings.lifetime * 1000)
