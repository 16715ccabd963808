"""The aligner gives the turns that a plain reading of the whole log gives, whatever comes when.

The oracle below slices each input's log by the ends of the ticks and shares nothing with the aligner.
"""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agents.engine.turn_aligner import Aligner, TickEnds, TurnRecords, Wait

Logs = dict[str, list[str | None]]
"""By input, what each offset holds; None is an offset without a record, as the end of a transaction has."""
Turns = list[tuple[int, dict[str, list[str]]]]


def plain_turns(logs: Logs, ticks: Sequence[TickEnds]) -> Turns:
    """Every tick is a turn: of each input what lies between the end in force before and the end in force with it."""
    ends = [dict.fromkeys(logs, 0)]
    for tick in ticks:
        ends.append({**ends[-1], **tick.moved})
    return [
        (tick.number, {name: [r for r in log[before[name] : after[name]] if r is not None] for name, log in logs.items()})
        for tick, (before, after) in zip(ticks, pairwise(ends), strict=True)
    ]


def plain(cut: TurnRecords[str]) -> tuple[int, dict[str, list[str]]]:
    return cut.number, {name: list(records) for name, records in cut.records.items()}


def drain(aligner: Aligner[str]) -> Turns:
    turns: Turns = []
    while (cut := aligner.next_turn()) is not None:
        turns.append(plain(cut))
    return turns


def run(aligner: Aligner[str], logs: Logs, ticks: Sequence[TickEnds], order: Sequence[str]) -> Turns:
    """Feed everything, in the given order as far as that goes; some of it twice."""
    waiting = {name: list(enumerate(log)) for name, log in logs.items()}
    coming, turns = list(ticks), Turns()
    for word in [*order, *(name for name in logs for _ in logs[name]), *("tick" for _ in ticks)]:
        if word == "take":
            turns += drain(aligner)
        elif word == "tick":
            if coming:
                aligner.take_tick(coming[0])
                aligner.take_tick(coming.pop(0))
        elif waiting[word]:
            offset, record = waiting[word].pop(0)
            source = aligner.inputs[word]
            if record is None:
                source.skip_to(offset + 1)
            else:
                source.add(offset, record, len(record))
                source.add(offset, record, len(record))
        for source in aligner.inputs.values():
            assert source.size == sum(len(record) for _, record, _ in source.records)
    return turns + drain(aligner)


@st.composite
def drawn_logs(draw: st.DrawFn) -> tuple[Logs, list[TickEnds], list[str]]:
    names = [f"in{i}" for i in range(draw(st.integers(1, 4)))]
    logs: Logs = {}
    for name in names:
        held = draw(st.lists(st.booleans(), max_size=20))
        logs[name] = [f"{name}/{i}" + "x" * (i % 3) if there else None for i, there in enumerate(held)]
    ticks, ends = [], dict.fromkeys(names, 0)
    for number in range(draw(st.integers(0, 8))):
        moved = {name: draw(st.integers(ends[name], len(logs[name]))) for name in names if draw(st.booleans())}
        ends |= moved
        ticks.append(TickEnds(10 + number, (number, f"t{number}"), moved))
    return logs, ticks, draw(st.lists(st.sampled_from([*names, "tick", "take"]), max_size=60))


@given(drawn_logs())
def test_any_interleaving_of_records_and_ticks_gives_the_turns_that_the_log_says(
    drawn: tuple[Logs, list[TickEnds], list[str]],
) -> None:
    logs, ticks, order = drawn
    assert run(Aligner(dict.fromkeys(logs, 0)), logs, ticks, order) == plain_turns(logs, ticks)


@given(drawn_logs(), st.integers(0, 8))
def test_starting_again_from_any_turn_and_its_positions_gives_the_same_remaining_turns(
    drawn: tuple[Logs, list[TickEnds], list[str]], stop_after: int
) -> None:
    logs, ticks, order = drawn
    first: Aligner[str] = Aligner(dict.fromkeys(logs, 0))
    taken = run(first, logs, ticks[:stop_after], [])
    again: Aligner[str] = Aligner(first.positions, first.turn, first.tick)
    assert taken + run(again, logs, ticks, order) == plain_turns(logs, ticks)
    assert again.tick == (ticks[-1].place if ticks else None)


def test_a_turn_waits_for_the_inputs_that_were_not_read_up_to_its_ends_and_names_them() -> None:
    aligner: Aligner[str] = Aligner({"a": 0, "b": 0, "c": 0})
    assert (aligner.waits(), aligner.next_turn()) == (None, None)
    aligner.take_tick(TickEnds(5, (0, "t"), {"a": 1, "b": 2}))
    aligner.inputs["a"].add(0, "a0", 2)
    aligner.inputs["b"].add(0, "b0", 2)
    assert (aligner.waits(), aligner.wanted("b"), aligner.wanted("c")) == (Wait(("b",), 5), 2, 0)
    assert aligner.next_turn() is None
    aligner.inputs["b"].skip_to(2)
    assert drain(aligner) == [(5, {"a": ["a0"], "b": ["b0"], "c": []})]


def test_a_record_that_stands_for_others_is_in_the_turn_of_its_own_offset() -> None:
    aligner: Aligner[str] = Aligner({"a": 0})
    aligner.inputs["a"].add(0, "stand-in", 8, last=3)
    for number, end in ((1, 2), (2, 4)):
        aligner.take_tick(TickEnds(number, (number, "t"), {"a": end}))
    assert drain(aligner) == [(1, {"a": ["stand-in"]}), (2, {"a": []})]
