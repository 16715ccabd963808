"""The patcher: gives pods that are about to be created the recommended requests.

The cluster calls it (through a hook of the simulated cluster), so it must answer at once and never fail: without a
recommendation or permission it leaves the pod as it is, and without the log it answers from what it read before. Each pod that
it patches gets an outcome, which `poll_once` appends. How limits follow requests is judgement, so the caller passes the
function for it.
"""

from collections import deque
from collections.abc import Callable
from datetime import datetime

import structlog

from schemas.decisions.recommendations import RequestsRecommended
from schemas.ids import OutcomeId
from schemas.names import Amounts, Workload
from schemas.outcomes import Action, ActionFinished, Result
from schemas.subjects import Subject
from streams.clients.cluster_port import Patch, Pod
from streams.clients.kube.quantities import meets
from streams.consumers.executing.control import ControlState
from streams.consumers.executing.executor import encode_outcome
from streams.errors import LogUnavailable
from streams.log.port import NewRecord
from streams.log_context import LogContext

RecommendationOf = Callable[[Workload], RequestsRecommended | None]
"""The newest recommendation that may be applied to new pods of a workload; None when there is none."""

LimitsOf = Callable[[Amounts, Amounts, Amounts], Amounts]
"""(requests, limits, new requests) of a container to its new limits; an amount of None leaves the limit as it is."""

_MOST_UNPUBLISHED = 10_000
"""Outcomes that wait for the log; about 1 kB each."""
_log = structlog.get_logger(__name__)


class Patcher:
    """`admit` is the hook. It obeys the same control record as every consumer."""

    def __init__(self, context: LogContext, *, recommended: RecommendationOf, limits: LimitsOf) -> None:
        self._context, self._recommended, self._limits = context, recommended, limits
        self._control = ControlState(context)
        self._unpublished: deque[NewRecord] = deque()
        self.dropped = 0
        """Outcomes that were dropped since the start, because the log was away for too long."""

    def admit(self, pod: Pod) -> Patch:
        """The patch for a new pod; empty when the pod is to stay as it is."""
        self._read_control()
        now = self._control.now
        recommendation = self._recommended(pod.workload)
        if recommendation is None or now is None or self._control.objection() is not None:
            return Patch()
        patch = self._patch(pod, recommendation)
        if meets(pod.asked_requests, patch.requests):
            return Patch()
        self._record(pod, recommendation, now)
        return patch

    def poll_once(self) -> int:
        """Append the outcomes that wait; how many. Raises LogUnavailable and keeps them. Pods may be admitted meanwhile."""
        waiting = list(self._unpublished)
        if waiting:
            self._context.log.append(waiting)
        for record in waiting:
            if self._unpublished and self._unpublished[0] is record:
                self._unpublished.popleft()
        return len(waiting)

    def _read_control(self) -> None:
        """While the log is away, the control record that was read last stays in force."""
        try:
            self._control.catch_up()
        except LogUnavailable as error:
            _log.warning("the log is away, answering from what is known", action=Action.PATCH.value, error=str(error))

    def _patch(self, pod: Pod, recommendation: RequestsRecommended) -> Patch:
        requests: dict[str, Amounts] = {}
        limits: dict[str, Amounts] = {}
        for recommended in recommendation.containers:
            name = recommended.container
            if name in pod.asked_requests:
                requests[name] = recommended.target
                limits[name] = self._limits(pod.asked_requests[name], pod.asked_limits[name], recommended.target)
        return Patch(requests, limits)

    def _record(self, pod: Pod, recommendation: RequestsRecommended, now: datetime) -> None:
        subject = Subject.of_pod(pod.workload, pod.pod)
        outcome = ActionFinished(
            id=str(OutcomeId(recommendation.id, Action.PATCH, subject.id)),
            at=now,
            decision=recommendation.id,
            action=Action.PATCH,
            result=Result.DONE,
            reason="a new pod was given the recommended requests",
            subject=subject,
        )
        self._unpublished.append(encode_outcome(self._context, outcome, cause=()))
        if len(self._unpublished) > _MOST_UNPUBLISHED:
            self._unpublished.popleft()
            self.dropped += 1
            _log.warning("an outcome was dropped: the log has been away too long", action=Action.PATCH.value)
