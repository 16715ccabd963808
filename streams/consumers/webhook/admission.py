"""What the webhook answers, whoever asks: a judged review under the control record, and an outcome for each changed pod.

In shadow and plan mode, during a pause and before the view has caught up, everything is let through as it is; an outcome
(refused, with the objection) then says what would have been set. A dry run leaves no trace in the log. It never fails and never
waits: what cannot be known is a reason to leave the pod alone.
"""

import json
from typing import Protocol

from schemas.ids import OutcomeId
from schemas.outcomes import Action, ActionFinished, Result
from schemas.subjects import Subject
from streams.consumers.webhook.admission_view import AdmissionView
from streams.consumers.webhook.outcome_queue import OutcomeQueue
from streams.consumers.webhook.review import Review, Topmost, itself

_LONGEST = 2000
"""Characters of an outcome's reason: a pod may have thousands of containers."""
_VERSION = "admission.k8s.io/v1"


class AdmissionWatcher(Protocol):
    """Who counts."""

    def answered(self, review: Review, objection: str | None, seconds: float) -> None:
        """A review was answered; with an objection, without what it would have changed."""


class Admission:
    """Answers from one view."""

    def __init__(self, view: AdmissionView, outcomes: OutcomeQueue, watcher: AdmissionWatcher | None = None) -> None:
        self._view, self._outcomes, self._watcher = view, outcomes, watcher

    def judge(self, body: bytes, topmost: Topmost) -> Review:
        """Judge a review. Nothing has happened yet, so it may be judged again."""
        return self._view.reviewer.review(body, topmost)

    def conclude(self, review: Review, seconds: float = 0.0) -> bytes:
        """The AdmissionReview to send back, under the control record as it is now; it took so many seconds to judge."""
        objection = self._objection()
        if not review.plain and not review.dry_run:
            self._note(review, objection)
        if self._watcher is not None:
            self._watcher.answered(review, objection, seconds)
        return review.body if objection is None else unchanged(review.uid)

    def let_through(self, body: bytes) -> bytes:
        """The answer to a review that could not be judged."""
        return unchanged(self._view.reviewer.uid(body))

    def answer(self, body: bytes, topmost: Topmost = itself) -> bytes:
        """Both at once, for who need not look owners up."""
        return self.conclude(self.judge(body, topmost))

    def _objection(self) -> str | None:
        """Why nothing may be changed now."""
        if not self._view.caught_up:
            return "the view has not caught up with the log yet"
        if self._view.control.now is None:
            return "the log has no time yet: no clock has ticked"
        return self._view.control.objection()

    def _note(self, review: Review, objection: str | None) -> None:
        now = self._view.control.now
        if not review.changes or review.pod is None or review.workload is None or now is None:
            return
        result = Result.DONE if objection is None else Result.REFUSED
        reason = review.changes if objection is None else f"{objection}; this would have been set: {review.changes}"
        outcome = ActionFinished(
            id=str(OutcomeId(review.decision, Action.PATCH, review.pod.uid or review.uid)),
            at=now,
            decision=review.decision,
            action=Action.PATCH,
            result=result,
            reason=reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]} …",
            subject=Subject.of_pod(review.workload, review.pod),
        )
        self._outcomes.offer(outcome, () if review.cause is None else (review.cause,))


def unchanged(uid: str) -> bytes:
    """The answer that lets an object through as it is."""
    response = {"uid": uid.encode(errors="replace").decode(), "allowed": True}
    return json.dumps({"kind": "AdmissionReview", "apiVersion": _VERSION, "response": response}).encode()
