"""The view that the webhook answers from: policies, quotas, recommendations, control, and what became of its patches.

A starting process reads the compacted copies and the recommendations of the last heartbeats, which takes a moment; then it
follows the log in a thread of its own. Other threads may ask at any time and never see half of a change.
"""

import threading
import time
from collections.abc import Callable
from datetime import timedelta

from schemas.units import Seconds
from streams.codec import event_codec
from streams.consumers.executing.control_state import ControlState
from streams.consumers.executing.log_follower import LogFollower
from streams.consumers.webhook import offers
from streams.consumers.webhook.offers import Offers
from streams.consumers.webhook.review_interface import Reviewer
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
        """As the follower's; then call those offers lost of which no pod has come.

        One that has fallen behind may have read that time went on and the source was at work, and not yet the pods that came, so
        the log is asked whether there are more of them.
        """
        count, now, pods = super().catch_up(wait=wait), self.control.now, self._context.cluster_partition(_PODS)
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
