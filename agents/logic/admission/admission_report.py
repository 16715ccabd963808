"""What admission did and why, typed, so that an outcome can carry it, and the note of it that a pod carries.

A patch is an offer: another webhook, a quota or a policy may refuse the pod that it makes. Only a pod that is seen with the note
shows that the offer was taken, and the note keeps what the pod's owner had asked for. Upstream leaves no such note.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agents.logic.resources.resource_lists import CPU, MEMORY, Resources
from agents.logic.resources.target_caps import Cap
from schemas import admission_notes, bounds
from schemas.exact_quantity import Quantity
from schemas.facts.pods import AdmissionNote, AmountsBefore
from schemas.names import Amounts
from schemas.outcomes import AdmittedAmounts, ChangedContainer
from schemas.units import Bytes, Cores
from schemas.well_known_labels import ADMISSION_NOTE

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


_NANO = 10**9
_PATH = f"/metadata/annotations/{ADMISSION_NOTE.replace('/', '~1')}"  # RFC 6901


def offered(account: AdmissionAccount, controller: str, decision: str, annotations: Mapping[str, str]) -> AdmittedAmounts | None:
    """What a patch offers to a pod of this controller; None if it changes no amount of CPU or memory.

    `decision` is the id of the recommendation.
    """
    changed = [container for change in account.containers if (container := _changed(change)) is not None]
    if not changed:
        return None
    # The API server asks again if another webhook changed the pod; then only the note still has what its owner asked for.
    note = admission_notes.read(annotations.get(ADMISSION_NOTE))
    owners = {amounts.name: amounts for amounts in note.before} if note is not None else {}
    containers = tuple(_since(change, owners.get(change.name)) for change in changed[: bounds.MOST_CONTAINERS])
    # With the recommendation's id, so that the note says which one it follows, whichever of several webhooks answered. Pods that
    # are alike get the same note, so that many of them are one offer.
    about = repr((account.namespace, controller, decision, containers))
    return AdmittedAmounts(hashlib.blake2b(about.encode(), digest_size=8).hexdigest(), controller, containers)


def note(admitted: AdmittedAmounts) -> Op:
    """The operation that adds the note; the patch has made sure that there are annotations."""
    before = tuple(
        AmountsBefore(container.name, container.requests_before, container.limits_before) for container in admitted.containers
    )
    text = admission_notes.write(AdmissionNote(admitted.offer, before))
    # A note that readers would refuse as too long is worth less than one without the former amounts.
    if len(text) > admission_notes.LONGEST:
        text = admission_notes.write(AdmissionNote(admitted.offer))
    return {"op": "add", "path": _PATH, "value": text}


def _changed(change: ContainerChange) -> ChangedContainer | None:
    requests, limits = _amounts(change.requests_before), _amounts(change.limits_before)
    changed = ChangedContainer(
        name=change.container,
        requests_before=requests,
        limits_before=limits,
        requests=_merged(requests, _amounts(change.requests)),
        limits=_merged(limits, _amounts(change.limits)),
    )
    return None if (changed.requests, changed.limits) == (requests, limits) else changed


def _since(change: ChangedContainer, owner: AmountsBefore | None) -> ChangedContainer:
    if owner is None:
        return change
    return ChangedContainer(change.name, owner.requests, owner.limits, change.requests, change.limits)


def _amounts(resources: Resources) -> Amounts:
    cpu, memory = resources.get(CPU), resources.get(MEMORY)
    return Amounts(None if cpu is None else Cores(_number(cpu)), None if memory is None else Bytes(math.ceil(_number(memory))))


def _number(quantity: Quantity) -> float:
    return quantity.nano / _NANO


def _merged(before: Amounts, after: Amounts) -> Amounts:
    return Amounts(before.cpu if after.cpu is None else after.cpu, before.memory if after.memory is None else after.memory)
