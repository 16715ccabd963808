"""Facts about the Lease of the admission webhook: whether a webhook is running that sets the requests of new pods."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class WebhookLeaseSeen:
    """The state of the Lease `lease` (namespace/name): renewed in time, overdue, or absent. `reason` says which."""

    at: datetime
    cluster: str
    lease: str
    alive: bool
    reason: str = ""
