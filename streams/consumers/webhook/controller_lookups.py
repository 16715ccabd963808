"""What the API server says of controllers of pods that are about to be created, without letting it wait for long.

Answers are cached, because all pods of a ReplicaSet need the same one, and simultaneous look-ups of one controller share a
request. Requests are bounded in time and number; beyond the bound the pod is left alone.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from schemas.units import Seconds
from streams.clients.kube.controllers import ControllerKey
from streams.consumers.webhook.review_interface import FoundOwner, UnknownOwner
from streams.errors import EdgeError

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
