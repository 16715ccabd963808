"""The webhook's answers: a judged review under the control record, and outcomes that say what was offered and what came of it.

In shadow and plan mode, during a pause, and for a workload whose patched pods do not come, it lets everything through unchanged;
an outcome (refused, with the objection) then says what would have been set. It never fails and never waits: missing information,
or a view that has not caught up, is a reason to leave the object alone, which the user gets as a warning.
"""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

import structlog

from schemas.decision_subjects import Subject
from schemas.ids import OutcomeId
from schemas.outcomes import Action, ActionFinished, Result
from schemas.units import Seconds
from streams.codec import event_codec
from streams.consumers.executing.control_state import ControlState
from streams.consumers.executing.log_follower import LogFollower
from streams.consumers.webhook import offers
from streams.consumers.webhook.offers import Offers
from streams.consumers.webhook.outcome_queue import OutcomeQueue
from streams.consumers.webhook.review_interface import Coming, Review, Reviewer, Topmost, itself, nobody_knows
from streams.decision_view import DecisionView, LatestDecision
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.log_range import has_topic

_REPUBLISHED = timedelta(hours=4)  # sources publish each quota again within three hours (streams.publishing)
_BEATS = 3  # heartbeats of recommendations that are read: within one, every recommendation is published again

_PODS, _NOTE, _CONTROLLER = "pod-changes-by-cluster", b'"admitted":{', "replica-controller-"
_OF_OFFERS = ("outcomes", _PODS, "cluster-changes")
"""Topics that say what became of offers."""

FindRecommendation = Callable[[str], LatestDecision | None]
"""The newest recommendation of a workload key."""


