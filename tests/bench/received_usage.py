"""`python -m tests.bench.received_usage [--containers N]`: what it costs to take in the usage of a fleet by remote-write.

100,000 containers, a sample of CPU and one of memory each 15 s, 2,000 samples a request as Prometheus sends them, with cAdvisor's
labels, over HTTP to the endpoint as a process runs it. The requests are made before anything is measured.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import psutil
import urllib3

from schemas.units import Bytes, Seconds
from streams.serving.https_server import HttpsServer, ServerLimits
from streams.sources.usage.received.receiver_endpoint import ReceiverEndpoint, ReceiverOptions
from streams.sources.usage.received.usage_samples import UsageSamples
from tests.support import usage_senders
from tests.support.usage_senders import CPU, MEMORY

Put = Callable[[str, float, str, str], None]
STEP, AT_ONCE, ROUNDS = 15, 2000, 24
"""Seconds between two samples, samples of one request, and samples of each series: one more fills the window of 300 s."""


class _NoCount:
    def answered(self, protocol: str, code: int) -> None:
        """Nothing is counted here."""


def fleet_labels(containers: int) -> list[dict[str, str]]:
    """The labels that cAdvisor and a kubelet's scrape give; 250 bytes each."""
    return [
        usage_senders.labels(
            metric,
            pod=f"service-{number % 5000:04d}-7d9f8b6c5d-{number:05x}",
            id=f"/kubepods/burstable/pod{number:032x}/{number:064x}",
            image="registry.example/shop/service@sha256:0f1e2d3c",
            name=f"{number:064x}",
            instance=f"10.0.{number % 250}.1:10250",
            node=f"node-{number % 1000}",
        )
        for number in range(containers)
        for metric in (CPU, MEMORY)
    ]


def _requests(series: list[dict[str, str]], version: int, at: float) -> Iterator[bytes]:
    """All series' samples of one moment."""
    make = usage_senders.v1 if version == 1 else usage_senders.v2
    for first in range(0, len(series), AT_ONCE):
        some = series[first : first + AT_ONCE]
        yield usage_senders.packed(make((labels, [(at, at % 1e6 * 0.25)]) for labels in some))


def measure(put: Put, containers: int = 100_000, version: int = 1, rounds: int = ROUNDS) -> None:
    """CPU of a sample with the whole process, memory of the samples, and the time of the answer that the source publishes."""
    now, process, series = time.time(), psutil.Process(), fleet_labels(containers)
    before = process.memory_info().rss
    samples = UsageSamples(Seconds(300.0), 1_000_000)
    options = ReceiverOptions(most_bytes=Bytes(8 << 20))
    at = now  # samples come when they are measured, however fast this goes
    endpoint = ReceiverEndpoint(samples, _NoCount(), options, not_taking=list, now=lambda: datetime.fromtimestamp(at, UTC))
    headers = usage_senders.V1 if version == 1 else usage_senders.V2
    cpu: list[float] = []
    with HttpsServer(endpoint.routes, None, limits=ServerLimits(body=8 << 20)) as server, urllib3.PoolManager() as pool:
        for turn in range(rounds):
            at = now + (turn - rounds) * STEP
            bodies = list(_requests(series, version, at))
            begun = time.process_time()
            for body in bodies:
                answer = pool.request("POST", f"http://127.0.0.1:{server.port}/api/v1/write", body=body, headers=headers)
                if answer.status >= 300:
                    raise RuntimeError(f"{answer.status}: {answer.data!r}")
            cpu.append(time.process_time() - begun)
            del bodies
    endpoint.close()
    what = f"remote-write {version}.0, {containers:,} containers"
    put(f"{what}: CPU of a sample, first seen", cpu[0] / len(series) * 1e6, "us", "")
    put(f"{what}: CPU of a sample", sum(cpu[1:]) / len(series) / max(1, rounds - 1) * 1e6, "us", "")
    put(f"{what}: of one core, each {STEP} s", sum(cpu[1:]) / max(1, rounds - 1) / STEP * 100, "%", "")
    put(f"{what}: memory", (process.memory_info().rss - before) / 2**20, "MiB", "")
    begun = time.process_time()
    readings = samples.read(datetime.fromtimestamp(now, UTC))
    put(f"{what}: CPU of one answer to the source", time.process_time() - begun, "s", "")
    put(f"{what}: containers in it", len(readings), "", "")


def main() -> None:
    """Print what was measured."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--containers", type=int, default=100_000)
    asked = arguments.parse_args()
    for version in (1, 2):
        measure(
            lambda name, value, unit, _goal: print(f"{name}: {value:.3g} {unit}".rstrip(), file=sys.stdout),  # noqa: T201
            asked.containers,
            version,
        )


if __name__ == "__main__":
    main()
