"""Reverts: an operator asks to undo what Ullage changed, and to leave it at that."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from schemas.names import Amounts, Workload
from schemas.policies.authors import Author


@dataclass(frozen=True, slots=True)
class RevertRequested:
    """The pods of a workload get these requests and limits back, by container, and no recommendation until the revert ends.

    The amounts are what the owner had asked for before the changes after `since`. The same guards hold as for any other change.
    """

    at: datetime
    workload: Workload
    since: datetime
    requests: Mapping[str, Amounts]
    limits: Mapping[str, Amounts] = field(default_factory=dict)
    reason: str = ""
    by: Author | None = None

    @property
    def key(self) -> str:
        """The record key."""
        return f"revert/{self.workload.key}"


@dataclass(frozen=True, slots=True)
class RevertEnded:
    """Recommendations are applied to the workload again."""

    at: datetime
    workload: Workload
    by: Author | None = None

    @property
    def key(self) -> str:
        """The record key, that of the revert."""
        return f"revert/{self.workload.key}"
