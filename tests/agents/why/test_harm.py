"""What ended in a workload, and whether a change of ours did it: each kind of kill, restart and loss, with its numbers."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agents import cli
from agents.why import explanation_lines, harm
from agents.why.explanation_lines import ExplainedRecord, Explanation
from agents.why.harm import Harm, Verdict, WorkloadPast
from schemas.decision_subjects import Subject
from schemas.decisions.node_updates import NodeRemovalPlanned
from schemas.decisions.pod_updates import ResizePlanned
from schemas.decisions.replica_plans import ReplicasPlanned, ScalingMode
from schemas.facts.pods import AdmissionNote, AmountsBefore, ContainerRun, ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.replica_scaling import HpaSeen, ScaleSeen
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Amounts, Place, PodName, Workload
from schemas.outcomes import Action, ActionFinished, Result
from schemas.units import Bytes, Cores
from tests.support import examples

AT, MIB = datetime(2026, 1, 5, 3, tzinfo=UTC), 1 << 20
CART = Workload("demo", "shop", "Deployment", "cart")
POD = PodName("shop", "cart-1", "u1")


def minutes(count: float) -> datetime:
    return AT + timedelta(minutes=count)


def amounts(mib: int | None, cpu: float | None = None) -> Amounts:
    return Amounts(None if cpu is None else Cores(cpu), None if mib is None else Bytes(mib * MIB))


def seen(at: float, limit: int | None, *, note: int | None = None, restarts: int = 0, **more: object) -> PodChanged:
    run = ContainerRun(minutes(at), reason="Error") if restarts else None
    on = ("memory",) if more.pop("restarts_on", False) else ()
    one = ContainerSeen("app", amounts(100), amounts(limit), restarts, restarts_on=on, last_run=run)
    admitted = None if note is None else AdmissionNote("o", (AmountsBefore("app", amounts(100), amounts(note)),))
    return PodChanged(minutes(at), CART, POD, PodPhase.RUNNING, AT, (one,), admitted=admitted, **more)  # type: ignore[arg-type]


def killed(at: float, limit: int | None, request: int = 100) -> ContainerOOMKilled:
    return ContainerOOMKilled(minutes(at), CART, POD, "app", 1, Bytes(request * MIB), amounts(limit).memory)


def did(action: Action, at: float, *, subject: Subject | None = None, decision: str = "d") -> ActionFinished:
    subject = subject or Subject.of_pod(CART, POD)
    return ActionFinished(f"{action}{at}", minutes(at), decision, action, Result.DONE, "done", subject)


def resize(at: float, limit: int) -> tuple[ResizePlanned, ActionFinished]:
    plan = ResizePlanned("d", minutes(at), minutes(at + 5), CART, POD, {}, {"app": amounts(limit)}, {}, {})
    return plan, did(Action.RESIZE, at)


@pytest.mark.parametrize(
    ("events", "verdict", "says"),
    [
        ([seen(0, 700), *resize(10, 300), killed(20, 300)], Verdict.OURS, "its owner had asked for a limit of 700.0 MiB"),
        ([seen(0, 300, note=700), killed(20, 300)], Verdict.OURS, "we lowered it"),
        ([seen(0, 700), killed(20, 700)], Verdict.NOT_OURS, "nothing of ours had changed the pod"),
        ([seen(0, 200), *resize(10, 400), killed(20, 400)], Verdict.NOT_OURS, "above the 200.0 MiB that its owner had asked for"),
        ([seen(0, 700), killed(20, 300)], Verdict.NOT_OURS, "somebody else lowered its limit from 700.0 MiB"),
        ([seen(0, 700, note=700), killed(20, 700)], Verdict.NOT_OURS, "no change of ours had moved it"),
        ([seen(0, None), did(Action.RESIZE, 5), killed(20, None, request=50)], Verdict.UNKNOWN, "from 100.0 MiB to 50.0 MiB"),
        ([seen(0, None), killed(20, None)], Verdict.NOT_OURS, "its node ran out of memory"),
        ([killed(20, 300)], Verdict.UNKNOWN, "no longer has the pod's beginning"),
    ],
)  # fmt: skip
def test_a_kill_is_ours_if_its_limit_was_below_the_owners_by_a_change_of_ours(
    events: list[object], verdict: Verdict, says: str
) -> None:
    [found] = harm.of_workload(WorkloadPast(events))
    assert found.verdict is verdict
    assert says in found.because


def test_what_was_changed_before_a_kill_and_what_was_done_since_are_named() -> None:
    before, after = resize(10, 300), did(Action.EVICT, 30, decision="e")
    found = harm.of_workload(WorkloadPast([seen(0, 700), *before, killed(20, 300), after, killed(25, 300)]))
    assert found[0].before == "2026-01-05 03:10:00 resize of cart-1: memory limit 700.0 MiB to 300.0 MiB"
    assert found[0].since == ("2026-01-05 03:30:00 evict of cart-1", "1 more kills of container 'app' in the workload")


def test_a_pod_that_was_there_before_the_log_begins_may_have_been_changed_by_us() -> None:
    past = WorkloadPast([seen(60, 300), killed(70, 300)], complete_since=minutes(30))
    assert harm.of_workload(past)[0].verdict is Verdict.UNKNOWN


def restarted(*events: object, on: bool) -> Harm:
    [found] = harm.of_workload(WorkloadPast([seen(0, 700), *events, seen(20, 700, restarts=1, restarts_on=on)]))
    return found


def test_a_restart_is_ours_where_a_resize_restarts_the_container() -> None:
    assert restarted(*resize(15, 700), on=True).verdict is Verdict.OURS
    assert restarted(*resize(15, 700), on=False).verdict is Verdict.NOT_OURS
    assert restarted(on=True).verdict is Verdict.NOT_OURS


def test_a_pod_that_went_is_ours_if_its_node_went_by_us_or_fewer_replicas_were_planned() -> None:
    there, gone = seen(0, 700, node="n1"), PodDeleted(minutes(20), CART, POD)
    node = did(Action.REMOVE_NODE, 21 - 5, subject=Subject.of_node("demo", "n1"))
    plan = next(each for each in examples.EVENTS if isinstance(each, ReplicasPlanned))
    fewer = did(Action.SCALE, 18, subject=Subject.of_workload(CART), decision=plan.id)

    def verdict(*events: object) -> list[Verdict]:
        return [each.verdict for each in harm.of_workload(WorkloadPast([there, gone, *events]))]

    assert verdict() == [Verdict.NOT_OURS]
    assert verdict(node) == [Verdict.OURS]
    assert verdict(plan, fewer) == [Verdict.OURS if plan.replicas < plan.current else Verdict.NOT_OURS]
    assert verdict(did(Action.EVICT, 19)) == [], "an eviction of ours is explained by its decision"


def planned(at: float, current: int, replicas: int, by: ScalingMode = ScalingMode.HPA) -> ReplicasPlanned:
    plan = next(each for each in examples.EVENTS if isinstance(each, ReplicasPlanned))
    return replace(plan, at=minutes(at), workload=CART, current=current, replicas=replicas, carried_out_by=by, uid="e1")


def hpa(at: float, desired: int, owner: str = "e1") -> HpaSeen:
    seen = next(each for each in examples.EVENTS if isinstance(each, HpaSeen))
    return replace(seen, at=minutes(at), workload=CART, desired=desired, owner_uid=owner)


def scale(at: float, replicas: int) -> ScaleSeen:
    return ScaleSeen(minutes(at), CART, replicas, replicas, "app=cart")


@pytest.mark.parametrize(
    ("events", "verdict", "says"),
    [
        ([planned(2, 5, 3), hpa(3, 5), hpa(19, 3)], Verdict.OURS, "HPA 'ehpa-cart' scaled the workload from 5 to 3 replicas"),
        ([planned(2, 5, 5), hpa(3, 5), hpa(20.5, 4)], Verdict.OURS, "from 5 to 4 replicas"),
        ([planned(18, 5, 3), scale(1, 5), scale(19, 3)], Verdict.OURS, "its scale went from 5 to 3"),
        ([planned(18, 5, 3)], Verdict.UNKNOWN, "we had planned 3 replicas instead of 5"),
        ([planned(2, 5, 3), hpa(3, 5, "x"), hpa(19, 3, "x")], Verdict.NOT_OURS, "neither"),
        ([planned(2, 5, 5), scale(1, 5), scale(19, 3)], Verdict.NOT_OURS, "neither"),
        ([planned(18, 5, 3, ScalingMode.PREVIEW), scale(1, 5), scale(19, 3)], Verdict.NOT_OURS, "neither"),
        ([planned(2, 5, 5), hpa(3, 3), hpa(19, 5)], Verdict.NOT_OURS, "neither"),
        ([planned(2, 5, 3), hpa(1, 5), hpa(3, 3)], Verdict.NOT_OURS, "neither"),
    ],
    ids=["desired", "seen late", "scale", "nothing seen", "another's", "no plan", "preview", "grew", "long ago"],
)
def test_a_pod_that_an_hpa_of_ours_scaled_down_is_ours(events: list[object], verdict: Verdict, says: str) -> None:
    [found] = harm.of_workload(WorkloadPast([seen(0, 700), PodDeleted(minutes(20), CART, POD), *events]))
    assert found.verdict is verdict
    assert says in found.because


def test_why_shows_the_newest_ends_and_says_how_to_see_the_others() -> None:
    kills = [killed(at, 300) for at in range(1, 6)]
    harms = tuple(harm.of_workload(WorkloadPast([seen(0, 300), *kills])))
    shown = ExplainedRecord("record", None, Place("t", 0, 0))
    short = list(explanation_lines.lines(Explanation("cart", shown, (), harm=harms)))
    whole = list(explanation_lines.lines(Explanation("cart", shown, (), harm=harms), full=True))
    assert "   · 2 earlier ones are not shown: -v lists all" in short
    assert sum("OOM kill of" in line for line in short) == 3
    assert sum("OOM kill of" in line for line in whole) == 5
    assert not any("not shown" in line for line in whole)


def removal(at: float, *results: tuple[float, Result], names: PodName = POD) -> list[object]:
    """A plan to remove a pod's node, and what became of it."""
    plan = next(each for each in examples.EVENTS if isinstance(each, NodeRemovalPlanned))
    mine = replace(plan, id="r", at=minutes(at), expires=minutes(at + 60), cluster="demo", node="n1", evict=(names,), daemons=())
    act = did(Action.REMOVE_NODE, at, subject=Subject.of_node("demo", "n1"), decision="r")
    return [mine, *(replace(act, at=minutes(end), result=result) for end, result in results)]


