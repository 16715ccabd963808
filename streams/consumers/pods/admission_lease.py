"""Whether a webhook is running that would change the requests of an evicted pod's successor, by the Lease that it renews.

Without one the successor would come back unchanged and be evicted again. Upstream's updater checks the Lease of its own webhook
in the same way (pkg/utils/status/status_validator.go).
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from streams.clients.kube.json_objects import ObjectStore

FindObjection = Callable[[], str | None]
"""Why nobody may be evicted now, as a sentence; None when nothing speaks against it. Raises TryAgain and GiveUp."""


def nothing_objects() -> None:
    """For a cluster whose admission always works, such as the simulated one."""


class AdmissionLease:
    """The Lease `name` among `objects`. It counts until it is older than `most`; `now` gives the real time."""

    def __init__(self, objects: ObjectStore, name: str, *, most: timedelta, now: Callable[[], datetime]) -> None:
        self._objects, self._name, self._most, self._now = objects, name, most, now

    def objection(self) -> str | None:
        """Why nobody may be evicted now; None when nothing speaks against it. Raises TryAgain and GiveUp."""
        lease = self._objects.find(self._name)
        if lease is None:
            return f"no webhook is at work that would change the pod's successor: there is no Lease '{self._name}'"
        renewed = _time((lease.get("spec") or {}).get("renewTime")) or _time(lease["metadata"].get("creationTimestamp"))
        if renewed is None:
            return f"whether a webhook is at work cannot be said: Lease '{self._name}' has no time that can be read"
        age = self._now() - renewed
        if -self._most <= age <= self._most:  # two machines' clocks may differ a little
            return None
        if age < timedelta(0):
            return f"whether a webhook is at work cannot be said: Lease '{self._name}' was renewed at {renewed}, which is ahead"
        return (
            "no webhook is at work that would change the pod's successor: "
            f"Lease '{self._name}' was renewed {age.total_seconds():.0f} s ago, and {self._most.total_seconds():g} s are the most"
        )


def _time(text: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return at if at.tzinfo is not None else None
