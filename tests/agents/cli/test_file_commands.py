"""The commands that read a log, on a day kept by the demo: two simulated hours, recorded once."""

import dataclasses
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents import cli
from agents.demo import day_in_memory, event_narration, summary
from agents.demo.day_state import DayState
from agents.demo.demo_settings import FASTER, Day
from agents.settings import loading
from schemas.decisions.pod_updates import UpdateRefused
from schemas.outcomes import Action, ActionFinished, Result
from streams.codec.event_codec import Codec
from streams.log.file_log import FileLog
from streams.topics import Topics


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DayState]:
    day = Day(seed=1, seconds=0.001, length=timedelta(hours=4.6))
    log = day_in_memory.new_log(day)
    settings = loading.load(flags=day.in_one_process()).settings
    *_, state = day_in_memory.played(day, settings, log)
    return day_in_memory.save(log, day.topics, day.settings(), tmp_path_factory.mktemp("kept")), state


def test_the_day_is_acted_on(played: tuple[Path, DayState]) -> None:
    _, state = played
    assert state.pods == 38  # of ten pods of orders eight are too many at night
    assert state.recommended == 10
    assert state.done[Action.RESIZE] > 5
    assert state.ooms > 0


def test_days_stand_beside_one_another_in_the_order_in_which_they_are_given(played: tuple[Path, DayState]) -> None:
    state = played[1]
    rows = {name: values for name, *values in summary.rows(DayState(), [state, DayState()])}
    assert {len(values) for values in rows.values()} == {3}
    assert rows["pods resized in place"] == ["-", str(state.done[Action.RESIZE]), "0"]
    assert rows["containers OOM-killed"] == ["0", str(state.ooms), "0"]


def test_a_kept_day_verifies_byte_for_byte(played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["replay", "--verify", "--config", str(played[0])]) == 0
    assert "every decision is as published" in capsys.readouterr().out


@pytest.mark.parametrize("other", ["vertical.margin=0.5", "updates.expires=100", "vertical.recommender=another"])
def test_a_day_verifies_by_the_rules_in_its_log_whatever_the_settings_are(played: tuple[Path, DayState], other: str) -> None:
    assert cli.run(["replay", "--verify", "--config", str(played[0]), "--set", other]) == 0


def test_a_day_that_another_program_decided_cannot_be_compared_and_exits_with_4(
    played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    whole = played[0].with_name("log.jsonl").read_bytes().splitlines(keepends=True)
    lines = [line for line in whole if b"-state-changelog:" not in line]  # a mark's digest would find the rules changed
    other = tmp_path / "log.jsonl"
    changed = [re.sub(rb'(\\"program\\":)\d+', rb"\g<1>99", line) if b"stage/" in line else line for line in lines]
    assert changed != lines
    other.write_bytes(b"".join(changed))
    assert cli.run(["replay", "--verify", "--file", str(other), "--config", str(played[0])]) == 4
    assert "not compared: updater, partition 0" in capsys.readouterr().out


def test_settings_that_differ_from_the_rules_of_a_log_are_named_and_nothing_is_changed_by_looking(
    played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(played[0])
    assert cli.run(["settings", "plan", "--config", config]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "nothing to do: the log says what is set here\n")
    for _ in range(2):
        assert cli.run(["settings", "plan", "--config", config, "--set", "vertical.margin=0.5"]) == 0
        said = capsys.readouterr()
        assert said.out == "recommender: margin is 0.15 in the log and 0.5 here\n"
        assert said.err == "1 stage differs; `ullage settings apply` changes the log\n"


def test_why_names_the_pod_the_recommendation_and_the_outcome(
    played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str]
) -> None:
    config, state = played
    assert cli.run(["why", state.explained[Action.RESIZE], "--config", str(config)]) == 0
    said = capsys.readouterr().out
    assert "resize planned" in said
    assert "requests recommended" in said
    assert "the new amounts are in force" in said


def kept(played: tuple[Path, DayState], topic: str) -> list[Any]:
    topics = Topics("ullage", 2)
    with FileLog(played[0].with_name("log.jsonl")) as log:
        records = [r for p in range(2) for r in log.poll({(topics.wire(topic), p): 0}, limit=1_000_000)]
    return [event for record in records if (event := Codec(topics).decode_or_none(record)) is not None]


def test_the_day_has_a_pause_in_which_guards_hold_everything_back(played: tuple[Path, DayState]) -> None:
    controls = [(each.paused, each.at) for each in kept(played, "control")]
    begin, end = next(at for paused, at in controls if paused), controls[-1][1]
    assert controls[-1][0] is False
    decided = [each for each in kept(played, "pod-updates") if begin <= each.at < end]
    assert {each.guard for each in decided if isinstance(each, UpdateRefused)} >= {"paused"}
    assert all(isinstance(each, UpdateRefused) for each in decided)
    assert "resumed by an operator" in event_narration.paused(kept(played, "control")[-1])


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("admitted", "memory request"),
        ("resized", "the new amounts are in force"),
        ("evicted", "goes, or is gone"),
        ("refused", "the updater has watched for"),
    ],
)
def test_why_explains_a_pod_that_was_admitted_resized_evicted_or_left_alone(
    played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str], kind: str, says: str
) -> None:
    updates, outcomes = kept(played, "pod-updates"), kept(played, "outcomes")
    acts = [each for each in outcomes if isinstance(each, ActionFinished) and each.result is Result.DONE]
    changed = {each.subject.name for each in acts if each.action in (Action.RESIZE, Action.EVICT)}  # `why` tells the newest act
    done = {
        each.action: each.subject.name for each in acts if each.action is not Action.PATCH or each.subject.name not in changed
    }
    refused = next(each.id for each in updates if isinstance(each, UpdateRefused) and each.guard == "warm-up")
    asked = {"admitted": done[Action.PATCH], "resized": done[Action.RESIZE], "evicted": done[Action.EVICT], "refused": refused}
    assert cli.run(["why", asked[kind], "--config", str(played[0])]) == 0
    assert says in capsys.readouterr().out


