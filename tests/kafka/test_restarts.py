"""A broker that starts anew again and again while every command is asked: each answers, or says that Kafka is away."""

import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kafka import TopicPartition

from schemas.policies.control import ControlChanged
from schemas.policies.vertical import VerticalPolicyChanged
from streams import clock_log, log_range
from streams.broker import Broker, BrokerSettings, JarsUnavailable
from streams.codec.event_codec import Codec
from streams.errors import LogUnavailable
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.kafka_reader import RangeReader
from streams.log.log_port import NewRecord
from streams.topics import Topics
from tests.kafka.test_kinds_of_logs import READING, WITHOUT_LOG, commands, printed
from tests.support.commands import Commands

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
RESTARTS = 5
AWAY = re.compile(r"ullage: (connecting to|.* at) Kafka '127\.0\.0\.1:\d+' did not work: .*")
"""The one sentence that a command may say of a broker that is away. Its exit code is 1."""
FAULT = re.compile(r"LogTruncationError|Traceback")
NOT_EMPTY = re.compile(r"ullage: topic '[\w.-]+' is not empty there: import into .*")
WRITING: Sequence[tuple[str, ...]] = (
    ("pause", "--reason", "REASON"),
    ("resume", "--reason", "REASON"),
    ("mode", "plan", "--reason", "REASON"),
    ("policy", "set", "prod/REASON/*", "--mode", "Off"),
    ("policy", "apply", "FOLDER/policies.yaml"),
    ("policy", "remove", "prod/again/*"),
    ("settings", "apply"),
    ("topics", "apply"),
    ("record", "FOLDER/REASON.parquet", "--for", "1s"),
    ("import", "FOLDER/before.parquet"),
)
NOWHERE = ("--set", "cluster.url=http://127.0.0.1:1", "--set", "prometheus.url=http://127.0.0.1:1")
AWS = ("aws.region=eu-west-1", "aws.endpoint=http://127.0.0.1:1", "aws.timeout_seconds=1", "aws.groups=1:3:workers")
RUNNING: Mapping[str, Sequence[str]] = {
    "source clock": (),
    "worker": (),
    "source kube": NOWHERE,
    "source usage": NOWHERE,
    "source load": NOWHERE,
    "source asg": [word for setting in AWS for word in ("--set", setting)],
    "source remote-write": ("--set", "receiver.port=0"),
    "source simulated": ("--port", "0", "--cluster", "made-up"),
    "consumer": ("resizer", "evictor", "status", "autoscalers", *NOWHERE),
    "run": ("consumer-metrics-api", "consumer-webhook", *NOWHERE, "--set", "metrics_api.port=0", "--set", "webhook.port=0"),
}
"""Processes that are there all along, of a cluster that never answers."""
ONCE = {
    "source history": "asks Prometheus first",
    "source traces": "a clock of its own, in an empty log",
    "topics move": "refused while workers are at work, as they are here",
    "topics users": "says what a Kafka without logins lacks, which this one is",
}
"""Commands that are not asked here, and why."""


@dataclass
class Asked:
    """What was asked, and which marks must be in the log and which must not."""

    broker: Broker
    folder: Path
    flags: Sequence[str]
    written: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    faults: list[tuple[Sequence[str], int, str]] = field(default_factory=list)
    number: int = 0

    def wait_for_ticks(self, count: int) -> None:
        """Until so many more came, so that each epoch has a stretch of them."""
        place, goal, until = clock_log.place(Topics(partitions=2)), 0, time.monotonic() + 120
        while time.monotonic() < until:
            with suppress(LogUnavailable), KafkaLog(KafkaConnection(self.broker.bootstrap)) as log:
                goal = goal or log.end(*place) + count
                if log.end(*place) >= goal:
                    return
            time.sleep(0.2)
        raise TimeoutError(f"the clock did not tick {count} times in two minutes")

    def ask(self, words: Sequence[str]) -> None:
        self.number += 1
        mark = f"r{self.number}"
        begun = time.monotonic()
        code, _, err = printed([word.replace("REASON", mark) for word in words], self.flags, self.folder)
        away = [line for line in err.splitlines() if line.startswith("ullage: ")]
        refused = code == 1 and len(away) == 1 and AWAY.fullmatch(away[0]) is not None
        full = words[0] == "import" and any(NOT_EMPTY.fullmatch(line) for line in away)
        sound = (
            code in {0, 2, 3, 4} or refused or full or words[0] == "doctor"
        )  # 2: nothing recorded, 3 and 4: nothing to verify yet
        if not sound or FAULT.search(err) or time.monotonic() - begun > 120:
            self.faults.append((words, code, err))
        if "REASON" in "".join(words) and words[0] != "record":
            (self.doubtful if "may be in the log" in err else self.written if code == 0 else set()).add(mark)


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    try:
        with Broker(BrokerSettings(heap_mb=256, quick=True)) as broker:
            flags = ["--brokers", broker.bootstrap, "--set", "topics.partitions=2", "--cluster", "prod"]
            assert printed(["topics", "apply"], flags, tmp_path)[0] == 0
            assert printed(["mode", "shadow"], flags, tmp_path)[0] == 0
            assert printed(["export", str(tmp_path / "before.parquet")], flags, tmp_path)[0] == 0
            (tmp_path / "policies.yaml").write_text("- target: prod/again/*\n  mode: Off\n")
            yield Asked(broker, tmp_path, flags)
    except JarsUnavailable as error:
        pytest.skip(str(error))


