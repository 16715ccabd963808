"""Handlers, each for one class of decisions, their permit to act, and what is kept of a decision until it has an outcome.

The executor opens the permit when it reads the log, and a handler checks it right before each change. Only the instant between
the check and the request is left, and nothing waits in it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from schemas.decision_subjects import Subject
from schemas.names import Place
from schemas.outcomes import Action, OutcomeDetail, Result
from schemas.units import Seconds
from streams.consumers.executing.holder_lease import HolderLease
from streams.errors import TryAgain, UnderWay

FOLLOWED = timedelta(minutes=5)
"""Event time after a plan's end for which that is followed which the cluster accepted and is not done with."""
LOOK_AGAIN = Seconds(2.0)
"""Seconds between two looks at what was accepted and does not show yet."""
_PART_OF_AGE = 10  # the next look comes after this part of the age, so that what takes long is looked at less and less often


class ExecutableDecision(Protocol):
    """What the executor needs to know of a decision."""

    @property
    def id(self) -> str:
        """The id of the decision, which its outcome names."""

    @property
    def at(self) -> datetime:
        """When it was taken."""

    @property
    def void_after(self) -> datetime:
        """The last moment at which it may be carried out."""

    @property
    def subject(self) -> Subject:
        """What it is about. An executor carries out the decisions about its own cluster."""


D = TypeVar("D", bound=ExecutableDecision)


@dataclass(frozen=True, slots=True)
class HandlerResult:
    """How a handler finished with a decision; the reason is a sentence, and the detail says the same to programs.

    `groups` are those that an external expander chose.
    """

    result: Result
    reason: str
    detail: OutcomeDetail = OutcomeDetail.NONE
    groups: tuple[str, ...] = ()


def _every(_decision: Any) -> bool:
    """For a handler that carries out every decision of its class."""
    return True


def _unknown(_decision: Any) -> str:
    """For a handler that cannot see whether a decision was carried out."""
    return "nobody can see whether it was carried out"


@dataclass(frozen=True, slots=True)
class Handler(Generic[D]):
    """How decisions of one class are carried out: where they come from (a topic's short name), and what is done.

    `act` looks at the subject first, then asks for the change; it returns None when the other side took that. From then on the
    executor only looks, until the world shows the change, so that "done" is said of what was seen. `look` returns how it ended,
    else a sentence: what the world shows instead. With `at_once` the other side shows what it took at its next answer, so that
    something else there is the work of others. `undo` is for acts that take several calls of `act`, all but the last of which
    raise TryAgain: it takes back what was begun. All may raise TryAgain and GiveUp. Decisions for which `concerns` is false are
    for other handlers, and get no outcome from this one.
    """

    topic: str
    decision: type[D]
    action: Action
    act: Callable[[D], HandlerResult | None]
    look: Callable[[D], HandlerResult | str] = _unknown
    at_once: bool = False
    undo: Callable[[D], None] | None = None
    concerns: Callable[[D], bool] = _every
    always: bool = False
    """Whether it is done whatever the control record says, because it changes nothing in the cluster."""


@dataclass(slots=True)
class PendingDecision:
    """A decision that has no outcome yet. `not_before` is event time. `unsure`: it may have been carried out already.

    `asked`: this process has asked for it, and the other side took that. `followed`: it is not finished there. `ended` is how it
    ended, while what was begun is not undone yet.
    """

    decision: ExecutableDecision
    handler: Handler[Any]
    place: Place
    unsure: bool
    not_before: datetime | None = None
    last_answer: str = ""
    last_detail: OutcomeDetail = OutcomeDetail.NONE
    asked: bool = False
    followed: bool = False
    ended: HandlerResult | None = None

    @property
    def about(self) -> tuple[Action, Subject]:
        """What is done to what."""
        return self.handler.action, self.decision.subject

    @property
    def follow_until(self) -> datetime:
        """When following ends."""
        return self.decision.void_after + FOLLOWED

    def act(self) -> HandlerResult:
        """Ask for the change, and look whether it shows. Raises UnderWay if it does not yet, TryAgain and GiveUp."""
        ended = self.handler.act(self.decision)
        if ended is not None:
            return ended
        self.asked = self.unsure = True
        return self.look(None)

    def look(self, obstacle: HandlerResult | None) -> HandlerResult:
        """How it ended, by a look at the world; for what nobody asked for, the `obstacle` if the world is not as decided.

        Raises as `act`.
        """
        seen = self.handler.look(self.decision)
        if obstacle is not None and not self.asked:
            return obstacle if isinstance(seen, str) or seen.result is Result.REFUSED else seen
        if isinstance(seen, str):
            return self._not_shown(seen)
        return replace(seen, detail=OutcomeDetail.APPLIED) if seen.detail is OutcomeDetail.ALREADY_DONE else seen

    def _not_shown(self, shown: str) -> HandlerResult:
        """What was accepted does not show: others changed it, or it takes time."""
        if self.handler.at_once:
            return HandlerResult(Result.FAILED, f"it was accepted, and others changed it: {shown}", OutcomeDetail.MOVED)
        doing, to = self.handler.action.value, self.decision.subject.id
        raise UnderWay(doing=doing, to=to, answer=shown, after=LOOK_AGAIN, detail=OutcomeDetail.IN_PROGRESS)

    def follow(self, now: datetime, after: Seconds) -> None:
        """The cluster is working on it: look again after so many seconds, later the longer it takes, and once when time is up."""
        patience = min((now - self.decision.at) / _PART_OF_AGE, self.follow_until - now)
        self.followed = self.unsure = True
        self.not_before = now + max(timedelta(seconds=after), patience)


# Longer than a client waits for an answer, so that a slow server keeps nobody from acting.
LASTS = Seconds(15.0)


class ActPermit:
    """The permit of one executor; it is open for `LASTS` after `open`, as long as the Lease is held, if there is one.

    `clock` counts seconds, and goes on while the process is frozen.
    """

    def __init__(self, lease: HolderLease | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.lease, self._clock = lease, clock
        self._until = float("-inf")

    @property
    def held(self) -> bool:
        """Whether no other instance acts."""
        return self.lease is None or self.lease.held

    def open(self) -> None:
        """The conditions for acting are being checked now."""
        self._until = self._clock() + LASTS

    def check(self, doing: str, to: str) -> None:
        """Raises TryAgain if the conditions must be checked again first. The arguments are those of the error."""
        if not self.held:
            _refuse(doing, to, "the Lease was lost meanwhile")
        # The process may have been frozen since it read the log (SIGSTOP, a paused machine): by now the decision may have
        # expired, a pause may be in force, or another instance may have taken over.
        if self._clock() >= self._until:
            _refuse(doing, to, f"the last look at the log is more than {LASTS:g} s old")


def _refuse(doing: str, to: str, answer: str) -> NoReturn:
    raise TryAgain(doing=doing, to=to, answer=answer, after=Seconds(0.0))
