"""Which marks the log contradicts."""

import pytest

from agents.engine.checkpoint_selection import CheckpointMark, ClockEvidence, objection

NOW = 1_800_000_000_000
TICK = (3, "name")


def why(turn: int, positions: dict[str, int], ends: dict[str, int], clock: ClockEvidence | None = None) -> str:
    mark = CheckpointMark(turn, positions, {}, tick=TICK)
    return objection(mark, ends, clock or ClockEvidence(0, 9, (turn, "name")), now_ms=NOW)


def test_a_mark_whose_tick_the_clock_has_is_believed_whatever_its_time() -> None:
    assert why(NOW + 10**12, {"a": 5, "b": 9}, {"a": 7, "b": 9}) == ""  # a simulation may run ahead of real time


@pytest.mark.parametrize("position", [8, 10**9, 10**30, -1])
def test_a_position_that_the_topic_does_not_reach_is_named_with_the_end(position: int) -> None:
    said = why(5, {"a": position, "b": 2}, {"a": 7, "b": 2})
    assert said == f"it says that 'a' was read up to offset {position}, and 'a' ends at 7"


@pytest.mark.parametrize("there", [None, (4, "name"), (5, "other")])
def test_another_record_than_its_tick_shows_a_clock_that_was_made_anew(there: tuple[int, str] | None) -> None:
    said = why(5, {"a": 3}, {"a": 7}, ClockEvidence(0, 9, there))
    assert said == "the record at offset 3 of the clock is not the tick of its turn 5"


def test_a_tick_beyond_the_end_of_the_clock_shows_that_it_lost_its_end() -> None:
    said = why(5, {"a": 3}, {"a": 7}, ClockEvidence(0, 3))
    assert said == "the tick of its turn 5 is said to be at offset 3 of the clock, which ends at 3"


@pytest.mark.parametrize(("ahead", "believed"), [(3_600_000, True), (3_600_001, False), (10**20, False)])
def test_without_its_tick_a_turn_may_be_an_hour_ahead_of_real_time(ahead: int, believed: bool) -> None:
    said = why(NOW + ahead, {"a": 3}, {"a": 7}, ClockEvidence(4, 9))
    assert said == ("" if believed else f"its turn {NOW + ahead} lies in the future, and the clock holds no tick of it")


def test_a_mark_that_names_no_tick_is_not_believed_and_an_input_that_it_does_not_know_says_nothing() -> None:
    assert why(NOW, {"a": 3}, {"a": 7, "new": 0}) == ""
    unnamed = CheckpointMark(5, {}, {})
    assert objection(unnamed, {"a": 7}, ClockEvidence(0, 9), now_ms=NOW) == "it names no tick of the clock"
