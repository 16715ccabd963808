"""Two instances of `ullage source usage`: one tells, and the other takes over when it is killed or frozen."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path

import pytest

from schemas.facts.pods import PodChanged, PodPhase
from schemas.facts.usage import MetricsScraped
from schemas.names import PodName, Workload
from streams.clients.kube.json_objects import Json
from streams.codec.event_codec import Codec
from streams.log.file_log import FileLog
from streams.topics import TOPICS, Topics
from tests.torture.lease_server import LeaseServer

WEB, TOPIC_NAMES = Workload("demo", "shop", "Deployment", "web"), Topics()
NOW = datetime.now(UTC).replace(microsecond=0)


class ApiServer(LeaseServer):
    """Leases, and each second another usage of one pod."""

    def _answer(self, method: str, path: str, body: Json) -> tuple[HTTPStatus, Json]:
        if not path.startswith("/apis/metrics.k8s.io/"):
            return super()._answer(method, path, body)
        used = [{"name": "main", "usage": {"cpu": "250m", "memory": "64Mi"}}]
        at, metadata = datetime.now(UTC).replace(microsecond=0), {"name": "web-1", "namespace": "shop"}
        pod = {"metadata": metadata, "timestamp": at.isoformat(), "window": "15s", "containers": used}
        return HTTPStatus.OK, {"items": [pod]}


class TwoSources:
    """On one log and one API server."""

    def __init__(self, folder: Path, server: ApiServer) -> None:
        self.path, self.folder, self.server = folder / "log.jsonl", folder, server
        self.running: list[subprocess.Popen[bytes]] = []
        with FileLog.open_or_create(self.path) as log:
            for topic in TOPICS:
                log.create(TOPIC_NAMES.wire(topic.name), TOPIC_NAMES.partitions)
            pod = PodChanged(NOW, WEB, PodName("shop", "web-1", "u1"), PodPhase.RUNNING, NOW - timedelta(hours=1), ())
            partition = TOPIC_NAMES.partition_of("demo")
            record = Codec(TOPIC_NAMES).encode(
                pod, topic="pod-changes-by-cluster", key="demo", partition=partition, source="test"
            )
            log.append([record])

    def start(self) -> subprocess.Popen[bytes]:
        settings = {
            "log.path": self.path,
            "log.kind": "file",
            "cluster.url": self.server.url,
            "cluster.lease_namespace": "ullage",
            "usage.interval_seconds": 1,
        }
        flags = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        with (self.folder / f"said-{len(self.running)}.txt").open("wb") as said:
            self.running.append(
                subprocess.Popen([sys.executable, "-m", "agents", "source", "usage", *flags], stderr=said, stdout=said)
            )
        return self.running[-1]

    def freeze(self, process: subprocess.Popen[bytes]) -> None:
        """Stop it where it does not hold the lock of the log: a frozen writer keeps all others out of a file."""
        os.kill(process.pid, signal.SIGSTOP)
        while self._locked():
            os.kill(process.pid, signal.SIGCONT)
            time.sleep(0.01)
            os.kill(process.pid, signal.SIGSTOP)

    def _locked(self) -> bool:
        with self.path.open("rb") as log:
            try:
                fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def said(self, number: int) -> str:
        return (self.folder / f"said-{number}.txt").read_text()

    def told(self) -> list[datetime]:
        with FileLog(self.path) as log:
            places = {(TOPIC_NAMES.wire("pod-metrics"), p): 0 for p in range(TOPIC_NAMES.partitions)}
            events = [Codec(TOPIC_NAMES).decode(record) for record in log.poll(places)]
        return [event.at for event in events if isinstance(event, MetricsScraped)]

    def stop(self) -> None:
        for process in self.running:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
                process.kill()
                process.wait()


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[TwoSources]:
    server = ApiServer()
    server.open()
    made = TwoSources(tmp_path, server)
    try:
        yield made
    finally:
        made.stop()
        server.close()


def until(done: Callable[[], object], what: str) -> None:
    for _ in range(1200):
        if done():
            return
        time.sleep(0.05)
    pytest.fail(f"it took more than 60 s until {what}")


@pytest.mark.slow
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_the_other_source_takes_over_and_a_frozen_one_ends_when_it_wakes_up(sources: TwoSources, blow: signal.Signals) -> None:
    holder = sources.start()
    until(sources.told, "the first has told")
    first = sources.server.holder("ullage-source-usage")
    sources.start()
    until(lambda: "stands by" in sources.said(1), "the other stands by")
    if blow is signal.SIGSTOP:
        sources.freeze(holder)
    else:
        os.kill(holder.pid, blow)
    until(lambda: sources.server.holder("ullage-source-usage") not in ("", first), "the other holds the Lease")
    before = len(sources.told())
    until(lambda: len(sources.told()) > before, "the other has told")
    if blow is signal.SIGSTOP:
        os.kill(holder.pid, signal.SIGCONT)
        assert holder.wait(60.0) != 0
        assert "another instance holds the Lease of the usage source now, so this one ends" in sources.said(0)
