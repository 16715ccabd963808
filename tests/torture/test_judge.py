"""The judge of what consumers did: it can come out wrong, for each thing that it looks for."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from schemas.names import Amounts
from schemas.outcomes import Action, Result
from schemas.units import Bytes, Cores
from tests.torture.admission_judge import NewPod, Recommended, judge_admission
from tests.torture.judge import Act, Answer, ConsumerHistory, Pause, Plan, as_asked, judge
from tests.torture.recomputation import Report

START = datetime(2026, 1, 1, tzinfo=UTC)
SMALL, LARGE = (as_asked({"main": Amounts(Cores(cores), Bytes(1 << 20))}) for cores in (0.1, 0.2))
PLAN = Plan("p1", Action.RESIZE, "u1", SMALL, START + timedelta(seconds=300), 100.0)
ACT = Act(Action.RESIZE, "u1", SMALL, 101.0, START)
LATE = START + timedelta(seconds=400)


def answer(decision: str, result: Result, reason: str, at: float, event_time: datetime = LATE) -> Answer:
    """An outcome, written when the plans of these tests are void."""
    return Answer(decision, result, reason, at, event_time)


DONE = answer("p1", Result.DONE, "accepted", 101.2)
EVICTION = Plan("e1", Action.EVICT, "u1", (), START + timedelta(seconds=300), 110.0)
EVICTED = Act(Action.EVICT, "u1", (), 111.0, START)


def wrong(
    plans: list[Plan], answers: list[Answer], acts: list[Act], history: ConsumerHistory | None = None, says: str | None = None
) -> None:
    """Exactly one thing is wrong, and it is this; nothing when None."""
    _, found = judge(plans, answers, acts, history or ConsumerHistory())
    assert len(found) == (says is not None), found
    assert says is None or says in found[0]


def test_a_plan_that_was_carried_out_once_and_is_called_done_is_fine_and_counted() -> None:
    figures, found = judge([PLAN, EVICTION], [DONE, answer("e1", Result.DONE, "gone", 112.0)], [ACT, EVICTED], ConsumerHistory())
    assert found == []
    assert (figures["plans"], figures["acts"], figures["resizes"], figures["evictions"], figures["done"]) == (2, 2, 1, 1, 2)


@pytest.mark.parametrize(
    ("result", "reason", "event_time", "says"),
    [
        (Result.EXPIRED, "void since then", START + timedelta(seconds=300), "it was not void before"),
        (Result.EXPIRED, "void since then", START + timedelta(seconds=301), None),
        (Result.REFUSED, "cluster 'west' is paused", LATE, "there was no pause"),
        (Result.REFUSED, "it moved: the pod requests something else", LATE, "nobody had changed the pod"),
        (Result.FAILED, "the cluster said no", LATE, "nobody had changed the pod"),
    ],
)
def test_a_reason_that_is_made_up_is_found(result: Result, reason: str, event_time: datetime, says: str | None) -> None:
    wrong([PLAN], [answer("p1", result, reason, 102.0, event_time)], [], says=says)


def test_a_reason_that_the_cluster_bears_out_is_fine() -> None:
    paused = ConsumerHistory(pauses=[Pause(101.0, 103.0)])
    wrong([PLAN], [answer("p1", Result.REFUSED, "cluster 'west' is paused", 102.0)], [], paused)
    other = [replace(EVICTION, at=90.0), replace(EVICTED, at=95.0), answer("e1", Result.DONE, "", 96.0)]
    wrong([PLAN, other[0]], [other[2], answer("p1", Result.REFUSED, "it moved: the pod is gone", 102.0)], [other[1]])


def test_a_pod_that_somebody_else_deleted_is_gone_and_no_reason_to_resize_it() -> None:
    gone, moved = ConsumerHistory(deleted={"u1": 111.0}), answer("p1", Result.REFUSED, "it moved: the pod is gone", 112.0)
    wrong([EVICTION], [answer("e1", Result.DONE, "gone", 112.0)], [], gone)
    wrong([EVICTION], [answer("e1", Result.DONE, "gone", 110.5)], [], gone, says="the cluster does not show it")
    wrong([PLAN], [moved], [], gone)
    wrong([PLAN], [replace(moved, at=110.5)], [], gone, says="nobody had changed the pod")
    wrong([PLAN], [replace(DONE, at=112.0)], [], gone, says="the cluster does not show it")


def test_one_request_of_each_kind_may_go_out_when_a_consumer_wakes_up() -> None:
    expired = answer("p1", Result.EXPIRED, "void since then", 150.0)
    late = replace(ACT, at=160.5, event_time=LATE)
    wrong([PLAN], [expired], [late], says="no plan for it was open")
    woken = ConsumerHistory(wakes=[160.0])
    wrong([PLAN], [expired], [late], woken)
    wrong([PLAN], [expired], [late, replace(late, at=160.7)], woken, says="no plan for it was open")
    wrong([PLAN], [expired], [replace(late, at=163.0)], woken, says="no plan for it was open")
    wrong([PLAN], [expired, replace(expired, at=160.4)], [], woken)
    wrong([PLAN], [expired, replace(expired, at=163.0)], [], woken, says="has 2 outcomes")


def test_limits_are_compared_as_well() -> None:
    limited = as_asked({"main": Amounts(Cores(0.1), Bytes(1 << 20))}, {"main": Amounts(Cores(1.0))})
    _, found = judge([PLAN], [DONE], [replace(ACT, asked=limited)], ConsumerHistory())
    assert any("no plan for it was open" in each for each in found)


def test_one_act_too_many_is_found_while_the_plan_is_open_and_after_it() -> None:
    wrong([PLAN], [DONE], [ACT, replace(ACT, at=101.1)], says="no plan for it was open")
    wrong([PLAN], [DONE], [ACT, replace(ACT, at=105.0)], says="no plan for it was open")
    wrong([PLAN], [DONE], [replace(ACT, at=99.0), ACT], says="no plan for it was open")


def test_a_second_plan_of_the_same_amounts_allows_a_second_act() -> None:
    again = replace(PLAN, id="p2", at=200.0)
    wrong([PLAN, again], [DONE, answer("p2", Result.DONE, "", 202.0)], [ACT, replace(ACT, at=201.0)])


def test_an_act_belongs_to_the_plan_that_is_called_done_where_an_older_one_for_the_same_is_called_expired() -> None:
    older = replace(PLAN, id="p0", at=50.0, void_after=START - timedelta(seconds=300))
    wrong([older, PLAN], [answer("p0", Result.EXPIRED, "void", 101.0), DONE], [ACT])


def test_an_act_belongs_to_the_plan_in_force_where_one_that_expired_is_called_done_because_of_it() -> None:
    older = replace(PLAN, id="p0", at=50.0, void_after=START - timedelta(seconds=300))
    said = answer("p0", Result.DONE, "the pod has these amounts already", 103.0)
    wrong([older, PLAN], [DONE, said], [ACT])
    wrong([older], [said], [ACT], says="after its plan had expired")


@pytest.mark.parametrize("acts", [[], [replace(ACT, asked=LARGE)], [replace(ACT, uid="u2")], [replace(ACT, at=102.0)]])
def test_done_without_the_cluster_showing_it_is_found(acts: list[Act]) -> None:
    _, found = judge([PLAN], [DONE], acts, ConsumerHistory())
    assert any("called done, but the cluster does not show it" in each for each in found)


def test_done_without_an_act_of_its_own_is_fine_where_the_pod_asks_for_these_amounts_already() -> None:
    wrong([PLAN, replace(PLAN, id="p2", at=200.0)], [DONE, answer("p2", Result.DONE, "already", 202.0)], [ACT])


def test_done_is_found_where_the_amounts_were_changed_to_others_meanwhile() -> None:
    second, third = replace(PLAN, id="p2", asked=LARGE, at=200.0), replace(PLAN, id="p3", at=300.0)
    answers = [DONE, answer("p2", Result.DONE, "", 202.0), answer("p3", Result.DONE, "", 302.0)]
    wrong([PLAN, second, third], answers, [ACT, replace(ACT, asked=LARGE, at=201.0)], says="p3 is called done")


@pytest.mark.parametrize(("seconds", "found"), [(315.0, None), (321.0, "21 s after its plan had expired")])
def test_an_act_after_the_plan_expired_is_found(seconds: float, found: str | None) -> None:
    wrong([PLAN], [DONE], [replace(ACT, event_time=START + timedelta(seconds=seconds))], says=found)


@pytest.mark.parametrize(
    ("pause", "found"),
    [
        (Pause(99.9, 105.0), "under a pause"),
        (Pause(100.1, 105.0), None),
        (Pause(90.0, 100.9), None),
        (Pause(101.1, 105.0), None),
    ],
)
def test_an_act_under_a_pause_is_found_unless_it_may_have_been_under_way(pause: Pause, found: str | None) -> None:
    wrong([PLAN], [DONE], [ACT], ConsumerHistory(pauses=[pause]), says=found)


def test_only_one_act_of_a_kind_may_have_been_under_way_when_a_pause_came() -> None:
    pause = ConsumerHistory(pauses=[Pause(100.5, 200.0)])
    eviction = [replace(EVICTION, at=100.0), replace(EVICTED, at=101.1), answer("e1", Result.DONE, "", 101.3)]
    second = [replace(PLAN, id="p2", uid="u2"), replace(ACT, uid="u2", at=101.3), answer("p2", Result.DONE, "", 101.4)]
    plan, act, said = eviction
    wrong([PLAN, plan], [DONE, said], [ACT, act], pause)
    plan, act, said = second
    wrong([PLAN, plan], [DONE, said], [ACT, act], pause, says="resize of u2 was done under a pause")


@pytest.mark.parametrize("result", [Result.REFUSED, Result.EXPIRED, Result.FAILED])
def test_an_act_whose_outcome_says_otherwise_is_found_unless_the_consumer_died_in_between(result: Result) -> None:
    answers = [replace(DONE, result=result)]
    wrong([PLAN], answers, [ACT], says=f"its outcome is '{result.value}'")
    wrong([PLAN], answers, [ACT], ConsumerHistory(kills=[103.0]))
    wrong([PLAN], answers, [ACT], ConsumerHistory(kills=[107.0]), says="its outcome is")
    died = ConsumerHistory()
    died.deaths[Action.RESIZE, "u1"] += 1
    wrong([PLAN], answers, [ACT], died)


def test_outcomes_that_are_missing_or_twice_or_of_nobody_are_found() -> None:
    wrong([PLAN], [], [ACT], says="has no outcome")
    wrong([PLAN], [DONE, replace(DONE, at=101.3)], [ACT], says="has 2 outcomes")
    wrong([PLAN], [DONE, answer("p9", Result.EXPIRED, "", 102.0)], [ACT], says="outcome of unknown decision p9")


def test_a_run_in_which_too_little_happened_is_not_exact_and_says_so_by_an_exit_code_of_its_own() -> None:
    report = Report()
    report.figures.update({"acts": 199, "patched": 40})
    assert (report.exact, report.exit_code) == (True, 0)
    report.require({"acts": 200, "patched": 40})
    assert str(report).endswith("TOO LITTLE HAPPENED: only 199 acts, wanted 200")
    assert (report.exact, report.exit_code) == (False, 3)
    report.wrong.append("2 missing")
    assert str(report).endswith("WRONG 2 missing")
    assert report.exit_code == 1


NEW = NewPod("n1", "west/ns/Deployment/d", SMALL, patched=True, answered=True, at=101.0)
ADVISED = Recommended("west/ns/Deployment/d", SMALL, 90.0)
PATCHED = answer("r1", Result.DONE, "given", 101.2)
LET_THROUGH = answer("r1", Result.REFUSED, "is paused", 101.2)


@pytest.mark.parametrize(
    ("pod", "answers", "history", "says"),
    [
        (NEW, [PATCHED], ConsumerHistory(), None),
        (NEW, [], ConsumerHistory(), "n1 was patched, but no outcome says so"),
        (replace(NEW, came=False), [], ConsumerHistory(), None),
        (replace(NEW, came=False), [PATCHED], ConsumerHistory(), "n1 is called patched, but the cluster refused it"),
        (NEW, [], ConsumerHistory(ends=[120.0]), None),
        (NEW, [], ConsumerHistory(ends=[100.0, 131.1]), "n1 was patched, but no outcome says so"),
        (
            NEW,
            [PATCHED, replace(PATCHED, reason="other amounts")],
            ConsumerHistory(),
            "the patch of n1 has 2 outcomes that differ",
        ),
        (
            NEW,
            [PATCHED, replace(PATCHED, decision="recommender/0/2/requests/w")],
            ConsumerHistory(),
            "the patch of n1 has 2 outcomes that differ",
        ),
        (NEW, [PATCHED, PATCHED], ConsumerHistory(), None),
        (NEW, [PATCHED], ConsumerHistory(pauses=[Pause(99.9, 200.0)]), "n1 was patched under a pause"),
        (NEW, [PATCHED], ConsumerHistory(pauses=[Pause(100.1, 200.0)]), None),
        (replace(NEW, given=LARGE), [PATCHED], ConsumerHistory(), "n1 was given what nobody had recommended"),
        (replace(NEW, at=89.0), [PATCHED], ConsumerHistory(), "n1 was given what nobody had recommended"),
        (replace(NEW, patched=False), [PATCHED], ConsumerHistory(), "n1 is called patched, but was let through"),
        (replace(NEW, patched=False), [LET_THROUGH], ConsumerHistory(), None),
        (replace(NEW, patched=False, answered=False), [PATCHED], ConsumerHistory(), None),
        (replace(NEW, uid="n2", patched=False), [PATCHED], ConsumerHistory(), "outcome of a patch of n1"),
    ],
)
def test_what_is_wrong_with_a_patch_of_a_new_pod_is_found(
    pod: NewPod, answers: list[Answer], history: ConsumerHistory, says: str | None
) -> None:
    figures, found = judge_admission([pod], [ADVISED], {"n1": answers} if answers else {}, history)
    assert figures["patched"] == pod.patched
    assert len(found) == (says is not None), found
    assert says is None or says in found[0]


@pytest.mark.parametrize(
    ("patched", "history", "says"),
    [
        (9, ConsumerHistory(), None),
        (8, ConsumerHistory(), None),
        (7, ConsumerHistory(), "only 7 of 10 new pods were patched that should have been"),
        (0, ConsumerHistory(pauses=[Pause(200.0, 210.0)]), None),  # it may not know yet that the pause is over
        (0, ConsumerHistory(off_since=199.0), None),
        (0, ConsumerHistory(ends=[180.0]), None),
        (0, ConsumerHistory(ends=[160.0]), "only 0 of 10"),
    ],
)
def test_a_webhook_that_lets_nearly_everything_through_is_found(patched: int, history: ConsumerHistory, says: str | None) -> None:
    pods = [replace(NEW, uid=f"n{n}", at=205.0, patched=n < patched) for n in range(10)]
    answers = {f"n{n}": [PATCHED] for n in range(patched)}
    _, found = judge_admission(pods, [ADVISED], answers, history)
    assert len(found) == (says is not None), found
    assert says is None or says in found[0]


def test_a_pod_without_a_recommendation_or_an_answer_need_not_be_patched() -> None:
    alone = [replace(NEW, uid=f"n{n}", workload="west/ns/Deployment/other", patched=False, at=205.0) for n in range(10)]
    unanswered = [replace(NEW, uid=f"m{n}", answered=False, patched=False, at=205.0) for n in range(10)]
    assert judge_admission([*alone, *unanswered], [ADVISED], {}, ConsumerHistory())[1] == []
