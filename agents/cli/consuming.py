"""How `ullage consumer` runs: one thread and one opening of the log for each consumer, until somebody says stop."""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Protocol

from agents.cli.output import note
from agents.cli.stopping import until_stopped
from agents.cli.telling import telling
from agents.logic.refusal import refuse
from agents.settings import Settings, connected, opened
from agents.telemetry import ConsumerMetrics, WatchedLog
from streams.clients.api import Api
from streams.clients.kubernetes import KubernetesClient
from streams.clients.vpas import Vpas
from streams.codec import Codec
from streams.consumers.acting import Post
from streams.consumers.evictor import evictor
from streams.consumers.resizer import resizer
from streams.consumers.status import Limits, StatusConsumer
from streams.consumers.status.desk import Service
from streams.consumers.status.judging import Judging
from streams.errors import UllageError


class Consumer(Protocol):
    """What runs in a thread of its own."""

    def run(self, stop: threading.Event) -> None:
        """Work until told to stop."""


def status(post: Post, settings: Settings) -> StatusConsumer:
    """The status consumer with these settings. VPAs that the stages refuse are unsupported, and say why."""
    how, vertical = settings.status, settings.vertical
    return StatusConsumer(
        post,
        Vpas(Api(connected.connection(settings.cluster)), settings.cluster.namespaces),
        Service(vertical.recommender, vertical.heartbeat, refuse),
        judging=Judging(vertical.humanize_memory),
        limits=Limits(how.writers, how.rate, how.burst),
    )


MAKERS: dict[str, Callable[[Post, Settings], Consumer]] = {
    "resizer": lambda post, settings: resizer(post, connect(settings)),
    "evictor": lambda post, settings: evictor(post, connect(settings)),
    "status": status,
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
            consumer = MAKERS[name](post, settings)
            threads.append(threading.Thread(target=consumer.run, args=(stop,), name=name, daemon=True))
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
