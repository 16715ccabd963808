"""Rules in the log: cited by decisions, obeyed from one turn on by every partition, and kept over a restart."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from agents.logic.stage_rules import fault
from agents.logic.updates.update_settings import UpdateRules, UpdateSettings
from agents.logic.updates.updater import Updater
from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import PROGRAM, VerticalSettings
from schemas.decisions.recommendations import CitedRules
from schemas.names import Place
from schemas.policies.control import StageRulesChanged, rules_version
from tests.support.cluster_events import API, GIB, MINUTE, START, scrape, turn, when

OWN = replace(VerticalSettings(), bounds_step=0.0)
MORE = replace(OWN, margin=0.5)


def rules(settings: VerticalSettings, stage: str = "recommender") -> StageRulesChanged:
    values = asdict(settings)
    return StageRulesChanged(when(START), stage, PROGRAM, values, rules_version(stage, PROGRAM, values))


def step(stage: Recommender, minute: int, *rules: Any) -> Any:
    """What is decided in a minute with one sample; None for nothing."""
    number = START + minute * MINUTE
    rows = [(API.key, "a", "app", 0.1, GIB)]
    decided = stage.step(turn(number, rules=list(rules), pod_metrics=[scrape(number, rows)]))
    return decided[0].event if decided else None


def test_a_decision_without_rules_in_the_log_has_the_settings_and_cites_nothing() -> None:
    stage = Recommender(OWN, 0)
    step(stage, 0)
    event = step(stage, 1)
    assert event.rules is None
    assert event.because["settings"] == asdict(OWN)


def test_a_decision_cites_the_rules_in_the_log_and_does_not_repeat_them() -> None:
    stage = Recommender(OWN, 0)
    step(stage, 0, rules(OWN))
    event = step(stage, 1)
    place = Place("ullage.rules.v1", 0, START // 1000)
    assert event.rules == CitedRules(rules(OWN).version, place)
    assert set(event.because) == {"containers", "policy"}


def test_rules_hold_from_the_turn_that_takes_them_in_on() -> None:
    stage, other = Recommender(OWN, 0), Recommender(MORE, 0)
    for minute in range(3):
        step(stage, minute, *([rules(OWN)] if minute == 0 else []))
        step(other, minute)
    assert stage.settings == OWN
    changed, expected = step(stage, 3, rules(MORE)), step(other, 3)
    assert stage.settings == MORE
    assert (
        changed.containers == expected.containers
    )  # 3 samples folded by OWN count as if folded by MORE: only the margin differs


def test_of_two_records_in_one_turn_the_last_holds_and_another_stage_s_rules_are_not_ours() -> None:
    stage = Recommender(OWN, 0)
    step(stage, 0, rules(MORE), rules(OWN), rules(MORE, "updater"))
    assert stage.settings == OWN


@pytest.mark.parametrize("configured", [OWN, MORE])
def test_a_worker_with_other_settings_decides_by_the_log_after_a_restart(configured: VerticalSettings) -> None:
    stage = Recommender(OWN, 0)
    step(stage, 0, rules(MORE))
    step(stage, 1)
    resumed = Recommender(configured, 0)
    for chunk in sorted(stage.chunks()):
        resumed.load(chunk, stage.dump(chunk))
    for minute in range(2, 5):
        assert step(resumed, minute) == step(stage, minute)
    assert {c: resumed.dump(c) for c in resumed.chunks()} == {c: stage.dump(c) for c in stage.chunks()}


def test_a_change_of_rules_makes_every_chunk_part_of_the_next_checkpoint() -> None:
    stage = Recommender(OWN, 0)
    step(stage, 0)
    stage.take_dirty()
    step(stage, 1, rules(MORE))
    assert stage.take_dirty() == set(stage.chunks())


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({}, None),
        ({"margin": 1}, None),
        ({"maximum_cpu": 4.0}, None),
        ({"interval": 0.0}, "settings.interval is 0.0; it must be a number that is not below 0.001"),
        ({"margin": float("nan")}, "settings.margin is nan; it must be a number that is not below 0"),
        ({"margin": "much"}, "settings.margin is 'much', and its default is 0.15"),
        ({"node_cap": 1}, "settings.node_cap is 1, and its default is True"),
        ({"margin": None}, "settings.margin is None, and its default is 0.15"),
        ({"colour": 1.0}, "settings.colour is no setting of this program"),
    ],
)
def test_rules_that_no_stage_can_follow_are_refused(changed: dict[str, Any], reason: str | None) -> None:
    assert fault(VerticalSettings, {**asdict(VerticalSettings()), **changed}) == reason


def test_the_version_follows_from_the_content_and_not_from_its_order() -> None:
    values = asdict(OWN)
    backwards = dict(reversed(list(values.items())))
    assert rules_version("recommender", 1, values) == rules_version("recommender", 1, backwards)
    others = [("updater", 1, values), ("recommender", 2, values), ("recommender", 1, asdict(MORE))]
    assert len({rules_version(*each) for each in [("recommender", 1, values), *others]}) == 4


def test_rules_of_another_program_that_ours_cannot_follow_change_nothing() -> None:
    stage = Recommender(OWN, 0)
    values = {**asdict(MORE), "colour": 1.0}
    step(stage, 0, StageRulesChanged(when(START), "recommender", PROGRAM + 1, values, "later"))
    assert stage.settings == OWN


def test_the_updater_follows_the_rules_of_the_log_and_keeps_them_over_a_restart() -> None:
    stage = Updater(UpdateSettings(), 0)
    values = {**asdict(UpdateRules()), "rate": 7, "recommender": "night"}
    said = StageRulesChanged(when(START), "updater", 1, values, rules_version("updater", 1, values))
    stage.step(turn(START, rules=[said]))
    resumed = Updater(UpdateSettings(), 0)
    for chunk in sorted(stage.chunks()):
        resumed.load(chunk, stage.dump(chunk))
    resumed.step(turn(START + MINUTE))
    assert stage.settings == resumed.settings == UpdateRules(rate=7, recommender="night")
    assert resumed.rules.cited == stage.rules.cited
