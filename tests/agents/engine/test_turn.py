"""Batches of decisions, read one by one, are the decisions that they stand for."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from agents.engine.turn import BatchDecided, Decided, DeferredRecords, Recorded, RecordsInParts, Turn
from schemas.names import Place, cluster_of
from schemas.policies.control import ControlChanged, Mode

EVENT = ControlChanged(datetime(2026, 1, 1, tzinfo=UTC), "demo", Mode.APPLY)


@dataclass(frozen=True)
class Deferred:
    """What a stage would have decided about one subject."""

    subject: str
    turn: int

    @property
    def event(self) -> Any:
        return f"about {self.subject}"

    @property
    def cause(self) -> tuple[Place, ...]:
        return (Place("metrics", 0, self.turn),)


@dataclass(frozen=True)
class Batch:
    subjects: tuple[str, ...]
    turn: int = 7

    built: list[int] = field(default_factory=list, compare=False)
    """The numbers of the decisions that somebody asked for."""

    def decision(self, number: int) -> Deferred:
        self.built.append(number)
        return Deferred(self.subjects[number], self.turn)


BATCH = Batch(("demo/a", "demo/b", "live/a"))


def test_a_batch_gives_each_topic_its_copy_of_a_decision_before_the_next_decision() -> None:
    other: Any = Decided("last", "x", EVENT)  # type: ignore[arg-type]  # any event will do
    decided = BatchDecided(BATCH, {"own": str, "by-cluster": cluster_of}, [other])
    assert [(d.topic, d.key, d.event) for d in decided][:4] == [
        ("own", "demo/a", "about demo/a"),
        ("by-cluster", "demo", "about demo/a"),
        ("own", "demo/b", "about demo/b"),
        ("by-cluster", "demo", "about demo/b"),
    ]
    assert len(decided) == 7
    assert decided[-1] is other


def test_one_item_of_a_batch_is_made_without_the_others() -> None:
    other: Any = Decided("last", "x", EVENT)  # type: ignore[arg-type]  # any event will do
    batch = Batch(BATCH.subjects)
    decided = BatchDecided(batch, {"own": str, "by-cluster": cluster_of}, [other])
    records = RecordsInParts([Recorded(EVENT, Place("t", 0, 0)), DeferredRecords(batch, (0, 2), Place("t", 0, 1))])
    assert (decided[3].topic, decided[3].event, records[2].event) == ("by-cluster", "about demo/b", "about live/a")
    assert batch.built == [1, 1, 2]
    for whole in (decided, records):
        assert [whole[number] for number in range(len(whole))] == list(whole) == whole[:]
        assert whole[-2:] == list(whole)[-2:]
        with pytest.raises(IndexError):
            whole[len(whole)]


def test_records_of_a_batch_stand_one_after_the_other() -> None:
    single = Recorded(EVENT, Place("topic", 3, 10))
    records = RecordsInParts([single, DeferredRecords(BATCH, (0, 2), Place("topic", 3, 11))])
    turn = Turn(8, {"topic": records})
    assert [(r.event, r.place.offset) for r in turn.of("topic")] == [(EVENT, 10), ("about demo/a", 11), ("about live/a", 12)]
    assert len(turn.of("topic")) == 3
    assert [len(part) for part in turn.parts("topic") if isinstance(part, DeferredRecords)] == [2]
