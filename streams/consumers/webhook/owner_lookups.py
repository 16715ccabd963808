"""Finds the topmost controller above a pod that is about to be created, without letting the API server wait for long.

Answers of the API server are cached, because all pods of a ReplicaSet need the same one, and simultaneous look-ups of one
controller share a request. Requests are bounded in time and number; beyond the bound the pod is left alone, and a late answer
serves the next pod.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from schemas.units import Seconds
from streams.clients.kube.controllers import ControllerKey
from streams.consumers.webhook.review import FoundOwner, UnknownOwner
from streams.errors import EdgeError

_FRESH = Seconds(600.0)
"""How long an answer is used, as upstream keeps those about scales."""
_RETRY = Seconds(5.0)
"""... and one that was none."""
_KEPT = 50_000
_WAITING = 500
"""Questions that are under way or wait, at most."""


class Chain(Protocol):
    """A client that finds the owners of controllers; it is called in a thread."""

    def topmost(self, start: ControllerKey) -> ControllerKey | None:
        """The topmost controller; None when there is none that counts. Raises TryAgain and GiveUp."""


class LookupWatcher(Protocol):
    """Counts look-ups."""

    def looked_up(self, result: str) -> None:
        """One look-up ended: `found`, `none`, `failed`, `late` (the pod did not wait) or `refused` (too many at once)."""


class OwnerLookups:
    """Used in one event loop. `patience`: seconds that a pod waits for one answer."""

    def __init__(
        self,
        chain: Chain,
        executor: Executor,
        watcher: LookupWatcher,
        *,
        patience: Seconds,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._chain, self._executor, self._watcher = chain, executor, watcher
        self._patience, self._clock = patience, clock
        self._known: OrderedDict[ControllerKey, tuple[float, FoundOwner]] = OrderedDict()
        self._asked: dict[ControllerKey, asyncio.Task[FoundOwner]] = {}

    def cached(self, owner: ControllerKey) -> tuple[FoundOwner] | None:
        """The cached answer, in a tuple of one; None if it has to be looked up."""
        held = self._known.get(owner)
        if held is None or self._clock() >= held[0]:
            return None
        return (held[1],)

    async def find(self, owner: ControllerKey) -> FoundOwner:
        """Look it up. Raises nothing."""
        held = self.cached(owner)
        if held is not None:
            return held[0]
        task = self._asked.get(owner)
        if task is None:
            if len(self._asked) >= _WAITING:
                self._watcher.looked_up("refused")
                return UnknownOwner(f"{_WAITING} other owners are being looked up")
            task = self._asked[owner] = asyncio.create_task(self._ask(owner))
        try:
            return await asyncio.wait_for(asyncio.shield(task), self._patience)
        except TimeoutError:
            self._watcher.looked_up("late")
            return UnknownOwner(f"the API server did not say within {self._patience:g} s")

    async def _ask(self, owner: ControllerKey) -> FoundOwner:
        found: FoundOwner
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._executor, self._chain.topmost, owner)
            self._watcher.looked_up("none" if found is None else "found")
        except EdgeError as error:
            found = UnknownOwner(str(error))
            self._watcher.looked_up("failed")
        finally:
            self._asked.pop(owner, None)
        self._known[owner] = self._clock() + (_RETRY if isinstance(found, UnknownOwner) else _FRESH), found
        self._known.move_to_end(owner)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return found
