"""The objects of one kind, as a pass writes them: not for ever at one pace what is refused, or what somebody else undoes.

A refused write is asked for in pauses that double, until the EHPA's spec is another one. What is shown of a pass (a status, an
annotation) and set back by somebody else is written more and more seldom, too; what is new in it is written at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from schemas.times import to_seconds
from streams.clients.kube import json_objects
from streams.clients.kube.controllers import ControllerKey, FoundScale
from streams.clients.kube.json_objects import ObjectKeeper
from streams.consumers.replicas.desired_objects import Json
from streams.contested_writes import DriftBook, RefusalBook


@dataclass(slots=True)
class PassMemory:
    """What later passes need: what others change, and what is refused."""

    drifts: DriftBook = field(default_factory=DriftBook)
    refusals: RefusalBook = field(default_factory=RefusalBook)

    def forget(self, namespace: str, name: str) -> None:
        """The object is gone."""
        self.drifts.forget(namespace, name)
        self.refusals.forget(namespace, name)


@dataclass(frozen=True, slots=True)
class PassObjects:
    """An ObjectKeeper for a pass at `now`, in seconds since the epoch, over an object of this generation."""

    objects: ObjectKeeper
    kind: str
    memory: PassMemory
    now: float
    generation: int

    def find(self, namespace: str, name: str) -> Json | None:
        """As ObjectKeeper."""
        return self.objects.find(namespace, name)

    def apply(self, namespace: str, manifest: Mapping[str, Any]) -> Json:
        """As ObjectKeeper."""
        key = namespace, str(manifest["metadata"]["name"]), self.kind
        wanted = self.generation, manifest
        return self.memory.refusals.ask(key, wanted, self.now, lambda: self.objects.apply(namespace, manifest))

    def merge(self, namespace: str, name: str, patch: Mapping[str, object], *, part: str = "") -> Json:
        """As ObjectKeeper."""
        # A patch has times and metrics in it, so that of one part counts as the same.
        key = namespace, name, f"{part or '/'.join(patch)} of {self.kind}"
        write = partial(self.objects.merge, namespace, name, patch, part=part)
        return self.memory.refusals.ask(key, self.generation, self.now, write)

    def delete(self, namespace: str, name: str, uid: str) -> bool:
        """As ObjectKeeper."""
        key = namespace, name, f"deletion of {self.kind}"
        return self.memory.refusals.ask(key, uid, self.now, lambda: self.objects.delete(namespace, name, uid))

    def show_status(self, live: Json, status: Json | None, wanted: object) -> Json:
        """Write the status; None says that the live one will do. `wanted` is what is news in it, so neither times nor texts."""
        return self._show(live, "status", None if status is None else {"status": status}, wanted)

    def annotate(self, live: Json, name: str, text: str) -> Json:
        """Write an annotation that changes with each look, so that nothing in it is news."""
        patch = {"metadata": {"annotations": {name: text}}}
        return self._show(live, name, None if _said(live, name) == text else patch, "")

    def _show(self, live: Json, part: str, patch: Json | None, wanted: object) -> Json:
        namespace, name = str(live["metadata"]["namespace"]), str(live["metadata"]["name"])
        drifts, key = self.memory.drifts, (namespace, name, f"{part} of {self.kind}")
        if patch is not None:
            again = drifts.again(key, wanted, self.now, _said(live, part))
            subresource = "status" if part == "status" else ""
            if again > self.now:
                drifts.warn(key, again, json_objects.last_manager(live, subresource))
                return live
            live = self.merge(namespace, name, patch, part=subresource)
        drifts.settled(key, wanted, _said(live, part))
        return live


class Scales(Protocol):
    """Reads and sets scales."""

    def find(self, key: ControllerKey) -> FoundScale | None:
        """The scale; None if the object has none or does not exist."""


class PodLists(Protocol):
    """Lists pods."""

    def selected(self, namespace: str, selector: str) -> Sequence[Json]:
        """The pods that match a selector, given as text."""


@dataclass(frozen=True, slots=True)
class ReplicaClients:
    """The objects that passes read and write."""

    ehpas: ObjectKeeper
    hpas: ObjectKeeper
    tsps: ObjectKeeper
    substitutes: ObjectKeeper
    scales: Scales
    pods: PodLists

    def for_pass(self, memory: PassMemory, live: Json, at: datetime) -> "PassClients":
        """As a pass over the object `live` uses them."""
        now, generation = to_seconds(at), int(live["metadata"].get("generation") or 0)
        return PassClients(
            PassObjects(self.ehpas, "EffectiveHorizontalPodAutoscaler", memory, now, generation),
            PassObjects(self.hpas, "HorizontalPodAutoscaler", memory, now, generation),
            PassObjects(self.tsps, "TimeSeriesPrediction", memory, now, generation),
            PassObjects(self.substitutes, "Substitute", memory, now, generation),
            self.scales,
            self.pods,
        )


@dataclass(frozen=True, slots=True)
class PassClients:
    """The objects that one pass reads and writes."""

    ehpas: PassObjects
    hpas: PassObjects
    tsps: PassObjects
    substitutes: PassObjects
    scales: Scales
    pods: PodLists


def _said(live: Json, part: str) -> Any:
    return live.get("status") if part == "status" else (live["metadata"].get("annotations") or {}).get(part)
