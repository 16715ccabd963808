"""`ullage revert`: what was applied is planned back under the same guards, held until it ends, and only printed in shadow."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.logic.admission.admission_index import AdmissionIndex
from schemas.decision_subjects import Subject
from schemas.decisions.pod_updates import ResizePlanned, UpdateRefused
from schemas.facts.pods import AdmissionNote, AmountsBefore, ContainerSeen
from schemas.names import Amounts, Place, PodName
from schemas.outcomes import Action, ActionFinished, AdmittedAmounts, ChangedContainer, OutcomeDetail, Result
from schemas.policies.control import ControlChanged, Mode, RevertEnded, RevertRequested
from schemas.policies.vertical import VerticalPolicyChanged
from schemas.units import Fraction
from tests.support.cluster_events import API, GIB, MINUTE, START, pod, when
from tests.support.updater_log import UpdaterLog, recommended

NOW = START + 10 * MINUTE
POLICY = VerticalPolicyChanged(when(START), "*", "1")
BEFORE, LIMITS = Amounts(1.0, GIB), Amounts(2.0, 2 * GIB)  # type: ignore[arg-type]  # units
AFTER = ContainerSeen("app", Amounts(0.2, GIB), Amounts(0.4, 2 * GIB))  # type: ignore[arg-type]  # units


def done(plan: Any) -> ActionFinished:
    return ActionFinished(
        f"{plan.id}/resize/x",
        plan.at,
        plan.id,
        Action.RESIZE,
        Result.DONE,
        "so",
        plan.subject,
        OutcomeDetail.APPLIED,
    )


@pytest.fixture
def shop(tmp_path: Path) -> UpdaterLog:
    """Three pods of one workload, of which one was resized a minute ago."""
    log = UpdaterLog(tmp_path / "log.jsonl")
    log.turn(START, POLICY, *[pod(name, START) for name in "abc"])
    log.turn(NOW - 1000, ControlChanged(when(START), "demo", Mode.APPLY, budget=Fraction(1.0)))
    log.turn(NOW, recommended(NOW, API))
    [plan] = [each for each in log.decide() if isinstance(each, ResizePlanned)]
    log.turn(NOW + 1000, done(plan), pod("a", NOW, containers=(AFTER,)))
    return log


def plans(log: UpdaterLog) -> list[Any]:
    return [each for each in log.decide() if isinstance(each, ResizePlanned)]


def test_what_was_applied_is_planned_back_with_its_limits_at_once_and_then_left_so(shop: UpdaterLog) -> None:
    assert shop.run("revert", "--since", "1h", "--reason", "INC-1") == 0
    shop.turn(NOW + 2 * MINUTE, *[pod(name, NOW + MINUTE) for name in "bc"])
    # the replay of the log decides again what was decided at NOW; the revert is what follows
    [back] = [each for each in plans(shop) if each.at > when(NOW)]
    assert (back.pod.name, back.because["why"]) == ("a", ["to be as it was before"])
    assert back.because["reverted"]["reason"] == "INC-1"
    assert (back.requests, back.limits) == ({"app": BEFORE}, {"app": LIMITS})
    assert back.expect == {"app": AFTER.requests}
    shop.turn(NOW + 3 * MINUTE, done(back), pod("a", NOW + 2 * MINUTE))
    shop.turn(NOW + 60 * MINUTE, recommended(NOW + 60 * MINUTE, API))
    assert [each for each in plans(shop) if each.at > when(NOW + 2 * MINUTE)] == []


def test_a_revert_waits_behind_the_same_guards(shop: UpdaterLog) -> None:
    assert shop.run("revert", "--since", "1h") == 0
    assert shop.run("pause", "--reason", "INC-1") == 0
    shop.turn(NOW + 2 * MINUTE)
    refused = [each for each in shop.decide() if isinstance(each, UpdateRefused) and each.at > when(NOW)]
    assert {(each.guard, each.pod.name) for each in refused} == {("paused", "a")}


def test_recommendations_count_again_when_the_revert_ends(shop: UpdaterLog, capsys: pytest.CaptureFixture[str]) -> None:
    shop.run("revert", "--since", "1h")
    shop.turn(NOW + 2 * MINUTE)
    assert shop.run("revert", "--end") == 0
    assert capsys.readouterr().out.endswith(f"{API.key}: recommendations count again\n")
    later = NOW + 30 * MINUTE
    shop.turn(later, recommended(later, API))
    assert {each.requests["app"].cpu for each in plans(shop) if each.at == when(later)} == {0.2}


def test_programs_get_the_amounts_that_come_back(shop: UpdaterLog, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert shop.run("revert", "--since", "1h", "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    amounts = {"requests": {"app": {"cpu": 1.0, "memory": GIB}}, "limits": {"app": {"cpu": 2.0, "memory": 2 * GIB}}}
    assert (found["asked_for"], found["workloads"]) == (True, [{"workload": API.key, **amounts}])
    shop.turn(NOW + 2 * MINUTE)
    assert shop.run("revert", "--end", "-o", "yaml") == 0
    assert yaml.safe_load(capsys.readouterr().out) == {"ended": [API.key]}


def test_a_name_that_matches_nothing_that_was_changed_is_refused(shop: UpdaterLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert shop.run("revert", "api", "--since", "1h") == 2
    assert capsys.readouterr().err.endswith(" UTC, but to web/Deployment/api\n")
    assert shop.run("revert", "web/*", "--since", "1h") == 0
    assert shop.run("revert", "api", "--end") == 2
    assert "no revert is in force for 'api', but for web/Deployment/api" in capsys.readouterr().err


def test_in_shadow_a_revert_is_only_printed(shop: UpdaterLog, capsys: pytest.CaptureFixture[str]) -> None:
    shop.run("mode", "shadow")
    before = shop.ends()
    capsys.readouterr()
    assert shop.run("revert", "web/*", "--since", "2026-01-01T00:00:00Z") == 0
    assert capsys.readouterr().out.splitlines() == [
        "web/Deployment/api  back to app 1000m / 1.00 GiB",
        "only printed: the mode of cluster 'demo' is not apply",
    ]
    assert shop.ends() == before


def test_what_a_container_did_not_request_is_not_promised_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, bare = UpdaterLog(tmp_path / "log.jsonl"), Amounts()
    half = Amounts(cpu=BEFORE.cpu)
    seen = [ContainerSeen("app", BEFORE, LIMITS), ContainerSeen("bare", bare, bare), ContainerSeen("half", half, bare)]
    resized = [AFTER, ContainerSeen("bare", AFTER.requests, bare), ContainerSeen("half", AFTER.requests, bare)]
    api = recommended(NOW, API)
    api = replace(api, containers=tuple(replace(api.containers[0], container=each.name) for each in seen))
    log.turn(START, POLICY, *[pod(name, START, containers=tuple(seen)) for name in "ab"])
    log.turn(NOW - 1000, ControlChanged(when(START), "demo", Mode.APPLY, budget=Fraction(1.0)))
    log.turn(NOW, api)
    log.turn(NOW + 1000, *map(done, plans(log)), *[pod(name, NOW, containers=tuple(resized)) for name in "ab"])
    capsys.readouterr()
    assert log.run("revert", "--since", "1h") == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "web/Deployment/api  back to app 1000m / 1.00 GiB; bare as it is / as it is; half 1000m / as it is",
        "as it is: nothing was requested before, and no request of a running pod can be taken away",
    ]
    log.turn(NOW + 2 * MINUTE)
    assert log.run("plan") == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if "web/Deployment/api" in line]
    assert line.endswith(": app cpu 200m to 1000m, memory 1.00 GiB as now; half cpu 200m to 1000m")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--since", "yesterday"), "--since 'yesterday' is neither a time ago"),
        (("--since", "2026-01-01T00:00:00"), "is neither a time ago"),
        ((), "revert takes one of --since and --end"),
        (("--since", "1h", "--end"), "revert takes one of --since and --end"),
    ],
)
def test_what_cannot_be_understood_is_said(
    shop: UpdaterLog, words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shop.run("revert", *words) != 0
    assert says in capsys.readouterr().err


def test_nothing_is_put_back_that_was_applied_before(shop: UpdaterLog, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert shop.run("revert", "--since", "2026-01-01T00:10:01Z") == 0
    assert capsys.readouterr().out == "nothing was applied to '*' since 2026-01-01 00:10:01 UTC\n"


def test_what_a_revert_put_back_is_not_put_back_by_the_next_one(shop: UpdaterLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert shop.run("revert", "--since", "1h") == 0
    shop.turn(NOW + 2 * MINUTE)
    [back] = [each for each in plans(shop) if each.at > when(NOW)]
    shop.turn(NOW + 3 * MINUTE, done(back), pod("a", NOW + 2 * MINUTE))
    capsys.readouterr()
    assert shop.run("revert", "--since", "2026-01-01T00:10:01Z") == 0
    assert capsys.readouterr().out.startswith("nothing was applied to '*' since ")


def test_the_webhook_leaves_new_pods_of_a_reverted_workload_alone() -> None:
    index, place = AdmissionIndex("demo", lambda _workload: None), Place("ullage.policies.v1", 0, 1)
    revert = RevertRequested(when(NOW), API, when(START), {"app": BEFORE})
    counts = []
    for event in (POLICY, revert, replace(revert, reason="again"), RevertEnded(when(NOW), API)):
        index.apply(event, place)
        counts.append(len(index.vpas(API.namespace, API.kind, API.name)))
    assert counts == [1, 0, 0, 1]


OWNERS = Amounts(0.8, 2 * GIB)  # type: ignore[arg-type]  # units
GIVEN = AFTER.requests, AFTER.limits


def admission(uid: str, at: int, before: Amounts = OWNERS) -> ActionFinished:
    """A pod of API was seen with what the webhook gave it instead of what its owner asked for."""
    containers = (ChangedContainer("app", before, LIMITS, *GIVEN),)
    return ActionFinished(
        f"recommender/0/{at}/requests/{API.key}/patch/{uid}",
        when(at),
        f"recommender/0/{at}/requests/{API.key}",
        Action.PATCH,
        Result.DONE,
        "a new pod was given this",
        Subject.of_pod(API, PodName("web", uid, uid)),
        OutcomeDetail.APPLIED,
        AdmittedAmounts("4f1d", "ReplicaSet/api-1", containers),
    )


def test_what_the_webhook_gave_is_put_back_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Issue 27, E: after a rollout `revert` said "nothing was applied"."""
    log = UpdaterLog(tmp_path / "log.jsonl")
    log.turn(START, POLICY, *[pod(name, START, containers=(AFTER,)) for name in "abc"])
    log.turn(NOW - 1000, ControlChanged(when(START), "demo", Mode.APPLY, budget=Fraction(1.0)))
    log.turn(NOW, admission("uid-a", NOW), recommended(NOW, API))
    capsys.readouterr()
    assert log.run("revert", "--since", "1h") == 0
    assert capsys.readouterr().out.splitlines()[0] == "web/Deployment/api  back to app 800m / 2.00 GiB"
    log.turn(NOW + 2 * MINUTE)
    back = next(each for each in plans(log) if each.at > when(NOW))
    assert (back.requests, back.limits) == ({"app": OWNERS}, {"app": LIMITS})