# A starting process reads the compacted copies and the recommendations of the last heartbeats, which takes a moment.
class AdmissionView(LogFollower):
    """The view of one cluster. `make` gets the recommendations and makes the reviewer; `heartbeat` is the recommender's.

    `ready` is called once, when the view has caught up. `clock` counts real seconds.
    """

    def __init__(
        self,
        context: LogContext,
        make: Callable[[FindRecommendation], Reviewer],
        *,
        heartbeat: Seconds,
        ready: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(context, action="patch", reads="policies and recommendations", clock=clock)
        self._heartbeat, self._ready = heartbeat, ready
        self._decisions: DecisionView | None = None
        self._lock = threading.Lock()
        self.control, self.offers = ControlState(context, self._silence), Offers(context.cluster)
        self.reviewer = make(self._latest)

    def catch_up(self, *, wait: float = 0.0) -> int:
        """As the follower's; then call those offers lost of which no pod has come."""
        count, now, pods = super().catch_up(wait=wait), self.control.now, self._context.cluster_partition(_PODS)
        # One that has fallen behind may have read that time went on and the source was at work, and not yet the pods that came,
        # so the log is asked whether there are more of them.
        if now is not None and self.offers.is_overdue(now) and self._next[pods] >= self._context.log.end(*pods):
            self.offers.lose(now)
        return count

    def _latest(self, workload: str) -> LatestDecision | None:
        with self._lock:
            return None if self._decisions is None else self._decisions.get(workload)

    def _begin(self) -> int:
        log, topics = self._context.log, self._context.topics
        recommendations = topics.wire("recommendations")
        if self._decisions is None:
            self._decisions = DecisionView(log, self._context.codec, recommendations)
        with self._decisions.newest_first():
            count = self._read_last(recommendations, timedelta(seconds=_BEATS * self._heartbeat))
        if has_topic(log, topics.wire("quota-changes")):
            count += self._read_newest(topics.wire("quota-changes"), _REPUBLISHED)
        count += self._read_present("rules", (topics.wire("rules"), 0))
        count += self._read_present("policies", (topics.wire("policies"), 0))
        count += self._read_present("control", self._context.cluster_partition("control"))
        count += self._read_since("outcomes", offers.REACH)
        count += self._read_since(_PODS, offers.PODS_REACH)
        count += self._read_since("cluster-changes", offers.PODS_REACH)
        self._ready()
        return count

    def _apply(self, record: Record) -> None:
        name = self._context.topics.short(record.topic)
        if name == "recommendations" and self._decisions is not None:
            with self._lock:
                self._decisions.apply(record)
        elif name.startswith("control"):
            self.control.apply(record)
        elif name in _OF_OFFERS:
            if name != _PODS or _concerns_offers(record):  # few of all changes of all pods do
                self._apply_to_offers(record)
        elif (event := self._context.codec.decode_or_none(record)) is not None:
            self.reviewer.apply(event, record.place)

    def _apply_to_offers(self, record: Record) -> None:
        event = self._context.codec.decode_or_none(record)
        if event is not None:
            self.offers.apply(event, record.place, tuple(event_codec.causes(record)))


def _concerns_offers(record: Record) -> bool:
    """Whether it is of a pod with our note, or of a controller that makes pods."""
    return _NOTE in (record.value or b"") or _CONTROLLER in (event_codec.header(record, "ce_type") or "")


_LONGEST = 2000  # characters of an outcome's reason: a pod may have thousands of containers
_LONGEST_WARNING = 256  # characters; Kubernetes cuts longer ones
_QUIET = 1.0  # seconds between two lines about objects that were let through: an outage may let thousands through
_VERSION = "admission.k8s.io/v1"
_log = structlog.get_logger(__name__)


class AdmissionWatcher(Protocol):
    """Counts answers."""

    def answered(self, review: Review, objection: str | None, seconds: float) -> None:
        """A review was answered; with an objection, without what it would have changed."""


class Admission:
    """Answers from one view. `clock` counts real seconds."""

    def __init__(
        self,
        view: AdmissionView,
        outcomes: OutcomeQueue,
        watcher: AdmissionWatcher | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._view, self._outcomes, self._watcher, self._clock = view, outcomes, watcher, clock
        self._noted, self._unnoted = -_QUIET, 0

    def judge(self, body: bytes, topmost: Topmost, coming: Coming = nobody_knows) -> Review:
        """Judge a review. Nothing has happened yet, so it may be judged again."""
        return self._view.reviewer.review(body, topmost, coming)

    def conclude(self, review: Review, seconds: float = 0.0) -> bytes:
        """The AdmissionReview to send back, under the control record as it is now; it took so many seconds to judge."""
        blind = self._blind()
        objection = blind or self._view.control.objection() or self._paused(review)
        if not review.plain and not review.dry_run:  # we promise `sideEffects: NoneOnDryRun`
            self._note(review, objection)
        if self._watcher is not None:
            self._watcher.answered(review, objection, seconds)
        if review.status == "error" or blind is not None:
            self._log_reason(review.reason if blind is None else blind)
        return review.body if objection is None else unchanged(review.uid, blind or self._paused(review) or "")

    def settle(self) -> None:
        """Say what became of offers, as far as the log shows it."""
        for outcome, cause in self._view.offers.conclude():
            self._outcomes.offer(outcome, cause)

    def let_through(self, body: bytes, why: str, seconds: float = 0.0) -> bytes:
        """The answer to a review that could not be judged. `why` is a clause: "it took too long"."""
        review = Review(b"", self._view.reviewer.uid(body), "error", "unknown", reason=why)
        if self._watcher is not None:
            self._watcher.answered(review, None, seconds)
        self._log_reason(why)
        return unchanged(review.uid, f"the object is let through as it is: {why}")

    def answer(self, body: bytes, topmost: Topmost = itself, coming: Coming = nobody_knows) -> bytes:
        """Judge and conclude at once, for callers that need not look up owners."""
        return self.conclude(self.judge(body, topmost, coming))

    def _blind(self) -> str | None:
        """Why we know too little to change anything now; None if we know enough."""
        if not self._view.caught_up:
            return "the view has not caught up with the log yet"
        if self._view.control.now is None:
            return "the log has no time yet: no clock has ticked"
        return None

    def _log_reason(self, reason: str) -> None:
        now = self._clock()
        if now - self._noted < _QUIET:
            self._unnoted += 1
            return
        _log.warning("an object was let through as it is", action="patch", reason=reason[:_LONGEST], others=self._unnoted)
        self._noted, self._unnoted = now, 0

    def _paused(self, review: Review) -> str | None:
        """Why new pods of the pod's workload are left as they are; None when they are not."""
        now = self._view.control.now
        if now is None or review.admitted is None or review.workload is None:
            return None
        return self._view.offers.objection(review.workload.key, now)

    def _note(self, review: Review, objection: str | None) -> None:
        now = self._view.control.now
        if review.admitted is None or review.pod is None or review.workload is None or now is None:
            return
        outcome = ActionFinished(
            id=str(OutcomeId(review.decision, Action.PATCH, review.pod.uid or review.uid)),
            at=now,
            decision=review.decision,
            action=Action.PATCH,
            result=Result.REFUSED,
            reason=f"{objection}; this would have been set: {review.changes}",
            subject=Subject.of_pod(review.workload, review.pod),
            admitted=review.admitted,
        )
        cause = () if review.cause is None else (review.cause,)
        if objection is None:
            outcome = offers.offer_of(outcome, review=review.uid, changes=review.changes)
            if not self._view.offers.make(outcome, cause):
                return
        self._outcomes.offer(replace(outcome, reason=_bounded(outcome.reason)), cause)


def _bounded(reason: str) -> str:
    return reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]} …"


def unchanged(uid: str, warning: str = "") -> bytes:
    """The answer that lets an object through unchanged, with a warning to its user."""
    response: dict[str, object] = {"uid": uid, "allowed": True}
    if warning:
        response["warnings"] = [f"ullage: {warning}"[:_LONGEST_WARNING]]
    return json.dumps({"kind": "AdmissionReview", "apiVersion": _VERSION, "response": response}).encode()
