"""`ullage source usage` and `ullage source history`, as commands on a file log."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agents import cli
from schemas.facts.pods import PodChanged, PodPhase
from schemas.facts.sources import SourceReported
from schemas.facts.usage import MetricsScraped
from schemas.names import PodName, Workload
from streams.codec.event_codec import Codec
from streams.log.file_log import FileLog
from streams.topics import TOPICS, Topics
from tests.support.canned_http_server import Answering, Asked, answering

WEB = Workload("demo", "shop", "Deployment", "web")
NOW = datetime.now(UTC).replace(microsecond=0)
HOUR = timedelta(hours=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log that knows one pod."""
    path, topics = tmp_path / "log.jsonl", Topics()
    with FileLog.open_or_create(path) as log:
        for topic in TOPICS:
            log.create(topics.wire(topic.name), topics.partitions)
        pod = PodChanged(NOW - HOUR, WEB, PodName("shop", "web-1", "u1"), PodPhase.RUNNING, NOW - HOUR, ())
        partition = topics.partition_of("demo")
        record = Codec(topics).encode(pod, topic="pod-changes-by-cluster", key="demo", partition=partition, source="test")
        log.append([record])
    return path


@pytest.fixture
def server() -> Iterator[Answering]:
    with answering(lambda _: (404, b"")) as here:
        yield here


def scraped(path: Path) -> list[MetricsScraped]:
    return [event for event in events(path, "pod-metrics") if isinstance(event, MetricsScraped)]


def events(path: Path, topic: str) -> list[Any]:
    topics = Topics()
    with FileLog(path) as log:
        records = log.poll({(topics.wire(topic), partition): 0 for partition in range(topics.partitions)})
        return [Codec(topics).decode(record) for record in records]


def on(path: Path, *settings: str) -> list[str]:
    named = (f"log.path={path}", "log.kind=file", *settings)
    return [word for setting in named for word in ("--set", setting)]


def usage(_asked: Asked) -> tuple[int, bytes]:
    used = [{"name": "main", "usage": {"cpu": "250m", "memory": "64Mi"}}]
    pod = {"metadata": {"name": "web-1", "namespace": "shop"}, "timestamp": NOW.isoformat(), "window": "15s", "containers": used}
    return 200, json.dumps({"items": [pod]}).encode()


def remembered(asked: Asked) -> tuple[int, bytes]:
    metric = {"namespace": "shop", "pod": "web-1", "container": "main"}
    query = asked.fields["query"]
    if "start" not in asked.fields:
        return 200, json.dumps({"data": {"result": [{"metric": metric, "value": [0, "1"]}] if "count" in query else []}}).encode()
    moments = [float(asked.fields["start"]), float(asked.fields["end"])]
    values = [[moment, "0.5" if "rate(" in query else "1e8"] for moment in moments]
    return 200, json.dumps({"data": {"result": [{"metric": metric, "values": values}]}}).encode()


def until(done: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    for _ in range(2400):
        if done():
            return
        assert process.poll() is None
        time.sleep(0.05)
    pytest.fail("it took more than two minutes")


def test_usage_is_told_until_the_source_is_stopped(server: Answering, path: Path) -> None:
    server.answer = usage
    flags = on(path, f"cluster.url={server.url}", "usage.interval_seconds=1")
    command = [sys.executable, "-m", "agents", "source", "usage", *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: len(server.asked) >= 2, process)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert f"asking {server.url} for usage of cluster 'demo' every 1 s" in said
    (event,) = scraped(path)
    told = (event.workloads, event.pods, event.containers, list(event.cores), list(event.memory))
    assert told == ((WEB.key,), ("web-1",), ("main",), [0.25], [64 * 2**20])
    assert (event.at, event.window) == (NOW, 15.0)
    reports = events(path, "cluster-changes")
    assert len(reports) >= 4
    assert {(report.source, report.sees) for report in reports if isinstance(report, SourceReported)} == {
        ("usage", ("pod-metrics",))
    }


def test_history_is_told_once_and_says_what_it_found(server: Answering, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.answer = remembered
    headers = "prometheus.headers=X-Scope-OrgID: shop\nX-Key: a:b"
    flags = on(path, f"prometheus.url={server.url}", "history.length_seconds=3600", headers)
    assert cli.run(["source", "history", "--until", NOW.isoformat(), *flags]) == 0
    said = capsys.readouterr().err
    assert "history is in the log: 2 samples, 0 left out; every pod belongs to a workload" in said
    assert {(asked.headers["X-Scope-OrgID"], asked.headers["X-Key"]) for asked in server.asked} == {("shop", "a:b")}
    assert [(event.at, event.history, list(event.cores)) for event in scraped(path)] == [
        (NOW - HOUR, True, [0.5]),
        (NOW, True, [0.5]),
    ]


def test_what_makes_no_sense_is_a_sentence(server: Answering, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = on(path, f"prometheus.url={server.url}")
    assert cli.run(["source", "history", "--until", "2026-11-21T12:00:00", *flags]) == 2
    assert "has no offset from UTC; say 2026-11-21T12:00:00+00:00" in capsys.readouterr().err
    assert cli.run(["source", "history", *flags, "--set", "prometheus.headers=X-Key: a\ngeheim"]) == 2
    said = capsys.readouterr().err
    assert "line 2 of prometheus.headers is no header" in said
    assert "geheim" not in said
    both = ["--set", "prometheus.token=t", "--set", "prometheus.username=u", "--set", "prometheus.password=p"]
    assert cli.run(["source", "history", *flags, *both]) == 2
    assert "give one way or the other" in capsys.readouterr().err
