"""Policies: what an operator asked for."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from schemas.names import Amounts
from schemas.units import Fraction


class Mode(StrEnum):
    """How far the program may go. SHADOW only records, PLAN also says what it would do, APPLY acts."""

    SHADOW = "shadow"
    PLAN = "plan"
    APPLY = "apply"


class UpdateMode(StrEnum):
    """How a workload's pods may be changed; VPA's words. AUTO is VPA's old name for RECREATE."""

    OFF = "Off"
    INITIAL = "Initial"
    RECREATE = "Recreate"
    IN_PLACE_OR_RECREATE = "InPlaceOrRecreate"
    AUTO = "Auto"


@dataclass(frozen=True, slots=True)
class ContainerPolicy:
    """Bounds for one container name; `*` stands for all names that have no entry of their own."""

    container: str = "*"
    min_allowed: Amounts = Amounts()
    max_allowed: Amounts = Amounts()


@dataclass(frozen=True, slots=True)
class VerticalPolicyChanged:
    """An operator set (or replaced) the vertical policy of the workloads that `target` names.

    `target` is a workload key or a prefix that ends in `*`. The longest match wins; `version` goes into every `because`.
    """

    at: datetime
    target: str
    version: str
    update_mode: UpdateMode = UpdateMode.IN_PLACE_OR_RECREATE
    containers: tuple[ContainerPolicy, ...] = ()


@dataclass(frozen=True, slots=True)
class VerticalPolicyRemoved:
    """An operator removed the vertical policy with this target."""

    at: datetime
    target: str


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


Policy = VerticalPolicyChanged | VerticalPolicyRemoved | ControlChanged
