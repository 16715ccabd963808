"""`python -m tests.bench.received_restarts [--containers N]`: a receiver restarts while a Prometheus sends the usage of a fleet.

A real Prometheus scrapes a fleet each 15 s (cAdvisor's labels) and sends what it has to `ullage source remote-write`,
a process of its own on a real Kafka. It is asked to end, is away for 30 s, and comes back. Prometheus counts what it lost,
and the topic is compared with what was scraped, by container and time.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import psutil
import pytest

from schemas.facts.pods import PodChanged, PodPhase
from schemas.facts.usage import MetricsScraped
from schemas.names import PodName, Workload
from streams.broker import Broker, BrokerSettings
from streams.codec.event_codec import Codec
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_range import Cursor
from streams.topics import Topics
from tests.bench.received_usage import STEP, fleet_labels
from tests.controlplane import prometheus_package
from tests.controlplane.plane import free_ports
from tests.support.usage_senders import CPU, MEMORY
from tests.torture import kafka_topics

Put = Callable[[str, float, str, str], None]
PARTS = 20
"""Targets that the fleet is scraped from, so that no page is larger than a large node's."""
STEADY, AWAY, PATIENCE = 120.0, 30.0, 600.0
"""Seconds that are measured before and after, without a receiver, and for what must come."""
TOPICS = Topics("received", 4)
CLUSTER = "bench"


@dataclass
class Exporter:
    """Pages of cAdvisor. Container number n uses `cores[n]` steadily, and memory of 1 MiB and n bytes."""

    containers: int
    began: float = field(default_factory=time.time)
    scraped: list[tuple[float, int]] = field(default_factory=list)
    """When each part was asked for, and how many containers it has."""

    def __post_init__(self) -> None:
        self.cores = 0.01 + np.arange(self.containers) % 97 * 0.01
        every = fleet_labels(self.containers)
        texts = [
            "{" + ",".join(f'{k}="{v}"' for k, v in labels.items() if k not in {"__name__", "job", "instance"}) + "}"
            for labels in every
        ]
        self.texts = [(f"{CPU}{cpu} ", f"{MEMORY}{memory} ") for cpu, memory in zip(texts[::2], texts[1::2], strict=True)]
        self.pods = [labels["pod"] for labels in every[::2]]

    def page(self, part: int) -> bytes:
        """The metrics of one part of the fleet, as they are now."""
        numbers, now = range(part, self.containers, PARTS), time.time()
        self.scraped.append((now, len(numbers)))
        seconds = (self.cores * (now - self.began)).tolist()
        lines = [f"{cpu}{seconds[n]:.6f}\n{memory}{(1 << 20) + n}\n" for n in numbers for cpu, memory in [self.texts[n]]]
        return "".join(lines).encode()

    def sent(self, since: float, until: float) -> int:
        """Containers times scrapes."""
        return sum(size for at, size in self.scraped if since <= at < until)

    @contextmanager
    def serving(self) -> Iterator[int]:
        """The port where `/PART` is answered."""
        exporter = self

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = exporter.page(int(self.path.strip("/")))
                self.send_response(200)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield server.server_port
            finally:
                server.shutdown()


@dataclass
class Receiver:
    """The process, and the log that knows the fleet's pods."""

    brokers: str
    folder: Path
    port: int
    health: int
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> psutil.Process:
        settings = {
            "log.brokers": self.brokers,
            "topics.prefix": TOPICS.prefix,
            "topics.partitions": TOPICS.partitions,
            "cluster.name": CLUSTER,
            "usage.interval_seconds": STEP,
            "receiver.host": "127.0.0.1",
            "receiver.port": self.port,
            "metrics.port": self.health,
        }
        flags = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        with (self.folder / "receiver.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "agents", "source", "remote-write", *flags], stdout=log, stderr=log
            )
        return psutil.Process(self.process.pid)

    def end(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)


