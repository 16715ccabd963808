"""What a check of `ullage doctor` finds."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """The outcome of one check. `fix` says what to do, and is empty when there is nothing to do."""

    level: Literal["ok", "warn", "fail"]
    name: str
    finding: str
    fix: str = ""