def test_why_of_nobody_is_a_sentence(played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["why", "nobody", "--config", str(played[0])]) == 2
    assert "has the id, pod, VPA, node, node group or workload 'nobody'" in capsys.readouterr().err


def test_tap_shows_what_is_wanted_and_no_ticks(played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str]) -> None:
    config, state = played
    command = ["tap", "pod-updates", "--type", "ResizePlanned", "-o", "jsonl", "--config", str(config)]
    assert cli.run(command) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(records) == state.decided["ResizePlanned"]
    assert {r["type"] for r in records} == {"ResizePlanned"}
    assert records[0]["value"]["id"] == records[0]["headers"]["ce_id"]
    assert records[0]["place"].startswith("ullage.pod-updates.v1:")


def test_tap_stops_at_its_limit_and_filters_by_key(played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str]) -> None:
    config = str(played[0])
    assert cli.run(["tap", "recommendations", "--key", "demo/shop/*", "--limit", "3", "--config", config]) == 0
    headings = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert len(headings) == 3
    assert all("demo/shop/Deployment/" in line for line in headings)


def test_tap_leaves_out_what_is_empty_and_wraps_what_is_long(
    played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.run(["tap", "outcomes", "--last", "3", "--config", str(played[0])]) == 0
    said = capsys.readouterr().out
    assert "result: " in said
    assert not re.search(r": (null|\[\]|\{\})?$(?!\n      )", said, re.MULTILINE)
    # an id is one word, which somebody will copy
    assert not [line for line in said.splitlines() if len(line) > 80 and " " in line.strip()]


def test_tap_from_the_end_shows_nothing(played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["tap", "outcomes", "--from", "end", "--config", str(played[0])]) == 0
    assert capsys.readouterr().out == ""


def test_tap_shows_the_newest_and_says_on_which_day(played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str]) -> None:
    config = str(played[0])
    assert cli.run(["tap", "outcomes", "-o", "jsonl", "--config", config]) == 0
    newest = capsys.readouterr().out.splitlines()[-3:]
    assert cli.run(["tap", "outcomes", "--last", "3", "-o", "jsonl", "--config", config]) == 0
    assert capsys.readouterr().out.splitlines() == newest
    assert cli.run(["tap", "control", "--last", "1", "--type", "ControlChanged", "--config", config]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("2026-01-05 ")


def test_the_newest_and_a_beginning_exclude_each_other(played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["tap", "outcomes", "--last", "3", "--from", "1h", "--config", str(played[0])]) == 2
    assert "--last goes without --from" in capsys.readouterr().err


def test_tap_from_nowhere_is_a_sentence(played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["tap", "outcomes", "--from", "noon", "--config", str(played[0])]) == 2
    assert "--from 'noon' is neither begin, end, an offset" in capsys.readouterr().err


def test_a_backtest_over_the_gate_exits_with_3(played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str]) -> None:
    command = ["backtest", str(played[0].with_name("log.jsonl")), "--format", "json", "--config", str(played[0])]
    assert cli.run(command) == 0
    card = json.loads(capsys.readouterr().out)
    assert card["containers"] >= 54  # 46 pods, of which 8 have two containers
    kills = card["recommended"]["ooms"] + card["kills"]["unknown"]
    assert cli.run([*command, "--max-oom", str(kills)]) == 0
    if kills:
        assert cli.run([*command, "--max-oom", "0"]) == 3


def test_the_kept_settings_are_those_of_the_day(played: tuple[Path, DayState]) -> None:
    settings = loading.load(file=played[0]).settings
    assert settings.log.kind == "file"
    assert settings.topics.partitions == 2
    assert dataclasses.asdict(settings.updates)["lifetime"] == FASTER["updates.lifetime"]


def test_replicas_and_idle_nodes_are_recommended_from_the_log(
    played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert cli.run(["recommendations", "--of", "replicas", "-n", "shop", "-o", "json", "--config", str(played[0])]) == 0
    rows = {row["workload"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == {f"shop/Deployment/{name}" for name in ("cart", "checkout", "orders", "search", "web")}
    assert 1 <= rows["shop/Deployment/orders"]["recommended"] <= 14
    assert cli.run(["recommendations", "--of", "nodes", "-o", "json", "--config", str(played[0])]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), list)


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_why_gives_programs_every_number_of_the_tree(
    form: str, played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str]
) -> None:
    config, state = played
    asked = state.explained[Action.RESIZE]
    assert cli.run(["why", asked, "-o", form, "--config", str(config)]) == 0
    told = yaml.safe_load(capsys.readouterr().out)  # JSON is YAML, too
    assert told["asked"] == asked
    assert told["decision"]["place"]["topic"].startswith("ullage.pod-updates")
    assert any(cause["because"] for cause in told["decision"]["causes"]), "the recommendation with its numbers"
    assert [outcome["what"] for outcome in told["outcomes"]]


def test_why_not_gives_programs_its_answer_by_line(played: tuple[Path, DayState], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["why-not", "shop/Deployment/search", "--config", str(played[0])]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert cli.run(["why-not", "shop/Deployment/search", "-o", "json", "--config", str(played[0])]) == 0
    assert json.loads(capsys.readouterr().out) == {"asked": "shop/Deployment/search", "answer": lines}