@pytest.mark.parametrize(
    ("events", "verdict"),
    [
        (removal(10, (25, Result.DONE)), Verdict.OURS),
        (removal(10, (25, Result.FAILED)), Verdict.UNKNOWN),
        (removal(10), Verdict.UNKNOWN),
        (removal(10, (11, Result.REFUSED)), Verdict.NOT_OURS),
        (removal(21, (25, Result.DONE)), Verdict.NOT_OURS),
    ],
    ids=["done", "failed", "open", "refused", "planned later"],
)
def test_pods_go_before_the_outcome_of_their_nodes_removal(events: list[object], verdict: Verdict) -> None:
    past = WorkloadPast([seen(0, 700, node="n1"), PodDeleted(minutes(20), CART, POD), *events])
    [found] = harm.of_workload(past)
    assert found.verdict is verdict


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        ([Result.DONE], Verdict.OURS),
        ([Result.EXPIRED], Verdict.UNKNOWN),
        ([], Verdict.UNKNOWN),
        ([Result.REFUSED], Verdict.NOT_OURS),
    ],
)
def test_a_kill_may_come_between_a_limit_of_ours_and_its_outcome(results: list[Result], verdict: Verdict) -> None:
    plan, act = resize(10, 300)
    later = [replace(act, at=minutes(12), result=result) for result in results]
    [found] = harm.of_workload(WorkloadPast([seen(0, 700), plan, killed(11, 300), *later]))
    assert found.verdict is verdict


