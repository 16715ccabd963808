"""The control record of a cluster: how far the program may go, whether it is paused, and its budget.

The sentences that explain why nothing may be done now are here, because stages and consumers obey the same record.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from schemas.policies.authors import Author
from schemas.units import Fraction


class Mode(StrEnum):
    """How far the program may go. SHADOW only records decisions, PLAN also shows what would be done, APPLY acts."""

    SHADOW = "shadow"
    PLAN = "plan"
    APPLY = "apply"


@dataclass(frozen=True, slots=True)
class ControlChanged:
    """Somebody set a cluster's mode, pause and budget. Consumers obey it even when agents lag."""

    at: datetime
    cluster: str
    mode: Mode
    paused: bool = False
    reason: str = ""
    budget: Fraction = Fraction(0.1)
    """Share of a cluster's and of a workload's pods that may be away or being changed at one time."""
    by: Author | None = None
    """Who set it; None for what no person wrote."""
    through: str = ""
    """The object of the cluster that says so, as `ClusterControl/ullage`; while it exists, it alone changes control."""

    @property
    def pause(self) -> str | None:
        """Why nothing may be planned or done, as a sentence; None while the cluster is not paused."""
        if not self.paused:
            return None
        return f"cluster '{self.cluster}' is paused" + (f": {self.reason}" if self.reason else "")


def objection(control: ControlChanged | None, cluster: str) -> str | None:
    """Why nothing may be done to a cluster under its control record, as a sentence; None when acting is allowed.

    A cluster without a record is in mode shadow.
    """
    if control is None:
        return f"nobody has set the mode of cluster '{cluster}' yet, so it is shadow"
    if control.paused:
        return control.pause
    if control.mode is not Mode.APPLY:
        return f"the mode of cluster '{cluster}' is {control.mode.value}, not apply"
    return None
