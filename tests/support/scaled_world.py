"""An API server's objects and scales in memory, for the consumer of autoscalers; it kills whoever asks, when told so.

A kill is an exception that nobody catches: what the server did stands, and the process knows nothing of it.
"""

import copy
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from streams.clients.kube.controllers import ControllerKey, FoundScale
from streams.consumers.replicas.pass_objects import ReplicaClients
from streams.log.log_port import NewRecord, Place
from streams.log.memory_log import MemoryLog
from tests.support.api_objects import merge_patch

Json = dict[str, Any]


class Killed(BaseException):
    """As kill -9 has it: no code of the killed process runs after it."""


class KillSwitch:
    """Kills at the n-th step, before it or right after it; never, while `left` is None."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.after = False
        self.steps = 0
        self._dead = False
        self._lock = threading.Lock()
        self._off = False

    def arm(self, steps: int, *, after: bool) -> None:
        """The step with this number kills."""
        self.left, self.after, self._dead = steps, after, False

    def disarm(self) -> None:
        """A new process lives."""
        self.left, self._dead = None, False

    @contextmanager
    def off(self) -> Iterator[None]:
        """What is done here belongs to nobody who may be killed: it is no step."""
        self._off = True
        try:
            yield
        finally:
            self._off = False

    def step(self, *, done: bool) -> None:
        """Called before a step, and after it (`done`)."""
        if self._off:
            return
        with self._lock:
            if self._dead:
                raise Killed
            if self.left is None:
                self.steps += not done
                return
            if done is self.after:
                self.left -= 1
                if self.left < 0:
                    self._dead = True
                    raise Killed


class DeadlyLog(MemoryLog):
    """The log in memory; appends are steps."""

    switch = KillSwitch()

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        self.switch.step(done=False)
        places = super().append(list(records))
        self.switch.step(done=True)
        return places


@dataclass(frozen=True)
class Written:
    """What the server accepted, and when, in seconds of real time."""

    kind: str
    name: str
    version: str
    gone: bool = False
    at: float = field(default_factory=time.time, compare=False)


class KeptObjects:
    """The objects of one kind, as `AppliedObjects` has them. A manifest replaces what an earlier one said."""

    def __init__(self, kind: str, world: "ScaledWorld") -> None:
        self.kind, self._world = kind, world
        self.held: dict[tuple[str, str], Json] = {}

    def find(self, namespace: str, name: str) -> Json | None:
        with self._world.lock:
            return copy.deepcopy(self.held.get((namespace, name)))

    def apply(self, namespace: str, manifest: Mapping[str, Any]) -> Json:
        self._world.switch.step(done=False)
        with self._world.lock:
            key = namespace, str(manifest["metadata"]["name"])
            before = self.held.get(key)
            made = copy.deepcopy(dict(manifest))
            about = {**(before or {}).get("metadata", {}), **made["metadata"]}
            if before is not None and before == {**before, **made, "metadata": about}:
                return copy.deepcopy(before)
            about["uid"] = about.get("uid") or f"uid-{self._world.next_version()}"
            made = {**(before or {}), **made, "metadata": about}
            self._store(key, made)
            found = copy.deepcopy(made)
        self._world.switch.step(done=True)
        return found

    def merge(self, namespace: str, name: str, patch: Mapping[str, Any], *, part: str = "") -> Json:
        del part
        self._world.switch.step(done=False)
        with self._world.lock:
            changed = merge_patch(self.held[namespace, name], patch)
            if changed != self.held[namespace, name]:
                self._store((namespace, name), changed, told=False)
            found = copy.deepcopy(self.held[namespace, name])
        self._world.switch.step(done=True)
        return found

    def delete(self, namespace: str, name: str, uid: str) -> bool:
        self._world.switch.step(done=False)
        with self._world.lock:
            found = self.held.get((namespace, name))
            gone = found is not None and found["metadata"]["uid"] == uid
            if gone and found is not None:
                del self.held[namespace, name]
                self._world.written.append(Written(self.kind, name, str(found["metadata"]["resourceVersion"]), gone=True))
        self._world.switch.step(done=True)
        return gone

    def _store(self, key: tuple[str, str], made: Json, *, told: bool = True) -> None:
        version = self._world.next_version()
        made["metadata"]["resourceVersion"] = version
        self.held[key] = made
        if told:
            self._world.written.append(Written(self.kind, key[1], version))


class ScaledWorld:
    """The objects of all kinds, and the scale of Deployments."""

    def __init__(self, switch: KillSwitch) -> None:
        self.switch, self.lock = switch, threading.RLock()
        self.written: list[Written] = []
        self.sets: list[int] = []
        self._version = 0
        self.ehpas = KeptObjects("EffectiveHorizontalPodAutoscaler", self)
        self.hpas = KeptObjects("HorizontalPodAutoscaler", self)
        self.tsps = KeptObjects("TimeSeriesPrediction", self)
        self.substitutes = KeptObjects("Substitute", self)
        self.scales: dict[str, FoundScale] = {}

    @property
    def clients(self) -> ReplicaClients:
        """What a consumer is given."""
        return ReplicaClients(self.ehpas, self.hpas, self.tsps, self.substitutes, self, self)

    def next_version(self) -> str:
        self._version += 1
        return str(self._version)

    def has(self, name: str, replicas: int) -> None:
        """A Deployment asks for so many replicas and has them."""
        path = f"/apis/apps/v1/namespaces/shop/deployments/{name}/scale"
        self.scales[name] = FoundScale(path, f"Deployment shop/{name}", replicas, replicas, f"app={name}", f"uid-{name}", "1")

    def find(self, key: ControllerKey) -> FoundScale | None:
        with self.lock:
            return self.scales.get(key.name)

    def set(self, found: FoundScale, replicas: int) -> None:
        """Set the scale that was found."""
        self.switch.step(done=False)
        with self.lock:
            name = found.path.split("/")[-2]
            self.scales[name] = replace(found, replicas=replicas, there=replicas, version=self.next_version())
            self.sets.append(replicas)
        self.switch.step(done=True)

    def forget_kinds(self) -> None:
        """As the client of scales has it."""

    def selected(self, namespace: str, selector: str) -> Sequence[Json]:
        """No pods: what follows from utilisations is left out then."""
        del namespace, selector
        return []
