"""The main job on real input, as a user runs it: a trace into Kafka, two workers, one of them killed midway.

What they recommend is what the backtest driver recommends on the same trace, byte for byte.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agents import backtest
from agents.logic.updates.settings import UpdateSettings
from agents.logic.vertical.settings import VerticalSettings
from agents.pipeline import stages
from agents.verify.marks import committed
from streams.codec import header, tick_number
from streams.log.connection import Connection
from streams.log.kafka import KafkaLog
from streams.sources.traces import Playing, Trace
from streams.topics import Topics

ROOT = Path(__file__).parents[2]
TRACES = Path(os.environ.get("ULLAGE_SHARED", ROOT.parent / "shared")) / "traces"
CLUSTER = "trace"
Decisions = dict[str, bytes]
"""Decisions by id."""


@dataclass
class Site:
    """Topics on a broker, and commands of the product at work on them."""

    broker: str
    topics: Topics
    folder: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *words: str) -> None:
        told = {
            "ULLAGE_LOG__BROKERS": self.broker,
            "ULLAGE_TOPICS__PREFIX": self.topics.prefix,
            "ULLAGE_TOPICS__PARTITIONS": str(self.topics.partitions),
            "ULLAGE_CLUSTER__NAME": CLUSTER,
            "ULLAGE_WORKER__NAME": self.topics.prefix,
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "agents", *words]
            environment = {**os.environ, **told, "PYTHONPATH": str(ROOT)}
            self.running[name] = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        self.running[name].kill()
        self.running[name].wait()

    def wait(self, done: Callable[[], bool], seconds: float) -> None:
        """Until it is done; nobody may have ended with an error meanwhile."""
        until = time.monotonic() + seconds
        while not done():
            ended = [name for name, process in self.running.items() if process.poll() not in (None, 0, -signal.SIGKILL)]
            assert not ended, f"{ended} ended:\n" + (self.folder / f"{ended[0]}.log").read_text()[-3000:]
            assert time.monotonic() < until, f"not done after {seconds:g} s"
            time.sleep(0.5)

    def close(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for process in self.running.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def site(broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> Iterator[Site]:
    site = Site(broker, topics_made(partitions=2), tmp_path)
    yield site
    site.close()


def expected(folder: Path, topics: Topics, monkeypatch: pytest.MonkeyPatch) -> tuple[Decisions, int]:
    """What the backtest driver recommends on the trace, and its last turn."""
    found: Decisions = {}
    hear = backtest.Backtest._hear

    def listen(self: Any, decisions: Any) -> None:
        records = list(decisions)
        found.update(_recommended(records, topics))
        hear(self, records)

    monkeypatch.setattr(backtest.Backtest, "_hear", listen)
    with Trace(folder) as trace:
        listed = stages(VerticalSettings(), UpdateSettings())
        for step in backtest.over_trace(trace, listed, topics, Playing(cluster=CLUSTER)):
            last = step
    assert last.card().recommendations == len(found)
    return found, last._runner.tasks[0].turn


def _recommended(records: Any, topics: Topics) -> Iterator[tuple[str, bytes]]:
    wire = topics.wire("recommendations")
    return ((str(header(r, "ce_id")), r.value) for r in records if r.topic == wire and tick_number(r) is None)


def published(log: KafkaLog, topics: Topics) -> Decisions:
    """What stands in Kafka. A decision that was said again has the same bytes."""
    found: Decisions = {}
    for partition in range(topics.partitions):
        place = (topics.wire("recommendations"), partition)
        position, end = log.begin(*place), log.end(*place)
        while position < end:
            records = log.poll({place: position}, wait=5.0)
            for identifier, value in _recommended(records, topics):
                assert found.setdefault(identifier, value) == value
            position = records[-1].offset + 1
    return found


@pytest.mark.slow
@pytest.mark.timeout(420)
@pytest.mark.parametrize("name", ["google2019-borg", "bitbrains-rnd"])
def test_what_two_workers_recommend_on_a_trace_is_what_the_backtest_does_even_when_one_is_killed_midway(
    site: Site, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if not (TRACES / name).exists():
        pytest.skip(f"there is no trace {name} under ULLAGE_SHARED (default ../shared)")
    listed = stages(VerticalSettings(), UpdateSettings())
    wanted, last = expected(TRACES / name, site.topics, monkeypatch)

    def level() -> bool:
        marks = committed(log, site.topics.prefix, listed)
        return [marks.get(("recommender", p), -1) for p in range(site.topics.partitions)] == [last] * site.topics.partitions

    with KafkaLog(Connection(site.broker)) as log:
        site.start("source", "source", "traces", str(TRACES / name), "--speed", "0")
        site.start("one", "worker")
        site.start("two", "worker")
        places = [(site.topics.wire("recommendations"), p) for p in range(site.topics.partitions)]
        site.wait(lambda: sum(log.end(*place) for place in places) > len(wanted) // 4, 120)
        assert sum(log.end(*place) for place in places) < len(wanted), "it was over before the worker could be killed"
        site.kill("one")
        site.start("one again", "worker")
        site.wait(level, 240)
        found = published(log, site.topics)
    assert found.keys() == wanted.keys()
    assert found == wanted
