"""The interface between the webhook and the code that judges reviews.

An edge does not decide how to judge a review, so the `Reviewer` is passed in; the topmost controller of a pod comes from the
cluster, so the webhook passes that on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from schemas.catalogue import Event
from schemas.names import Place, PodName, Workload
from schemas.outcomes import AdmittedAmounts
from streams.clients.kube.controllers import ControllerKey


@dataclass(frozen=True, slots=True)
class UnknownOwner:
    """The topmost controller is unknown. `why` is a clause: "the API server did not answer"."""

    why: str


FoundOwner = ControllerKey | UnknownOwner | None
"""An answer about owners; None when none of them could be a target."""

Topmost = Callable[[ControllerKey], FoundOwner]
"""The topmost well-known or scalable controller above (or at) one."""


Coming = Callable[[ControllerKey], int | None]
"""How many pods a controller still wants; None if that is not known."""


def nobody_knows(_: ControllerKey) -> int | None:
    """It is not known."""
    return None


def itself(owner: ControllerKey) -> ControllerKey:
    """Every controller is the topmost one."""
    return owner


@dataclass(frozen=True, slots=True)
class Review:
    """A review that was judged. `body` is the answer to send where acting is allowed, `changes` says what it sets.

    `status` is upstream's word for its metrics (applied, skipped, error) or `denied`; `resource` is `Pod`, `VPA` or `unknown`.
    `pod`, `workload`, `decision` and `cause` are there where a pod is to be changed; the pod may have neither name nor uid yet.
    `admitted` has the amounts, where any is changed.
    """

    body: bytes
    uid: str
    status: str
    resource: str
    reason: str = ""
    dry_run: bool = False
    changes: str = ""
    pod: PodName | None = None
    workload: Workload | None = None
    decision: str = ""
    cause: Place | None = None
    admitted: AdmittedAmounts | None = None

    @property
    def plain(self) -> bool:
        """Whether the answer lets the object through as it is."""
        return self.status in ("skipped", "error")


class Reviewer(Protocol):
    """Judges reviews, from any number of threads."""

    def apply(self, event: Event, place: Place) -> None:
        """Take in one event of `policies` or `quota-changes`."""

    def review(self, body: bytes, topmost: Topmost, coming: Coming = nobody_knows) -> Review:
        """Judge a review. Raises nothing, whatever it holds."""

    def uid(self, body: bytes) -> str:
        """The uid of a review that could not be judged."""
