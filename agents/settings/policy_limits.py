"""Limits that a policy written as code runs under where it is tried: CPU time of each call, and memory beyond what there was.

The kernel keeps both. A process whose policy takes longer is killed by SIGPROF, whatever the policy does against it, so only a
process that was started to be lost may hold a policy to limits. Memory is bounded where the system has /proc.
"""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from agents.logic.vertical.policy_code import EvidenceColumns, Recommend, RecommendedColumns
from schemas.units import Bytes, Seconds

_STATM = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """What one call may take; a call judges 1,024 containers at most."""

    cpu: Seconds = Seconds(10.0)
    memory: Bytes = Bytes(1 << 30)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the block to these limits. Raises MemoryError in it; too much CPU time ends the process."""
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        if _STATM.exists():
            used = int(_STATM.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + self.memory, hard))
        signal.setitimer(signal.ITIMER_PROF, self.cpu)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

    def limited(self, recommend: Recommend) -> Recommend:
        """The same function, each call held to these limits."""

        def call(usage: EvidenceColumns) -> RecommendedColumns:
            with self.held():
                return recommend(usage)

        return call


IN_FORCE: ContextVar[PolicyLimits | None] = ContextVar("limits of policies", default=None)
"""The limits that policies are loaded under; None where the process is not to be lost."""
