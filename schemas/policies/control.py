"""The switch of a cluster: how far the program may go, whether it is paused, and its budget."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from schemas.units import Fraction


class Mode(StrEnum):
    """How far the program may go. SHADOW only records, PLAN also says what it would do, APPLY acts."""

    SHADOW = "shadow"
    PLAN = "plan"
    APPLY = "apply"


@dataclass(frozen=True, slots=True)
class ControlChanged:
    """The cluster-wide switch: mode, pause and budget. Consumers obey it even when agents lag."""

    at: datetime
    cluster: str
    mode: Mode
    paused: bool = False
    reason: str = ""
    budget: Fraction = Fraction(0.1)
    """Share of a cluster's and of a workload's pods that may be away or being changed at one time."""
