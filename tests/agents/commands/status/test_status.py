"""`ullage status` over a log in a file: who is at work, who waits for what, who is blind to what since when."""

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest

from agents import cli
from agents.cli.processes import ConsumerName
from agents.commands.status import status_rows
from agents.commands.status.status_rows import CONSUMERS
from agents.engine.checkpoint_selection import CheckpointMark
from agents.logic.guards.guard_records import in_words
from agents.logic.nodes.scaler.group_troubles import TroubleCode
from agents.settings.all_settings import Settings
from schemas.decision_subjects import Subject, SubjectKind
from schemas.decisions.node_updates import PODS_WAIT, NodeScalingHalted, RefusalCode, ScaleRefused
from schemas.decisions.pod_updates import ResizePlanned, UpdateRefused
from schemas.decisions.vpa_conditions import (
    ConditionStatus,
    ConditionType,
    DecidedCondition,
    MemoryLimitFound,
    VpaConditionsDecided,
)
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import WebhookLeaseSeen
from schemas.names import PodName, Workload
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from schemas.policies.control import Author, ControlChanged, KnownBy, Mode, RevertEnded, RevertRequested, StageRulesChanged
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged
from schemas.policies.vpa import VpaChanged
from schemas.units import Seconds
from streams import clock_log
from streams.clock_rules import FILL, ClockRecord
from streams.codec.event_codec import Codec
from streams.log.file_log import FileLog
from streams.log.log_port import NewRecord
from streams.publishing.operator_log import NewestTick, policy_records
from streams.sources.clock import TickWriter
from streams.topics import TOPICS, Topics, changelog_topic
from tests.support import ticks
from tests.support.consumer_scene import resize_of, scene_at_two

SHOP = Topics("ullage", 1)
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
MS = int(NOW.timestamp()) * 1000
APPLIED = ControlChanged(NOW - timedelta(hours=2), "demo", Mode.APPLY)


class Site:
    def __init__(self, path: Path, *, without: str = "") -> None:
        self.path, self.codec = path, Codec(SHOP)
        with FileLog.open_or_create(path) as log:
            for topic in TOPICS:
                if topic.name != without:
                    log.create(SHOP.wire(topic.name), 1)
            for stage in ("recommender", "conditions", "updater", "scaler", "forecaster"):
                log.create(changelog_topic("ullage", stage), 1)
        self.tick(MS)

    def append(self, records: list[NewRecord]) -> None:
        with FileLog(self.path) as log:
            log.append(records)

    def report(self, source: str, *sees: str, ago: float = 10, cluster: str = "demo", lacks: tuple[str, ...] = ()) -> None:
        event = SourceReported(NOW - timedelta(seconds=ago), cluster, source, sees, Seconds(30.0), lacks)
        self.append(self.codec.encode_for_all(event, topic="cluster-changes", key=cluster, source="/test"))

    def mark(self, stage: str, *, behind: float) -> None:
        mark = CheckpointMark(MS - int(behind * 1000), {}, {}, tick=(0, "t")).encode()
        self.append([NewRecord(changelog_topic("ullage", stage), 0, b"f/mark/0", mark)])

    def tick(self, number: int) -> None:
        with FileLog(self.path) as log:
            ticks.append(log, SHOP, number)

    def play(self, count: int, *, speed: int) -> None:
        """Ticks of one clock, a tenth of a second after the other, in a log that says when they were appended."""
        played_at = MS + 86_400_000
        numbers = [MS + speed * 100 * n for n in range(1, count + 1)]
        with FileLog(self.path, now=lambda: played_at + (numbers[0] - MS) // speed) as log:
            writer = TickWriter(log, SHOP)
            while numbers:
                writer.write(numbers[0])
                del numbers[0]

    def rows(self, capsys: pytest.CaptureFixture[str]) -> dict[tuple[str, str], tuple[str, str]]:
        """State and sentence of each part."""
        flags = ["--set", "log.kind=file", "--set", f"log.path={self.path}", "--set", "topics.partitions=1"]
        capsys.readouterr()
        assert cli.run(["status", "-o", "json", *flags]) == 0
        return {(row["what"], row["name"]): (row["state"], row["says"]) for row in json.loads(capsys.readouterr().out)}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "log.jsonl")


