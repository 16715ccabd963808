"""The last eviction of a workload, and what the next new pod shows: whether anything gives new pods other requests.

Without that an eviction changes nothing, and the next one would change nothing either.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from agents.engine.tables.object_table import ObjectTable
from schemas import admission_pauses, times
from schemas.admission_pauses import AdmissionPause
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.facts.pods import PodChanged
from schemas.names import Amounts
from schemas.outcomes import ActionFinished

_A_DAY = 86_400.0
_DOUBLINGS = 20


@dataclass(frozen=True, slots=True)
class PodsBefore:
    """How many pods a workload had before an eviction: that were there, that served, and that were ready."""

    there: int = 0
    serving: int = 0
    ready: int = 0


@dataclass(frozen=True, slots=True)
class WorkloadEviction:
    """The last pod of a workload that was evicted for us, gone or going in turn `at`: what it requested, and how the next came.

    `fault` says what is wrong with that one, empty while none has come or it is right; `judged` when that was found. `before`:
    the pods of the workload before it, of which there should be as many again. `vain`: after how many evictions in a row the
    next pod had a fault, this one among them.
    """

    at: int
    expect: Mapping[str, Amounts]
    judged: int | None = None
    fault: str = ""
    before: PodsBefore = PodsBefore()
    vain: int = 0

    def judge(self, fault: str, now: int) -> "WorkloadEviction":
        """With what a new pod showed."""
        # Of an eviction that was followed by several pods with a fault, one counts.
        again = self.judged is not None and bool(self.fault)
        return replace(self, judged=now, fault=fault, vain=self.vain + (not again) if fault else 0)

    def denied(self, pod: str, reason: str, now: int) -> "WorkloadEviction":
        """With an eviction that the API server denied, such as for an operator's webhook, which would deny the next one, too."""
        return replace(self, judged=now, fault=f"pod '{pod}' could not be evicted: {reason}", vain=self.vain + 1)

    def pause(self, first: float) -> float:
        """Seconds until the next pod is tried: `first` after one in vain, twice as many after each further one, up to a day."""
        return min(first * 2.0 ** min(self.vain - 1, _DOUBLINGS), max(first, _A_DAY)) if self.vain else 0.0


def fault(pod: PodChanged, evicted: WorkloadEviction, targets: Mapping[str, ContainerRecommendation]) -> str:
    """What is wrong with a new pod's requests; empty if nothing is. `targets` is what admission would give it, by container."""
    name, boosted = pod.pod.name, {container.name for container in pod.boosted}
    seen = {c.name: c.requests for c in pod.containers if c.name in evicted.expect}
    if seen == evicted.expect and not boosted:
        return f"pod '{name}' came back as the evicted one was: nothing changes the requests of new pods"
    if all(
        container in targets and _within(targets[container], requests, boosted=container in boosted)
        for container, requests in seen.items()
    ):
        return ""
    return f"pod '{name}' came back with requests that nobody recommended: somebody else changes them"


def _within(recommended: ContainerRecommendation, asked: Amounts, *, boosted: bool) -> bool:
    """Whether requests lie within the bounds of a recommendation."""
    low, high = recommended.lower, recommended.upper
    # The CPU of a boosted container lies above them by design.
    memory = (low.memory, asked.memory, high.memory)
    bounds = (memory,) if boosted else ((low.cpu, asked.cpu, high.cpu), memory)
    return all(
        (least is None or (value or 0) >= least) and (most is None or (value or 0) <= most) for least, value, most in bounds
    )


class UnpatchedWorkloads:
    """The newest pause in which the webhook leaves new pods of a workload as they are, because patched ones did not come.

    One that is over stays, as it makes the next one longer.
    """

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
