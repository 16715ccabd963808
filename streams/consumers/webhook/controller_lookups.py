"""What the API server says of controllers of pods that are about to be created, without letting it wait for long.

Answers are cached, because all pods of a ReplicaSet need the same one, and simultaneous look-ups of one controller share a
request. Requests are bounded in time and number; beyond the bound the pod is left alone. A chain of owners is followed as by
upstream's pkg/target/controller_fetcher/controller_fetcher.go: the seven well-known kinds are read from their objects, any other
kind counts if it has a scale, and the scale says who owns it.
"""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec

from schemas.units import Seconds
from streams.clients.kube import api_paths
from streams.clients.kube.api import Api, ApiRequest
from streams.clients.kube.controllers import ControllerKey, ScaleClient, key_of, owner_of
from streams.clients.kube.pod_objects import OwnerReference
from streams.consumers.webhook.review_interface import FoundOwner, UnknownOwner
from streams.errors import EdgeError, GiveUp

A = TypeVar("A")
_RETRY = Seconds(5.0)
"""How long no answer is used."""


class Chain(Protocol):
    """A client that finds the owners of controllers; it is called in a thread."""

    def topmost(self, start: ControllerKey) -> ControllerKey | None:
        """The topmost controller; None when there is none that counts. Raises TryAgain and GiveUp."""


class WantedPods(Protocol):
    """A client that reads controllers; it is called in a thread."""

    def coming(self, owner: ControllerKey) -> int | None:
        """How many pods it wants beyond those that are there; None for kinds that do not say. Raises TryAgain and GiveUp."""


class LookupWatcher(Protocol):
    """Counts look-ups."""

    def looked_up(self, result: str) -> None:
        """One look-up ended: `found`, `none`, `failed`, `late` (the pod did not wait) or `refused` (too many at once)."""


class Unwatched:
    """Counts nothing."""

    def looked_up(self, result: str) -> None:
        """Not counted."""


@dataclass(frozen=True, slots=True)
class LookupLimits:
    """How long an answer is used, how many are kept, how many questions are under way, and how long a pod waits for one.

    `clock` counts real seconds.
    """

    fresh: Seconds
    kept: int
    waiting: int
    patience: Seconds
    clock: Callable[[], float] = time.monotonic


class ControllerLookups(Generic[A]):
    """One question about controllers, used in one event loop. `unknown` is the answer when there is none, of the reason."""

    def __init__(
        self,
        ask: Callable[[ControllerKey], A],
        unknown: Callable[[str], A],
        executor: Executor,
        limits: LookupLimits,
        watcher: LookupWatcher | None = None,
    ) -> None:
        self._asking, self._unknown, self._executor, self._limits = ask, unknown, executor, limits
        self._watcher, self._clock = watcher or Unwatched(), limits.clock
        self._answers: OrderedDict[ControllerKey, tuple[float, A]] = OrderedDict()
        self._under_way: dict[ControllerKey, asyncio.Task[A]] = {}

    def cached(self, owner: ControllerKey) -> tuple[A] | None:
        """The cached answer, in a tuple of one; None if it has to be looked up."""
        entry = self._answers.get(owner)
        return None if entry is None or self._clock() >= entry[0] else (entry[1],)

    async def find(self, owner: ControllerKey) -> A:
        """Look it up. Raises nothing."""
        cached = self.cached(owner)
        if cached is not None:
            return cached[0]
        task = self._under_way.get(owner)
        if task is None:
            if len(self._under_way) >= self._limits.waiting:
                self._watcher.looked_up("refused")
                return self._unknown(f"{self._limits.waiting} other owners are being looked up")
            task = self._under_way[owner] = asyncio.create_task(self._ask(owner))
        try:
            # Shielded, so that an answer that comes too late for this pod serves the next one.
            return await asyncio.wait_for(asyncio.shield(task), self._limits.patience)
        except TimeoutError:
            self._watcher.looked_up("late")
            return self._unknown(f"the API server did not say within {self._limits.patience:g} s")

    async def _ask(self, owner: ControllerKey) -> A:
        answer, fresh = self._unknown("it failed"), _RETRY
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._executor, self._asking, owner)
            fresh = self._limits.fresh
            self._watcher.looked_up("none" if answer is None else "found")
        except EdgeError as error:
            answer = self._unknown(str(error))
            self._watcher.looked_up("failed")
        finally:
            self._under_way.pop(owner, None)
        self._answers[owner] = self._clock() + fresh, answer
        self._answers.move_to_end(owner)
        if len(self._answers) > self._limits.kept:
            self._answers.popitem(last=False)
        return answer


OwnerLookups = ControllerLookups[FoundOwner]
ComingPods = ControllerLookups[int | None]


def owner_lookups(chain: Chain, executor: Executor, watcher: LookupWatcher, patience: Seconds) -> OwnerLookups:
    """The topmost controller above a pod."""
    # Upstream keeps what it is told about scales for ten minutes, too.
    limits = LookupLimits(fresh=Seconds(600.0), kept=50_000, waiting=500, patience=patience)
    return ControllerLookups(chain.topmost, UnknownOwner, executor, limits, watcher)


def coming_pods(wanted: WantedPods, executor: Executor, patience: Seconds) -> ComingPods:
    """How many pods a controller still wants, asked where a quota is tight: what one pod takes, the others must find, too.

    None where nobody says in time.
    """
    # An answer is used a little longer than it takes a quota's use to reach us through the log, so that the count of pods that
    # come is never newer than that of pods that are there.
    limits = LookupLimits(fresh=Seconds(10.0), kept=5_000, waiting=100, patience=patience)
    return ControllerLookups(wanted.coming, lambda _why: None, executor, limits)


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
