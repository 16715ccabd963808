"""`-o`: every command that prints rows takes it, and means the same by it."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest
import yaml
from cyclopts import App

from agents import cli
from agents.cli import program
from schemas.policies.control import ControlChanged, Mode
from streams.codec import dead_letters
from streams.codec.event_codec import Codec
from streams.errors import BadRecord
from streams.log.file_log import FileLog
from streams.log.log_port import Record
from streams.publishing.operator_log import policy_records
from streams.topics import TOPICS, Topics
from tests.support import ticks

SHOP = Topics("ullage", 2)
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def flags(tmp_path: Path) -> list[str]:
    """A log in a file that says when it is, and that nobody may do anything."""
    path = tmp_path / "log.jsonl"
    with FileLog.open_or_create(path) as log:
        for topic in TOPICS:
            log.create(SHOP.wire(topic.name), 2)
        ticks.append(log, SHOP, int(NOW.timestamp()) * 1000)
        log.append(policy_records([ControlChanged(NOW, "demo", Mode.PLAN, reason="a try")], Codec(SHOP)))
    return ["--set", "log.kind=file", "--set", f"log.path={path}", "--set", "topics.partitions=2"]


@pytest.mark.parametrize(
    "command",
    [["status"], ["doctor"], ["config", "show"], ["recommendations"], ["timeline"], ["policy", "list"], ["settings", "plan"]],
)
def test_json_and_yaml_say_the_same(command: list[str], flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    cli.run([*command, "-o", "json", *flags])
    rows = json.loads(capsys.readouterr().out)
    cli.run([*command, "--output", "yaml", *flags])
    again = yaml.safe_load(capsys.readouterr().out)
    assert isinstance(rows, list)
    assert [set(row) for row in rows] == [set(row) for row in again]
    assert len(rows) == len(again)


WITHOUT_AN_ANSWER = {
    *("demo", "up", "broker", "run", "worker", "consumer", "source clock", "source simulated", "source traces", "source usage"),
    *("source history", "source remote-write", "source load", "source kube", "source asg"),
    *(
        "topics apply",
        "topics move",
        "topics users",
        "settings apply",
        "policy set",
        "policy apply",
        "policy remove",
        "policy new",
        "mode",
        "pause",
        "resume",
    ),
    *("export", "record", "import"),
    *("policy lint", "policy test"),
    *("topics asyncapi", "checkpoints export", "report"),
}
"""Commands that run or change something and say in a sentence how it went, or write a document of one form."""


def commands(app: App, before: str = "") -> Iterator[tuple[str, App]]:
    for name in app:
        if not name.startswith("-"):
            one = app[name]
            yield from [(f"{before}{name}", one)] if one.default_command is not None else commands(one, f"{before}{name} ")


def test_every_command_that_prints_an_answer_takes_the_flag_in_three_forms_at_least() -> None:
    forms = {}
    for name, one in commands(program.app):
        flags = [each for each in one.assemble_argument_collection() if "--output" in each.names]
        forms[name] = {choice for each in flags for choice in get_args(each.hint)}
        assert all("-o" in each.names for each in flags), name
    assert {name for name, found in forms.items() if not found} == WITHOUT_AN_ANSWER
    lacking = {name: found for name, found in forms.items() if found and not {"table", "json", "yaml"} <= found}
    assert lacking == {}


def test_what_comes_one_by_one_is_a_list_in_yaml(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["tap", "control", "-o", "json", "--ticks", *flags]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert cli.run(["tap", "control", "-o", "yaml", "--ticks", *flags]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == rows
    assert rows


def test_a_plan_of_settings_is_an_object_a_stage(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["settings", "plan", "-o", "json", *flags]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert cli.run(["settings", "plan", "-o", "yaml", *flags]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == rows
    assert [row["program"]["in_log"] for row in rows] == [None] * len(rows)
    assert {row["stage"] for row in rows} >= {"recommender", "updater"}


def test_a_plan_of_settings_names_what_the_log_has_and_what_is_here(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["settings", "apply", *flags]) == 0
    capsys.readouterr()
    assert cli.run(["settings", "plan", "-o", "json", "--set", "vertical.margin=0.2", *flags]) == 0
    [differs] = json.loads(capsys.readouterr().out)
    assert (differs["stage"], differs["settings"]) == ("recommender", {"margin": {"in_log": 0.15, "here": 0.2}})
    assert differs["program"]["in_log"] == differs["program"]["here"]


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_log_in_a_file_has_no_topics_to_plan(command: str, flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["topics", command, *flags]) == 2
    assert "log.kind is 'file': only Kafka's topics are planned and made" in capsys.readouterr().err


def test_the_versions_come_as_rows_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["version", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows][:2] == ["ullage", "python"]
    cli.run(["version", "-o", "csv"])
    assert capsys.readouterr().out.splitlines()[0] == "name,version"


def test_a_dead_letter_is_tapped_with_its_reason_and_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topics = Topics("ullage", 1)
    with FileLog.open_or_create(tmp_path / "log.jsonl") as log:
        for topic in TOPICS:
            log.create(topics.wire(topic.name), 1)
        bad = Record(topics.wire("pod-metrics"), 0, 7, b"demo", b"junk{")
        log.append([dead_letters.dead_letter(bad, BadRecord("it is no JSON", "$"), by="/ullage/recommender/0", topics=topics)])
    flags = ["--log", str(tmp_path / "log.jsonl"), "--set", "topics.partitions=1"]
    assert cli.run(["tap", "dead-letters", *flags]) == 0
    said = capsys.readouterr().out
    assert "DeadLetter" in said.splitlines()[0]
    assert "    reason: it is no JSON\n" in said
    assert "    offset: 7\n" in said
    assert "unreadable" not in said
    assert cli.run(["tap", "outcomes", *flags]) == 0
    nothing = capsys.readouterr()
    assert nothing.out == ""
    assert nothing.err == "no such record in 'ullage.outcomes.v1'\n"


def test_a_record_that_every_partition_has_is_tapped_once(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["tap", "control", "-o", "json", *flags]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["type"] == "ControlChanged"


def test_policies_in_force_come_in_every_form(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["policy", "set", "demo/shop/*", "--mode", "Off", *flags]) == 0
    capsys.readouterr()
    said = {}
    for form in ("table", "json", "yaml", "csv", "md"):
        assert cli.run(["policy", "list", "-o", form, *flags]) == 0
        said[form] = capsys.readouterr().out
    assert json.loads(said["json"]) == yaml.safe_load(said["yaml"]) == [{"target": "demo/shop/*", "mode": "Off"}]
    heads, row = said["csv"].splitlines()
    assert heads == "target,says,by"
    assert row.startswith("demo/shop/*,Off,")
    assert all("demo/shop/*" in text for text in said.values())
    cli.run(["policy", "list", *flags])
    assert capsys.readouterr().out == said["yaml"]


def test_a_timeline_of_one_cluster_leaves_out_the_others(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["policy", "set", "*", "--mode", "Off", *flags]) == 0
    assert cli.run(["policy", "set", "prod/shop/*", "--mode", "Off", *flags]) == 0
    capsys.readouterr()
    assert cli.run(["timeline", "--cluster", "demo", "-o", "json", *flags]) == 0
    assert {row["about"] for row in json.loads(capsys.readouterr().out)} == {"demo", "*"}
    cli.run(["timeline", "-o", "json", *flags])
    assert {row["about"] for row in json.loads(capsys.readouterr().out)} == {"demo", "*", "prod/shop/*"}
