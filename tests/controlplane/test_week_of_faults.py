"""The product's own commands on a real API server and a real Kafka, through what goes wrong in a week.

Clock, both sources, two workers and the status consumer run as processes. Meanwhile the API server is killed, its history
expires, a worker and the source are killed, usage changes, a VPA and a Deployment are deleted and made again.
"""

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agents.logic.vertical.vertical_settings import VerticalSettings
from agents.run.pipeline import stages
from agents.settings.all_settings import Settings, TopicSettings
from agents.verify.committed_turns import committed
from agents.verify.verification import verify
from schemas.catalogue import Event
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.units import Seconds
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.topics import Topics
from tests.controlplane.plane import Plane
from tests.controlplane.world import World
from tests.support.commands import Commands

INTERVAL = Seconds(1.0)
MIB = 1 << 20
USED = (100, 500)
"""Millicores and MiB. Upstream's figures for them: 126m and 628694953, see test_from_pod_to_status."""


class Kubelets:
    """What the running pods use, measured each second; a thread until it is closed."""

    def __init__(self, plane: Plane, world: World) -> None:
        self.plane, self.world, self.used = plane, world, USED
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL):
            try:
                pods = self.world.pods("web")
            except OSError:
                continue
            cores, memory = self.used
            usage = {"app": {"cpu": f"{cores}m", "memory": f"{memory}Mi"}}
            self.plane.metrics.forget(self.world.namespace)
            for pod in pods:
                self.plane.metrics.serve(self.world.namespace, pod["metadata"]["name"], usage, at=datetime.now(UTC), window="1s")


@pytest.fixture
def commands(plane: Plane, broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> Iterator[Commands]:
    published = {
        "CLUSTER__NAME": "real",
        "CLUSTER__KUBECONFIG": str(plane.kubeconfig),
        "USAGE__INTERVAL_SECONDS": "1",
        "VERTICAL__INTERVAL": "1",
    }
    made = Commands(broker, topics_made(partitions=2), tmp_path, published)
    yield made
    made.close()


@pytest.fixture
def kubelets(plane: Plane, world: World) -> Iterator[Kubelets]:
    made = Kubelets(plane, world)
    yield made
    made.close()


def table(plane: Plane, world: World) -> list[str]:
    """The row of `kubectl get vpa`, without the age."""
    command = ["kubectl", "--kubeconfig", str(plane.kubeconfig), "-n", world.namespace, "get", "vpa", "--no-headers"]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout.split()
    return said[:-1]


def events(log: KafkaLog, topics: Topics, name: str, partitions: range | None = None) -> list[Event]:
    codec, found = Codec(topics), []
    for partition in partitions or range(topics.partitions):
        place = (topics.wire(name), partition)
        position, end = log.begin(*place), log.end(*place)
        while position < end:
            records = log.poll({place: position}, wait=5.0)
            found += [codec.decode(record) for record in records if not is_of_a_clock(record)]
            position = records[-1].offset + 1
    return found


@pytest.mark.timeout(300)
def test_a_week_in_a_minute(plane: Plane, world: World, commands: Commands, kubelets: Kubelets) -> None:
    pods = world.deployment("web", replicas=2)
    world.vpa("web", "web", spec={"updatePolicy": {"updateMode": "Off"}})
    commands.start("clock", "source", "clock")
    commands.start("kube", "source", "kube")
    commands.start("usage", "source", "usage")
    commands.start("one", "worker")
    commands.start("two", "worker")
    commands.start("status", "consumer", "status")
    first = ["web", "Off", "126m", "628694953", "True"]
    commands.wait(lambda: table(plane, world) == first, 90, f"kubectl shows {first}")

    plane.restart_apiserver(kill=True)
    world.oom_kill(pods[0]["metadata"]["name"], "app")
    commands.kill("one")
    kubelets.used = (100, 3000)
    commands.wait(lambda: _memory(table(plane, world)) > 3000 * MIB, 60, "the new peak is in the recommendation")
    commands.start("one", "worker")

    plane.expire_versions()
    commands.kill("kube")
    world.ask.delete(world.path("vpas", "web"))
    world.ask.delete(world.path("deployments", "web"))
    world.running("web", 0)
    _gone(world)
    again = world.deployment("web", replicas=1)
    world.vpa("web", "web")
    commands.start("kube", "source", "kube")
    commands.wait(
        lambda: table(plane, world)[:1] + table(plane, world)[-1:] == ["web", "True"], 60, "the new object is written, too"
    )
    _judge(commands, world, pods, again)


def _memory(row: list[str]) -> float:
    return float(row[3]) if len(row) == 5 and row[3].isdigit() else 0.0


def _gone(world: World) -> None:
    until = time.monotonic() + 60
    while world.pods("web"):
        assert time.monotonic() < until, "the pods of the deleted Deployment are still there"
        time.sleep(0.2)


def _judge(commands: Commands, world: World, before: list[Any], after: list[Any]) -> None:
    """The log: nothing twice, everything once, and every decision follows from it."""
    uids = {pod["metadata"]["uid"] for pod in before}, {pod["metadata"]["uid"] for pod in after}
    topics = commands.topics
    with KafkaLog(KafkaConnection(commands.broker)) as log:
        ours = [
            e
            for e in events(log, topics, "pod-changes")
            if getattr(e, "workload", None) and e.workload.namespace == world.namespace
        ]  # type: ignore[union-attr]  # it has
        published: dict[str, list[PodChanged]] = {}
        for event in ours:
            if isinstance(event, PodChanged):
                published.setdefault(event.pod.uid, []).append(event)
        assert published.keys() == uids[0] | uids[1]
        assert {event.workload.key for events_ in published.values() for event in events_} == {
            f"real/{world.namespace}/Deployment/web"
        }
        gone = Counter(event.pod.uid for event in ours if isinstance(event, PodDeleted))
        assert gone == dict.fromkeys(uids[0], 1)
        kills = [e for e in events(log, topics, "oom-events") if isinstance(e, ContainerOOMKilled)]
        assert [(kill.pod.uid, kill.restarts, kill.memory_request) for kill in kills] == [
            (before[0]["metadata"]["uid"], 1, 64 * MIB)
        ]
        rows = Counter(
            (workload, pod, event.at.timestamp() - (event.ages[i] if len(event.ages) else 0.0))
            for event in events(log, topics, "pod-metrics")
            if isinstance(event, MetricsScraped)
            for i, (workload, pod) in enumerate(zip(event.workloads, event.pods, strict=True))
        )
        assert max(rows.values()) == 1
        assert events(log, topics, "dead-letters") == []
        settings = VerticalSettings(interval=INTERVAL)
        listed = stages(Settings(vertical=settings, topics=TopicSettings(partitions=topics.partitions)))
        context = LogContext.of(log, topics)
        found = verify(context, listed, committed=committed(context, topics.prefix, listed))
        assert found.ok, found.discrepancies
        assert found.decisions > 0
