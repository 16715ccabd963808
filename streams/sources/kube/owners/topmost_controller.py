"""The graph of controllers and their owners, and the way from one up to the topmost well-known or scalable controller.

There are different reasons for a controller to be missing: it is still being listed or looked up, it does not exist (it would be
known), or it cannot be seen (it may exist). A Node owns no workload, and owners in a circle have no topmost one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from streams.clients.kube.controllers import Controller, ControllerKey, ObjectScale, from_scale

REFRESH_AFTER = timedelta(minutes=10)
"""How long a scale counts as it was found; then it is looked up again."""
RETRY_AFTER = timedelta(seconds=30)
"""How long to wait after a look-up that failed."""
FORGET_AFTER = timedelta(hours=1)
"""A scale that nobody has read for this long is forgotten."""


class MissingController(Enum):
    """Why there is no controller for a key. The values complete a sentence that begins with the key."""

    NOT_YET = "is not known yet"
    ABSENT = "was not found"
    UNSEEN = "cannot be looked up"
    NO_SCALE = "has no scale"
    NODE = "is a node, which is no controller of pods"
    CIRCLE = "owns itself by way of others"


WHOLE = (None, MissingController.NO_SCALE)
"""How a chain may end that was followed to its end: an owner without a scale decides nothing about pods."""


@dataclass(frozen=True, slots=True)
class OwnerChain:
    """The way up from one controller. `top` is the topmost controller found.

    `stop` is why the way ended early; it went to its end if `stop` is in WHOLE. `visited` are the keys on the way, and ends with
    the key where the way ended.
    """

    visited: tuple[ControllerKey, ...]
    top: ControllerKey | None = None
    stop: MissingController | None = None


@dataclass(slots=True)
class _Scale:
    """The result of the last look-up: None if there is no scale; `reason` is not empty if the look-up failed."""

    at: datetime
    read: datetime
    controller: Controller | None = None
    reason: str = ""
    pending: bool = True
    known: bool = False


class OwnerGraph:
    """Controllers by key. `look_up` asks for the scale of a key that is wanted; `record_scale` takes what was found."""

    def __init__(self, now: Callable[[], datetime], look_up: Callable[[ControllerKey], None]) -> None:
        self._now, self._look_up = now, look_up
        self._controllers: dict[ControllerKey, Controller] = {}
        self._kinds: dict[str, tuple[MissingController, str]] = {}
        """By well-known kind: what a controller of that kind which is not in the graph is, and why."""
        self._scales: dict[ControllerKey, _Scale] = {}

    def upsert(self, controller: Controller) -> bool:
        """Add or replace a well-known controller. Returns whether it changed."""
        before = self._controllers.get(controller.key)
        self._controllers[controller.key] = controller
        return before != controller

    def remove(self, key: ControllerKey) -> None:
        """A well-known controller is gone."""
        self._controllers.pop(key, None)

    def mark_synced(self, kind: str) -> None:
        """Every controller of a well-known kind is in the graph, so one that is not does not exist."""
        self._kinds[kind] = MissingController.ABSENT, ""

    def mark_unseen(self, kind: str, reason: str) -> None:
        """Controllers of this kind cannot be seen at the moment."""
        # If they were listed before, that stays valid.
        if self._kinds.get(kind, (MissingController.UNSEEN, ""))[0] is MissingController.UNSEEN:
            self._kinds[kind] = MissingController.UNSEEN, reason

    def record_scale(self, key: ControllerKey, scale: ObjectScale | None, reason: str = "") -> bool:
        """A look-up ended: with a scale, with None, or with the reason why it failed. Returns whether that is new."""
        now = self._now()
        before = self._scales.get(key)
        controller = None if scale is None else from_scale(key, scale)
        # A look-up that fails changes nothing of what one before it found; it is made again soon.
        if reason and before is not None and before.known and not before.reason:
            before.at, before.pending = now - REFRESH_AFTER + RETRY_AFTER, False
            return False
        self._scales[key] = _Scale(now, before.read if before else now, controller, reason, pending=False, known=True)
        return before is None or not before.known or (before.controller, before.reason) != (controller, reason)

    def get(self, key: ControllerKey) -> Controller | MissingController:
        """The controller, or why there is none. Asks for its scale if it is not well-known."""
        controller = self._controllers.get(key)
        if controller is not None:
            return controller
        if key.kind == "Node":
            return MissingController.NODE
        if key.well_known:
            return self._kinds.get(key.kind, (MissingController.NOT_YET, ""))[0]
        return self._by_scale(key)

    def failure(self, key: ControllerKey) -> str:
        """The server's error if the controller cannot be seen; empty if it can."""
        if key.well_known:
            return self._kinds.get(key.kind, (MissingController.NOT_YET, ""))[1]
        scale = self._scales.get(key)
        return scale.reason if scale is not None else ""

    def chain(self, start: ControllerKey) -> OwnerChain:
        """The way up from a controller."""
        visited: list[ControllerKey] = []
        top: ControllerKey | None = None
        key: ControllerKey | None = start
        while key is not None:
            if key in visited:
                return OwnerChain((*visited, key), top, MissingController.CIRCLE)
            visited.append(key)
            controller = self.get(key)
            if isinstance(controller, MissingController):
                return OwnerChain(tuple(visited), top, controller)
            top, key = key, controller.owner
        return OwnerChain(tuple(visited), top)

    def prune(self) -> None:
        """Forget scales that were not read for long."""
        now = self._now()
        # Otherwise the scale of each controller that ever was would stay in memory.
        for key in [key for key, scale in self._scales.items() if now - scale.read >= FORGET_AFTER]:
            del self._scales[key]

    def _by_scale(self, key: ControllerKey) -> Controller | MissingController:
        now = self._now()
        scale = self._scales.get(key)
        # The answer comes later by `record_scale`, so that no pod waits here for a request.
        if scale is None:
            scale = self._scales[key] = _Scale(now, now)
            self._look_up(key)
        scale.read = now
        if not scale.pending and now - scale.at >= (RETRY_AFTER if scale.reason else REFRESH_AFTER):
            scale.pending = True
            self._look_up(key)
        if scale.controller is not None:
            return scale.controller
        if scale.reason:
            return MissingController.UNSEEN
        return MissingController.NO_SCALE if scale.known else MissingController.NOT_YET


class Dependents:
    """Which pods or VPAs depend on which controllers, by name, so that a change of a controller reaches them."""

    def __init__(self) -> None:
        self._rests_on: dict[str, tuple[ControllerKey, ...]] = {}
        self._names: dict[ControllerKey, dict[str, None]] = {}

    def set(self, name: str, keys: tuple[ControllerKey, ...]) -> None:
        """From now on `name` depends on exactly these controllers; without any it is forgotten."""
        before = self._rests_on.get(name, ())
        if before == keys:
            return
        for key in before:
            names = self._names.get(key, {})
            names.pop(name, None)
            if not names:
                self._names.pop(key, None)
        for key in keys:
            self._names.setdefault(key, {})[name] = None
        if keys:
            self._rests_on[name] = keys
        else:
            del self._rests_on[name]

    def on(self, key: ControllerKey) -> list[str]:
        """The names that depend on a controller, in order of registration."""
        return list(self._names.get(key, ()))

    def controllers(self, name: str) -> tuple[ControllerKey, ...]:
        """The controllers that a name depends on, from the bottom up."""
        return self._rests_on.get(name, ())

    def items(self) -> Iterable[tuple[str, tuple[ControllerKey, ...]]]:
        """Every name with its controllers, as they are now."""
        return list(self._rests_on.items())