def test_a_source_is_at_work_blind_or_silent_by_its_own_reports(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.report("usage", "pod-metrics", ago=100)
    site.report("kube", "oom-events", "pod-changes", ago=70)
    site.report("kube", "pod-changes", ago=40)
    site.report("kube", "pod-changes", ago=10)
    rows = site.rows(capsys)
    assert rows["source", "kube"] == (
        "blind",
        "cluster 'demo'; last report 10.0 s ago; blind to oom-events since 2026-01-05 11:59:20",
    )
    assert rows["source", "usage"] == ("silent", "cluster 'demo'; last report 100.0 s ago: is it running?")
    site.report("usage", "pod-metrics", ago=0)
    assert site.rows(capsys)["source", "usage"] == ("at work", "cluster 'demo'; last report 0.0 s ago; sees pod-metrics")


def test_it_is_said_that_nothing_is_planned_on_pods_which_nobody_has_seen_for_ten_minutes(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.report("kube", "pod-changes", ago=601)
    says = "last report 10 min ago: is it running?; nothing is planned for pods, as none were seen for over 10 min"
    assert site.rows(capsys)["source", "kube"] == ("silent", f"cluster 'demo'; {says}")
    site.report("kube", "oom-events", ago=100)
    site.report("kube", "oom-events", ago=10)
    soon = "; blind to pod-changes since 2026-01-05 11:58:20; nothing is planned for pods once none were seen for 10 min"
    assert site.rows(capsys)["source", "kube"][1].endswith(soon)


def test_what_a_source_goes_on_without_is_said_and_a_warning(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.report("asg", "node-group-changes", lacks=("group 'web' is not in AWS", "instances are unseen"))
    says = "cluster 'demo'; last report 10.0 s ago; sees node-group-changes; but group 'web' is not in AWS; instances are unseen"
    assert site.rows(capsys)["source", "asg"] == ("at work", says)
    assert cli.run(["status", "--set", "log.kind=file", "--set", f"log.path={site.path}", "--set", "topics.partitions=1"]) == 0
    assert "at work !" in capsys.readouterr().out
    site.report("asg", "node-group-changes", ago=0)
    assert site.rows(capsys)["source", "asg"][1].endswith("sees node-group-changes")


def test_of_each_kind_of_object_the_one_that_changed_last_is_named_with_who_changed_it(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    alice = Author("kubectl-edit at 2026-01-05T11:00:00+00:00", KnownBy.CLUSTER)
    events: list[VpaChanged | EhpaChanged] = [
        VpaChanged(NOW, "demo", "shop", "cart", NOW, by=Author("argocd", KnownBy.CLUSTER)),
        VpaChanged(NOW, "demo", "shop", "web", NOW, by=alice),
        VpaChanged(NOW, "other", "shop", "far", NOW, by=alice),
        EhpaChanged(NOW, "demo", "shop", "web", created=NOW),
    ]
    site.append(policy_records(events, site.codec))
    rows = {name: said for (what, name), said in site.rows(capsys).items() if what == "objects"}
    assert rows == {
        "VerticalPodAutoscaler": ("mirrored", f"the last that changed is shop/web, by {alice}"),
        "EffectiveHorizontalPodAutoscaler": ("mirrored", "the last that changed is shop/web, the object does not say by whom"),
    }


def test_reverts_in_force_and_the_rules_that_changed_last_are_named_with_who_commanded_them(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not {what for what, _ in site.rows(capsys)} & {"revert", "rules"}
    alice, names = Author("alice", KnownBy.KAFKA), ("web", "cart", "api", "db", "ended")
    workloads = [Workload("demo", "shop", "Deployment", name) for name in names]
    reverts = [RevertRequested(NOW + timedelta(seconds=i), each, NOW, {}, by=alice) for i, each in enumerate(workloads)]
    far = RevertRequested(NOW, Workload("other", "shop", "Deployment", "far"), NOW, {})
    rules = [
        StageRulesChanged(NOW - timedelta(hours=age), stage, 1, {}, "v", by=by)
        for stage, age, by in (("recommender", 2, None), ("updater", 1, alice))
    ]
    site.append(policy_records([*reverts, far, RevertEnded(NOW, workloads[-1]), *rules], site.codec))
    rows = site.rows(capsys)
    says = (
        "shop/Deployment/api, shop/Deployment/cart, shop/Deployment/db and 1 more: left as they are until `ullage revert --end`"
    )
    assert rows["revert", "all"] == ("in force", f"{says}; the last is of shop/Deployment/db, by {alice}")
    assert rows["rules", "all"] == ("in force", f"the last that changed are those of updater, 2026-01-05 11:00 UTC, by {alice}")


def test_a_cluster_that_no_source_has_named_is_a_warning(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.report("kube", "pod-changes", cluster="prod")
    state, says = site.rows(capsys)["cluster", "demo"]
    assert (state, says) == ("unknown", "no source has named it; the log has 'prod': set cluster.name")


def test_a_stage_of_a_day_that_is_played_in_a_minute_is_neither_behind_nor_ahead(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.mark("updater", behind=0)
    site.play(64, speed=1200)
    site.mark("scaler", behind=6 * 86_400)
    site.mark("recommender", behind=-6 * 3600)
    rows = site.rows(capsys)
    assert rows["stage", "updater"][0] == rows["stage", "recommender"][0] == "at work"
    assert rows["stage", "scaler"][0] == "waiting"


def test_a_stage_is_at_work_or_waits(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.mark("updater", behind=250)
    site.mark("recommender", behind=360)
    rows = site.rows(capsys)
    assert rows["stage", "updater"] == ("at work", "no decision in the last hour")
    assert rows["stage", "recommender"] == (
        "waiting",
        "6 min behind in partition 0: is the worker running?; no decision in the last hour",
    )
    assert rows["stage", "scaler"] == (
        "not seen",
        "no worker of group 'ullage' has left a checkpoint; no decision in the last hour",
    )


def test_an_input_that_lost_its_end_is_a_warning(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    with FileLog(site.path) as log:
        newest = clock_log.newest(log, SHOP)
        assert newest is not None
        log.append([ClockRecord(MS + 500, "wrong", newest.place, {("oom-events", 0): 70}).encode(SHOP.wire("clock"))])
    says = "recommender wait: it ends at offset 0, and the clock has seen it end at 70"
    assert site.rows(capsys)["input", "oom-events:0"] == ("lost its end", says)


def test_a_stage_that_is_ahead_of_the_clock_waits_and_says_so(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.mark("updater", behind=-86_400)
    site.mark("recommender", behind=-60)
    rows = site.rows(capsys)
    says = (
        "24 h ahead of the clock, and takes no turn before that is over: was a clock's time wrong?; no decision in the last hour"
    )
    assert rows["stage", "updater"] == ("waiting", says)
    assert rows["stage", "recommender"] == ("at work", "no decision in the last hour")


def test_what_nobody_will_carry_out_is_said_as_what_it_would_be(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.mark("updater", behind=0)
    scene = scene_at_two()
    plan = resize_of(scene.pod())
    site.append([_decision(site, plan, n) for n in range(3)])
    said = site.rows(capsys)["stage", "updater"][1]
    assert said.endswith("in the last hour: 3 would resize")
    site.append(policy_records([ControlChanged(NOW, "demo", Mode.APPLY)], site.codec))
    assert site.rows(capsys)["stage", "updater"][1].endswith("in the last hour: 3 resize-planned")


def test_outcomes_are_counted_by_consumer_and_a_failure_is_a_warning(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.rows(capsys)["consumer", "all"] == ("idle", "no outcome in the last hour")
    scene = scene_at_two()
    subject = resize_of(scene.pod()).subject
    for n, result in enumerate((Result.DONE, Result.DONE, Result.FAILED)):
        event = ActionFinished(f"o{n}", NOW - timedelta(minutes=3), f"d{n}", Action.RESIZE, result, "as asked", subject)
        site.append([site.codec.encode(event, topic="outcomes", key="demo", partition=0, source="/test")])
    assert site.rows(capsys)["consumer", "resizer"] == ("acted", "last outcome 3 min ago; in the last hour: 2 done, 1 failed")


def test_a_consumer_with_several_acts_has_one_row(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    subject = resize_of(scene_at_two().pod()).subject
    acts = [(Action.SCALE_UP, Result.DONE), (Action.REMOVE_NODE, Result.REFUSED), (Action.SOFT_TAINT, Result.DONE)]
    for n, (action, result) in enumerate(acts):
        event = ActionFinished(f"o{n}", NOW - timedelta(minutes=3), f"d{n}", action, result, "as asked", subject)
        site.append([site.codec.encode(event, topic="outcomes", key="demo", partition=0, source="/test")])
    says = "last outcome 3 min ago; in the last hour: 1 remove-node refused, 1 scale-up done, 1 soft-taint done"
    assert site.rows(capsys)["consumer", "asg"] == ("acted", says)


def test_every_act_belongs_to_a_consumer_that_can_be_started() -> None:
    assert set(CONSUMERS) == set(Action)
    assert set(CONSUMERS.values()) <= set(get_args(ConsumerName))


def test_what_is_nothing_takes_no_place_among_the_outcomes_of_the_last_hour(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.append([NewRecord(SHOP.wire("outcomes"), 0, FILL, b"") for _ in range(1800)])
    assert site.rows(capsys)["consumer", "all"] == ("idle", "no outcome in the last hour")
    subject = resize_of(scene_at_two().pod()).subject
    event = ActionFinished("o", NOW - timedelta(minutes=30), "d", Action.RESIZE, Result.DONE, "as asked", subject)
    site.append([site.codec.encode(event, topic="outcomes", key="demo", partition=0, source="/test")])
    site.append([NewRecord(SHOP.wire("outcomes"), 0, FILL, b"") for _ in range(1800)])
    assert site.rows(capsys)["consumer", "resizer"] == ("acted", "last outcome 30 min ago; in the last hour: 1 done")


def test_a_plan_is_not_missing_an_outcome_that_was_too_long_ago_to_be_read(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.append(policy_records([APPLIED], site.codec))
    plan = replace(resize_of(scene_at_two().pod()), at=NOW - timedelta(minutes=25), expires=NOW - timedelta(minutes=15))
    site.append([site.codec.encode(plan, topic="pod-updates", key="demo", partition=0, source="/test")])
    assert ("consumer", "resizer in demo") in site.rows(capsys)
    for n in range(600):
        at = NOW - timedelta(minutes=20, seconds=-n)
        event = ActionFinished(f"o{n}", at, f"d{n}", Action.EVICT, Result.DONE, "as asked", plan.subject)
        site.append([site.codec.encode(event, topic="outcomes", key="demo", partition=0, source="/test")])
    assert ("consumer", "resizer in demo") not in site.rows(capsys)


def test_of_many_decisions_the_newest_are_counted(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.mark("updater", behind=0)
    plan = resize_of(scene_at_two().pod())
    site.append([_decision(site, plan, n) for n in range(600)])
    assert site.rows(capsys)["stage", "updater"][1].endswith("in the last hour: over 500 would resize")


@pytest.mark.parametrize(
    ("control", "expired", "answered", "silent"),
    [
        (APPLIED, 15, False, True),
        (APPLIED, 15, True, False),
        (APPLIED, 5, False, False),
        (replace(APPLIED, paused=True), 15, False, False),
        (replace(APPLIED, mode=Mode.PLAN), 15, False, False),
        (replace(APPLIED, at=NOW - timedelta(minutes=20)), 15, False, False),
    ],
)
def test_a_consumer_that_leaves_plans_without_an_outcome_is_silent(
    site: Site, capsys: pytest.CaptureFixture[str], *, control: ControlChanged, expired: int, answered: bool, silent: bool
) -> None:
    site.append(policy_records([control], site.codec))
    plan = resize_of(scene_at_two().pod())
    for n in range(3):
        made = replace(
            plan, id=f"updater/0/{MS}/resize/{n}", at=NOW - timedelta(minutes=25), expires=NOW - timedelta(minutes=expired)
        )
        site.append([site.codec.encode(made, topic="pod-updates", key="demo", partition=0, source="/test")])
    if answered:
        event = ActionFinished("o", NOW - timedelta(minutes=20), plan.id, Action.RESIZE, Result.EXPIRED, "late", plan.subject)
        site.append([site.codec.encode(event, topic="outcomes", key="demo", partition=0, source="/test")])
    says = "3 resize plans without an outcome, the newest 25 min old: is `ullage consumer resizer` at work?"
    assert site.rows(capsys).get(("consumer", "resizer in demo")) == (("silent", says) if silent else None)


@pytest.mark.parametrize(
    ("mode", "alive", "shown"),
    [
        (Mode.APPLY, [True, False], "waiting !"),
        (Mode.PLAN, [False], "waiting "),
        (Mode.APPLY, [False, True], ""),
        (Mode.SHADOW, [False], ""),
        (Mode.APPLY, [], ""),
    ],
)
def test_an_evictor_waits_for_a_webhook(
    site: Site, capsys: pytest.CaptureFixture[str], *, mode: Mode, alive: list[bool], shown: str
) -> None:
    site.append(policy_records([replace(APPLIED, mode=mode)], site.codec))
    for each in alive:
        seen = WebhookLeaseSeen(NOW, "demo", "ullage/ullage-webhook", each, "" if each else "there is no Lease 'x'")
        site.append([site.codec.encode(seen, topic="pod-changes-by-cluster", key="demo", partition=0, source="/test")])
    site.append([NewRecord(SHOP.wire("pod-changes-by-cluster"), 0, FILL, b"") for _ in range(3000)])
    says = "no pod is evicted while no admission webhook is at work: there is no Lease 'x'; start `ullage consumer webhook`"
    assert site.rows(capsys).get(("consumer", "evictor in demo")) == (("waiting", says) if shown else None)
    cli.run(["status", "--log", str(site.path)])
    assert ("evictor in demo" in (table := capsys.readouterr().out)) == bool(shown)
    assert shown in table


def test_a_workload_whose_new_pods_do_not_come_is_named_until_that_is_over(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(name: str, guard: str, minutes: float, reason: str) -> None:
        workload, at = Workload("demo", "web", "Deployment", name), NOW - timedelta(minutes=minutes)
        ident = f"updater/0/{int(at.timestamp()) * 1000}/refuse-{guard}/{workload.key}"
        event = UpdateRefused(ident, at, workload, PodName("web", f"{name}-1", "u"), guard, reason, {})
        site.append([site.codec.encode(event, topic="pod-updates", key="demo", partition=0, source="/test")])

    refuse("old", "successor", 50, "was over long ago")
    refuse("api", "successor", 31, "exceeded quota: 1")
    refuse("api", "successor", 1, "exceeded quota: 2")
    refuse("calm", "budget", 1, "too many are away")
    for number in range(12):
        refuse(f"many-{number:02}", "successor", 5, "no node")
    found = {name: says for (what, name), (_, says) in site.rows(capsys).items() if what == "workload"}
    assert found["demo/web/Deployment/api"] == (
        f"since 11:59:00 or before: {in_words('successor', 'exceeded quota: 2')}; `ullage why-not web/api` says more"
    )
    assert found.pop("capped").startswith("13 workloads are kept from the target: 13 by successor")
    assert (len(found), found["all"][:6]) == (11, "3 more")


def test_a_vpa_whose_target_is_killed_in_a_loop_and_gets_no_more_memory_says_why_until_it_does(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    def decide(name: str, turn: int, status: ConditionStatus, *, withdrawn: bool = False) -> None:
        limited = DecidedCondition(ConditionType.MEMORY_LIMITED, status, NOW - timedelta(days=2), "UpdateMode", "mode 'Off'")
        ident, about = f"conditions/0/{turn}/conditions/demo/web/{name}", ("demo", "web", name, "u", 1)
        event = VpaConditionsDecided(ident, NOW - timedelta(days=2), *about, (limited,), (), {}, withdrawn=withdrawn)
        record = site.codec.encode(event, topic="vpa-conditions", key=event.key, partition=0, source="/test")
        site.append([record])

    decide("off", 1, ConditionStatus.TRUE)
    decide("held", 1, ConditionStatus.TRUE)
    workload, why = Workload("demo", "web", "Deployment", "big"), "container 'app' is OOM-killed again and again: a budget"
    policy = {"policy": {"target": "x", "vpa": "demo/web/held"}}
    ident = f"updater/0/{int(NOW.timestamp()) * 1000}/refuse-oom-bound/{workload.key}"
    refused = UpdateRefused(ident, NOW, workload, PodName("web", "big-1", "u"), "oom-bound", why, policy)
    site.append([site.codec.encode(refused, topic="pod-updates", key="demo", partition=0, source="/test")])
    for name, last in (("ended", ConditionStatus.FALSE), ("gone", ConditionStatus.TRUE)):
        decide(name, 1, ConditionStatus.TRUE)
        decide(name, 2, last, withdrawn=name == "gone")
    found = {name: row for (what, name), row in site.rows(capsys).items() if what in ("vpa", "workload")}
    since = f"since {NOW - timedelta(days=2):%Y-%m-%d %H:%M:%S} UTC: "
    both = {"demo/web/off": f"{since}mode 'Off'", "demo/web/held": f"{since}mode 'Off'"}
    del found["capped"]
    assert found == {name: ("memory limited", says) for name, says in both.items()}, "a loop has one row"


def test_a_workload_of_a_policy_of_ours_that_is_killed_in_a_loop_says_why_until_it_does(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    def decide(name: str, turn: int, *, over: bool = False) -> None:
        workload, since = Workload("demo", "web", "Deployment", name), NOW - timedelta(days=2)
        ident = f"conditions/0/{turn}/memory-limit/{workload.key}"
        event = MemoryLimitFound(ident, since, workload, since, "UpdateMode", "mode 'Off'", {}, over=over)
        site.append([site.codec.encode(event, topic="vpa-conditions", key=workload.key, partition=0, source="/test")])

    decide("off", 1)
    decide("ended", 1)
    decide("ended", 2, over=True)
    found = {name: row for (what, name), row in site.rows(capsys).items() if what == "workload"}
    says = f"since {NOW - timedelta(days=2):%Y-%m-%d %H:%M:%S} UTC: mode 'Off'"
    assert found == {"demo/web/Deployment/off": ("memory limited", says)}
    for number in range(12):
        decide(f"many-{number:02}", 1)
    assert site.rows(capsys)["workload", "all"][1].startswith("3 more: ")


def test_modes_that_leave_running_pods_alone_are_named_with_what_new_pods_get(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(name: str, mode: UpdateMode | None, *recommenders: str) -> None:
        event = VpaChanged(NOW, "demo", "web", name, NOW, None, (), update_mode=mode, recommenders=recommenders)
        site.append([site.codec.encode(event, topic="policies-latest", key=event.key, partition=0, source="/test")])

    for name, mode in (
        ("a", UpdateMode.OFF),
        ("b", UpdateMode.INITIAL),
        ("c", UpdateMode.OFF),
        ("d", None),
        ("e", UpdateMode.OFF),
    ):
        say(name, mode)
    say("c", UpdateMode.RECREATE)
    say("others", UpdateMode.OFF, "another")
    site.append([NewRecord(SHOP.wire("policies-latest"), 0, b"demo/web/e", None)])
    for target in ("demo/shop/*", "*", "other/*"):
        site.append(policy_records([VerticalPolicyChanged(NOW, target, "1", UpdateMode.INITIAL)], site.codec))
    found = {name: says for (what, name), (_, says) in site.rows(capsys).items() if what == "mode"}
    new = "running pods stay as they are, and new pods get"
    assert found == {
        "Off": f"VPA web/a: {new} nothing of what is recommended, either",
        "Initial": f"VPA web/b, policy '*', policy 'demo/shop/*': {new} what is recommended",
    }


@pytest.mark.parametrize(("ago", "came", "left"), [(18, False, True), (21, False, False), (4, True, True)])
def test_a_workload_whose_new_pods_the_webhook_leaves_as_they_are_is_named(
    site: Site, capsys: pytest.CaptureFixture[str], *, ago: float, came: bool, left: bool
) -> None:
    key = "demo/web/Deployment/api"

    def finish(name: str, result: Result, detail: OutcomeDetail, minutes: float) -> None:
        subject = Subject(SubjectKind.POD, "demo", name, "web", workload=key)
        at = NOW - timedelta(minutes=minutes)
        event = ActionFinished(f"d/patch/{name}", at, "d", Action.PATCH, result, "no pod came", subject, detail)
        site.append([site.codec.encode(event, topic="outcomes", key="demo", partition=0, source="/test")])

    finish("api-%", Result.LOST, OutcomeDetail.NOT_SEEN, ago)
    finish("other-%", Result.LOST, OutcomeDetail.NONE, 1)
    if came:
        finish("api-1", Result.DONE, OutcomeDetail.APPLIED, ago - 1)  # was offered before the loss
    found = {name: row for (what, name), row in site.rows(capsys).items() if what == "workload"}
    until = NOW + timedelta(minutes=20 - ago)
    says = f"new pods of '{key}' are left as they are until {until:%H:%M:%S} UTC: no pod came"
    assert found == ({key: ("not patched", says)} if left else {})


def test_workloads_that_caps_hold_are_counted_by_cap_and_a_warning(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(name: str, guard: str, minutes: float, because: dict[str, object]) -> None:
        workload, at = Workload("demo", "web", "Deployment", name), NOW - timedelta(minutes=minutes)
        ident = f"updater/0/{int(at.timestamp()) * 1000}/refuse-{guard}/{workload.key}"
        event = UpdateRefused(ident, at, workload, PodName("web", f"{name}-1", "u"), guard, "so", because)
        site.append([site.codec.encode(event, topic="pod-updates", key="demo", partition=0, source="/test")])

    refuse("a", "capped", 1, {"caps": {"app": ["limit"], "side": ["limit", "LimitRange"]}})
    refuse("b", "capped", 31, {"caps": {"app": ["limit"]}})
    refuse("c", "node", 1, {})
    refuse("old", "hpa", 50, {})
    refuse("calm", "budget", 1, {})
    state, says = site.rows(capsys)["workload", "capped"]
    assert (state, says[:62]) == ("held", "3 workloads are kept from the target: 2 by limit, 1 by LimitRa")
    assert says.endswith("1 by node; `ullage recommendations` says what to change")


@pytest.mark.parametrize("code", [code for code in TroubleCode if code])
def test_a_group_is_out_until_it_is_said_to_be_over_whatever_is_wrong(
    site: Site, capsys: pytest.CaptureFixture[str], code: TroubleCode
) -> None:
    cluster_wide = code is TroubleCode.HALTED

    def say(group: str, now: TroubleCode, minutes: float) -> None:
        at, name = NOW - timedelta(minutes=minutes), "" if cluster_wide else group
        cluster = group if cluster_wide else "demo"
        ident = f"scaler/0/{int(at.timestamp()) * 1000}/halted/{cluster}/{group}"
        event = NodeScalingHalted(ident, at, cluster, name, now, f"of {group}", {})
        site.append([site.codec.encode(event, topic="node-updates", key=cluster, partition=0, source="/test")])

    say("out", code, 9)
    say("back", code, 9)
    say("back", TroubleCode.OVER, 1)
    rows = {key: says for key, says in site.rows(capsys).items() if key[0] in {"node group", "nodes"}}
    if cluster_wide:
        assert rows == {("nodes", "out"): ("halted", "nothing grows or shrinks: of out")}
    else:
        assert rows == {("node group", "out"): ("out", f"cluster 'demo'; {code}: of out")}


@pytest.mark.parametrize("code", sorted(PODS_WAIT))
def test_pods_for_which_nothing_is_done_are_named_with_the_reason(
    site: Site, capsys: pytest.CaptureFixture[str], code: RefusalCode
) -> None:
    whole = code in (RefusalCode.LIMITED, RefusalCode.MAX_NODES, RefusalCode.POSTPONED)
    pods = Subject.of_object("demo", "Cluster" if whole else "ReplicaSet", "" if whole else "shop", "demo" if whole else "web")
    for minutes, said in ((20, "long ago"), (9, "no label")):
        at = NOW - timedelta(minutes=minutes)
        ident = f"scaler/0/{int(at.timestamp()) * 1000}/refuse/{pods.id}"
        event = ScaleRefused(ident, at, "demo", pods, code.value, said, 3, {})
        site.append([site.codec.encode(event, topic="node-updates", key="demo", partition=0, source="/test")])
    rows = {key: says for key, says in site.rows(capsys).items() if key[0] == "pods"}
    assert rows == {("pods", "demo" if whole else "shop/web"): ("waiting", "cluster 'demo'; 3 pods: no label")}


def _decision(site: Site, plan: ResizePlanned, number: int) -> NewRecord:
    """The plan, decided a minute ago, as one of several."""
    plan = replace(plan, id=f"updater/0/{MS}/resize/{number}", at=NOW - timedelta(minutes=1))
    return site.codec.encode(plan, topic="pod-updates", key="demo", partition=0, source="/test")


@pytest.mark.parametrize(
    ("kind", "age", "least", "most"), [("kafka", 100.0, 99.0, 110.0), ("kafka", 5.0, 0.0, 0.0), ("file", 100.0, 0.0, 0.0)]
)
def test_while_no_clock_ticks_ages_count_on_but_not_in_a_file(kind: str, age: float, least: float, most: float) -> None:
    settings = Settings.model_validate({"log": {"kind": kind, "path": "log.jsonl"}})
    tick = NewestTick(NOW, int((time.time() - age) * 1000))
    assert least <= status_rows.silence(tick, settings) <= most


def test_a_length_of_time_is_never_below_nothing() -> None:
    assert status_rows.length(-4.7) == "0.0 s"


def test_the_cluster_may_be_named_by_a_flag(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.report("kube", "pod-changes")
    assert cli.run(["status", "-o", "json", "--cluster", "other", "--log", str(site.path)]) == 0
    found = {row["name"]: row["says"] for row in json.loads(capsys.readouterr().out) if row["what"] == "cluster"}
    assert found == {"other": "no source has named it; the log has 'demo': set cluster.name"}
