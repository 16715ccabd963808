"""Real senders bring usage to `ullage source remote-write`: Prometheus, its own client of 2.0, an OpenTelemetry Collector."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from schemas.facts.pods import PodChanged, PodPhase
from schemas.facts.usage import MetricsScraped
from schemas.names import PodName, Workload
from schemas.units import Seconds
from streams.clients.prometheus import Prometheus
from streams.codec.event_codec import Codec
from streams.log.file_log import FileLog
from streams.sources.usage.promql import MetricNames, PrometheusUsage
from streams.topics import TOPICS, Topics
from tests.controlplane import build, prometheus_package
from tests.controlplane.usage_exporters import CORES, MEMORY_BYTES, exporter
from tests.support.receiver_scene import ReceiverScene
from tests.support.usage_senders import CPU, MEMORY

WINDOW = 25
NAMES = Topics()


class Receiver:
    """The process, on a log in a file that knows the pods."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "log.jsonl"
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free, socket.socket() as health:
            free.bind(("127.0.0.1", 0))
            health.bind(("127.0.0.1", 0))
            self.port, self._health = free.getsockname()[1], health.getsockname()[1]
        self._publish_pods()

    def _publish_pods(self) -> None:
        now = datetime.now(UTC).replace(microsecond=0)
        with FileLog.open_or_create(self.path) as log:
            for topic in TOPICS:
                log.create(NAMES.wire(topic.name), NAMES.partitions)
            for pod in CORES:
                workload = Workload("demo", "shop", "Deployment", pod.rpartition("-")[0])
                event = PodChanged(now, workload, PodName("shop", pod, f"uid-{pod}"), PodPhase.RUNNING, now, ())
                topic, partition = "pod-changes-by-cluster", NAMES.partition_of("demo")
                log.append([Codec(NAMES).encode(event, topic=topic, key="demo", partition=partition, source="test")])

    def start(self) -> None:
        settings = {
            "log.path": self.path,
            "log.kind": "file",
            "usage.interval_seconds": 1,
            "usage.rate_seconds": WINDOW,
            "receiver.host": "127.0.0.1",
            "receiver.port": self.port,
            "receiver.silence_seconds": 5,
            "metrics.port": self._health,
        }
        flags = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        with (self.folder / "said.txt").open("ab") as said:
            command = [sys.executable, "-m", "agents", "source", "remote-write", *flags]
            self._process = subprocess.Popen(command, stdout=said, stderr=said)
        until(self._listens, "the receiver listens", self.said)

    def _listens(self) -> bool:
        with socket.socket() as asked:
            return asked.connect_ex(("127.0.0.1", self.port)) == 0

    def end(self, how: signal.Signals) -> None:
        if self._process is not None:
            os.kill(self._process.pid, how)
            self._process.wait(timeout=60)
            self._process = None

    def said(self) -> str:
        return (self.folder / "said.txt").read_text()

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._health}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def rows(self) -> list[tuple[float, str, float, float]]:
        """What was published: when its window ended, the pod, cores and bytes."""
        with FileLog(self.path) as log:
            places = {(NAMES.wire("pod-metrics"), partition): 0 for partition in range(NAMES.partitions)}
            events = [Codec(NAMES).decode(record) for record in log.poll(places, limit=1_000_000)]
        rows = []
        for event in events:
            if isinstance(event, MetricsScraped):
                ages = event.ages if len(event.ages) else [0.0] * len(event.pods)
                columns = zip(ages, event.pods, event.cores, event.memory, strict=True)
                rows += [(event.at.timestamp() - age, pod, float(cores), float(used)) for age, pod, cores, used in columns]
        return rows

    def newest(self) -> dict[str, tuple[float, float]]:
        return {pod: (cores, memory) for _, pod, cores, memory in sorted(self.rows())}


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    made = Receiver(tmp_path)
    made.start()
    try:
        yield made
    finally:
        made.end(signal.SIGKILL)


def until(done: Callable[[], object], what: str, said: Callable[[], str] = str) -> None:
    for _ in range(1200):
        if done():
            return
        time.sleep(0.1)
    pytest.fail(f"it took more than 120 s until {what}: {said()[-3000:]}")


@contextmanager
def prometheus(folder: Path, port_of_receiver: int, *, version: str = "") -> Iterator[str]:
    """A server that scrapes cAdvisor each second and sends what it has."""
    with exporter() as port:
        config = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{"job_name": "kubernetes-cadvisor", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}],
            "remote_write": [
                {"url": f"http://127.0.0.1:{port_of_receiver}/api/v1/write", "queue_config": {"batch_send_deadline": "500ms"}}
                | ({"protobuf_message": version} if version else {})
            ],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))
        with prometheus_package.server(folder) as url:
            yield url


