"""The aligner gives the turns that a plain reading of the whole log gives, whatever comes when.

The oracle below reads each input's log from end to end with sets and slices and shares nothing with the aligner.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agents.engine.turn_aligner import Aligner, TurnRecords, Wait


@dataclass(frozen=True)
class Tick:
    number: int


Entry = Tick | str
Logs = dict[str, list[Entry]]
Turns = list[tuple[int, dict[str, list[str]]]]


def plain_turns(logs: Logs) -> Turns:
    """Turn n exists if and only if every input holds tick n, counting only ticks above all earlier ones of that input."""
    rising: dict[str, dict[int, int]] = {}
    for name, log in logs.items():
        places = {e.number: offset for offset, e in reversed(list(enumerate(log))) if isinstance(e, Tick)}
        rising[name] = {n: at for n, at in places.items() if all(not isinstance(e, Tick) or e.number < n for e in log[:at])}
    numbers = sorted(set.intersection(*(set(r) for r in rising.values())))
    turns: Turns = []
    for before, number in pairwise([None, *numbers]):
        assert number is not None
        content = {}
        for name, log in logs.items():
            start = 0 if before is None else rising[name][before]
            content[name] = [e for e in log[start : rising[name][number]] if isinstance(e, str)]
        turns.append((number, content))
    return turns


def feed(aligner: Aligner[str], name: str, offset: int, entry: Entry) -> None:
    if isinstance(entry, Tick):
        aligner.inputs[name].tick(offset, entry.number)
    else:
        aligner.inputs[name].add(offset, entry, len(entry))


def plain(cut: TurnRecords[str]) -> tuple[int, dict[str, list[str]]]:
    return cut.number, {name: list(records) for name, records in cut.records.items()}


def drain(aligner: Aligner[str]) -> Turns:
    turns: Turns = []
    while (cut := aligner.next_turn()) is not None:
        turns.append(plain(cut))
    return turns


def check_sizes(aligner: Aligner[str]) -> None:
    for source in aligner.inputs.values():
        held = [*(r for segment in source.closed for r in segment.records), *source.open]
        assert source.size == sum(len(r) for r in held)
        assert source.open_size == sum(len(r) for r in source.open)
        assert all(segment.size == sum(len(r) for r in segment.records) for segment in source.closed)
        ticks = [segment.tick for segment in source.closed]
        assert ticks == sorted(set(ticks))


def run(aligner: Aligner[str], logs: Logs, order: Sequence[str]) -> Turns:
    """Feed every entry from the aligner's positions on, inputs in the given order, turns taken at once or late as it says."""
    waiting = {name: list(enumerate(logs[name]))[start:] for name, start in aligner.positions.items()}
    turns: Turns = []
    for word in [*order, *(name for name in logs for _ in logs[name])]:
        if word == "take":
            turns += drain(aligner)
        elif waiting[word]:
            feed(aligner, word, *waiting[word].pop(0))
        check_sizes(aligner)
    return turns + drain(aligner)


@st.composite
def logs_and_order(draw: st.DrawFn) -> tuple[Logs, list[str]]:
    """1-4 inputs; ticks lost, doubled, late and repeated (any numbers in any order); records of differing size anywhere."""
    names = [f"in{i}" for i in range(draw(st.integers(1, 4)))]
    logs: Logs = {}
    for name in names:
        if draw(st.booleans()):
            entry = st.integers(0, 9).map(Tick) | st.just("r")
            entries = draw(st.lists(entry, max_size=25))
        else:  # near to a healthy clock, so that there are many turns
            kept = [n for n in range(10) if draw(st.integers(0, 9)) > 0]
            entries = [e for n in kept for e in [*["r"] * draw(st.integers(0, 2)), *[Tick(n)] * draw(st.integers(1, 2))]]
        logs[name] = [e if isinstance(e, Tick) else f"{name}/{i}" + "x" * (i % 3) for i, e in enumerate(entries)]
    order = draw(st.lists(st.sampled_from([*names, "take"]), max_size=60))
    return logs, order


