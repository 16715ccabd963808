"""Which marks the log contradicts."""

import pytest

from agents.engine.checkpoint_selection import CheckpointMark
from agents.engine.checkpoint_validation import NO_TICK, InputEvidence, objection

NOW = 1_800_000_000_000


def why(turn: int, positions: dict[str, int], **inputs: InputEvidence) -> str:
    return objection(CheckpointMark(turn, positions, {}), inputs, now_ms=NOW)


def test_a_mark_whose_inputs_hold_its_tick_is_believed_whatever_its_time() -> None:
    ahead = NOW + 10**12  # a simulation may run ahead of real time
    assert why(ahead, {"a": 5, "b": 9}, a=InputEvidence(7, ahead), b=InputEvidence(9, None)) == ""


@pytest.mark.parametrize("position", [8, 10**9, 10**30, -1])
def test_a_position_that_the_topic_does_not_reach_is_named_with_the_end(position: int) -> None:
    said = why(5, {"a": position, "b": 2}, a=InputEvidence(7), b=InputEvidence(2, 5))
    assert said == f"it says that 'a' was read up to offset {position}, and 'a' ends at 7"


@pytest.mark.parametrize("there", [NO_TICK, 4])
def test_a_position_behind_another_record_than_its_tick_shows_a_topic_that_was_made_anew(there: int) -> None:
    said = why(5, {"a": 3, "b": 2}, a=InputEvidence(7, there), b=InputEvidence(2, 5))
    assert said == "the record before offset 3 of 'a' is not the tick of its turn 5"


@pytest.mark.parametrize("turn", [4_102_444_800_000, 10**20])
def test_a_turn_of_the_future_that_no_input_vouches_for_is_not_believed(turn: int) -> None:
    for positions in ({}, {"a": 0}, {"a": 3}):
        assert why(turn, positions, a=InputEvidence(7)) == f"its turn {turn} lies in the future, and no input holds a tick of it"


@pytest.mark.parametrize(("ahead", "believed"), [(3_600_000, True), (3_600_001, False)])
def test_without_its_tick_a_turn_may_be_an_hour_ahead_of_real_time(ahead: int, believed: bool) -> None:
    assert (why(NOW + ahead, {"a": 3}, a=InputEvidence(7)) == "") is believed


def test_a_mark_whose_ticks_retention_has_taken_is_believed_and_an_input_that_it_does_not_know_says_nothing() -> None:
    assert why(NOW, {"a": 3}, a=InputEvidence(7), new=InputEvidence(0)) == ""
    assert why(NOW, {"a": 0}, a=InputEvidence(0)) == ""
