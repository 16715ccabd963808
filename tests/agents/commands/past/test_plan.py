"""`ullage plan` and `why-not`: what would be done to pods now, and why one is left alone, from a log alone."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents import cli
from agents.commands.past import why_not
from agents.logic.guards.guard_records import in_words
from agents.logic.updates import successor_nodes
from schemas.decision_subjects import Subject, SubjectKind
from schemas.decisions.pod_updates import UpdateRefused
from schemas.facts.nodes import NodeChanged
from schemas.facts.pods import AdmissionNote, AmountsBefore, ContainerSeen, PodChanged, PodPhase
from schemas.facts.update_facts import SERVICE_ACCOUNT, ObjectMetadataChanged
from schemas.names import Amounts, Workload
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged
from schemas.units import Bytes, Cores
from streams.log.file_log import FileLog
from tests.support import demo_hour_log
from tests.support.cluster_events import API, GIB, MINUTE, START, pod, vpa, when
from tests.support.updater_log import UpdaterLog, recommended

CART = Workload("demo", "shop", "Deployment", "cart")
OFF = Workload("demo", "shop", "Deployment", "off")
FINE = Workload("demo", "shop", "Deployment", "fine")
ALONE = Workload("demo", "shop", "Deployment", "alone")
NOW = START + 10 * MINUTE
OFF_MODE = f"policy '{OFF.key}' has update mode 'Off', which leaves running pods alone"
BUDGET = "1 of the cluster's 12 pods are away or being changed; the budget is 0.1 of them"
MODES = {"*": UpdateMode.IN_PLACE_OR_RECREATE, CART.key: UpdateMode.RECREATE, OFF.key: UpdateMode.OFF}


def pods_of(workload: Workload, count: int, cpu: float = 1.0) -> list[PodChanged]:
    seen = ContainerSeen("app", Amounts(cpu, GIB), Amounts(2 * cpu, 2 * GIB))  # type: ignore[arg-type]  # units
    return [pod(f"{workload.name}-{i}", START, workload=workload, containers=(seen,)) for i in range(count)]


@pytest.fixture
def shop(tmp_path: Path) -> UpdaterLog:
    """3 pods to resize in place, 2 to restart, 4 of a policy Off, 2 that fit, and 1 without a second replica."""
    log = UpdaterLog(tmp_path / "log.jsonl")
    policies = [VerticalPolicyChanged(when(START), target, "1", mode) for target, mode in MODES.items()]
    pods = [*pods_of(API, 3), *pods_of(CART, 2), *pods_of(OFF, 4), *pods_of(FINE, 2, 0.2), *pods_of(ALONE, 1)]
    log.turn(START, *policies, *pods)
    log.turn(NOW, *[recommended(NOW, each) for each in (API, CART, OFF, FINE, ALONE)])
    return log


def test_a_log_that_is_older_than_node_scaling_is_planned_and_explained_for_pods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = UpdaterLog(tmp_path / "log.jsonl", without=("node-group-changes", "scheduling-changes", "load-metrics"))
    log.turn(START, VerticalPolicyChanged(when(START), "*", "1", UpdateMode.IN_PLACE_OR_RECREATE), *pods_of(API, 3))
    log.turn(NOW, recommended(NOW, API))
    assert log.run("plan") == 0
    said = capsys.readouterr().out
    assert "  3 pods resized in place: " in said
    assert log.run("why-not", "web/api-0") == 0
    assert "api-0" in capsys.readouterr().out
    assert log.run("why-not", "node", "n1") == 2
    assert "nothing is known of node 'n1'" in capsys.readouterr().err


def planned(log: UpdaterLog, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    assert log.run("plan", "-o", "json") == 0
    return json.loads(capsys.readouterr().out)


def test_a_plan_says_how_many_pods_would_be_resized_restarted_and_left_alone_and_writes_nothing(
    shop: UpdaterLog, capsys: pytest.CaptureFixture[str]
) -> None:
    before = shop.ends()
    assert shop.run("plan") == 0
    assert capsys.readouterr().out.splitlines() == [
        "This only looks: nothing is changed.",
        "cluster 'demo' is in mode shadow: nobody has set a mode; at 2026-01-01 00:10:00 UTC",
        "What would be done if its mode were apply:",
        "  3 pods resized in place: 0 at once, 3 after 'budget'",
        "    web/Deployment/api  3 pods: app cpu 1000m to 200m, memory 1.00 GiB as now",
        "  2 pods restarted: 1 at once, 1 after 'tolerance'",
        "    shop/Deployment/cart  2 pods: app cpu 1000m to 200m, memory 1.00 GiB as now",
        "  5 pods left alone",
        f"    4 pods: {in_words('mode', OFF_MODE)}",
        f"    1 pod: {in_words('replicas', 'the workload has 1 pod; fewer than 2 are left alone')}",
        "  2 other pods need no change now",
        "    2 request amounts within the recommended bounds",
        "New pods would get:",
        "  shop/Deployment/alone  app cpu 1000m to 200m, memory 1.00 GiB as now",
        "  shop/Deployment/cart  app cpu 1000m to 200m, memory 1.00 GiB as now",
        "  web/Deployment/api  app cpu 1000m to 200m, memory 1.00 GiB as now",
    ]
    assert shop.ends() == before


def test_pods_of_a_workload_that_request_different_amounts_are_listed_with_the_least_and_the_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = UpdaterLog(tmp_path / "log.jsonl")
    unlike = [*pods_of(API, 1, 1.0), *pods_of(API, 2, 2.0)[1:], *pods_of(API, 3, 0.5)[2:]]
    log.turn(START, VerticalPolicyChanged(when(START), "*", "1", UpdateMode.IN_PLACE_OR_RECREATE), *unlike)
    log.turn(NOW, recommended(NOW, API))
    assert log.run("plan") == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "Deployment/api" in line)
    assert line == "    web/Deployment/api  3 pods: app cpu 500m..2000m to 200m, memory 1.00 GiB as now"


def test_the_plan_as_json_agrees_and_names_every_pod(shop: UpdaterLog, capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(shop, capsys)
    assert found["summary"] == {
        "resized_in_place": 3,
        "restarted": 2,
        "at_once": 1,  # 10 % of 12 pods
        "waiting": {"budget": 3, "tolerance": 1},
        "left_alone": {"mode": 4, "replicas": 1},
        "unchanged": {"fitting": 2},
    }
    [first] = [each for each in found["pods"] if each["at_once"]]
    assert first["from"] == {"app": {"cpu": 1.0, "memory": GIB}}
    assert first["to"] == {"app": {"cpu": 0.2, "memory": GIB}}


def test_a_plan_with_nothing_to_do_says_why_each_pod_needs_no_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = UpdaterLog(tmp_path / "log.jsonl")
    governed = [VerticalPolicyChanged(when(START), each.key, "1", UpdateMode.RECREATE) for each in (FINE, CART)]
    log.turn(START, *governed, *pods_of(FINE, 2, 0.2), *pods_of(CART, 1), *pods_of(OFF, 3))
    log.turn(NOW, recommended(NOW, FINE))
    assert log.run("plan") == 0
    assert capsys.readouterr().out.splitlines()[3:] == [
        "  nothing",
        "  6 other pods need no change now",
        "    3 have no policy and no VPA",
        "    2 request amounts within the recommended bounds",
        "    1 has no recommendation yet",
    ]


def test_a_pod_whose_vpa_another_recommender_serves_is_said_to_be_not_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = UpdaterLog(tmp_path / "log.jsonl")
    log.turn(START, vpa(recommenders=("other",)), *pods_of(API, 1, 0.2))
    log.turn(NOW, recommended(NOW, API))
    assert log.run("plan") == 0
    assert "    1 has a VPA that another recommender serves" in capsys.readouterr().out.splitlines()
    assert log.run("why-not", "web/api-0") == 0
    assert "another recommender serves the VPA of" in capsys.readouterr().out


def test_what_the_plan_calls_at_once_is_what_the_updater_decides(shop: UpdaterLog, capsys: pytest.CaptureFixture[str]) -> None:
    at_once = [each["uid"] for each in planned(shop, capsys)["pods"] if each["at_once"]]
    assert at_once == [each.pod.uid for each in shop.decide() if not isinstance(each, UpdateRefused)] == ["uid-cart-0"]


def test_in_shadow_the_plans_that_nobody_carried_out_hold_nothing_back(
    shop: UpdaterLog, capsys: pytest.CaptureFixture[str]
) -> None:
    before = planned(shop, capsys)["summary"]
    shop.turn(NOW + MINUTE)
    assert planned(shop, capsys)["summary"] == before


def test_mode_plan_is_one_record_and_a_pause_leaves_everything_alone(
    shop: UpdaterLog, capsys: pytest.CaptureFixture[str]
) -> None:
    before = shop.ends()
    assert shop.run("mode", "plan") == 0
    assert {name: end - before[name] for name, end in shop.ends().items() if end != before[name]} == {
        "control": 1,
        "control-latest": 2,
    }
    assert shop.run("pause", "--reason", "INC-1") == 0
    shop.turn(NOW + 1000)
    found = planned(shop, capsys)
    assert (found["mode"], found["paused"]) == ("plan", True)
    assert found["summary"]["left_alone"] == {"mode": 4, "paused": 6}


@pytest.mark.parametrize(
    ("asked", "answers"),
    [
        ("fine-0", ["web/fine-0: left alone: its requests lie within the recommended bounds, so it need not be changed"]),
        (
            "web/off-1",
            [
                "web/off-1: should be changed (outside its bounds), by eviction",
                f"  no: {in_words('mode', OFF_MODE)}",
            ],
        ),
        (
            "uid-api-1",
            [f"  waits: {in_words('budget', BUDGET)}"],
        ),
        ("uid-cart-0", ["  no: nobody has set the mode of cluster 'demo' yet, so it is shadow"]),
    ],
)
def test_why_not_answers_for_one_pod(
    shop: UpdaterLog, asked: str, answers: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert shop.run("why-not", asked) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line for line in answers if line not in out] == []


def test_why_not_of_a_pod_that_nobody_knows_says_so(shop: UpdaterLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert shop.run("why-not", "shop/nobody") != 0
    assert "no source has published a pod 'shop/nobody'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("workload", "shop/Deployment/cart"), ("shop/Deployment/cart",), ("shop/cart",), ("cart",)])
def test_why_not_answers_for_all_pods_of_a_workload(
    shop: UpdaterLog, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert shop.run("why-not", *words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" of ")[0] for line in lines] == ["1 pod", "1 pod"]
    assert all(line.split(" of ")[1].startswith("demo/shop/Deployment/cart: should be changed") for line in lines)
    assert sum("guard 'tolerance' says" in line for line in lines) == 1
    assert not [line for line in lines if "  " in line]


def test_why_not_of_a_workload_looks_at_the_cluster_once(shop: UpdaterLog, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[str]()
    real = why_not.outlook
    monkeypatch.setattr(why_not, "outlook", lambda updater, cluster: looks.append(cluster) or real(updater, cluster))
    assert shop.run("why-not", "workload", "shop/Deployment/cart") == 0
    assert looks == ["demo"]


def test_one_word_may_name_a_workload_and_a_pending_pod_says_that_no_node_is_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = UpdaterLog(tmp_path / "log.jsonl")
    log.turn(START, *pods_of(API, 1, 0.2), pod("waits", START, phase=PodPhase.PENDING))
    log.turn(NOW)
    assert log.run("why-not", "web/Deployment/api") == 0
    said = capsys.readouterr().out
    assert "1 pod of demo/web/Deployment/api: left alone: no policy and no VPA governs" in said
    assert "1 pod of demo/web/Deployment/api: left alone: it waits for a node" in said
    assert log.run("why-not", "waits") == 0
    assert "  it is pending, and node scaling is off for cluster 'demo'" in capsys.readouterr().out
    assert log.run("why-not", "node", "n1") == 2
    assert "nothing is known of node 'n1': node scaling is off for cluster 'demo'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cores", "says"),
    [
        (None, "no source reports nodes, so nobody knows whether one could take it"),
        (0.5, "it requests 1000m and 1.00 GiB, which none has: node 'n1' has most, 500m and 8.00 GiB beside DaemonSets"),
        (4.0, "one could take it but for other pods, or for a rule of the scheduler"),
    ],
)
def test_pods_that_wait_for_a_node_are_told_from_others_with_what_nodes_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, cores: Cores | None, says: str
) -> None:
    """A count looks at no nodes for them, because thousands may wait."""
    log = UpdaterLog(tmp_path / "log.jsonl")
    nodes = [] if cores is None else [NodeChanged(when(START), "demo", "n1", Amounts(cores, Bytes(8 * GIB)))]
    waits = [pod(name, START, phase=PodPhase.PENDING, node=None) for name in ("a", "b")]
    log.turn(START, VerticalPolicyChanged(when(START), "*", "1", UpdateMode.RECREATE), *nodes, *waits)
    log.turn(NOW)
    assert log.run("why-not", "web/Deployment/api") == 0
    assert f"2 pods of demo/web/Deployment/api: left alone: it waits for a node: {says}" in capsys.readouterr().out
    monkeypatch.delattr(successor_nodes, "waiting")
    assert log.run("plan") == 0
    assert "    2 wait for a node" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        (UpdateMode.INITIAL, "its new pods get what is recommended"),
        (UpdateMode.OFF, "its new pods get nothing of it, either"),
    ],
)
def test_why_not_tells_a_mode_for_new_pods_from_one_for_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: UpdateMode, says: str
) -> None:
    log = UpdaterLog(tmp_path / "log.jsonl")
    log.turn(START, VerticalPolicyChanged(when(START), OFF.key, "1", mode), *pods_of(OFF, 2))
    log.turn(NOW, recommended(NOW, OFF))
    assert log.run("why-not", "shop/Deployment/off") == 0
    reason = f"policy '{OFF.key}' has update mode '{mode}', which leaves running pods alone"
    assert f"{in_words('mode', reason)}; {says}" in capsys.readouterr().out


def test_why_not_names_the_label_of_the_service_account_that_protects_a_pod(
    shop: UpdaterLog, capsys: pytest.CaptureFixture[str]
) -> None:
    account = ObjectMetadataChanged(when(START), "demo", SERVICE_ACCOUNT, "web", "billing", labels={"critical": "true"})
    shop.turn(NOW + MINUTE, account, replace(pods_of(API, 1)[0], service_account="billing"))
    setting = "--set", "updates.protected_labels=ServiceAccount:critical=true"
    reason = "the pod's ServiceAccount 'billing' is protected by its label 'critical=true'"
    for number, words, says in ((0, setting, True), (1, setting, False), (0, (), False)):
        capsys.readouterr()
        assert shop.run("why-not", f"web/api-{number}", *words) == 0
        first, *others = capsys.readouterr().out.splitlines()
        assert first.endswith("by a resize in place")
        assert (f"  no: {in_words('protected', reason)}" in others) == says


def test_the_plan_says_what_new_pods_of_each_workload_would_get(shop: UpdaterLog, capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(shop, capsys)["new_pods"]
    assert {each["workload"] for each in found} == {API.key, CART.key, ALONE.key}
    assert {(each["container"], each["from"]["cpu"], each["to"]["cpu"]) for each in found} == {("app", 1.0, 0.2)}
    assert shop.run("plan") == 0
    assert "New pods would get:\n  shop/Deployment/alone  app cpu 1000m to 200m" in capsys.readouterr().out


def test_a_new_pod_begins_with_what_its_owner_asks_for_and_not_with_our_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = UpdaterLog(tmp_path / "log.jsonl")
    note = AdmissionNote("4f1d", (AmountsBefore("app", Amounts(0.8, GIB)),))  # type: ignore[arg-type]  # units
    ours = (ContainerSeen("app", Amounts(0.2, GIB)),)  # type: ignore[arg-type]  # units
    log.turn(START, VerticalPolicyChanged(when(START), "*", "1"), pod("a", START, admitted=note, containers=ours))
    log.turn(NOW, recommended(NOW, API))
    [found] = planned(log, capsys)["new_pods"]
    assert (found["from"]["cpu"], found["to"]["cpu"]) == (0.8, 0.2)


def test_a_pod_without_a_controller_is_promised_nothing_for_a_new_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """autoscaler#3986 asks for evictions of single pods. Before: "New pods would get" for one that the webhook leaves alone."""
    bare = Workload("demo", "web", "Pod", "alone")
    log = UpdaterLog(tmp_path / "log.jsonl")
    policy = VerticalPolicyChanged(when(START), "*", "1", UpdateMode.RECREATE)
    log.turn(START, policy, pod("alone", START, workload=bare, controller=""), *pods_of(API, 2, 1.0))
    log.turn(NOW, recommended(NOW, API), recommended(NOW, bare))
    assert [each["workload"] for each in planned(log, capsys)["new_pods"]] == [API.key]
    assert log.run("why-not", "alone") == 0
    reason = "no controller would make the pod anew; a controller with more replicas, a lower minReplicas, or, where"
    assert reason in " ".join(capsys.readouterr().out.split())


