"""Workloads that a policy of ours sizes, without a VPA object: whether a loop of OOM kills goes on there, and why.

A VPA's status would say it. Where there is no VPA, an event says it, which `status`, a metric and an alert show in its place.
"""

from collections.abc import Collection, Container
from dataclasses import dataclass
from datetime import datetime

from agents.engine.tables.chunked_state import StatePart
from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Recorded
from agents.logic.conditions import unanswered_kills
from agents.logic.conditions.targeted_workloads import TargetIndex
from agents.logic.governing_policies import Policies, PolicyRecord
from agents.logic.resources.memory_bound import MemoryBound
from schemas.names import cluster_of
from schemas.policies.vertical import VerticalPolicyChanged, VerticalPolicyRemoved
from schemas.units import Seconds


@dataclass(frozen=True, slots=True)
class LimitedWorkload:
    """What was said of a workload, and since when that is so."""

    since: datetime
    bound: MemoryBound


@dataclass(frozen=True, slots=True)
class LimitChange:
    """What is new of a workload.

    `limited` is None where nothing keeps memory from it any more, `policy` where none governs it.
    """

    workload: str
    limited: LimitedWorkload | None
    policy: PolicyRecord | None


class LimitedWorkloads:
    """The workloads of one partition."""

    def __init__(self, targets: TargetIndex) -> None:
        self._targets = targets
        self._policies = Policies()
        self._said: ObjectTable[LimitedWorkload] = ObjectTable("limited", LimitedWorkload, 16)
        self._all = False

    def tables(self) -> tuple[StatePart, ...]:
        """All tables."""
        return (self._policies.table, self._said)

    def loaded(self) -> None:
        """A chunk was loaded."""
        self._policies.loaded()

    def ingest_policy(self, recorded: Recorded) -> None:
        """Take in a policy of ours; of any other record there is nothing to know."""
        if isinstance(recorded.event, VerticalPolicyChanged | VerticalPolicyRemoved):
            self._policies.take(recorded)
            # A policy may name any number of workloads, so all that are killed in a loop are looked at again.
            self._all = True

    def changes(
        self, workloads: Collection[str], clusters: Collection[str], targeted: Container[str], heartbeat: Seconds, at: datetime
    ) -> list[LimitChange]:
        """What is new of these workloads and of those of these clusters, in order; after a change of a policy, of all.

        `heartbeat`: the recommender's, in seconds; `at`: now.
        """
        everything, self._all = self._all, False
        looping = {*self._targets.killed(), *self._said}
        touched = {key for key in looping if everything or key in workloads or cluster_of(key) in clusters}
        changes = (self._change(key, governed=key in targeted, heartbeat=heartbeat, at=at) for key in sorted(touched))
        return [change for change in changes if change is not None]

    def _change(self, workload: str, *, governed: bool, heartbeat: Seconds, at: datetime) -> LimitChange | None:
        # What a VPA targets is left to its status.
        governing = None if governed else self._policies.of(workload)
        bound = None
        if governing is not None:
            recommended = self._targets.containers(workload, heartbeat) or ()
            bound = unanswered_kills.condition_of(governing.policy, self._targets.kills(workload), recommended, at)
        before = self._said.get(workload)
        if bound is None:
            return None if self._said.remove(workload) is None else LimitChange(workload, None, governing)
        if before is not None and before.bound == bound:
            return None
        limited = LimitedWorkload(at.replace(microsecond=0) if before is None else before.since, bound)
        self._said.upsert(workload, limited)
        return LimitChange(workload, limited, governing)
