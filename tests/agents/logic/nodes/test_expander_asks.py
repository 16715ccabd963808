"""The external expander: a question is a decision, its answer an outcome, and a replay needs no server."""

from dataclasses import replace
from typing import Any

import pytest

from agents.logic.nodes.scaler import expander_asks, scaling_dry_run
from agents.logic.nodes.scaler.scaler_stage import Scaler
from schemas.decisions.node_updates import ExpanderAsked, ScaleRefused, ScaleUpPlanned
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.control import Mode
from tests.support import node_scene
from tests.support.cluster_events import when
from tests.support.node_scene import CLUSTER, ScalerRun, group, joined, pod, shape

THREE = [group("a", desired=1), group("b"), group("c"), shape(), *joined("a-1")]
MANY_PODS = [pod(f"w{number}") for number in range(9)]
SETTINGS = {"expanders": "grpc,most-pods", "scale_down": False, "balance": False}


def asking(mode: Mode = Mode.APPLY, **settings: Any) -> ScalerRun:
    """A cluster where nine pods wait, which each of three groups would take, after the question was asked."""
    run = ScalerRun(*THREE, settings={**SETTINGS, **settings}, mode=mode)
    run.step(*MANY_PODS)
    run.run(2)
    return run


def answer(run: ScalerRun, *groups: str, result: Result = Result.DONE, to: ExpanderAsked | None = None) -> None:
    """The consumer brings an answer to the last question."""
    asked = to or run.of(ExpanderAsked)[-1]
    run.step(
        ActionFinished(
            f"{asked.id}/x", when(run.now), asked.id, Action.ASK_EXPANDER, result, "UNAVAILABLE", asked.subject, groups=groups
        )
    )


def failures(run: ScalerRun) -> list[str]:
    return [one.reason for one in run.of(ScaleRefused) if one.code == "ExpanderFailed"]


def test_pods_wait_until_the_server_has_chosen_a_group() -> None:
    run = asking()
    assert not run.grown
    [asked] = run.of(ExpanderAsked)
    assert [(offer.group, offer.nodes, offer.pods) for offer in asked.groups] == [("a", 2, (5,)), ("b", 2, (5,)), ("c", 2, (5,))]
    [kind] = asked.pods
    assert (kind.namespace, kind.labels, kind.requests["cpu"]) == ("shop", {"app": "web"}, 975)
    assert set(kind.names) <= {one.pod.name for one in MANY_PODS}
    assert scaling_dry_run.pod_waits(run.stage, CLUSTER, kind.names[-1], run.now)[1][-1].code == "ExpanderAsked"  # type: ignore[index]  # it waits
    answer(run, "c")
    run.run(2)
    assert run.grown == [("c", 0, 2)]
    assert run.of(ScaleUpPlanned)[0].because["external expander"] == {"question": asked.id, "chose": ["c"]}
    assert not failures(run)


@pytest.mark.parametrize(("chosen", "grown"), [(("c",), [("c", 0, 2)]), (("b", "c"), [("b", 0, 1), ("c", 0, 1)])])
def test_groups_that_are_alike_share_only_what_the_server_gave_them(
    chosen: tuple[str, ...], grown: list[tuple[str, int, int]]
) -> None:
    run = asking(balance=True, balance_ignored="group")
    answer(run, *chosen)
    run.run(2)
    assert sorted(run.grown) == grown


def test_an_answer_of_several_groups_is_filtered_further() -> None:
    run = asking(expanders="grpc,priority,least-waste,random")
    answer(run, "b", "c")
    run.run(2)
    assert run.grown[0][0] in ("b", "c")


@pytest.mark.parametrize(
    ("groups", "result"), [((), Result.FAILED), ((), Result.EXPIRED), ((), Result.DONE), (("nobody's", ""), Result.DONE)]
)
def test_an_answer_that_cannot_be_used_leaves_the_choice_to_the_next_expander(groups: tuple[str, ...], result: Result) -> None:
    run = asking()
    answer(run, *groups, result=result)
    run.run(2)
    assert run.grown
    assert len(failures(run)) == 1
    assert len(run.of(ExpanderAsked)) == 1