@given(logs_and_order())
def test_any_interleaving_of_lost_doubled_late_and_repeated_ticks_gives_the_turns_that_the_log_says(
    drawn: tuple[Logs, list[str]],
) -> None:
    logs, order = drawn
    assert run(Aligner(dict.fromkeys(logs, 0)), logs, order) == plain_turns(logs)


@given(logs_and_order(), st.integers(0, 20))
def test_starting_again_from_any_turn_and_its_positions_gives_the_same_remaining_turns(
    drawn: tuple[Logs, list[str]], stop_after: int
) -> None:
    logs, order = drawn
    first: Aligner[str] = Aligner(dict.fromkeys(logs, 0))
    for name, log in logs.items():
        for offset, entry in enumerate(log):
            feed(first, name, offset, entry)
    taken: Turns = []
    for _ in range(stop_after):
        if (cut := first.next_turn()) is not None:
            taken.append(plain(cut))
    again: Aligner[str] = Aligner(dict(first.positions), first.turn)
    assert taken + run(again, logs, order) == plain_turns(logs)


@given(logs_and_order())
def test_every_record_before_the_last_turn_is_in_exactly_one_turn(drawn: tuple[Logs, list[str]]) -> None:
    logs, order = drawn
    aligner: Aligner[str] = Aligner(dict.fromkeys(logs, 0))
    turns = run(aligner, logs, order)
    for name, log in logs.items():
        given_out = [r for _, content in turns for r in content[name]]
        assert given_out == [e for e in log[: aligner.positions[name]] if isinstance(e, str)]


@given(logs_and_order())
def test_the_next_offset_of_an_input_is_after_all_that_was_fed(drawn: tuple[Logs, list[str]]) -> None:
    logs, order = drawn
    aligner: Aligner[str] = Aligner(dict.fromkeys(logs, 0))
    run(aligner, logs, order)
    assert {name: source.next for name, source in aligner.inputs.items()} == {name: len(log) for name, log in logs.items()}


def test_ticks_that_one_input_lacks_are_nothing_and_their_records_join_the_next_turn() -> None:
    logs: Logs = {"a": ["a1", Tick(3), "a2", Tick(5)], "b": ["b1", Tick(3), "b2", Tick(4), "b3", Tick(5)]}
    expected = [(3, {"a": ["a1"], "b": ["b1"]}), (5, {"a": ["a2"], "b": ["b2", "b3"]})]
    assert run(Aligner({"a": 0, "b": 0}), logs, ["b"] * 6) == expected
    assert run(Aligner({"a": 0, "b": 0}), logs, ["a"] * 4) == expected


def test_records_after_a_dropped_tick_with_nothing_closed_behind_it_stay_open() -> None:
    aligner: Aligner[str] = Aligner({"a": 0, "b": 0})
    for offset, entry in enumerate(["a1", Tick(1), "a2"]):
        feed(aligner, "a", offset, entry)
    feed(aligner, "b", 0, Tick(2))
    assert aligner.next_turn() is None
    assert aligner.inputs["a"].open == ["a1", "a2"]
    assert aligner.waits_for() == {"a"}
    feed(aligner, "a", 3, Tick(2))
    assert plain_cut(aligner) == (2, {"a": ["a1", "a2"], "b": []})
    assert aligner.positions == {"a": 4, "b": 1}


def test_an_input_that_has_an_older_tick_and_the_wanted_one_is_not_waited_for() -> None:
    aligner: Aligner[str] = Aligner({"a": 0, "b": 0, "c": 0})
    feed(aligner, "a", 0, Tick(5))
    for offset, number in enumerate((3, 5)):
        feed(aligner, "b", offset, Tick(number))
    assert aligner.next_turn() is None
    assert aligner.waits() == Wait(("c",), 5, ("a",))


def plain_cut(aligner: Aligner[str]) -> tuple[int, dict[str, list[str]]]:
    cut = aligner.next_turn()
    assert cut is not None
    return plain(cut)


def test_a_clock_that_went_back_gives_no_turn_until_it_is_ahead_again() -> None:
    logs: Logs = {"a": [Tick(5), "a1", Tick(3), "a2", Tick(5), Tick(6)]}
    assert run(Aligner({"a": 0}), logs, []) == [(5, {"a": []}), (6, {"a": ["a1", "a2"]})]