def test_why_not_names_the_pause_of_a_workload_whose_patched_pods_do_not_come(
    shop: UpdaterLog, capsys: pytest.CaptureFixture[str]
) -> None:
    subjects = [Subject(SubjectKind.POD, "demo", f"{each.name}-%", each.namespace, workload=each.key) for each in (CART, FINE)]
    lost = [
        ActionFinished(f"o-{n}", when(NOW), "d", Action.PATCH, Result.LOST, "none came", subject, OutcomeDetail.NOT_SEEN)
        for n, subject in enumerate(subjects)
    ]
    shop.turn(NOW + MINUTE, *lost)
    for asked, before in (("cart-0", "waits: guard 'unpatched' says: "), ("fine-0", ""), ("shop/Deployment/fine", "")):
        capsys.readouterr()
        assert shop.run("why-not", asked) == 0
        workload = (CART if "cart" in asked else FINE).key
        said = f"  {before}new pods of '{workload}' are left as they are until 00:30:00 UTC: none came"
        assert capsys.readouterr().out.count(said) == 1


@pytest.mark.parametrize("words", [("plan",), ("why-not", "shop/cart"), ("why-not", "cart-0", "--set", "log.at=00:09")])
def test_a_log_is_opened_once_for_all_stages_that_answer(
    words: tuple[str, ...], shop: UpdaterLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To find the records of a large file takes a part of the second within which an answer comes."""
    opened = []

    def counted(self: FileLog, path: Path, *rest: Any) -> None:
        opened.append(path)
        open_file(self, path, *rest)

    open_file = FileLog.__init__
    monkeypatch.setattr(FileLog, "__init__", counted)
    shop.run(*words)
    assert len(opened) == 1


def test_an_answer_from_before_the_newest_tick_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a topic lost its end its readers take no turn any more, though the clock ticks."""
    path = demo_hour_log.keep(tmp_path, hours=0.4)
    lines = path.read_text().splitlines(keepends=True)
    ours = [line for line in lines if line.startswith('{"at":"ullage.recommendations-by-cluster.v1:')]
    lost = set(ours[len(ours) // 2 :])
    path.write_text("".join(line for line in lines if line not in lost))
    assert cli.run(["why-not", "shop/web", "--log", str(path)]) == 0
    said = capsys.readouterr().err
    assert re.search(
        r"this is as of 2026-01-05 00:\d\d:\d\d UTC, .* before the newest tick: what stage 'updater' reads lacks", said
    ), said


def test_a_clock_that_ticks_is_not_blamed_for_an_input_that_is_lost(
    shop: UpdaterLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    log.write_text("".join(line for line in lines if '"at":"ullage.rules.v1' not in line), encoding="utf-8")
    for words in (("plan",), ("why-not", "web/api-0")):
        assert shop.run(*words) == 2
        said = capsys.readouterr().err
        assert "no turn that is complete yet: the clock ticks, but what stage 'updater' reads lacks records" in said
