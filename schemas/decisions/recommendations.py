"""The decision what the containers of a workload should request."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from schemas.names import Amounts, Workload

Because = Mapping[str, object]
"""Names to numbers, texts, lists and mappings of these: what JSON can carry."""


@dataclass(frozen=True, slots=True)
class ContainerRecommendation:
    """VPA's four amounts for one container."""

    container: str
    lower: Amounts
    target: Amounts
    upper: Amounts
    uncapped: Amounts


@dataclass(frozen=True, slots=True)
class RequestsRecommended:
    """The recommender concluded what a workload's containers should request. Newest turn wins; no containers: nothing."""

    id: str
    at: datetime
    workload: Workload
    containers: tuple[ContainerRecommendation, ...]
    because: Because
