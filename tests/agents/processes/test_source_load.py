"""`ullage source load` as a command on a file log, with a server that answers queries."""

import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from schemas.facts.replica_scaling import LoadHistoryRead, LoadScraped
from schemas.facts.sources import SourceReported
from streams.codec.event_codec import Codec
from streams.log.file_log import FileLog
from streams.topics import TOPICS, Topics
from tests.support.canned_http_server import Answering, answering
from tests.support.load_scene import ehpa, flat

TOPICS_OF = Topics()


def _log(path: Path) -> None:
    """A log that knows one EHPA."""
    policy = ehpa("web", query="up", cluster="demo")
    with FileLog.open_or_create(path) as log:
        for topic in TOPICS:
            log.create(TOPICS_OF.wire(topic.name), TOPICS_OF.partitions)
        log.append(Codec(TOPICS_OF).encode_for_all(policy, topic="policies", key=policy.key, source="test"))


def _events(path: Path, topic: str) -> list[object]:
    with FileLog(path) as log:
        records = log.poll({(TOPICS_OF.wire(topic), partition): 0 for partition in range(TOPICS_OF.partitions)})
        return [Codec(TOPICS_OF).decode(record) for record in records]


def _scraped(path: Path) -> bool:
    return any(isinstance(event, LoadScraped) for event in _events(path, "load-metrics"))


def _run(server: Answering, path: Path) -> str:
    settings = (f"log.path={path}", "log.kind=file", f"prometheus.url={server.url}", "load.interval_seconds=1")
    flags = [word for setting in settings for word in ("--set", setting)]
    with subprocess.Popen(
        [sys.executable, "-m", "agents", "source", "load", *flags], stderr=subprocess.PIPE, text=True
    ) as process:
        until = time.monotonic() + 120
        while not (len(server.asked) >= 5 and _scraped(path)) and time.monotonic() < until:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return said


def test_loads_are_told_until_the_source_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    _log(path)
    with answering(flat("7.5")) as server:
        said = _run(server, path)
    assert f"asking {server.url} for the loads of cluster 'demo' every 1 s" in said
    found = _events(path, "load-metrics")
    rows = {(event.workloads, event.values) for event in found if isinstance(event, LoadScraped)}
    assert rows == {(("demo/shop/Deployment/web",), (7.5,))}
    parts = [event for event in found if isinstance(event, LoadHistoryRead)]
    minutes = 15 * 1440 + 60
    assert [len(part.values) for part in parts[:2]] == [10_000, 10_000]
    assert minutes - 20_000 <= len(parts[2].values) <= minutes - 20_000 + 1
    assert abs((datetime.now(UTC) - parts[-1].at).total_seconds()) < 60
    reports = [event for event in _events(path, "cluster-changes") if isinstance(event, SourceReported)]
    assert {(report.source, report.sees) for report in reports} == {("load", ("load-metrics",))}
