"""All controllers that are known, and the way from one up to the topmost well-known or scalable one.

What is not known is told apart: not yet (it is being listed or asked for), absent (it would be known), or out of sight (it may
be there). A Node owns no workload; owners in a circle have no topmost.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from streams.clients.kube.scales import Scale
from streams.sources.kube.owners.controllers import Controller, Key, scaled

FRESH = timedelta(minutes=10)
"""How long the answer about a scale may be used."""
RETRY = timedelta(seconds=30)
"""... and a question that was not answered."""
UNREAD = timedelta(hours=1)
"""After that an answer that nobody wants is dropped."""


class Missing(Enum):
    """Why a controller is not at hand."""

    NOT_YET = "is not known yet"
    ABSENT = "was not found"
    UNSEEN = "cannot be looked up"
    NO_SCALE = "has no scale"
    NODE = "is a node, which is no controller of pods"
    CIRCLE = "owns itself by way of others"


@dataclass(frozen=True, slots=True)
class Chain:
    """The way up. `top` is the best found; `stop` is why the way ended early, and `visited` ends with the key it ended at."""

    visited: tuple[Key, ...]
    top: Key | None = None
    stop: Missing | None = None

    @property
    def whole(self) -> bool:
        """Whether the way was followed to its end."""
        return self.stop in (None, Missing.NO_SCALE)


@dataclass(slots=True)
class _Answer:
    """What was said of a scale: `found` is None when there is none, and `why` is not empty when nothing could be said."""

    at: datetime
    read: datetime
    found: Controller | None = None
    why: str = ""
    asked: bool = True
    answered: bool = False


class Owners:
    """`ask` is called with a key whose scale is wanted; the answer comes by `answer`, and is asked for anew when it is old."""

    def __init__(self, now: Callable[[], datetime], ask: Callable[[Key], None]) -> None:
        self._now, self._ask = now, ask
        self._known: dict[Key, Controller] = {}
        self._states: dict[str, tuple[Missing, str]] = {}
        self._scales: dict[Key, _Answer] = {}

    def put(self, controller: Controller) -> bool:
        """Whether anything is new about it."""
        before = self._known.get(controller.key)
        self._known[controller.key] = controller
        return before != controller

    def drop(self, key: Key) -> None:
        """It is gone."""
        self._known.pop(key, None)

    def listed(self, kind: str) -> None:
        """All controllers of a well-known kind are known: one that is not at hand is not there."""
        self._states[kind] = Missing.ABSENT, ""

    def unseen(self, kind: str, why: str) -> None:
        """They cannot be looked at now. Once they were listed, what was known then counts until it can be seen again."""
        if self._states.get(kind, (Missing.UNSEEN, ""))[0] is Missing.UNSEEN:
            self._states[kind] = Missing.UNSEEN, why

    def answer(self, key: Key, scale: Scale | None, why: str = "") -> bool:
        """The scale of a key, or why it cannot be said. Whether that is news."""
        now = self._now()
        before = self._scales.get(key)
        found = None if scale is None else scaled(key, scale)
        if why and before is not None and before.answered and not before.why:
            before.at, before.asked = now - FRESH + RETRY, False
            return False
        self._scales[key] = _Answer(now, before.read if before else now, found, why, asked=False, answered=True)
        return before is None or not before.answered or (before.found, before.why) != (found, why)

    def look(self, key: Key) -> Controller | Missing:
        """A controller, or why there is none."""
        if key.kind == "Node":
            return Missing.NODE
        if key.well_known:
            return self._known.get(key) or self._states.get(key.kind, (Missing.NOT_YET, ""))[0]
        return self._scaled(key)

    def why(self, key: Key) -> str:
        """What the server said when it could not be looked up."""
        if key.well_known:
            return self._states.get(key.kind, (Missing.NOT_YET, ""))[1]
        answer = self._scales.get(key)
        return answer.why if answer is not None else ""

    def chain(self, start: Key) -> Chain:
        """The way up from a controller."""
        visited: list[Key] = []
        top: Key | None = None
        key: Key | None = start
        while key is not None:
            if key in visited:
                return Chain((*visited, key), top, Missing.CIRCLE)
            visited.append(key)
            found = self.look(key)
            if isinstance(found, Missing):
                return Chain(tuple(visited), top, found)
            top, key = key, found.owner
        return Chain(tuple(visited), top)

    def tidy(self) -> None:
        """Drop answers that nobody read for long."""
        now = self._now()
        for key in [key for key, answer in self._scales.items() if now - answer.read >= UNREAD]:
            del self._scales[key]

    def _scaled(self, key: Key) -> Controller | Missing:
        now = self._now()
        answer = self._scales.get(key)
        if answer is None:
            answer = self._scales[key] = _Answer(now, now)
            self._ask(key)
        answer.read = now
        self._renew(key, answer, now)
        if answer.found is not None:
            return answer.found
        if answer.why:
            return Missing.UNSEEN
        return Missing.NO_SCALE if answer.answered else Missing.NOT_YET

    def _renew(self, key: Key, answer: _Answer, now: datetime) -> None:
        if not answer.asked and now - answer.at >= (RETRY if answer.why else FRESH):
            answer.asked = True
            self._ask(key)
