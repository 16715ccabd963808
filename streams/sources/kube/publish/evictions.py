"""`Evicted` events and the pods they are about, whichever comes first.

An event whose pod is not known waits while the pods are being listed, and for a while after; then it is dropped with a line.
"""

from collections import OrderedDict

import structlog

from streams.clients.kube.watched_objects import EventObject
from streams.sources.kube.publish.pod_tracker import Pods

_log = structlog.get_logger(__name__)
MOST = 10_000
"""Events that may wait."""


class Evictions:
    """Hands events to the pods."""

    def __init__(self, pods: Pods) -> None:
        self._pods = pods
        self._waiting: OrderedDict[str, EventObject] = OrderedDict()

    def put(self, event: EventObject) -> None:
        """An event was seen."""
        if event.reason != "Evicted" or event.involved_object.kind != "Pod" or self._pods.evicted(event):
            return
        self._waiting[event.involved_object.uid] = event
        while len(self._waiting) > MOST:
            self._drop(self._waiting.popitem(last=False)[1])

    def look_again(self, uid: str) -> None:
        """This pod is there now."""
        event = self._waiting.pop(uid, None)
        if event is not None:
            self._pods.evicted(event)

    def settle(self) -> None:
        """All pods are known: what waits still is about pods that are gone."""
        while self._waiting:
            self._drop(self._waiting.popitem(last=False)[1])

    def _drop(self, event: EventObject) -> None:
        about = event.involved_object
        _log.warning("an eviction is of a pod that is not known", pod=f"{about.namespace}/{about.name}", uid=about.uid)