def measure(put: Put, brokers: str, containers: int = 100_000) -> None:
    """CPU and memory of the receiver, what was lost, and whether each container's figures are right before and after."""
    try:
        prometheus_package.programs()
    except pytest.skip.Exception as why:
        sys.stdout.write(f"{why}\n")
        return
    exporter = Exporter(containers)
    kafka_topics.create(brokers, TOPICS)
    _publish_pods(brokers, exporter.pods)
    what = f"remote-write from a Prometheus, {containers:,} containers each {STEP} s"
    with tempfile.TemporaryDirectory(prefix="ullage-received-") as named, exporter.serving() as pages:
        folder = Path(named)
        receiver = Receiver(brokers, folder, *free_ports(2))
        process = receiver.start()
        config = {
            "global": {"scrape_interval": f"{STEP}s", "scrape_timeout": f"{STEP - 1}s"},
            "scrape_configs": [
                {
                    "job_name": "kubernetes-cadvisor",
                    "static_configs": [
                        {"targets": [f"127.0.0.1:{pages}"], "labels": {"__metrics_path__": f"/{part}", "shard": f"{part}"}}
                        for part in range(PARTS)
                    ],
                }
            ],
            "remote_write": [{"url": f"http://127.0.0.1:{receiver.port}/api/v1/write"}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))
        try:
            with prometheus_package.server(folder) as url, KafkaLog(KafkaConnection(brokers)) as log:
                rows = Rows(log)
                _wait(lambda: len(rows.newest()) == containers, PATIENCE, "each container has a row")
                begun, used, sent, since = time.monotonic(), _cpu(process), _sent(url), time.time()
                time.sleep(STEADY)
                spent, brought = _cpu(process) - used, _sent(url) - sent
                put(f"{what}: CPU of a sample", spent / brought * 1e6, "us", "")
                put(f"{what}: of one core", spent / (time.monotonic() - begun) * 100, "%", "")
                put(f"{what}: memory", process.memory_info().rss / 2**20, "MiB", "")
                ended = time.time()
                receiver.end()
                time.sleep(AWAY)
                process, begun, started = receiver.start(), time.monotonic(), time.time()
                _wait(lambda: len(rows.newest(since=started)) == containers, PATIENCE, "each container has a row again")
                put(f"{what}: restarted, until each has a row again", time.monotonic() - begun, "s", "")
                time.sleep(STEADY)
                until = time.time() - 3 * STEP
                lost = sum(_counter(url, f"prometheus_remote_storage_samples_{how}_total") for how in ("dropped", "failed"))
                again = _counter(url, "prometheus_remote_storage_samples_retried_total")
                put(f"{what}: restarted, samples that came again", again, "", "")
                put(f"{what}: restarted, samples lost", lost + _refused(receiver.health), "", "0")
                wrong = _wrong(exporter, rows.newest(since=started))
                put(f"{what}: restarted, containers whose CPU is not what they use", wrong, "", "0")
                put(f"{what}: restarted, memory", process.memory_info().rss / 2**20, "MiB", "")
                for when, first, last in (("before", since, ended), ("meanwhile", ended, started), ("after", started, until)):
                    share = rows.moments(first, last) / exporter.sent(first, last)
                    put(f"{what}: scrapes {when} that have a row of their own", share * 100, "%", "")
        finally:
            receiver.end()


class Rows:
    """What was published of usage."""

    def __init__(self, log: KafkaLog) -> None:
        self._codec = Codec(TOPICS)
        self._cursor = Cursor(log, [(TOPICS.wire("pod-metrics"), partition) for partition in range(TOPICS.partitions)])
        self._newest: dict[str, tuple[float, float]] = {}
        self._moments = set[tuple[int, int]]()

    def newest(self, since: float = 0.0) -> Mapping[str, float]:
        """Cores of each pod with a row whose window ended since then, without those for which there is no rate yet."""
        for record in self._cursor.catch_up():
            event = self._codec.decode(record)
            if isinstance(event, MetricsScraped):
                ages = event.ages if len(event.ages) else [0.0] * len(event.pods)
                for age, pod, cores in zip(ages, event.pods, event.cores, strict=True):
                    self._newest[pod] = event.at.timestamp() - age, float(cores)
                    self._moments.add((_number(pod), round((event.at.timestamp() - age) * 100)))
        return {pod: cores for pod, (at, cores) in self._newest.items() if at >= since and cores == cores}  # noqa: PLR0124  # NaN

    def moments(self, since: float, until: float) -> int:
        """How many different pairs of a container and a time in this range have a row."""
        self.newest()
        return sum(since * 100 <= at < until * 100 for _, at in self._moments)


def _publish_pods(brokers: str, pods: list[str]) -> None:
    now, codec = datetime.now(UTC).replace(microsecond=0), Codec(TOPICS)
    topic, partition = "pod-changes-by-cluster", TOPICS.partition_of(CLUSTER)
    with KafkaLog(KafkaConnection(brokers)) as log:
        for first in range(0, len(pods), 1000):
            events = [
                PodChanged(
                    now, Workload(CLUSTER, "shop", "Deployment", pod[:12]), PodName("shop", pod, pod), PodPhase.RUNNING, now, ()
                )
                for pod in pods[first : first + 1000]
            ]
            log.append([codec.encode(event, topic=topic, key=CLUSTER, partition=partition, source="bench") for event in events])


def _wrong(exporter: Exporter, cores: Mapping[str, float]) -> int:
    """How many pods are said to use another CPU than they do. Usage is told in whole millicores, rounded up."""
    pairs = ((use, float(exporter.cores[_number(pod)])) for pod, use in cores.items())
    return sum(abs(use - expected) > max(0.05 * expected, 0.0011) for use, expected in pairs)


def _number(pod: str) -> int:
    return int(pod.rpartition("-")[2], 16)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _sent(url: str) -> float:
    return _counter(url, "prometheus_remote_storage_samples_total")


def _refused(port: int) -> float:
    """Samples that the receiver counts as lost."""
    words = ("out_of_order", "future", "too_old", "malformed", "refused")
    return sum(_counter(f"http://127.0.0.1:{port}", f'ullage_received_samples_total{{what="{word}"}}') for word in words)


def _counter(url: str, metric: str) -> float:
    """The sum of a metric, 0 where there is none."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as page:  # noqa: S310  # loopback
        lines = page.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{metric}{{", f"{metric} ")))


def _wait(done: Callable[[], bool], seconds: float, what: str) -> None:
    until = time.monotonic() + seconds
    while not done():
        if time.monotonic() > until:
            raise RuntimeError(f"after {seconds:.0f} s still not: {what}")
        time.sleep(1.0)


def main() -> None:
    """Print what was measured."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--containers", type=int, default=100_000)
    asked = arguments.parse_args()
    with Broker(BrokerSettings(heap_mb=768)) as broker, suppress(KeyboardInterrupt):
        measure(
            lambda name, value, unit, _goal: print(f"{name}: {value:.3g} {unit}".rstrip(), flush=True),  # noqa: T201
            broker.bootstrap,
            asked.containers,
        )


if __name__ == "__main__":
    main()
