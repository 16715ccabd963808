"""How `ullage source kube` runs: a real cluster watched, its facts in the log, until somebody says stop."""

import gc
import threading
from collections.abc import Sequence
from functools import partial

from agents.processes.output import note
from agents.processes.process_metrics import telling
from agents.processes.signals import until_stopped
from agents.processes.usage_sources import now
from agents.settings import cluster_factory, log_factory
from agents.settings.tree import Settings
from agents.telemetry import ObservedLog, SourceMetrics
from streams.clients.kube.api import Api
from streams.codec.event_codec import Codec
from streams.sources.kube.kube_source import NAME, Desk
from streams.sources.kube.watch.watch_threads import Watchers


def run(settings: Settings) -> None:
    """Watch until stopped. Ready once everything that is there was seen."""
    ours, topics, watching = settings.cluster, log_factory.topics(settings), _Watching()
    api = Api(cluster_factory.connection(ours))
    with until_stopped(), telling(NAME, settings, watching.reasons) as registry, log_factory.log(settings) as log:
        metrics = SourceMetrics(registry, topics, NAME)
        desk = Desk(ours.name, ObservedLog(log, metrics), topics, Codec(topics), partial(now, settings), ours.namespaces)
        watching.at_work = watchers = Watchers(api, desk)
        note(f"watching cluster '{ours.name}' at {cluster_factory.address(ours)}")

        def after() -> None:
            metrics.dropped(watchers.source.dropped)
            watching.settle()

        watchers.run(threading.Event(), after=after)


class _Watching:
    """The watchers, once there are any: the health server begins before them."""

    at_work: Watchers | None = None
    settled = False

    def settle(self) -> None:
        """Once everything was listed, what is held stays for long: the garbage collector need not look at it again and again."""
        if not self.settled and not self.reasons():
            self.settled = True
            gc.collect()
            gc.freeze()

    def reasons(self) -> Sequence[str]:
        """Why not ready."""
        return ["nothing is watched yet"] if self.at_work is None else self.at_work.sights.reasons()
