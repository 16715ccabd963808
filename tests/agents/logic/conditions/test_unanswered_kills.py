"""A container that is OOM-killed under the same amounts for a quarter of an hour: what its VPA says, and when no more."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agents.logic.conditions import condition_rules
from agents.logic.conditions.condition_rules import LoopKnowledge, UnansweredKills
from schemas.facts.pods import OOM_KILLED, ContainerRun, ContainerSeen, PodChanged, ResizeState
from schemas.names import Amounts
from schemas.policies.vertical import UpdateMode
from schemas.units import Bytes
from tests.support.status_scene import AT, MIB, pod, said, vpa


def minutes(count: float) -> datetime:
    return AT + timedelta(minutes=count)


def killed(minute: float, mebibytes: int, **changed: Any) -> PodChanged:
    """`init`: of an init container, which may be a `sidecar`; `resize`: that of the pod."""
    amounts = Amounts(None, Bytes(mebibytes * MIB))
    sidecar, init = changed.get("sidecar", False), changed.get("init", False)
    seen = ContainerSeen("app", amounts, amounts, sidecar=sidecar, last_run=ContainerRun(minutes(minute), reason=OOM_KILLED))
    return replace(
        pod("p"), resize=changed.get("resize", ResizeState.NONE), **{"init_containers" if init else "containers": (seen,)}
    )  # type: ignore[arg-type]  # as the class has them


def told(*facts: PodChanged, at: float, mode: UpdateMode = UpdateMode.RECREATE) -> str:
    """The reason of the condition after these facts; 500 MiB are recommended."""
    kills: tuple[UnansweredKills, ...] = ()
    for fact in facts:
        kills = condition_rules.seen_in(fact, kills)
    bound = condition_rules.condition_of(vpa(update_mode=mode), kills, LoopKnowledge(said().containers), minutes(at))
    return "" if bound is None else bound.reason


def test_kills_over_a_quarter_of_an_hour_are_told_until_an_hour_after_the_last() -> None:
    loop = [killed(minute, 500) for minute in (0, 6, 14)]
    assert told(*loop, at=15) == ""
    assert told(*loop, killed(15, 500), at=15) == "RecommendationReached"
    assert told(*loop, killed(15, 500), at=74) == "RecommendationReached"
    assert told(*loop, killed(15, 500), at=75) == ""


def test_other_amounts_are_an_answer_and_the_kill_before_them_says_nothing_of_them() -> None:
    loop = [killed(minute, 300) for minute in (0, 8, 16)]
    assert told(*loop, at=17) == "NotApplied"
    raised = [*loop, killed(16, 400), killed(20, 400)]
    assert told(*raised, at=20) == ""
    assert told(*raised, killed(34, 400), at=34) == ""
    assert told(*raised, killed(35, 400), at=35) == "NotApplied"


def test_an_init_container_a_pending_resize_and_the_mode_come_before_the_amounts() -> None:
    assert told(*(killed(minute, 300, init=True, sidecar=True) for minute in (0, 16)), at=17) == "InitContainer"
    assert told(*(killed(minute, 300, init=True) for minute in (0, 16)), at=17) == "InitContainer"
    assert told(*(killed(minute, 300, resize=ResizeState.DEFERRED) for minute in (0, 16)), at=17) == "ResizePending"
    assert told(*(killed(minute, 300) for minute in (0, 16)), at=17, mode=UpdateMode.OFF) == "UpdateMode"


@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from([300, 400])), max_size=12))
def test_what_is_told_is_of_kills_under_the_last_amounts_alone(facts: list[tuple[int, int]]) -> None:
    ends = [sum(step for step, _ in facts[: n + 1]) for n in range(len(facts))]
    kills: tuple[UnansweredKills, ...] = ()
    for end, (_, amounts) in zip(ends, facts, strict=True):
        kills = condition_rules.seen_in(killed(end, amounts), kills)
    if not facts:
        return
    last = facts[-1][1]
    same = next((n for n in range(len(facts)) if all(amounts == last for _, amounts in facts[n:])), len(facts))
    [known] = kills
    assert known.first is None or known.first >= minutes(ends[same])
