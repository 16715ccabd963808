"""The Lease that shows that admission is running; without it nobody evicts a pod, as its successor would come back unchanged.

All replicas renew one Lease, as upstream's do (pkg/utils/status/status_object.go).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from streams.clients.kube.json_objects import ObjectStore
from streams.consumers.executing.holder_lease import micro_time, new_lease, was_faster
from streams.errors import TryAgain

DURATION = timedelta(seconds=10)
"""After so long without a renewal the Lease counts for nothing; it is renewed twice as often."""
_GONE = 3 * DURATION
"""A replica that has not renewed for so long is gone."""
# Each replica notes its own last renewal in an annotation, so that the last one to stop knows that it is the last.
_REPLICA = "replica.ullage.internal/"


class StatusLease:
    """`replica` tells this process from the others. Calls raise Unreachable and GiveUp."""

    def __init__(self, objects: ObjectStore, name: str, replica: str) -> None:
        self._objects, self._name, self._replica = objects, name, replica

    def renew(self, at: datetime) -> bool:
        """Renew the Lease; False when another replica was faster, which is as good."""
        lease = self._objects.find(self._name)
        try:
            if lease is None:
                self._objects.create(self._name, new_lease(self._name, self._spec(at), {self._mark: micro_time(at)}))
            else:
                others = {name: since for name, since in self._replicas(lease, at).items() if name != self._mark}
                self._put(lease, {**others, self._mark: micro_time(at)}, {**(lease.get("spec") or {}), **self._spec(at)})
        except TryAgain as error:
            if not was_faster(error):
                raise
            return False
        return True

    def leave(self, at: datetime) -> bool:
        """Sign off; True when no other replica is running."""
        lease = self._objects.find(self._name)
        if lease is None:
            return True
        others = {name: since for name, since in self._replicas(lease, at).items() if name != self._mark}
        if others:
            self._put(lease, others, lease.get("spec") or {})
            return False
        self._objects.delete(self._name)
        return True

    @property
    def _mark(self) -> str:
        return f"{_REPLICA}{self._replica}"

    def _spec(self, at: datetime) -> dict[str, Any]:
        return {
            "holderIdentity": self._replica,
            "leaseDurationSeconds": int(DURATION.total_seconds()),
            "renewTime": micro_time(at),
        }

    def _put(self, lease: dict[str, Any], marks: Mapping[str, str], spec: Mapping[str, Any]) -> None:
        metadata = lease["metadata"]
        kept = {name: text for name, text in (metadata.get("annotations") or {}).items() if not name.startswith(_REPLICA)}
        self._objects.replace(self._name, {**lease, "metadata": {**metadata, "annotations": {**kept, **marks}}, "spec": spec})

    def _replicas(self, lease: dict[str, Any], at: datetime) -> dict[str, str]:
        """The replicas that have renewed lately."""
        marks = (lease["metadata"].get("annotations") or {}).items()
        return {name: text for name, text in marks if name.startswith(_REPLICA) and _recent(text, at)}


def _recent(text: str, at: datetime) -> bool:
    try:
        return abs(at - datetime.fromisoformat(text)) < _GONE  # a time far ahead would keep a replica for ever
    except (ValueError, TypeError):
        return False
