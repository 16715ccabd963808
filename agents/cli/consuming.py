"""How `ullage consumer` runs: one thread and one opening of the log for each consumer, until somebody says stop."""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from agents.cli.output import note
from agents.cli.stopping import until_stopped
from agents.cli.telling import telling
from agents.settings import Settings, connected, opened
from agents.telemetry import ConsumerMetrics, WatchedLog
from schemas.decisions import EvictionPlanned, ResizePlanned
from streams.clients import ClusterClient
from streams.clients.kubernetes import KubernetesClient
from streams.codec import Codec
from streams.consumers.acting import Acting, Post
from streams.consumers.evictor import evictor
from streams.consumers.resizer import resizer
from streams.errors import UllageError

MAKERS: dict[str, Callable[[Post, ClusterClient], Acting[ResizePlanned] | Acting[EvictionPlanned]]] = {
    "resizer": resizer,
    "evictor": evictor,
}


class ConsumerDied(UllageError):
    """A consumer's thread ended by itself."""


def run(settings: Settings, names: Sequence[str]) -> None:
    """Run these consumers until stopped. Raises ConsumerDied when one ends by itself."""
    stop = threading.Event()
    topics = opened.topics(settings)
    with until_stopped(), telling("consumer", settings) as registry, ExitStack() as stack:
        metrics = ConsumerMetrics(registry, topics)
        stack.callback(stop.set)
        threads = []
        for name in names:
            log = stack.enter_context(opened.log(settings))
            post = Post(WatchedLog(log, metrics), topics, Codec(topics), settings.cluster.name)
            acting = MAKERS[name](post, connect(settings))
            threads.append(threading.Thread(target=acting.run, args=(stop,), name=name, daemon=True))
        stack.callback(_join, threads, stop)
        for thread in threads:
            thread.start()
        note(f"{', '.join(names)} at work on cluster '{settings.cluster.name}' at {connected.address(settings.cluster)}")
        while all(thread.is_alive() for thread in threads):
            stop.wait(0.2)
        dead = next(thread.name for thread in threads if not thread.is_alive())
        raise ConsumerDied(f"the {dead} ended by itself; the lines above say why")


def connect(settings: Settings) -> KubernetesClient:
    """A client for the cluster that the settings name."""
    return KubernetesClient(settings.cluster.name, connected.connection(settings.cluster))


def _join(threads: Sequence[threading.Thread], stop: threading.Event) -> None:
    """Let what is begun be finished, within a bound, before the logs close."""
    stop.set()
    for thread in threads:
        thread.join(timeout=5.0)
