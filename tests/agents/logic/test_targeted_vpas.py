"""Thousands of VPA objects on one workload cost a turn a few comparisons each, and the right one governs."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.engine.stage import Stage
from agents.engine.turn import Recorded, Turn
from agents.logic.governing_policies import TargetedVpas
from agents.run.pipeline import stages
from agents.settings.all_settings import Settings
from schemas.names import Place
from schemas.policies.vpa import TargetRef, VpaChanged, VpaRemoved
from tests.support.cluster_events import MINUTE, START, when

MANY = 500
REF = TargetRef("Deployment", "api", "apps/v1")
KEY = "demo/web/Deployment/api"
STAGES = stages(Settings(topics={"partitions": 1}))  # type: ignore[arg-type]  # pydantic makes the part


def vpa(number: int, *, created: int = 0, ours: bool = True, generation: int = 1) -> VpaChanged:
    recommenders = () if ours else ("another",)
    return VpaChanged(
        when(0), "demo", "web", f"vpa-{number}", when(created), target_ref=REF, generation=generation, recommenders=recommenders
    )


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.booleans()), max_size=30))
def test_the_lowest_rank_governs_whatever_came_and_went(changes: list[tuple[int, int, bool]]) -> None:
    targeted, there = TargetedVpas("default"), dict[str, VpaChanged]()
    for number, created, ours in changes:
        new = vpa(number, created=created, ours=ours)
        if new.key in there:
            targeted.remove(there.pop(new.key))
        else:
            targeted.add(new)
            there[new.key] = new
        in_order = sorted(there.values(), key=lambda each: each.rank("default"))
        assert targeted.of(KEY) == [each.key for each in in_order]
        assert targeted.governing(KEY) == (in_order[0].key if in_order else None)
        assert (KEY in targeted) == bool(there)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_many_vpas_on_one_workload_are_not_ranked_anew_for_each(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, rank = [0], VpaChanged.rank

    def counted(self: VpaChanged, recommender: str) -> tuple[bool, float, str]:
        asked[0] += 1
        return rank(self, recommender)

    monkeypatch.setattr(VpaChanged, "rank", counted)
    state = stage.open(0)
    rounds: tuple[Sequence[VpaChanged | VpaRemoved], ...] = (
        [vpa(number, created=number % 7) for number in range(MANY)],
        [vpa(number, created=number % 7, generation=2) for number in range(MANY)],
        [VpaRemoved(when(0), "demo", "web", f"vpa-{number}") for number in range(MANY)],
    )
    for number, events in enumerate(rounds):
        records = [Recorded(event, Place("policies", 0, number * MANY + i)) for i, event in enumerate(events)]
        state.step(Turn(START + number * MINUTE, {"policies": records}))
    assert asked[0] <= 6 * MANY, "each object is ranked when it comes, is replaced, goes, and is looked for among the first"