def test_without_a_consumer_pods_wait_once_for_the_time_that_is_set_and_no_longer() -> None:
    run = asking(expander_timeout=10.0)
    run.run(6)
    assert not run.grown
    run.run(6)
    assert run.grown
    assert failures(run) == ["the external expander is passed over: no answer came within 10 s"]
    before = len(run.grown)
    run.answer(run.of(ScaleUpPlanned)[-1], Result.DONE)
    run.step(shape("gpu", cpu=3900), *[pod(f"g{number}", "gpu") for number in range(6)])
    run.run(3)
    assert len(run.grown) > before  # within the minute nobody is asked, so nobody waits
    assert len(run.of(ExpanderAsked)) == 1


def test_pods_wait_no_longer_however_often_the_groups_change() -> None:
    run = asking(expander_timeout=10.0)
    for number in range(25):
        run.step(group(f"n{number}"))
        run.run(1.5)
    assert run.grown
    assert len(run.of(ExpanderAsked)) > 3
    assert {one.expires for one in run.of(ExpanderAsked)} == {run.of(ExpanderAsked)[0].expires}


def test_an_answer_serves_one_choice_and_is_forgotten_when_old() -> None:
    run = asking()
    answer(run, "c")
    run.run(2)
    run.answer(run.of(ScaleUpPlanned)[0], Result.DONE)
    run.step(shape("gpu", cpu=3900), *[pod(f"g{number}", "gpu") for number in range(12)])
    run.run(2)
    assert len(run.of(ExpanderAsked)) == 2
    run.run(12 + expander_asks.LASTS)
    assert not run.stage.clusters.asked.get(CLUSTER) or run.stage.clusters.asked.get(CLUSTER).open  # type: ignore[union-attr]  # or absent


def test_answers_to_others_and_late_ones_count_for_nothing() -> None:
    run = asking(expander_timeout=5.0)
    [asked] = run.of(ExpanderAsked)
    answer(run, "c", to=replace(asked, id="scaler/0/1/ask-expander/other"))
    run.run(2)
    assert not run.grown
    run.run(5)
    grown = run.grown
    answer(run, "c")
    run.run(2)
    assert run.grown == grown != []


def test_one_group_is_no_question() -> None:
    run = ScalerRun(group("a", desired=1), shape(), *joined("a-1"), settings=SETTINGS)
    run.step(*MANY_PODS)
    run.run(2)
    assert run.grown == [("a", 1, 3)]
    assert not run.of(ExpanderAsked)


def test_more_groups_than_a_question_takes_are_chosen_from_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expander_asks, "MOST_GROUPS", 2)
    run = asking()
    run.run(2)
    assert run.grown
    assert not run.of(ExpanderAsked)
    assert len(failures(run)) == 1


def test_it_is_asked_in_shadow_and_not_in_a_pause() -> None:
    assert asking(Mode.SHADOW).of(ExpanderAsked)
    run = ScalerRun(*THREE, settings=SETTINGS)
    run.step(node_scene.ControlChanged(when(run.now), CLUSTER, Mode.APPLY, paused=True, reason="a test"))
    run.step(*MANY_PODS)
    run.run(2)
    assert not run.of(ExpanderAsked)


def test_a_replay_of_the_log_decides_the_same_without_a_server() -> None:
    def played() -> list[Any]:
        run = asking()
        answer(run, "b")
        run.run(30)
        return run.decided

    assert played() == played()


def test_a_state_that_was_written_and_read_goes_on_with_its_question() -> None:
    run = asking()
    other = ScalerRun(settings=SETTINGS)
    other.stage = Scaler(run.stage.settings, 0, lambda _cluster: True)
    for chunk in run.stage.chunks():
        other.stage.load(chunk, run.stage.dump(chunk))
    other.now = run.now
    other.decided = list(run.decided)
    answer(other, "c")
    answer(run, "c")
    assert run.run(2) == other.run(2)
    assert run.grown == [("c", 0, 2)]
