"""The scheduling source: polls a cluster and publishes what decides which pod runs where.

It publishes as the kube source does, from the same objects, but polls for changes instead of watching. It reads no clock.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from schemas.facts.sources import SourceReported
from schemas.units import Seconds
from streams import typed_json
from streams.clients.kube.json_objects import ObjectChanges
from streams.clients.kube.scheduling_objects import DetailedNodeObject, DisruptionBudgetObject, ScheduledPodObject
from streams.clients.kube.watched_objects import ControllerObject, KubeObject
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.publishing.published_state import REPUBLISH_AFTER, PublishedState
from streams.sources.kube.publish.publisher import Publisher
from streams.sources.kube.publish.scheduling_publisher import STORAGE, TOPIC, SchedulingPublisher
from streams.sources.kube.watch.notifications import ObjectGone

NAME = "scheduling"
REPORT_PERIOD = timedelta(minutes=1)
_AGAIN = timedelta(minutes=10)
"""How often to look for facts that are old enough to be published again."""
_TYPES: Mapping[str, type[KubeObject]] = {
    "nodes": DetailedNodeObject,
    "replicasets": ControllerObject,
    "pods": ScheduledPodObject,
    "poddisruptionbudgets": DisruptionBudgetObject,
}
_KINDS = (*STORAGE, *_TYPES)


class SimulatedSchedulingPoller:
    """One cluster into one log. `look` returns the changes since its last call; at first everything."""

    def __init__(self, context: LogContext, look: Callable[[], ObjectChanges]) -> None:
        self._context, self._look = context, look
        self._publisher = Publisher(context)
        self._facts = SchedulingPublisher(self._publisher, context)
        self._outbox = Outbox(context)
        self._restored = False
        self._reported: datetime | None = None
        self._republished: datetime | None = None

    def poll(self, at: datetime) -> bool:
        """Look once and publish. False when the log is away and the facts wait; the first look needs it."""
        if not self._restored:
            # It reads the log itself and needs nothing of what other publishers share.
            self._facts.restore(PublishedState(), at)
        changes = self._look()
        for kind, item in changes.seen:
            self._facts.seen(kind, typed_json.convert(item, _TYPES[kind]), at)
        for gone in changes.gone:
            self._facts.gone(ObjectGone(gone.kind, gone.namespace, gone.name, gone.uid), at)
        if not self._restored:
            self._restored, self._republished = True, at
            # The first look has shown everything, so what was published and was not seen is gone.
            for kind in _KINDS:
                self._facts.synced(kind, controllers=True, at=at)
        self._publish_again(at)
        self._outbox.publish(facts=self._publisher.drain(), scrapes=())
        return self._outbox.flush()

    def _publish_again(self, at: datetime) -> None:
        """Report regularly that this source is running, and publish old facts again."""
        if self._reported is None or at - self._reported >= REPORT_PERIOD:
            self._reported = at
            period = Seconds(REPORT_PERIOD.total_seconds())
            self._publisher.publish(SourceReported(at, self._context.cluster, NAME, (TOPIC,), period))
        if self._republished is not None and at - self._republished >= _AGAIN:
            self._republished = at
            self._facts.republish(at, REPUBLISH_AFTER)
