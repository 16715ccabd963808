"""Runs `ullage source kube`: watches a real cluster and publishes its facts, until stopped."""

import gc
import threading
from collections.abc import Sequence
from functools import partial

from agents.processes.output import note
from agents.processes.process_telemetry import telemetry_for
from agents.processes.signals import until_stopped
from agents.processes.source_clock import event_time
from agents.settings import cluster_factory, log_factory
from agents.settings.tree import Settings
from agents.telemetry import ObservedLog, SourceMetrics
from streams.clients.kube.api import Api
from streams.codec.event_codec import Codec
from streams.sources.kube.kube_source import NAME, Desk
from streams.sources.kube.watch.watch_threads import Watchers


def run(settings: Settings) -> None:
    """Watch until stopped. The process is ready once every resource has been listed."""
    ours, topics, readiness = settings.cluster, log_factory.topics(settings), _Readiness()
    api = Api(cluster_factory.connection(ours))
    with until_stopped(), telemetry_for(NAME, settings, readiness.reasons) as registry, log_factory.log(settings) as log:
        metrics = SourceMetrics(registry, topics, NAME)
        desk = Desk(ours.name, ObservedLog(log, metrics), topics, Codec(topics), partial(event_time, settings), ours.namespaces)
        readiness.watchers = watchers = Watchers(api, desk)
        note(f"watching cluster '{ours.name}' at {cluster_factory.address(ours)}")

        def after() -> None:
            metrics.dropped(watchers.source.dropped)
            readiness.settle()

        watchers.run(threading.Event(), after=after)


class _Readiness:
    """Whether everything was listed. The health server starts before the watchers, so at first there are none."""

    watchers: Watchers | None = None
    settled = False

    def settle(self) -> None:
        """Once everything was listed, exempt it from garbage collection: it stays for long, and looking at it again costs CPU."""
        if not self.settled and not self.reasons():
            self.settled = True
            gc.collect()
            gc.freeze()

    def reasons(self) -> Sequence[str]:
        """Why not ready."""
        return ["nothing is watched yet"] if self.watchers is None else self.watchers.sights.reasons()
