"""Workloads whose new pods the webhook leaves as they are for a while, because patched ones did not come, by its outcomes."""

from datetime import datetime

from agents.engine.tables.object_table import ObjectTable
from schemas import admission_pauses, times
from schemas.admission_pauses import AdmissionPause
from schemas.outcomes import ActionFinished


class UnpatchedWorkloads:
    """The newest pause of each workload, also one that is over, as it makes the next one longer."""

    def __init__(self) -> None:
        self.table: ObjectTable[AdmissionPause] = ObjectTable("unpatched", AdmissionPause, 16)

    def ingest(self, event: ActionFinished) -> None:
        """Take in an outcome about a pod."""
        workload = event.subject.workload
        before = self.table.get(workload)
        pause = admission_pauses.after(before, event)
        if pause is None:
            self.table.remove(workload)
        elif pause != before:
            self.table.upsert(workload, pause)

    def pause(self, workload: str, now: int) -> AdmissionPause | None:
        """The pause that holds in turn `now`; None if new pods are patched."""
        pause = self.table.get(workload)
        return None if pause is None or not pause.holds(times.from_ms(now)) else pause

    def forget(self, now: datetime) -> None:
        """Forget pauses that make no later one longer."""
        over = [key for key, pause in self.table.items() if now - pause.since >= admission_pauses.REMEMBERED]
        for key in over:
            self.table.remove(key)
