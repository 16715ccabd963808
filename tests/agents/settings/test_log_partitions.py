"""Whoever has another number of partitions than the log is refused: it would write or pause a part of the log alone.

A command that only reads takes the log's number.
"""

from pathlib import Path

import pytest

from agents import cli
from agents.processes import process_telemetry
from agents.settings.all_settings import Settings, TopicSettings
from streams.errors import BadInput, LogUnavailable
from streams.log.file_log import FileLog
from streams.log.memory_log import MemoryLog
from streams.topics import TOPICS, Topics
from tests.support import demo_hour_log

READING = (
    ("status",),
    ("recommendations", "-o", "json"),
    ("why", "shop/cart"),
    ("why-not", "shop/cart"),
    ("plan",),
    ("timeline", "-o", "csv"),
    ("history", "cart", "-o", "csv"),
    ("tap", "control"),
    ("policy", "list"),
    ("settings", "plan"),
    ("replay", "--set", "updates.cool_down=61"),
    ("replay", "--verify"),
    ("why", "shop/cart", "--at", "00:30"),
    ("report", "{}/report.html"),
    ("export", "{}/day.parquet"),
)


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_hour_log.keep(tmp_path_factory.mktemp("day"), hours=0.6)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path, topics = tmp_path / "log.jsonl", Topics(partitions=4)
    with FileLog.open_or_create(path) as made:
        for topic in TOPICS:
            made.create(topics.wire(topic.name), topics.partitions)
    return path


@pytest.mark.parametrize("partitions", [2, 6])
@pytest.mark.parametrize(
    "words", [("pause", "--reason", "x"), ("mode", "apply"), ("settings", "apply"), ("revert", "--since", "1h")]
)
def test_no_command_writes_a_part_of_a_log(
    words: tuple[str, ...], partitions: int, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = log.read_bytes()
    told = ("log.kind=file", f"log.path={log}", f"topics.partitions={partitions}")
    assert cli.run([*words, *(word for each in told for word in ("--set", each))]) == 2
    assert "the topics of this log have 4 partitions" in (said := capsys.readouterr().err)
    assert "ULLAGE_TOPICS__PARTITIONS=4" in said
    assert log.read_bytes() == before


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("words", READING)
def test_a_command_that_reads_takes_the_number_that_the_log_has(
    words: tuple[str, ...], partitions: int, lived_in: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    there = ("log.kind=file", f"log.path={lived_in}", "cluster.name=demo")

    def answer(*more: str) -> tuple[int, str]:
        asked = [word.format(tmp_path) for word in words]
        code = cli.run([*asked, *(word for each in (*there, *more) for word in ("--set", each))])
        return code, capsys.readouterr().out

    told = answer("topics.partitions=2")
    assert told[0] == 0
    assert answer(f"topics.partitions={partitions}") == told


@pytest.mark.parametrize(
    "words",
    [
        ("source", "clock"),
        ("source", "kube"),
        ("source", "usage"),
        ("source", "load", "--set", "prometheus.url=http://127.0.0.1:1"),
        ("source", "history", "--set", "prometheus.url=http://127.0.0.1:1"),
        ("source", "asg", "--set", "aws.groups=1:2:web", "--set", "aws.region=eu-west-1"),
        ("source", "simulated"),
        ("consumer", "resizer", "evictor"),
        ("consumer", "webhook"),
    ],
)
def test_a_process_neither_reads_nor_writes_a_part_of_a_log(
    words: tuple[str, ...], log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = log.read_bytes()
    told = ("log.kind=file", f"log.path={log}", "topics.partitions=6", "metrics.port=0", "cluster.url=http://127.0.0.1:1")
    assert cli.run([*words, *(word for each in told for word in ("--set", each))]) == 2
    assert "ullage: the topics of this log have 4 partitions, and topics.partitions is 6 here" in capsys.readouterr().err
    assert log.read_bytes() == before


class AwayAtFirst(MemoryLog):
    """A log that answers from the fourth question on."""

    asked = 0

    def partitions(self, topic: str) -> int:
        self.asked += 1
        if self.asked < 4:
            raise LogUnavailable("nobody answers")
        return super().partitions(topic)


def test_a_process_waits_for_a_log_that_is_away_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process_telemetry, "_AGAIN", 0.0)
    log = AwayAtFirst()
    log.create(Topics().wire("cluster-changes"), 4)
    process_telemetry.await_fitting(log, Settings())
    assert capsys.readouterr().err == "waiting for the log: nobody answers\n"
    with pytest.raises(BadInput, match="have 4 partitions"):
        process_telemetry.await_fitting(log, Settings(topics=TopicSettings(partitions=6)))


def test_the_doctor_says_which_number_to_give(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor", "--set", "log.kind=file", "--set", f"log.path={log}", "--set", "topics.partitions=2"]) == 1
    said = capsys.readouterr().out
    assert f"all {len(TOPICS)} have 4 partitions, and topics.partitions is 2 here" in said
    assert "export ULLAGE_TOPICS__PARTITIONS=4" in said
