"""Acting on decisions, exactly once each: what the resizer and the evictor share.

A decision is carried out only when everything in the log has been read, the switch allows it, it has not expired by event time
and no outcome names it yet. One that was taken too long ago to know that (see `answered`) is passed over. After each one an
outcome is appended before the next is begun. A crash between act and outcome is harmless: the act looks at the world first, finds
it as asked, and says so. Decides nothing: what to do with a pod is the `act` that it is given.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import structlog

from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.ids import OutcomeId
from schemas.names import Place
from schemas.outcomes import Action, ActionFinished, Result
from streams.codec.event_codec import Codec, tick_number
from streams.consumers.executing.control import Switch
from streams.consumers.executing.cursor import Reading
from streams.consumers.executing.outcome_index import Answered
from streams.errors import BadRecord, GiveUp, LogUnavailable, TryAgain, Unreachable
from streams.log.port import Log, NewRecord, Record
from streams.log_range import offset_at
from streams.topics import Topics

D = TypeVar("D", bound=ResizePlanned | EvictionPlanned)
_IDLE = 0.2
"""Seconds between looks at the log."""
_SLACK = timedelta(days=1)
"""In a partition times can go back a little, as a worker that recovers says some decisions again."""
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
        self._updates, self._outcomes = post.place("pod-updates"), post.place("outcomes")
        self._control = Reading(post.log, (post.place("control"),))
        self._begun: tuple[Reading, Answered] | None = None
        self._waiting: dict[str, _Waiting[D]] = {}
        self._unsaid: list[NewRecord] = []
        self._away: _Away | None = None

    def poll_once(self) -> int:
        """Read the log to its end, then finish what can be finished; how many outcomes were appended. Raises LogUnavailable.

        Before the first tick there is no time, so nothing is read or done.
        """
        said, now = self._say(), self._time()
        if now is None:
            return said
        if self._begun is None:
            self._begun = self._begin(now)
        reading, answered = self._begun
        for record in reading.catch_up():
            self._read(record, answered)
        said += self._say()
        for identifier, waiting in list(self._waiting.items()):
            said += 0 if identifier in answered else self._attend(waiting, answered)
            if identifier in answered:
                del self._waiting[identifier]
        answered.forget(now)
        return said

    def run(self, stop: threading.Event) -> None:
        """Work until told to stop. While the log is away nothing is done."""
        while not stop.is_set():
            try:
                self.poll_once()
            except LogUnavailable as error:
                _log.warning("the log is away, nothing is done", action=self._action.value, error=str(error))
            stop.wait(_IDLE)

    def _time(self) -> datetime | None:
        """Event time, and the switch as it stands, both as of this moment."""
        for record in self._control.catch_up():
            self._switch.read(record)
        return self._switch.now

    def _begin(self, now: datetime) -> tuple[Reading, Answered]:
        """Outcomes before decisions, both from a little before the moment since when they count."""
        answered, log = Answered(now), self._post.log
        places = self._outcomes, self._updates
        return Reading(log, {place: offset_at(log, *place, answered.since - _SLACK) for place in places}), answered

    def _read(self, record: Record, answered: Answered) -> None:
        if tick_number(record) is not None:
            return
        try:
            event = self._post.codec.decode(record)
        except BadRecord as error:
            self._set_aside(record, error)
            return
        if isinstance(event, ActionFinished) and event.action is self._action:
            answered.add(event)
        elif isinstance(event, self._planned) and self._ours(event) and event.id not in answered and event.at >= answered.since:
            self._waiting.setdefault(event.id, _Waiting(event, record.place))

    def _ours(self, decision: D) -> bool:
        """Clusters share partitions; another cluster's decisions are another consumer's."""
        return decision.subject.cluster == self._post.cluster

    def _set_aside(self, record: Record, error: BadRecord) -> None:
        """Outcomes are set aside by the stages that read them; nobody but a consumer reads decisions."""
        if (record.topic, record.partition) == self._updates:
            self._unsaid.append(self._post.codec.dead_letter(record, error, by=f"/ullage/consumer/{self._action.value}"))

    def _attend(self, waiting: _Waiting[D], answered: Answered) -> int:
        """One decision: now, later, or never."""
        now = self._time()
        finding = None if now is None else self._finding(waiting, now)
        if now is None or finding is None:
            return 0
        outcome = self._outcome(waiting.decision, finding, now)
        answered.add(outcome)
        self._unsaid.append(self._post.outcome(outcome, cause=(waiting.place,)))
        said = self._say()
        _log.info(
            "finished", action=outcome.action.value, decision=outcome.decision, result=outcome.result.value, reason=outcome.reason
        )
        return said

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

    def _outcome(self, decision: D, finding: Finding, now: datetime) -> ActionFinished:
        return ActionFinished(
            id=str(OutcomeId(decision.id, self._action, decision.subject.id)),
            at=now,
            decision=decision.id,
            action=self._action,
            result=finding.result,
            reason=finding.reason,
            subject=decision.subject,
        )

    def _say(self) -> int:
        """Append what is not in the log yet; how many outcomes. Until the log takes it nothing else is begun."""
        if self._unsaid:
            self._post.log.append(self._unsaid)
        said, self._unsaid = self._unsaid, []
        return sum(record.topic == self._outcomes[0] for record in said)
