"""Facts about the Lease of the admission webhook: whether one is at work that gives new pods their requests."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class WebhookLeaseSeen:
    """The Lease `lease` (namespace/name) is renewed as it should be, or it is not, or there is none. `reason` says which."""

    at: datetime
    cluster: str
    lease: str
    alive: bool
    reason: str = ""
