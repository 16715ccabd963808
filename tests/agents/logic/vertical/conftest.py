"""Every recommendation that a test of this folder sees is written as its event would be."""

from collections.abc import Sequence

import pytest

from agents.engine.turn import Decided, DeferredDecided, Turn
from agents.logic.vertical.recommender_stage import Recommender
from schemas import plain_json
from schemas.plain_json import WrittenEvent


@pytest.fixture(autouse=True)
def _written_as_events(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Recommender.step

    def stepped(self: Recommender, turn: Turn) -> Sequence[Decided]:
        decisions = step(self, turn)
        for decided in decisions:
            if isinstance(decided, DeferredDecided):
                event = decided.event
                assert decided.written == WrittenEvent(type(event), event.id, event.at, plain_json.dumps(event))
        return decisions

    monkeypatch.setattr(Recommender, "step", stepped)
