"""Decisions: what an agent concluded, with the numbers it rests on.

`because` holds all that a person needs to redo the sum: inputs, settings, policy version and every limit that changed it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from schemas.names import Amounts, PodName, Workload

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


@dataclass(frozen=True, slots=True)
class ResizePlanned:
    """Change a pod's requests in place. `expect` is what the pod requested when this was decided; void after `expires`."""

    id: str
    at: datetime
    expires: datetime
    workload: Workload
    pod: PodName
    requests: Mapping[str, Amounts]
    limits: Mapping[str, Amounts]
    expect: Mapping[str, Amounts]
    because: Because


@dataclass(frozen=True, slots=True)
class EvictionPlanned:
    """Evict a pod, so that its successor is created with the recommended requests; void after `expires`."""

    id: str
    at: datetime
    expires: datetime
    workload: Workload
    pod: PodName
    expect: Mapping[str, Amounts]
    because: Because


@dataclass(frozen=True, slots=True)
class UpdateRefused:
    """The updater looked at a pod that is outside its recommendation and left it alone. `reason` is a sentence."""

    id: str
    at: datetime
    workload: Workload
    pod: PodName
    guard: str
    reason: str
    because: Because


Decision = RequestsRecommended | ResizePlanned | EvictionPlanned | UpdateRefused
