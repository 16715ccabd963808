"""`-o`: every command that prints rows takes it, and means the same by it."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from agents import cli
from schemas.policies.control import ControlChanged, Mode
from streams.codec.event_codec import Codec, tick
from streams.log.file_log import FileLog
from streams.publishing.operator_log import policy_records
from streams.topics import TOPICS, Topics

SHOP = Topics("ullage", 2)
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def flags(tmp_path: Path) -> list[str]:
    """A log in a file that says when it is, and that nobody may do anything."""
    path = tmp_path / "log.jsonl"
    with FileLog.open_or_create(path) as log:
        for topic in TOPICS:
            log.create(SHOP.wire(topic.name), 2)
        log.append([tick(SHOP.wire("control"), p, int(NOW.timestamp()) * 1000) for p in range(2)])
        log.append(policy_records([ControlChanged(NOW, "demo", Mode.PLAN, reason="a try")], Codec(SHOP)))
    return ["--set", "log.kind=file", "--set", f"log.path={path}", "--set", "topics.partitions=2"]


@pytest.mark.parametrize("command", [["status"], ["doctor"], ["config", "show"], ["recommendations"]])
def test_json_and_yaml_say_the_same(command: list[str], flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    cli.run([*command, "-o", "json", *flags])
    rows = json.loads(capsys.readouterr().out)
    cli.run([*command, "--output", "yaml", *flags])
    again = yaml.safe_load(capsys.readouterr().out)
    assert isinstance(rows, list)
    assert [set(row) for row in rows] == [set(row) for row in again]
    assert len(rows) == len(again)


def test_the_versions_come_as_rows_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["version", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows][:2] == ["ullage", "python"]
    cli.run(["version", "-o", "csv"])
    assert capsys.readouterr().out.splitlines()[0] == "name,version"


def test_a_record_that_every_partition_has_is_tapped_once(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["tap", "control", "-o", "json", *flags]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["type"] == "ControlChanged"
