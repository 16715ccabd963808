"""The patcher: answers for pods that are about to be created, from the newest recommendations.

Asked by the cluster (a hook in the simulated one, a webhook in a real one), so it must answer at once and never fail: without a
recommendation, permission or log it leaves the pod as it is or answers from what it knows. Each pod that it patches gets an
outcome, appended by `poll_once`. How limits follow requests is judgement, so the function for it is handed in.
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
from streams.consumers.executing.control import Switch
from streams.consumers.executing.cursor import Reading
from streams.consumers.executing.executor import Post
from streams.errors import LogUnavailable
from streams.log.port import NewRecord

Recommended = Callable[[Workload], RequestsRecommended | None]
"""The newest recommendation that may be applied to new pods of a workload; None when there is none."""

Limits = Callable[[Amounts, Amounts, Amounts], Amounts]
"""(requests, limits, new requests) of a container to its new limits; None in them: leave as it is."""

_MOST_UNSAID = 10_000
"""Outcomes that wait for the log; about 1 kB each."""
_log = structlog.get_logger(__name__)


class Patcher:
    """`admit` is the hook. It obeys the same switch as every consumer."""

    def __init__(self, post: Post, *, recommended: Recommended, limits: Limits) -> None:
        self._post, self._recommended, self._limits = post, recommended, limits
        self._switch = Switch(post.cluster, post.codec)
        self._reading = Reading(post.log, (post.place("control"),))
        self._unsaid: deque[NewRecord] = deque()
        self.dropped = 0
        """Outcomes that were given up since the start, because the log was away for too long."""

    def admit(self, pod: Pod) -> Patch:
        """The patch for a new pod; empty when it is to stay as it is."""
        self._look_at_switch()
        now = self._switch.now
        recommendation = self._recommended(pod.workload)
        if recommendation is None or now is None or self._switch.objection() is not None:
            return Patch()
        patch = self._patch(pod, recommendation)
        if meets(pod.asked_requests, patch.requests):
            return Patch()
        self._note(pod, recommendation, now)
        return patch

    def poll_once(self) -> int:
        """Append the outcomes that wait; how many. Raises LogUnavailable and keeps them. Pods may be admitted meanwhile."""
        waiting = list(self._unsaid)
        if waiting:
            self._post.log.append(waiting)
        for record in waiting:
            if self._unsaid and self._unsaid[0] is record:
                self._unsaid.popleft()
        return len(waiting)

    def _look_at_switch(self) -> None:
        """Without the log, what was last known holds."""
        try:
            for record in self._reading.catch_up():
                self._switch.read(record)
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

    def _note(self, pod: Pod, recommendation: RequestsRecommended, now: datetime) -> None:
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
        self._unsaid.append(self._post.outcome(outcome, cause=()))
        if len(self._unsaid) > _MOST_UNSAID:
            self._unsaid.popleft()
            self.dropped += 1
            _log.warning("an outcome was dropped: the log has been away too long", action=Action.PATCH.value)
