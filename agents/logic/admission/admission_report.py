"""What admission did and why, typed, so that an outcome can carry it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agents.logic.resources.resource_lists import Resources
from agents.logic.resources.target_caps import Cap
from schemas.exact_quantity import Quantity

Op = Mapping[str, object]
"""One operation of an RFC 6902 patch: op, path and value."""


class ReviewStatus(StrEnum):
    """How a review ended; the first three are upstream's words for its metrics."""

    APPLIED = "applied"
    SKIPPED = "skipped"
    ERROR = "error"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class ContainerChange:
    """What was set for one container, and its former values; `caps` and `notes` are in the order in which they applied.

    `boost_base` is the CPU that a startup boost started from; None where there was none. Lists that are set only have what the
    patch sets, even if it equals the former value.
    """

    index: int
    container: str
    requests_before: Resources
    requests: Resources
    limits_before: Resources
    limits: Resources
    caps: tuple[Cap, ...] = ()
    notes: tuple[str, ...] = ()
    boost_base: Quantity | None = None
    held: tuple[str, ...] = ()
    """Why resources are not changed as wanted, because the API server would refuse the pod."""


@dataclass(frozen=True, slots=True)
class AdmissionPatch:
    """A patch and its account; without operations `reason` says why nothing is done, and `failed` that it should have been.

    `left` are the resources that were left to HorizontalPodAutoscalers.
    """

    ops: tuple[Op, ...] = ()
    containers: tuple[ContainerChange, ...] = ()
    reason: str = ""
    failed: bool = False
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AdmissionAccount:
    """A review and its answer. `vpa` is the name of the VPA that governs the pod, or of the object under review."""

    status: ReviewStatus
    uid: str = ""
    resource: str = ""
    operation: str = ""
    namespace: str = ""
    name: str = ""
    object_uid: str = ""
    """The pod's own uid, where it has one already."""
    dry_run: bool = False
    vpa: str = ""
    reason: str = ""
    ops: tuple[Op, ...] = ()
    containers: tuple[ContainerChange, ...] = field(default=())
    left: tuple[str, ...] = ()
    """Resources that were left to HorizontalPodAutoscalers."""
