"""Reverts: what an operator asks to be put back as it was before Ullage changed it, and to be left so."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from schemas.names import Amounts, Workload


@dataclass(frozen=True, slots=True)
class RevertRequested:
    """The pods of a workload are to have these requests and limits again, by container, and no recommendation until it ends.

    They are what the first pod had that was changed after `since`. The same guards hold as for any other change.
    """

    at: datetime
    workload: Workload
    since: datetime
    requests: Mapping[str, Amounts]
    limits: Mapping[str, Amounts] = field(default_factory=dict)
    reason: str = ""

    @property
    def key(self) -> str:
        """The record key."""
        return f"revert/{self.workload.key}"


@dataclass(frozen=True, slots=True)
class RevertEnded:
    """The workload is changed again as is recommended."""

    at: datetime
    workload: Workload

    @property
    def key(self) -> str:
        """The record key, that of the revert."""
        return f"revert/{self.workload.key}"
