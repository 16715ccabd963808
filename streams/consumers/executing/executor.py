"""Carries decisions out, exactly once each: decisions of any stage, from any topic, about any subject.

A decision is carried out only if a turn attests to it, when everything in the log has been read, the control record allows it, it
is not void by event time and no outcome names it yet. A crash between act and outcome is harmless: a handler looks at the cluster
first, finds it as decided, and reports that. An act is done when the world shows it: until then the executor looks again. What
the cluster has accepted and not finished is followed for a bounded time, even beyond the plan's end and under a pause. The
executor decides nothing; the handler knows what to do.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from schemas.catalogue import Event
from schemas.decision_subjects import Subject
from schemas.decisions.plan_attestations import PlansAttested
from schemas.ids import OutcomeId
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from streams import own_faults
from streams.codec import plan_attestations
from streams.codec.event_codec import is_of_a_clock
from streams.consumers.executing.acting_consumer import ActingConsumer, encode_outcome
from streams.consumers.executing.control_state import ControlState
from streams.consumers.executing.handler import ActPermit, ExecutableDecision, Handler, HandlerResult, PendingDecision
from streams.consumers.executing.plan_evidence import REACH, OutcomeIndex, PlanEvidence
from streams.errors import BadRecord, EdgeError, LogUnavailable, TryAgain, UnderWay, Unreachable
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.log_range import Cursor, offset_before_end
from streams.own_faults import OwnFaults

LOOKS = 10
"""How many of the decisions that are followed are looked at in one round; those that have waited longest come first."""
LONGEST = timedelta(days=7)  # what allowed a plan is long gone by then
_TOO_LONG = f"it may be carried out until {{}}, which is more than {LONGEST.days} days after it was decided"
_UPKEEP = timedelta(minutes=1)
"""Event time between two rounds of upkeep."""
# Times within a partition can go back a little, because a worker that recovers publishes some decisions again.
START_SLACK = timedelta(days=1)
_log = structlog.get_logger(__name__)


def source_of(action: Action) -> str:
    """The `ce_source` of whoever carries this out."""
    return f"/ullage/consumer/{action.value}"


@dataclass(frozen=True, slots=True)
class _Outage:
    """The cluster did not answer, so no request is sent before `until`, which is event time."""

    until: datetime
    answer: str


class Executor(ActingConsumer):
    """Carries out the decisions that its handlers name, for the cluster of `context`."""

    def __init__(
        self,
        context: LogContext,
        *handlers: Handler[Any],
        permit: ActPermit | None = None,
        upkeep: Callable[[Collection[str]], None] | None = None,
        notice: Callable[[Event], None] | None = None,
    ) -> None:
        """`permit` is what the handlers check; if it has a Lease, nothing is done while another instance holds that.

        `upkeep` is called each minute with the pending decisions. `notice` is told of what is decided that nobody carries out, as
        it happens: not of what came before this process could act.
        """
        self._permit, self._upkeep, self._notice = permit or ActPermit(), upkeep, notice
        self._next_upkeep: datetime | None = None
        self._handlers: Mapping[type[Any], Handler[Any]] = {handler.decision: handler for handler in handlers}
        self._decisions = {place: handler.action for handler in handlers for place in context.partitions_with(handler.topic)}
        attested = context.topics.wire(plan_attestations.TOPIC)
        self._decisions |= {(attested, partition): action for (_, partition), action in self._decisions.items()}
        """The partitions of decisions and attestations, and the action whose name stands in their dead letters."""
        self._actions = frozenset(handler.action for handler in handlers)
        self._outcomes = context.cluster_partition("outcomes")
        name = ", ".join(sorted(action.value for action in self._actions))
        super().__init__(context, self._permit.lease, renews_as=name)
        self._control, self._faults = ControlState(context), OwnFaults(name)
        self._started: tuple[Cursor, OutcomeIndex] | None = None
        self._evidence = PlanEvidence()
        self._pending: dict[str, PendingDecision] = {}
        self._outage: _Outage | None = None
        self._read_to_end = self._caught_up = False
        """The log was read to its end while this process could act; what follows was carried out by nobody else."""

    def poll_once(self) -> int:
        """Read the log to its end, then finish what can be finished; how many outcomes were appended. Raises LogUnavailable.

        Before the first tick there is no time, so nothing is read or done. Raises TooManyFaultsError after faults of our own.
        """
        appended, now = self._flush(), self._now()
        if now is None:
            return appended
        if self._started is None:
            self._started = self._start(now)
        cursor, index = self._started
        for record in cursor.catch_up():
            self._apply(record, index)
        self._collect(index, now)
        self._caught_up, self._read_to_end = self._may_act, True
        appended += self._flush()
        # Another instance may have finished what was pending here.
        self._pending = {identifier: pending for identifier, pending in self._pending.items() if identifier not in index}
        queues = self._queues()
        for identifier, pending in self._due(now):
            queue = queues[pending.about]
            # A later decision about a subject is not begun before the earlier one has its outcome, because it might undo it.
            appended += self._attempt(pending, index, waits=queue[0] != identifier)
            self._faults.check()
            if identifier in index:
                del self._pending[identifier]
                queue.remove(identifier)
        index.expire(now)
        self._evidence.expire(now)
        self._keep_up(now)
        return appended

    def reasons(self) -> list[str]:
        """Why not ready; empty when ready. An instance that stands by is."""
        if not self._read_to_end:
            return self._control.silence.reasons() or ["the decisions in the log were not read to their end yet"]
        return [*self._control.silence.reasons(), *self._faults.reasons()]

    @property
    def _news(self) -> Callable[[], bool] | None:
        # Whoever acts reads the clock and `control` again right before.
        return None if self._pending or self._unpublished or self._started is None else self._started[0].has_more

    def _now(self) -> datetime | None:
        """Event time at this moment; the control record is read at the same time."""
        self._permit.open()
        self._control.catch_up()
        return self._control.now

    def _start(self, now: datetime) -> tuple[Cursor, OutcomeIndex]:
        """Begin a little before the index's `since`."""
        index, log = OutcomeIndex(now), self._context.log
        places = self._outcomes, *self._decisions  # in this order: a decision is dropped when its outcome was read before it
        return Cursor(log, {place: offset_before_end(log, *place, REACH + START_SLACK) for place in places}), index

    def _apply(self, record: Record, index: OutcomeIndex) -> None:
        if is_of_a_clock(record):
            return
        try:
            event = self._context.codec.decode(record)
        except BadRecord as error:
            self._set_aside(record, error)
            return
        handler = self._handlers.get(type(event))
        if isinstance(event, ActionFinished) and event.action in self._actions:
            index.apply(event)
        elif isinstance(event, PlansAttested):
            self._evidence.attest(event)
        elif handler is not None and isinstance(event, handler.decision) and self._is_ours(event, handler, index):
            self._evidence.add(record, PendingDecision(event, handler, record.place, unsure=not self._caught_up))
        elif handler is None and self._notice is not None and self._caught_up and self._may_act:
            self._notice(event)

    def _is_ours(self, decision: ExecutableDecision, handler: Handler[Any], index: OutcomeIndex) -> bool:
        """Whether a decision is to be carried out here."""
        if not handler.concerns(decision):
            return False
        # Clusters share partitions. Whether a decision before `since` has an outcome cannot be known, so it is passed over.
        return decision.subject.cluster == self._context.cluster and decision.id not in index and decision.at >= index.since

    def _collect(self, index: OutcomeIndex, now: datetime) -> None:
        """Remember the decisions that turns attest to, and set aside what nobody has decided."""
        for pending in self._evidence.proven():
            if pending.decision.id not in index:
                self._pending.setdefault(pending.decision.id, pending)
        for record, forged in self._evidence.forged(now):
            if self._may_act:
                self._set_aside(record, forged)

    def _set_aside(self, record: Record, error: BadRecord) -> None:
        """Append a dead letter for a bad decision."""
        # The stages that read outcomes set bad ones aside, but decisions may have no reader other than a consumer.
        action = self._decisions.get((record.topic, record.partition))
        if action is not None:
            self._unpublished.append(self._context.codec.dead_letter(record, error, by=source_of(action)))

    def _keep_up(self, now: datetime) -> None:
        """Do what is due by time alone, unless another instance acts."""
        if self._upkeep is not None and self._may_act and (self._next_upkeep is None or now >= self._next_upkeep):
            self._next_upkeep = now + _UPKEEP
            self._upkeep(self._pending.keys())

    def _queues(self) -> Mapping[tuple[Action, Subject], deque[str]]:
        """The pending decisions about each subject, in the order in which the log has them."""
        queues: defaultdict[tuple[Action, Subject], deque[str]] = defaultdict(deque)
        for identifier, pending in self._pending.items():
            queues[pending.about].append(identifier)
        return queues

    def _due(self, now: datetime) -> list[tuple[str, PendingDecision]]:
        """The decisions to attempt in this round: first those to begin, then some of those that are followed."""
        due = [(key, plan) for key, plan in self._pending.items() if not self._left_to_others(plan) and self._is_due(plan, now)]
        followed = sorted(((key, plan) for key, plan in due if plan.followed), key=lambda item: item[1].not_before or now)
        # A look costs a request, so many that are followed must not delay a decision that is new.
        return [(key, plan) for key, plan in due if not plan.followed] + followed[:LOOKS]

    def _is_due(self, pending: PendingDecision, now: datetime) -> bool:
        """Whether a decision is due or has met an obstacle, as far as this round has read."""
        if pending.not_before is None or now >= pending.not_before:
            return True
        return not pending.unsure and self._obstacle(pending, now) is not None

    def _attempt(self, pending: PendingDecision, index: OutcomeIndex, *, waits: bool) -> int:
        """Finish with one decision, or leave it pending; how many outcomes were appended.

        One that `waits` for an earlier decision about the same subject is not begun.
        """
        now = self._now()
        if self._left_to_others(pending):
            return 0
        ended = None if now is None else self._result(pending, now, waits=waits)
        if now is None or ended is None:
            return 0
        if self._left_to_others(pending):  # the Lease was lost meanwhile; its next holder looks what was done and reports it
            return 0
        outcome = _outcome(pending, ended, now)
        index.apply(outcome)
        self._unpublished.append(encode_outcome(self._context, outcome, source=source_of(outcome.action), cause=(pending.place,)))
        appended = self._flush()  # before the next decision is begun, so that a crash leaves at most one act without an outcome
        _log.info(
            "finished", action=outcome.action.value, decision=outcome.decision, result=outcome.result.value, reason=outcome.reason
        )
        return appended

    def _left_to_others(self, pending: PendingDecision) -> bool:
        """Whether another instance may act now. If so, the outcome of the decision has to be looked up."""
        if self._may_act:
            return False
        pending.unsure, pending.ended = True, None
        return True

    def _result(self, pending: PendingDecision, now: datetime, *, waits: bool) -> HandlerResult | None:
        """How the decision ended; None when it is to be tried again."""
        obstacle, handler = self._obstacle(pending, now), pending.handler
        if obstacle is not None and not pending.unsure:
            return obstacle
        if waits:
            return None
        if pending.not_before is not None and now < pending.not_before:
            return None
        if self._outage is not None and now < self._outage.until:
            pending.last_answer, pending.last_detail = self._outage.answer, OutcomeDetail.NO_ANSWER
            return None
        if pending.ended is None and (pending.asked or obstacle is not None):
            # This process or an earlier one may have acted on it, so the cluster is looked at before an outcome says that nothing
            # was done.
            pending.ended = self._call(pending, now, lambda: pending.look(obstacle))
        elif pending.ended is None:
            # An act of several calls that fails in the middle has changed something, which a later obstacle must not hide.
            pending.unsure = pending.unsure or handler.undo is not None
            pending.ended = self._call(pending, now, pending.act)
        return None if pending.ended is None else self._taken_back(pending, now, pending.ended)

    def _taken_back(self, pending: PendingDecision, now: datetime, ended: HandlerResult) -> HandlerResult | None:
        """How it ended, once what was begun in vain is undone; None when undoing is to be tried again."""
        undo = pending.handler.undo
        if undo is None or ended.result is Result.DONE:
            return ended

        def take_back() -> HandlerResult:
            undo(pending.decision)
            return ended

        result = self._call(pending, now, take_back)
        if result is None or result is ended:
            return result
        return replace(ended, reason=f"{ended.reason}; and what was begun could not be taken back: {result.reason}")

    def _obstacle(self, pending: PendingDecision, now: datetime) -> HandlerResult | None:
        """Why the decision may not be carried out now, as the outcome that says so; None when it may."""
        decision, void_after = pending.decision, pending.decision.void_after
        if void_after - decision.at > LONGEST:
            return HandlerResult(Result.REFUSED, _TOO_LONG.format(void_after.isoformat()), OutcomeDetail.INVALID)
        if now > void_after:
            last = f"; the last try: {pending.last_answer}" if pending.last_answer else ""
            reason = f"void since {void_after.isoformat()}, it is {now.isoformat()}{last}"
            return HandlerResult(Result.EXPIRED, reason, pending.last_detail)
        objection = None if pending.handler.always else self._control.objection()
        return None if objection is None else HandlerResult(Result.REFUSED, objection, OutcomeDetail.NOT_ALLOWED)

    def _call(self, pending: PendingDecision, now: datetime, call: Callable[[], HandlerResult]) -> HandlerResult | None:
        """What the handler says; None when it is to be called again."""
        self._outage = None
        try:
            answer: HandlerResult | EdgeError = call()
        except EdgeError as refused:
            answer = refused
        except LogUnavailable:
            raise
        except Exception as fault:  # noqa: BLE001  # a handler calls everything that we have written
            return self._faulted(pending, now, fault)
        self._faults.none()
        if isinstance(answer, TryAgain):
            return self._put_off(pending, now, answer)
        return HandlerResult(Result.FAILED, str(answer), answer.detail) if isinstance(answer, EdgeError) else answer

    def _put_off(self, pending: PendingDecision, now: datetime, later: TryAgain) -> HandlerResult | None:
        """The decision is looked at again later, unless it was followed long enough."""
        pending.not_before, pending.last_answer = now + timedelta(seconds=later.after), str(later)
        pending.last_detail = later.detail
        if isinstance(later, UnderWay):
            pending.follow(now, later.after)
            pending.last_answer = later.answer
            if now <= pending.follow_until:
                return None
            return HandlerResult(Result.EXPIRED, f"it was accepted; {later.answer}", later.detail)
        if isinstance(later, Unreachable):
            # Every decision waits, because each would run into a time-out of its own. This one may have been carried out
            # nevertheless, if only the answer was lost.
            self._outage, pending.unsure = _Outage(pending.not_before, pending.last_answer), True
        return None

    def _faulted(self, pending: PendingDecision, now: datetime, fault: Exception) -> HandlerResult | None:
        """A fault of ours is no answer of the cluster: the decision is tried again until it is void, and then says why."""
        action = pending.handler.action.value
        reason = self._faults.happened(f"carrying out {action} '{pending.decision.id}'", fault)
        pending.not_before, pending.unsure = now + timedelta(seconds=own_faults.PAUSE), True
        pending.last_answer, pending.last_detail = reason, OutcomeDetail.NONE
        if now <= pending.follow_until:
            return None
        return HandlerResult(Result.EXPIRED, f"void since {pending.decision.void_after.isoformat()}; the last try: {reason}")


def _outcome(pending: PendingDecision, ended: HandlerResult, now: datetime) -> ActionFinished:
    decision, action = pending.decision, pending.handler.action
    return ActionFinished(
        id=str(OutcomeId(decision.id, action, decision.subject.id)),
        at=now,
        decision=decision.id,
        action=action,
        result=ended.result,
        reason=ended.reason,
        subject=decision.subject,
        detail=ended.detail,
        groups=ended.groups,
    )
