"""How long commands that only read need on a log of a real size."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

from kafka import KafkaProducer

from schemas.decisions.pod_updates import UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.facts.sources import SourceReported
from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes, Cores
from streams.admin import topic_admin
from streams.clock_rules import ClockRecord
from streams.codec.event_codec import Codec
from streams.codec.headers import TICK
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.topics import Topics

WORKLOADS, DECISIONS = 10_000, 1_000_000
HOURS = 4
_TICK_MS, _PARTITIONS, _BATCH = 500, 4, 20_000
_POD = PodName("ns-1", "web-1-x", "u1")
_NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)

_ASKED = (("status",), ("recommendations",), ("why", "payments/ledger"), ("why-not", "payments/ledger"), ("plan",))

Put = Callable[[str, float, str, str], None]


def measure(put: Put, brokers: str, workloads: int = WORKLOADS, decisions: int = DECISIONS) -> None:
    """Write the last hours of a cluster with so many workloads, and so many decisions; then ask for what people look at first."""
    topics, connection = Topics("benchreading", _PARTITIONS), KafkaConnection(brokers)
    with topic_admin.connect(connection) as admin:
        topic_admin.apply(admin, topic_admin.plan(admin, topics.specs()))
    _write(topics, connection, workloads, decisions)
    sets = [f"topics.prefix={topics.prefix}", f"topics.partitions={_PARTITIONS}", "cluster.name=prod"]
    where = ["--brokers", brokers, *(part for each in sets for part in ("--set", each))]
    lines, first, took = _timed("recommendations", "-o", "csv", *where)
    assert lines == workloads + 1
    put(f"recommendations of {workloads:,} workloads, the whole command", took, "s", "<= 1")
    put("  until its first line", first, "s", "<= 1")
    lines, _, took = _timed("status", *where)
    assert lines > len(topics.specs()) // 2
    put(f"status on a log with {decisions:,} decisions", took, "s", "<= 1")


def measure_demo(put: Put) -> None:
    """Play the demo's day on Kafka, and ask its kept log what an on-call asks."""
    with tempfile.TemporaryDirectory(prefix="ullage-bench-") as folder:
        subprocess.run([sys.executable, "-m", "agents", "demo", "--plain"], cwd=folder, stdout=subprocess.DEVNULL, check=True)
        ask(put, Path(folder))


def ask(put: Put, folder: Path) -> None:
    """Each question of a demo that was played in `folder`."""
    for words in _ASKED:
        lines, first, _ = _timed(*words, "--config", ".run/demo/ullage.yaml", folder=folder)
        assert lines
        put(f"{' '.join(words)} on the demo's log, until its first line", first, "s", "<= 1")


def _timed(*words: str, folder: Path | None = None) -> tuple[int, float, float]:
    """The lines that a command prints, and the seconds to the first and to its end; the best of three.

    Python keeps what it compiled, as it does where people use it.
    """
    command = [sys.executable, "-m", "agents", *words]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    runs = []
    for _ in range(3):
        began = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        lines = bool(process.stdout.readline())
        first = time.perf_counter() - began
        lines += process.stdout.read().count(b"\n")
        process.wait()
        runs.append((lines, first, time.perf_counter() - began))
    return min(runs, key=lambda run: run[2])


def _write(topics: Topics, connection: KafkaConnection, workloads: int, decisions: int) -> None:
    """Ticks are records on their own, as a clock writes them; everything else comes in batches."""
    codec = Codec(topics)
    ticking = KafkaProducer(**connection.options(), batch_size=0, acks=1)
    with KafkaLog(connection) as log:
        batch: list[NewRecord] = []
        for record in chain(_hours(topics, codec, workloads), _decided(topics, codec, decisions)):
            if record.key == TICK:
                ticking.send(record.topic, key=record.key, value=record.value, partition=record.partition)
                continue
            batch.append(record)
            if len(batch) == _BATCH:
                ticking.flush()
                log.append(batch)
                batch = []
        report = SourceReported(_NOW, "prod", "kube", ())
        log.append([*batch, *codec.encode_for_all(report, topic="cluster-changes", key="prod", source="/b")])
    ticking.close()


def _decided(topics: Topics, codec: Codec, decisions: int) -> Iterator[NewRecord]:
    """Refusals of the last day, as an updater states them."""
    partition = topics.partition_of("prod")
    for n in range(decisions):
        at = _NOW - timedelta(seconds=(decisions - n) * 86_400 / decisions)
        ident = f"updater/{partition}/{int(at.timestamp() * 1000)}/refused/{n}"
        event = UpdateRefused(ident, at, _workload(n % WORKLOADS), _POD, "budget", "the budget is used up", {"used": 3})
        yield codec.encode(event, topic="pod-updates", key="prod", partition=partition, source="/b")


def _hours(topics: Topics, codec: Codec, workloads: int) -> Iterator[NewRecord]:
    """Ticks of all inputs, with every workload's pod once in three hours and its recommendation once in the last."""
    period = timedelta(milliseconds=_TICK_MS)
    steps = HOURS * 3_600_000 // _TICK_MS
    at = _NOW - steps * period
    pods: dict[int, list[int]] = {}
    for n in range(workloads):
        pods.setdefault(steps // HOURS + 1 + n * (3 * steps // HOURS) // workloads, []).append(n)
    for step in range(steps + 1):
        for n in pods.get(step, ()):
            yield _pod(topics, codec, n, at)
            yield _recommendation(topics, codec, n, _NOW - timedelta(seconds=n * 3500 / workloads))
        after = (step - 1, str(step - 1)) if step else None
        yield ClockRecord(int(at.timestamp() * 1000), str(step), after, {}, full=step % 120 == 0).encode(topics.wire("clock"))
        at += period


def _workload(n: int) -> Workload:
    return Workload("prod", f"ns-{n % 50}", "Deployment", f"web-{n}")


def _pod(topics: Topics, codec: Codec, n: int, at: datetime) -> NewRecord:
    workload = _workload(n)
    seen = ContainerSeen("app", Amounts(Cores(1.0), Bytes(1 << 30)))
    event = PodChanged(at, workload, PodName(workload.namespace, f"web-{n}-x", f"u{n}"), PodPhase.RUNNING, at, (seen,))
    return codec.encode(event, topic="pod-changes", key=workload.key, partition=topics.partition_of(workload.key), source="/b")


def _recommendation(topics: Topics, codec: Codec, n: int, at: datetime) -> NewRecord:
    workload, amounts = _workload(n), Amounts(Cores(0.25 + n / 1e5), Bytes(300 << 20))
    container = ContainerRecommendation("app", amounts, amounts, amounts, amounts)
    partition = topics.partition_of(workload.key)
    ident = f"recommender/{partition}/{int(at.timestamp() * 1000)}/requests/{workload.key}"
    event = RequestsRecommended(ident, at, workload, (container,), {"samples": 1440}, 3)
    return codec.encode(event, topic="recommendations", key=workload.key, partition=partition, source="/b")
