"""Finds the topmost well-known or scalable controller above another one, by requests to the API server.

It is for callers that need one answer now and have no copy of the cluster. Upstream's
pkg/target/controller_fetcher/controller_fetcher.go: the seven well-known kinds are read from their objects, any other kind counts
if it has a scale, and the scale says who owns it.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

from schemas.units import Seconds
from streams.clients.kube import api_paths
from streams.clients.kube.api import Api, ApiRequest
from streams.clients.kube.controllers import ControllerKey, key_of, owner_of
from streams.clients.kube.pod_objects import OwnerReference
from streams.clients.kube.scales import ScaleClient
from streams.errors import GiveUp

T = TypeVar("T")

_PLACES = {
    "Deployment": ("/apis/apps/v1", "deployments"),
    "ReplicaSet": ("/apis/apps/v1", "replicasets"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
    "DaemonSet": ("/apis/apps/v1", "daemonsets"),
    "Job": ("/apis/batch/v1", "jobs"),
    "CronJob": ("/apis/batch/v1", "cronjobs"),
    "ReplicationController": ("/api/v1", "replicationcontrollers"),
}
_COUNTING = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController", "Job", "DaemonSet"})
"""The kinds that own pods directly and say how many they want."""
_LONGEST = 16  # owners above one another; a real chain has three
_FORGET = Seconds(300.0)
"""After so long the places of installed kinds are looked up again."""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    owner_references: list[OwnerReference] = []


class _Owned(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


class _Counts(msgspec.Struct, frozen=True, rename="camel"):
    """The pods that a controller wants, and those that it has. A Job says how many may run, and a DaemonSet only has a status."""

    replicas: int | None = None
    parallelism: int | None = None
    active: int | None = None
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0


class _Counted(msgspec.Struct, frozen=True):
    spec: _Counts = _Counts()
    status: _Counts = _Counts()


class ControllerChain:
    """The chains of one server. Several threads may ask; all calls raise Unreachable, TryAgain and GiveUp."""

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._scales, self._clock = api, ScaleClient(api), clock
        self._lock = threading.Lock()
        self._forgotten = clock()

    def topmost(self, start: ControllerKey) -> ControllerKey | None:
        """The topmost controller; None when there is none that counts. GiveUp for owners in a circle and missing objects."""
        top: ControllerKey | None = None
        key: ControllerKey | None = key_of(start.namespace, start.api_version, start.kind, start.name)
        visited: set[ControllerKey] = set()
        while key is not None and key.kind != "Node":
            if key in visited or len(visited) >= _LONGEST:
                raise GiveUp(doing="looking up the owners of", to=str(start), answer="they form a circle")
            visited.add(key)
            owners = self._owners(key)
            if owners is None:
                break
            top, key = key, owner_of(key.namespace, owners)
        return top

    def coming(self, owner: ControllerKey) -> int | None:
        """How many pods a controller wants beyond those that it has; None for a kind that does not say."""
        key = key_of(owner.namespace, owner.api_version, owner.kind, owner.name)
        if not key.well_known:
            scale = self._scale(key, self._scales.find)
            return None if scale is None else scale.replicas - scale.there  # which counts the pods that its selector names
        if key.kind not in _COUNTING:
            return None
        start, plural = _PLACES[key.kind]
        counted = self._api.find(
            ApiRequest(api_paths.scoped(start, key.namespace, plural, key.name), "reading", str(key)), _Counted
        )
        if counted is None:
            return None
        spec, status = counted.spec, counted.status
        if key.kind == "DaemonSet":
            return status.desired_number_scheduled - status.current_number_scheduled
        if key.kind == "Job":
            return (1 if spec.parallelism is None else spec.parallelism) - (status.active or 0)
        return (1 if spec.replicas is None else spec.replicas) - (status.replicas or 0)

    def _owners(self, key: ControllerKey) -> list[OwnerReference] | None:
        """Who owns a controller; None for an object that does not count as one."""
        if not key.well_known:
            scale = self._scale(key, self._scales.look_up)
            return None if scale is None else list(scale.owners)
        start, plural = _PLACES[key.kind]
        path = api_paths.scoped(start, key.namespace, plural, key.name)
        owned = self._api.find(ApiRequest(path, "reading", str(key)), _Owned)
        if owned is None:
            raise GiveUp(doing="reading", to=str(key), answer="it was not found")
        return owned.metadata.owner_references

    def _scale(self, key: ControllerKey, ask: Callable[[ControllerKey], T]) -> T:
        """What `ask` says of a scale."""
        with self._lock:  # one at a time costs little, because kinds that were installed are rare
            if self._clock() - self._forgotten >= _FORGET:
                self._scales.forget_kinds()
                self._forgotten = self._clock()
            return ask(key)
