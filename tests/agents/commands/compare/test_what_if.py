"""`ullage replay` of a stretch under other rules: what is the same, what is avoided, what is added, which figures change."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents import cli
from agents.commands.compare.what_if_command import settings_of
from agents.demo import day_in_memory, simulate_command
from schemas.policies.control import StageRulesChanged, rules_version
from streams.clock_rules import ClockRecord
from streams.codec.event_codec import Codec
from streams.log.log_port import Record
from streams.log.memory_log import MemoryLog
from streams.topics import CLOCK, TOPICS
from tests.support import demo_hour_log, random_scenarios


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_hour_log.keep(tmp_path_factory.mktemp("kept"), hours=0.8)


@pytest.fixture
def decided(log: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Decides the last 18 minutes of the log again; gives the JSON."""

    def run(*words: str) -> Any:
        capsys.readouterr()
        assert cli.run(["replay", "--log", str(log), "--from", "00:30", "-o", "json", *words]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def published(log: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> int:
    capsys.readouterr()
    assert cli.run(["tap", "pod-updates", "--type", kind, "-o", "jsonl", "--log", str(log)]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return sum(each["value"]["at"][10:16] >= "T00:30" for each in said)


def test_the_rules_that_were_in_force_give_what_was_published_and_no_difference(
    decided: Any, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = decided("--set", "guard.budget=10%", "--set", "updates.threshold=0.1")
    assert found["ticks"] == 19
    assert found["changes"] == [], "budget and threshold are what they were"
    assert [found[name] for name in ("avoided", "added", "moved", "figures")] == [[], [], [], []]
    assert {each["recorded"] - each["other"] for each in found["counts"].values()} == {0}
    assert found["counts"]["resizes planned"]["recorded"] == published(log, "ResizePlanned", capsys) > 5
    assert found["counts"]["evictions planned"]["recorded"] == published(log, "EvictionPlanned", capsys)


def with_one_more(record: Record) -> Record:
    """A tick that says that 'rules' has one record more."""
    tick = ClockRecord.decode(record)
    assert tick is not None
    rules = {(name, p): end + 1 for (name, p), end in tick.ends.items() if name == "rules"}
    return replace(record, value=replace(tick, ends={**tick.ends, **rules}).encode(record.topic).value)


def test_a_setting_that_was_changed_in_the_stretch_is_other_than_recorded_in_a_part_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rules that come in the middle are replaced, too, where the value that is given is that of the beginning."""
    day, log = simulate_command.play(random_scenarios.scenario(1), {})
    codec, wire, changed = Codec(day.topics), day.topics.wire("rules"), MemoryLog()
    for topic in TOPICS:
        name = day.topics.wire(topic.name)
        changed.create(name, 1)
        records = list(log.poll({(name, 0): 0}, limit=1_000_000))
        if topic.name == CLOCK:
            records[len(records) // 2 :] = [with_one_more(record) for record in records[len(records) // 2 :]]
        if name == wire:
            [rules] = [e for e in map(codec.decode_or_none, records) if isinstance(e, StageRulesChanged) and e.stage == "updater"]
            settings = {**rules.settings, "cool_down": 30.0}
            later = replace(rules, settings=settings, version=rules_version("updater", rules.program, settings))
            [new] = codec.encode_for_all(later, topic="rules", key="updater", source="/test")
            records.append(replace(records[-1], offset=len(records), key=new.key, value=new.value, headers=new.headers))
        changed.import_records(records)
    file = day_in_memory.save(changed, day.topics, day.settings(), tmp_path).with_name("log.jsonl")
    found = {}
    for value in (30, 120, 600):
        capsys.readouterr()
        assert cli.run(["replay", "--log", str(file), "-o", "json", "--set", f"updates.cool_down={value}"]) == 0
        found[value] = json.loads(capsys.readouterr().out)["changes"]
    assert found[30] == ["updater: cool_down is 30.0 instead of 120.0"]
    assert found[120] == ["updater: cool_down is 120.0 instead of 30.0"]
    assert found[600] == ["updater: cool_down is 600.0 instead of 120.0 and 30.0"]


def test_a_guard_that_holds_everything_back_avoids_every_update_and_says_its_name(decided: Any) -> None:
    found = decided("--set", "updates.protected_namespaces=*")
    counts = found["counts"]
    assert counts["resizes planned"]["other"] == counts["evictions planned"]["other"] == 0
    assert len(found["avoided"]) == counts["resizes planned"]["recorded"] + counts["evictions planned"]["recorded"] > 5
    assert counts["refused by 'protected'"]["other"] > counts["refused by 'protected'"]["recorded"]


@pytest.mark.slow
def test_another_margin_changes_figures_by_exactly_that(decided: Any) -> None:
    found = decided("--set", "vertical.margin=0.265")
    changed = {(e["workload"], e["container"]): (e["recorded"]["cpu"], e["other"]["cpu"]) for e in found["figures"]}
    assert len(changed) > 5
    for before, after in changed.values():
        assert (
            after == pytest.approx(before * 1.265 / 1.15, abs=0.0011) or after == before == 0.025
        )  # whole thousandths; the least


@pytest.mark.slow
def test_a_policy_file_that_switches_updates_off_avoids_them_all(decided: Any, tmp_path: Path) -> None:
    policy = tmp_path / "off.yaml"
    policy.write_text(
        "".join(f"- target: '{of}'\n  mode: 'Off'\n" for of in ("*", "demo/*", "demo/platform/*", "demo/shop/Deployment/search"))
    )
    found = decided("--policy", str(policy))
    assert found["counts"]["resizes planned"]["other"] == found["counts"]["evictions planned"]["other"] == 0
    assert len(found["changes"]) == 4


def test_the_table_says_that_nothing_is_changed(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["replay", "--log", str(log), "--from", "00:44", "--to", "00:46", "--set", "guard.maxConcurrent=50%"]) == 0
    said = capsys.readouterr().out
    assert "3 ticks decided twice; nothing is changed" in said
    assert "control: every cluster's budget is 0.5 instead of 0.1" in said


@pytest.mark.parametrize("rule", ["guard.protected_namespaces=*", "updates.protected_namespaces=*"])
def test_without_a_stretch_other_rules_decide_the_whole_log_again(
    rule: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["replay", "--log", str(log), "-o", "json", "--set", rule]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["counts"]["resizes planned"]["other"] == 0 < found["counts"]["resizes planned"]["recorded"]
    assert found["changes"] == ['updater: protected_namespaces is "*" instead of "kube-system"']
    assert found["ticks"] > 19


def test_rules_that_the_log_has_from_its_beginning_on_stay_but_for_what_is_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = (Path(__file__).parents[4] / "docs/scenarios/storm.yaml").read_text().replace("length: 1h", "length: 20m")
    (tmp_path / "storm.yaml").write_text(scenario)
    assert cli.run(["simulate", str(tmp_path / "storm.yaml"), "--keep", str(tmp_path)]) == 0
    found = {}
    for rule in ("updates.cool_down=601", "updates.lifetime=43200"):
        capsys.readouterr()
        assert cli.run(["replay", "--log", str(tmp_path / "log.jsonl"), "-o", "json", "--set", rule]) == 0
        found[rule] = json.loads(capsys.readouterr().out)["counts"]["evictions planned"]
    assert found["updates.cool_down=601"]["other"] == found["updates.cool_down=601"]["recorded"] > 8
    assert 0 < found["updates.lifetime=43200"]["other"] < found["updates.lifetime=43200"]["recorded"]


def test_a_verification_takes_the_settings_of_stages_for_what_they_are(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["replay", "--verify", "--log", str(log), "--set", "updates.min_replicas=100"]) == 0
    assert "as published" in capsys.readouterr().out


def test_settings_may_be_written_as_guards_and_as_shares() -> None:
    assert settings_of(["guard.budget=5%", "guard.rate=3", "vertical.margin=20%"]) == (
        "updates.budget=0.05",
        "updates.rate=3",
        "vertical.margin=0.2",
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--from", "00:30"), "nothing is other than recorded"),
        (("--from", "00:30", "--to", "00:10", "--set", "guard.rate=1"), "is not after"),
        (("--from", "2020-01-01", "--to", "2020-01-02", "--set", "guard.rate=1"), "no tick from"),
        (("--from", "00:30", "--set", "guard.budget=x%"), "is no share"),
        (("--from", "00:30", "--set", "guard.nonsense=1"), "there is no setting 'updates.nonsense'"),
        (("--policy", "nowhere.yaml"), "cannot be read"),
    ],
)
def test_wrong_usage_exits_with_2(words: tuple[str, ...], says: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["replay", "--log", str(log), *words]) == 2
    assert says in capsys.readouterr().err