def test_no_command_fails_but_for_a_broker_that_is_away_and_none_is_wrong_about_what_it_wrote(asked: Asked) -> None:
    done = threading.Event()

    def restart() -> None:
        for _ in range(RESTARTS):
            asked.wait_for_ticks(8)
            asked.broker.stop()
            asked.broker.start()
        done.set()

    beside = Commands(asked.broker.bootstrap, Topics(partitions=2), asked.folder)
    for name, words in RUNNING.items():
        beside.start(name, *name.split(), *words)
    restarting = threading.Thread(target=restart)
    restarting.start()
    try:
        while not done.is_set():
            for words in (*WRITING, *READING):
                asked.ask(words)
        restarting.join()
        quiet = len(asked.faults)
        for words in (*WRITING, *READING):
            asked.ask(words)
        ends = {name: process.poll() for name, process in beside.running.items()}
        said = {name: (asked.folder / f"{name}.log").read_text(errors="replace") for name in RUNNING}
    finally:
        restarting.join()
        beside.close()
    away = {name for name in said if ends[name] == 75 or any(AWAY.fullmatch(line) for line in said[name].splitlines())}
    assert {name: said[name][-3000:] for name, code in ends.items() if code is not None and name not in away} == {}
    assert ends["source clock"] is None
    assert {name: text[-3000:] for name, text in said.items() if FAULT.search(text)} == {}
    assert asked.faults == []
    assert quiet == 0
    assert marks(asked.broker.bootstrap) - asked.doubtful == asked.written - asked.doubtful


def test_every_command_is_asked_or_runs_beside_or_has_its_reason() -> None:
    asked = {name for name in commands() for words in (*WRITING, *READING) if " ".join(words).startswith(name)}
    assert asked | set(RUNNING) | set(ONCE) | WITHOUT_LOG == set(commands())


def marks(address: str) -> set[str]:
    """What was said in the log, of control and of policies."""
    topics = Topics(partitions=2)
    codec, found = Codec(topics), set()
    with KafkaLog(KafkaConnection(address)) as log:
        for record in log_range.read_range(log, [topics.wire("control"), topics.wire("rules")]):
            event = codec.decode_or_none(record)
            if isinstance(event, ControlChanged):
                found.add(event.reason)
            elif isinstance(event, VerticalPolicyChanged):
                found.add(event.target.split("/")[1])
    return {mark for mark in found if re.fullmatch(r"r\d+", mark)}


def test_a_reader_stays_at_work_after_records_of_a_new_leader_epoch(asked: Asked) -> None:
    """Nothing that has the bytes that are asked for since the restart: the client must not take the log for truncated."""
    wire = Topics(partitions=2).wire("control")
    places = [TopicPartition(wire, p) for p in range(2)]
    with KafkaLog(KafkaConnection(asked.broker.bootstrap)) as log:
        log.append([NewRecord(wire, p, b"k", b"v") for p in range(2)])
    asked.broker.stop()
    asked.broker.start()
    with KafkaLog(KafkaConnection(asked.broker.bootstrap)) as log:
        for n in range(20):
            log.append([NewRecord(wire, p, b"k", b"%d" % n) for p in range(2)])
        reader = RangeReader(log.where, log._offsets)
        consumer = reader._open(b"not there")
        consumer.assign(places)
        for place in places:
            consumer.seek(place, log.end(*place) - 21)
        until = time.monotonic() + 60
        while time.monotonic() < until and any(consumer.position(place) < log.end(*place) for place in places):
            consumer.poll(timeout_ms=250)
        for _ in range(4):
            consumer.poll(timeout_ms=250)
        epochs = {consumer._subscription.assignment[place].position.leader_epoch for place in places}
        assert epochs == {consumer._fetcher._manager.cluster.leader_epoch_for_partition(place) for place in places}
        reader.close()
