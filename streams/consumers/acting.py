"""Acting on decisions, exactly once each: what the resizer and the evictor share.

A decision is carried out only when everything in the log has been read, the switch allows it, it has not expired by event time
and no outcome names it yet. After each one an outcome is appended before the next is begun. A crash between act and outcome is
harmless: the act looks at the world first, finds it as asked, and says so. Decides nothing: what to do with a pod is the `act`
that it is given.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import structlog

from schemas.decisions import EvictionPlanned, ResizePlanned
from schemas.names import Place
from schemas.outcomes import Action, ActionFinished, Result
from streams.codec import Codec
from streams.consumers.reading import Reading
from streams.consumers.switch import Switch
from streams.errors import BadRecord, GiveUp, LogUnavailable, TryAgain, Unreachable
from streams.log import Log, NewRecord, Record
from streams.topics import Topics

D = TypeVar("D", bound=ResizePlanned | EvictionPlanned)
_IDLE = 0.2
"""Seconds between looks at the log."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Finding:
    """How an act ended: a result and the reason as a sentence."""

    result: Result
    reason: str


@dataclass(frozen=True, slots=True)
class Post:
    """Where a consumer works: a log, its topics, and the cluster whose decisions it carries out."""

    log: Log
    topics: Topics
    codec: Codec
    cluster: str

    def place(self, topic: str) -> tuple[str, int]:
        """Wire name and partition of this cluster's records in a topic given by its short name."""
        return self.topics.wire(topic), self.topics.partition_of(self.cluster)

    def outcome(self, outcome: ActionFinished, *, cause: tuple[Place, ...]) -> NewRecord:
        """The record of an outcome."""
        return self.codec.encode(
            outcome,
            topic="outcomes",
            key=self.cluster,
            partition=self.topics.partition_of(self.cluster),
            source=f"/ullage/consumer/{outcome.action.value}",
            cause=cause,
        )


@dataclass(slots=True)
class _Waiting(Generic[D]):
    """A decision that has no outcome yet. `not_before` is event time."""

    decision: D
    place: Place
    not_before: datetime | None = None
    last_answer: str = ""


@dataclass(frozen=True, slots=True)
class _Away:
    """The cluster did not answer; nothing is asked of it before `until`, which is event time."""

    until: datetime
    answer: str


class Acting(Generic[D]):
    """Carries out the decisions of class `planned` by calling `act`, which may raise TryAgain and GiveUp."""

    def __init__(self, post: Post, *, planned: type[D], action: Action, act: Callable[[D], Finding]) -> None:
        self._post, self._planned, self._action, self._act = post, planned, action, act
        self._switch = Switch(post.cluster, post.codec)
        self._control, self._updates, self._outcomes = (post.place(name) for name in ("control", "pod-updates", "outcomes"))
        self._reading = Reading(post.log, (self._outcomes, self._control, self._updates))
        self._waiting: dict[str, _Waiting[D]] = {}
        self._finished: set[str] = set()
        self._unsaid: NewRecord | None = None
        self._away: _Away | None = None

    def poll_once(self) -> int:
        """Read the log to its end, then finish what can be finished; how many outcomes were appended. Raises LogUnavailable."""
        said = self._say()
        for record in self._reading.catch_up():
            self._read(record)
        for identifier, waiting in list(self._waiting.items()):
            if identifier not in self._finished:
                said += self._attend(waiting)
        self._waiting = {i: waiting for i, waiting in self._waiting.items() if i not in self._finished}
        return said

    def run(self, stop: threading.Event) -> None:
        """Work until told to stop. While the log is away nothing is done."""
        while not stop.is_set():
            try:
                self.poll_once()
            except LogUnavailable as error:
                _log.warning("the log is away, nothing is done", action=self._action.value, error=str(error))
            stop.wait(_IDLE)

    def _read(self, record: Record) -> None:
        place = record.topic, record.partition
        if place == self._control:
            self._switch.read(record)
            return
        try:
            event = self._post.codec.decode(record)
        except BadRecord as error:
            self._set_aside(record, error)
            return
        if isinstance(event, ActionFinished) and event.action is self._action:
            self._finished.add(event.decision)
        elif isinstance(event, self._planned) and event.id not in self._finished:
            self._waiting.setdefault(event.id, _Waiting(event, record.place))

    def _set_aside(self, record: Record, error: BadRecord) -> None:
        """Outcomes are set aside by the stages that read them; nobody but a consumer reads decisions. Ticks are no events."""
        if (record.topic, record.partition) == self._updates:
            self._post.log.append([self._post.codec.dead_letter(record, error, by=f"/ullage/consumer/{self._action.value}")])

    def _attend(self, waiting: _Waiting[D]) -> int:
        """One decision: now, later, or never."""
        for record in self._reading.catch_up((self._control[0],)):
            self._switch.read(record)
        now = self._switch.now
        if now is None:
            return 0
        finding = self._finding(waiting, now)
        return 0 if finding is None else self._finish(waiting, finding, now)

    def _finding(self, waiting: _Waiting[D], now: datetime) -> Finding | None:
        """How it ended; None when it is worth trying again."""
        decision = waiting.decision
        if now > decision.expires:
            last = f"; the last try: {waiting.last_answer}" if waiting.last_answer else ""
            return Finding(Result.EXPIRED, f"void since {decision.expires.isoformat()}, it is {now.isoformat()}{last}")
        objection = self._switch.objection()
        if objection is not None:
            return Finding(Result.REFUSED, objection)
        if waiting.not_before is not None and now < waiting.not_before:
            return None
        if self._away is not None and now < self._away.until:
            waiting.last_answer = self._away.answer
            return None
        return self._try(waiting, now)

    def _try(self, waiting: _Waiting[D], now: datetime) -> Finding | None:
        """Act. When nobody answers, the others wait as well: each would stand in line for its own time-out."""
        self._away = None
        try:
            return self._act(waiting.decision)
        except TryAgain as later:
            waiting.not_before, waiting.last_answer = now + timedelta(seconds=later.after), str(later)
            if isinstance(later, Unreachable):
                self._away = _Away(waiting.not_before, waiting.last_answer)
            return None
        except GiveUp as never:
            return Finding(Result.FAILED, str(never))

    def _finish(self, waiting: _Waiting[D], finding: Finding, now: datetime) -> int:
        decision = waiting.decision
        outcome = ActionFinished(
            id=f"{decision.id}/{self._action.value}/{decision.pod.uid}",
            at=now,
            decision=decision.id,
            action=self._action,
            result=finding.result,
            reason=finding.reason,
            workload=decision.workload,
            pod=decision.pod,
        )
        self._finished.add(decision.id)
        self._unsaid = self._post.outcome(outcome, cause=(waiting.place,))
        said = self._say()
        _log.info(
            "finished", action=outcome.action.value, decision=outcome.decision, result=outcome.result.value, reason=outcome.reason
        )
        return said

    def _say(self) -> int:
        """Append the outcome that is not in the log yet. It stays unsaid, and nothing else is begun, until the log takes it."""
        if self._unsaid is None:
            return 0
        self._post.log.append([self._unsaid])
        self._unsaid = None
        return 1