def counted(url: str, metric: str) -> float:
    """The sum of a server's own metric, 0 where it has none."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as page:  # noqa: S310  # loopback
        lines = page.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith((f"{metric}{{", f"{metric} ")))


VERSIONS = [
    "",
    pytest.param(
        "io.prometheus.write.v2.Request",
        marks=pytest.mark.skipif(
            "PROMETHEUS_FOLDER" not in os.environ, reason="Debian's Prometheus sends 1.0; PROMETHEUS_FOLDER names one of 3.x"
        ),
    ),
]


@pytest.mark.parametrize("version", VERSIONS)
def test_prometheus_brings_the_figures_that_it_would_be_asked_for(tmp_path: Path, version: str) -> None:
    """Both are asked about the same moment, at which both have the same samples."""
    with ReceiverScene(now=lambda: datetime.now(UTC), window=WINDOW).listening() as scene:
        with prometheus(tmp_path, scene.server.port, version=version) as url:
            began = time.time()
            until(lambda: time.time() > began + WINDOW + 15 and scene.samples.counts["stored"], "samples", str)
            at = datetime.now(UTC) - timedelta(seconds=3)
            pulled = PrometheusUsage(Prometheus(url), MetricNames(), Seconds(WINDOW)).read(at)
            pushed = scene.samples.read(at)
            assert (list(pushed.pods), list(pushed.containers)) == (sorted(CORES), ["main"] * len(CORES))
            assert (pushed.pods, pushed.memory.tolist()) == (pulled.pods, pulled.memory.tolist())
            assert pushed.cores.tolist() == pulled.cores.tolist()
            assert scene.codes.keys() == {("remote-write", 204)}
        assert scene.samples.counts["other"]  # it sends all that it has


def test_nothing_is_lost_when_the_receiver_is_stopped_killed_and_started_again(receiver: Receiver, tmp_path: Path) -> None:
    with prometheus(tmp_path, receiver.port) as url:
        until(lambda: len(receiver.newest()) == len(CORES), "rows", receiver.said)
        for how in (signal.SIGTERM, signal.SIGKILL):
            receiver.end(how)
            before = counted(url, "prometheus_remote_storage_samples_retried_total")
            until(
                lambda before=before: counted(url, "prometheus_remote_storage_samples_retried_total") > before,
                "Prometheus has tried again",
            )
            receiver.start()
            started, have = time.time(), len(receiver.rows())
            until(lambda have=have: len(receiver.rows()) > have + len(CORES), "rows go on", receiver.said)
            later = [row for row in receiver.rows()[have:] if row[0] > started]
            for _, pod, cores, _ in later:
                assert cores != cores or cores == pytest.approx(CORES[pod], abs=0.002 + 0.02 * CORES[pod])  # noqa: PLR0124  # NaN
        assert receiver.ready()
        assert counted(url, "prometheus_remote_storage_samples_dropped_total") == 0
        assert counted(url, "prometheus_remote_storage_samples_failed_total") == 0
    until(lambda: not receiver.ready(), "the receiver says that nobody sends any more", receiver.said)


def _senders() -> Path:
    try:
        return build.ensure_senders()
    except build.BuildError as error:
        if os.environ.get("ULLAGE_REQUIRE_CONTROLPLANE") == "1":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(f"NO SENDERS: {error}")


def test_prometheus_own_client_brings_remote_write_2(receiver: Receiver) -> None:
    began, lines = time.time() - WINDOW, []
    for second in range(WINDOW + 1):
        for metric, value in ((CPU, 1000 + second * 0.25), (MEMORY, MEMORY_BYTES)):
            at = f"{(began + second) * 1000:.0f}"
            of = f"__name__={metric} container=main job=kubernetes-cadvisor namespace=shop pod=web-1"
            lines.append(f"{at} {value} {of}")
    program = [str(_senders() / "writer"), f"http://127.0.0.1:{receiver.port}"]
    sent = subprocess.run(program, input="\n".join(lines), capture_output=True, text=True, timeout=60, check=False)
    assert (sent.stdout, sent.stderr) == (f"{2 * (WINDOW + 1)}\n", "")
    until(receiver.newest, "rows", receiver.said)
    assert receiver.newest()["web-1"] == (pytest.approx(0.25, abs=0.0011), MEMORY_BYTES)


@contextmanager
def collector(folder: Path, receiver: Receiver, encoding: str) -> Iterator[Path]:
    """An OpenTelemetry Collector that asks a kubelet each second, and sends what it says. Gives its log."""
    with exporter() as port:
        config = {
            "receivers": {
                "kubeletstats": {
                    "collection_interval": "1s",
                    "auth_type": "none",
                    "endpoint": f"http://127.0.0.1:{port}",
                    "metric_groups": ["container", "pod"],
                }
            },
            "exporters": {"otlp_http": {"endpoint": f"http://127.0.0.1:{receiver.port}", "encoding": encoding}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"metrics": {"receivers": ["kubeletstats"], "exporters": ["otlp_http"]}},
            },
        }
        (folder / "collector.yml").write_text(json.dumps(config))
        with (folder / "collector.log").open("w") as log:
            process = subprocess.Popen([_senders() / "collector", "--config", f"file:{folder}/collector.yml"], stderr=log)
        try:
            yield folder / "collector.log"
        finally:
            process.terminate()
            process.wait(timeout=60)


@pytest.mark.parametrize("encoding", ["proto", "json"])
def test_a_collector_brings_what_a_kubelet_says(receiver: Receiver, tmp_path: Path, encoding: str) -> None:
    with collector(tmp_path, receiver, encoding) as log:
        began = time.time()
        until(
            lambda: time.time() > began + 10 and len(receiver.newest()) == len(CORES),
            "rows",
            lambda: receiver.said() + log.read_text(),
        )
        for pod, (cores, memory) in receiver.newest().items():
            assert (cores, memory) == (pytest.approx(CORES[pod], abs=0.002 + 0.02 * CORES[pod]), MEMORY_BYTES)
        assert receiver.ready()
