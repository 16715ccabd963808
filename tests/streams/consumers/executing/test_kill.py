"""Real processes over real HTTP and a log on disk, killed with -9 right after the cluster accepted: one act, one outcome."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.names import Amounts, PodName
from schemas.outcomes import ActionFinished, OutcomeDetail, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Cores
from streams.clients.cluster_port import Pod
from streams.codec.event_codec import Codec
from streams.log.file_log import FileLog
from streams.simulated.api_server import SimulatedServer
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.demo_shop import DEPLOYMENTS, NODES
from streams.topics import TOPICS, Topics
from tests.support import ticks
from tests.support.attested_plans import with_attestations

START = datetime(2026, 3, 1, tzinfo=UTC)
TOPICS_2 = Topics(partitions=2)
CODEC = Codec(TOPICS_2)
HOME = TOPICS_2.partition_of("demo")
CONSUMERS = """
import sys, time
from streams.clients.kube.cluster_client import connect
from streams.codec.event_codec import Codec
from streams.log_context import LogContext
from streams.consumers.evictor import evictor
from streams.consumers.resizer import resizer
from streams.log.file_log import FileLog
from streams.topics import Topics

topics = Topics(partitions=2)
context = LogContext(FileLog(sys.argv[1]), topics, Codec(topics), "demo")
client = connect("demo", sys.argv[2])
consumers = resizer(context, client), evictor(context, client)
while True:
    for consumer in consumers:
        consumer.poll_once()
    time.sleep(0.01)
"""


class DeadlyCluster(SimulatedCluster):
    """Notes what it accepted, and calls `deadly` before the caller hears of it."""

    def __init__(self) -> None:
        super().__init__(name="demo", seed=1, start=START, nodes=NODES, deployments=DEPLOYMENTS)
        self.accepted: list[str] = []
        self.deadly: Callable[[], None] = lambda: None

    def resize(self, name: PodName, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts], version: str = "") -> None:
        super().resize(name, requests=requests, limits=limits, version=version)
        self.accepted.append(name.uid)
        self.deadly()

    def evict(self, name: PodName) -> None:
        super().evict(name)
        self.accepted.append(name.uid)
        self.deadly()


def test_killed_between_act_and_outcome_again_and_again_nothing_is_done_twice(tmp_path: Path) -> None:
    log, cluster = FileLog.open_or_create(tmp_path / "log"), DeadlyCluster()
    for topic in TOPICS:
        log.create(TOPICS_2.wire(topic.name), 2)
    cluster.advance(START + timedelta(minutes=2))
    pods = [pod for pod in cluster.pods() if pod.workload.name in ("web", "cart")]
    plans = [plan(i, pod, cluster.now) for i, pod in enumerate(pods[:6])]
    log.append(
        [CODEC.encode(ControlChanged(START, "demo", Mode.APPLY), topic="control", key="demo", partition=HOME, source="/t")]
    )
    ticks.append(log, TOPICS_2, int(cluster.now.timestamp() * 1000))
    records = [CODEC.encode(p, topic="pod-updates", key="demo", partition=HOME, source="/t") for p in plans]
    log.append(with_attestations(records, TOPICS_2))
    with SimulatedServer(cluster) as server:
        kills = run_until_finished([str(tmp_path / "log"), server.url], cluster, log, len(plans))
    outcomes = finished(log)
    assert kills == 2
    assert sorted(cluster.accepted) == sorted(p.pod.uid for p in plans)
    assert sorted(o.decision for o in outcomes) == sorted(p.id for p in plans)
    assert {o.result for o in outcomes} == {Result.DONE}
    assert sum(o.detail is OutcomeDetail.ALREADY_DONE for o in outcomes) == kills


def plan(number: int, pod: Pod, at: datetime) -> ResizePlanned | EvictionPlanned:
    """Resizes and evictions in turn."""
    expect, expires = {c.name: c.requests for c in pod.containers}, at + timedelta(minutes=5)
    if number % 2:
        return EvictionPlanned(f"updater/0/{number}/evict/x", at, expires, pod.workload, pod.pod, expect, {})
    requests = {pod.containers[0].name: Amounts(cpu=Cores(0.05))}
    return ResizePlanned(f"updater/0/{number}/resize/x", at, expires, pod.workload, pod.pod, requests, {}, expect, {})


def run_until_finished(arguments: list[str], cluster: DeadlyCluster, log: FileLog, wanted: int) -> int:
    """Start the consumers, kill them after each of the first two acts, start them again; how often they were killed."""
    kills, deadline = 0, time.monotonic() + 60
    child = start(arguments)

    def deadly() -> None:
        if len(cluster.accepted) <= 2:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()

    cluster.deadly = deadly
    try:
        while len(finished(log)) < wanted and time.monotonic() < deadline:
            if child.poll() is not None:
                assert child.returncode == -signal.SIGKILL
                kills += 1
                child = start(arguments)
            # Kills are over and the last process is at work; and plans do not expire.
            if len(cluster.accepted) > 2 and cluster.now < START + timedelta(minutes=6):
                cluster.advance(cluster.now + timedelta(seconds=15))
                ticks.append(log, TOPICS_2, int(cluster.now.timestamp() * 1000))
            time.sleep(0.1)
    finally:
        child.kill()
        child.wait()
    return kills


def start(arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", CONSUMERS, *arguments], stdout=subprocess.DEVNULL)


def finished(log: FileLog) -> list[ActionFinished]:
    events = [CODEC.decode(record) for record in log.poll({(TOPICS_2.wire("outcomes"), HOME): 0})]
    return [event for event in events if isinstance(event, ActionFinished)]