def test_what_was_offered_and_never_seen_was_not_applied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = UpdaterLog(tmp_path / "log.jsonl")
    never = [replace(admission(f"uid-{result}", NOW), result=result) for result in (Result.OFFERED, Result.LOST, Result.REFUSED)]
    log.turn(NOW, *never)
    assert log.run("revert", "--since", "1h") == 0
    assert capsys.readouterr().out.startswith("nothing was applied to '*'")


def test_a_pod_that_was_admitted_long_ago_goes_back_to_its_owners_amounts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it requested before the resize was our own figure, too; its note says what its owner asked for."""
    log = UpdaterLog(tmp_path / "log.jsonl")
    note = AdmissionNote("4f1d", (AmountsBefore("app", OWNERS, LIMITS),))
    log.turn(START, POLICY, *[pod(name, START, admitted=note) for name in "abc"])
    log.turn(NOW - 1000, ControlChanged(when(START), "demo", Mode.APPLY, budget=Fraction(1.0)))
    log.turn(NOW, recommended(NOW, API))
    [plan] = plans(log)
    log.turn(NOW + 1000, done(plan))
    capsys.readouterr()
    assert log.run("revert", "--since", "2026-01-01T00:00:00Z") == 0
    assert capsys.readouterr().out.splitlines()[0] == "web/Deployment/api  back to app 800m / 2.00 GiB"


def test_a_pod_that_we_changed_twice_goes_back_to_what_it_was_before_the_first_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = UpdaterLog(tmp_path / "log.jsonl")
    log.turn(START, POLICY, *[pod(name, START) for name in "abc"])
    log.turn(NOW - 1000, ControlChanged(when(START), "demo", Mode.APPLY, budget=Fraction(1.0)))
    log.turn(NOW, recommended(NOW, API))
    [first] = plans(log)
    log.turn(NOW + 1000, done(first), pod("a", START, at=when(NOW + 1000), containers=(AFTER,)))
    later = NOW + 90 * MINUTE
    log.turn(later, recommended(later, API, cpu=0.5))
    [second] = [each for each in plans(log) if each.at == when(later) and each.pod.name == "a"]
    log.turn(later + 1000, done(second))
    capsys.readouterr()
    assert log.run("revert", "--since", "30m") == 0
    assert capsys.readouterr().out.splitlines()[0] == "web/Deployment/api  back to app 1000m / 1.00 GiB"
