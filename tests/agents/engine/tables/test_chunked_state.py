"""The key by which a state scatters names: it follows from the first records, stays, and survives a dump."""

from datetime import UTC, datetime
from typing import Any

from agents.engine.tables.chunked_state import PartedState
from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Recorded, Turn
from schemas.facts.pods import PodDeleted
from schemas.names import Place, PodName, Workload

AT = datetime(2026, 1, 1, tzinfo=UTC)


def state() -> Any:
    return PartedState(ObjectTable("t", int, 64))


def turn(number: int, *uids: str) -> Turn:
    events = [PodDeleted(AT, Workload("c", "ns", "Deployment", "w"), PodName("ns", "p", uid)) for uid in uids]
    return Turn(number, {"pod-changes": [Recorded(event, Place("t", 0, n)) for n, event in enumerate(events)]})


def filled(first: Turn, *others: Turn) -> Any:
    made = state()
    for each in (first, *others):
        made.scatter(each)
    for i in range(40):
        made._parts["t"].upsert(f"name{i}", i)
    return made


def dumped(made: Any) -> dict[str, bytes]:
    return {chunk: made.dump(chunk) for chunk in made.chunks()}


def test_one_log_gives_one_key_and_another_log_another() -> None:
    one = filled(turn(500), turn(1_000, "a", "b"), turn(1_500, "c"))
    assert dumped(one) == dumped(filled(turn(500), turn(1_000, "a", "b"), turn(2_000, "d")))
    assert dumped(one) != dumped(filled(turn(500), turn(1_000, "a", "x"), turn(1_500, "c")))


def test_a_state_without_records_has_no_key_to_write() -> None:
    made = state()
    made.scatter(turn(500))
    assert (list(made.chunks()), made.take_dirty()) == ([], set())


def test_a_loaded_state_puts_new_names_where_the_one_that_was_dumped_does() -> None:
    one = filled(turn(1_000, "a"))
    assert "bucket-key" in one.take_dirty()
    other = state()
    for chunk in sorted(one.chunks()):
        other.load(chunk, one.dump(chunk))
    for each in (one, other):
        each.scatter(turn(2_000, "z"))
        for i in range(100):
            each._parts["t"].upsert(f"later{i}", i)
    assert dumped(other) == dumped(one)
    assert "bucket-key" not in one.take_dirty()
