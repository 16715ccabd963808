"""Facts about PodDisruptionBudgets, with what their status allows."""

from dataclasses import dataclass
from datetime import datetime

from schemas.facts.scheduled_pods import LabelQuery


@dataclass(frozen=True, slots=True)
class PodDisruptionBudgetChanged:
    """A budget was made or changed. `allowed`: how many of its pods may be disrupted now; a selector that is None takes none."""

    at: datetime
    cluster: str
    namespace: str
    name: str
    selector: LabelQuery | None
    allowed: int = 0
    healthy: int = 0
    desired: int = 0
    expected: int = 0


@dataclass(frozen=True, slots=True)
class PodDisruptionBudgetRemoved:
    """A budget is gone."""

    at: datetime
    cluster: str
    namespace: str
    name: str
