"""The guards that all stages share: one sentence each, whatever the subject."""

import pytest

from agents.logic.guards import shared_guards
from agents.logic.guards.shared_guards import ControlRecord, Headcount, Objection
from schemas.names import Place
from schemas.policies import control
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Fraction, Seconds
from tests.support.cluster_events import START, when

PLACE = Place("ullage.control.v1", 0, 1)


def record(mode: Mode = Mode.APPLY, **changed: object) -> ControlRecord:
    return ControlRecord(ControlChanged(when(START), "demo", mode, **changed), PLACE)  # type: ignore[arg-type]  # a test may say anything


def test_the_first_objection_in_order_holds() -> None:
    guards = [("even", lambda n, _: None if n % 2 == 0 else "odd"), ("small", lambda n, most: None if n < most else "large")]
    assert [shared_guards.first_objection(guards, n, 10) for n in (4, 5, 12, 13)] == [
        None,
        Objection("even", "odd"),
        Objection("small", "large"),
        Objection("even", "odd"),
    ]


def test_a_cluster_without_a_control_record_is_in_shadow_and_has_the_budget_of_the_settings() -> None:
    assert (shared_guards.mode(None), shared_guards.budget(None, Fraction(0.3)), shared_guards.paused(None)) == (
        Mode.SHADOW,
        0.3,
        None,
    )
    held = record(Mode.PLAN, budget=0.2, paused=True, reason="INC-1")
    assert (shared_guards.mode(held), shared_guards.budget(held, Fraction(0.3))) == (Mode.PLAN, 0.2)
    assert shared_guards.paused(held) == "cluster 'demo' is paused: INC-1"


def test_stages_and_consumers_give_the_same_sentence_for_a_pause() -> None:
    held = record(paused=True)
    assert shared_guards.paused(held) == control.objection(held.event, "demo") == "cluster 'demo' is paused"


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (None, "nobody has set the mode of cluster 'demo' yet, so it is shadow"),
        (record(Mode.PLAN), "the mode of cluster 'demo' is plan, not apply"),
        (record(Mode.APPLY), None),
    ],
)
def test_acting_needs_mode_apply(held: ControlRecord | None, said: str | None) -> None:
    assert control.objection(None if held is None else held.event, "demo") == said


def test_guards_name_whatever_they_are_about() -> None:
    limit = Seconds(60.0)
    late = START + 90_000
    assert (
        shared_guards.warming_up(stage="scaler", now=START + 1_000, first_turn=START, warm_up=limit)
        == "the scaler has watched for 1 s; it acts after 60 s"
    )
    assert (
        shared_guards.blind(fact="node fact", now=late, seen=START, within=limit)
        == "no node fact of this cluster for 90 s; more than 60 s is flying blind"
    )
    assert (
        shared_guards.stale(what="forecast", now=late, taken=START, within=limit)
        == "the forecast is 90 s old; more than 60 s is stale"
    )
    assert (
        shared_guards.cooling_down(subject="node group", now=START + 1_000, planned=START, cool_down=limit)
        == "the node group was planned for 1 s ago; the next plan may follow after 60 s"
    )
    assert shared_guards.over_rate(planned=2, rate=2, interval=limit) == "2 plans were made this time; the rate is 2 each 60 s"
    nodes = Headcount(live=10, running=9, acting=1)
    assert (
        shared_guards.over_budget("group", nodes, Fraction(0.2), members="nodes")
        == "2 of the group's 10 nodes are away or being changed; the budget is 0.2 of them"
    )


def test_none_of_them_objects_at_its_limit() -> None:
    limit, at = Seconds(60.0), START + 60_000
    assert shared_guards.warming_up(stage="s", now=at, first_turn=START, warm_up=limit) is None
    assert shared_guards.blind(fact="f", now=at, seen=START, within=limit) is None
    assert shared_guards.stale(what="w", now=at, taken=START, within=limit) is None
    assert shared_guards.cooling_down(subject="s", now=at, planned=START, cool_down=limit) is None
    assert shared_guards.cooling_down(subject="s", now=START, planned=None, cool_down=limit) is None
    assert shared_guards.over_rate(planned=1, rate=2, interval=limit) is None
    assert shared_guards.over_budget("group", Headcount(live=10, running=9), Fraction(0.2)) is None