def test_a_container_may_restart_before_the_outcome_of_the_resize_that_restarts_it() -> None:
    plan, act = resize(15, 700)
    assert restarted(plan, replace(act, at=minutes(21)), on=True).verdict is Verdict.OURS


def test_what_the_owner_wanted_cannot_be_known_of_a_pod_whose_beginning_is_lost_whatever_we_did_since() -> None:
    past = WorkloadPast([seen(60, 300), *resize(65, 400), killed(70, 400)], complete_since=minutes(30))
    assert harm.of_workload(past)[0].verdict is Verdict.UNKNOWN


def test_why_answers_for_a_workload_for_a_pod_that_we_never_touched_and_for_one_kill(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = (Path(__file__).parents[3] / "docs/scenarios/storm.yaml").read_text().replace("length: 1h", "length: 15m")
    (tmp_path / "storm.yaml").write_text(scenario)
    assert cli.run(["simulate", str(tmp_path / "storm.yaml"), "--keep", str(tmp_path)]) == 0
    log = str(tmp_path / "log.jsonl")
    capsys.readouterr()
    assert cli.run(["tap", "oom-events", "--log", log, "-o", "jsonl"]) == 0
    kills = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "ContainerOOMKilled" in line]
    assert len(kills) == 3
    for asked, count in (("shop/cart", 3), (kills[0]["place"], 1), (kills[0]["value"]["pod"]["name"], 1)):
        assert cli.run(["why", asked, "--log", log, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)["harm"]
        assert len(found) == count
        assert {each["verdict"] for each in found} == {"not ours"}
