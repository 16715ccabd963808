"""What operators type, on a log in a file: the switch, the policies and the status."""

import getpass
import json
import socket
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from agents import cli
from agents.commands.past import tap
from schemas.facts.sources import SourceReported
from schemas.names import Amounts
from schemas.policies.control import ControlChanged, ControlSchedule, Mode
from schemas.policies.vertical import ContainerPolicy, UpdateMode, VerticalPolicyChanged
from schemas.units import Bytes, Cores, Fraction
from streams.clock_rules import PROBE
from streams.codec.event_codec import Codec
from streams.log.file_log import FileLog
from streams.log.log_port import Log, NewRecord
from streams.log_context import LogContext
from streams.publishing.operator_log import NewestTick, OperatorLog
from streams.topics import TOPICS, Topics
from tests.support import ticks

AT = datetime(2026, 1, 5, 12, tzinfo=UTC)
SHOP = Topics("ullage", 2)
CART = "demo/shop/Deployment/cart"
ME = f"set by {getpass.getuser()}@{socket.gethostname()} (user of the host)"


class Desk:
    """One log, and the command line on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with FileLog.open_or_create(path) as log:
            for topic in TOPICS:
                log.create(SHOP.wire(topic.name), 2)

    def tick(self, at: datetime = AT) -> None:
        with FileLog(self.path) as log:
            ticks.append(log, SHOP, int(at.timestamp()) * 1000)

    def run(self, *words: str) -> int:
        where = ["--set", "log.kind=file", "--set", f"log.path={self.path}", "--set", "topics.partitions=2"]
        return cli.run([*words, *where])

    def control(self) -> ControlChanged | None:
        """In force, without its author."""
        with FileLog(self.path) as log:
            control = OperatorLog(LogContext.of(log, SHOP)).control("demo")
        return None if control is None else replace(control, by=None)

    def policies(self) -> dict[str, VerticalPolicyChanged]:
        """In force, without their authors."""
        with FileLog(self.path) as log:
            in_force = OperatorLog(LogContext.of(log, SHOP)).policies()
        return {target: replace(policy, by=None) for target, policy in in_force.items()}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path / "log.jsonl")
    desk.tick()
    return desk


def test_a_pause_forgets_neither_mode_nor_budget_and_resume_ends_it(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert desk.run("mode", "apply", "--budget", "0.25") == 0
    assert desk.run("pause", "--reason", "migration") == 0
    assert desk.control() == ControlChanged(AT, "demo", Mode.APPLY, paused=True, reason="migration", budget=Fraction(0.25))
    assert desk.run("resume") == 0
    assert desk.control() == ControlChanged(AT, "demo", Mode.APPLY, budget=Fraction(0.25))
    assert capsys.readouterr().out.splitlines()[1] == f"demo: apply, 25% of the pods at one time; PAUSED: migration; {ME}"


def test_who_commands_is_in_the_log_and_in_whatever_shows_it(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.run("mode", "shadow")
    desk.run("policy", "set", "demo/*", "--mode", "Off")
    desk.run("policy", "remove", "demo/*")
    with FileLog(desk.path) as log:
        records = log.poll({(SHOP.wire(name), 0): 0 for name in ("control", "rules")})
    events = [event for record in records if (event := Codec(SHOP).decode_or_none(record)) is not None]
    assert [str(event.by) for event in events] == [ME.removeprefix("set by ")] * 3
    capsys.readouterr()
    for command in ("status", "timeline"):
        desk.run(command)
        assert ME.removeprefix("set by ").partition(" ")[0] in capsys.readouterr().out, command


@pytest.mark.parametrize("words", [(), ("-n", "shop"), ("--set", "cluster.name=demo")])
def test_the_timeline_says_who_changed_the_settings_by_which_all_workers_decide(
    words: tuple[str, ...], desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert desk.run("settings", "apply", "--set", "updates.cool_down=60") == 0
    capsys.readouterr()
    assert desk.run("timeline", "-o", "json", *words) == 0
    told = {entry["about"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert told["stage/updater"]["what"] == "rules of a stage set"
    assert ME.removeprefix("set by ") in told["stage/updater"]["detail"]


@pytest.mark.parametrize(("minutes", "warned"), [(None, False), (1, False), (90, True)])
def test_a_pause_in_a_log_whose_clock_is_silent_says_that_perhaps_nobody_hears_it(
    minutes: int | None, *, warned: bool, desk: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the old topics after `topics move`, by somebody whose settings still have their prefix."""
    appended = None if minutes is None else int(time.time() * 1000) - minutes * 60_000
    tick = None if appended is None else NewestTick(AT, appended)
    monkeypatch.setattr(OperatorLog, "newest_tick", lambda _: tick)
    assert desk.run("pause", "--reason", "INC-1") == 0
    assert ("no tick has come for 90 min, so perhaps nobody hears this" in capsys.readouterr().err) == warned


def test_a_budget_may_be_a_percentage(desk: Desk) -> None:
    assert desk.run("mode", "plan", "--budget", "25%") == 0
    assert desk.control() == ControlChanged(AT, "demo", Mode.PLAN, budget=Fraction(0.25))


def test_what_is_not_paused_is_not_resumed_and_keeps_its_reason(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert desk.run("mode", "apply", "--reason", "CHG-7") == 0
    assert desk.run("resume") == 0
    assert "demo is not paused: apply" in capsys.readouterr().out
    assert desk.control() == ControlChanged(AT, "demo", Mode.APPLY, reason="CHG-7")


def test_a_change_of_mode_ends_no_pause(desk: Desk) -> None:
    desk.run("pause", "--reason", "migration")
    assert desk.run("mode", "plan", "--reason", "afterwards") == 0
    assert desk.control() == ControlChanged(AT, "demo", Mode.PLAN, paused=True, reason="migration")


def test_a_pause_before_anything_was_said_is_a_pause_of_shadow(desk: Desk) -> None:
    desk.run("pause", "--reason", "not yet")
    assert desk.control() == ControlChanged(AT, "demo", Mode.SHADOW, paused=True, reason="not yet")


def test_another_cluster_is_another_switch(desk: Desk) -> None:
    desk.run("mode", "apply", "--cluster", "other")
    assert desk.control() is None


def test_without_a_tick_the_time_is_that_of_who_types(tmp_path: Path) -> None:
    before = datetime.now(UTC)
    desk = Desk(tmp_path / "log.jsonl")
    desk.run("mode", "plan")
    said = desk.control()
    assert said is not None
    assert before <= said.at <= datetime.now(UTC)


def test_a_policy_is_made_and_then_changed_only_where_it_is_named(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert desk.run("policy", "set", CART, "--mode", "Initial", "--min", "cpu=250m,memory=512Mi", "--max", "cpu=2") == 0
    assert desk.run("policy", "set", CART, "--max", "memory=1Gi", "--container", "proxy") == 0
    assert desk.run("policy", "set", CART, "--min", "memory=1Gi") == 0
    policy = desk.policies()[CART]
    assert policy.update_mode is UpdateMode.INITIAL
    assert policy.containers == (
        ContainerPolicy("*", Amounts(Cores(0.25), Bytes(1 << 30)), Amounts(Cores(2.0))),
        ContainerPolicy("proxy", max_allowed=Amounts(memory=Bytes(1 << 30))),
    )
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"set {CART}: Initial; * min cpu 250m, memory 1Gi; * max cpu 2000m; proxy max memory 1Gi"


def test_what_list_prints_apply_takes_and_finds_unchanged(desk: Desk, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    desk.run("policy", "set", "demo/*", "--mode", "Off")
    desk.run("policy", "set", CART, "--min", "cpu=50m,memory=1000001")
    before = desk.policies()
    capsys.readouterr()
    assert desk.run("policy", "list") == 0
    file = tmp_path / "policies.yaml"
    file.write_text(capsys.readouterr().out)
    assert desk.run("policy", "apply", str(file)) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["unchanged", "unchanged"]
    assert desk.policies() == before
    file.write_text(file.read_text().replace("50m", "60m"))
    assert desk.run("policy", "apply", str(file)) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["unchanged", "set"]
    assert desk.policies()[CART].containers[0].min_allowed == Amounts(Cores(0.06), Bytes(1_000_001))
    assert desk.policies()[CART].version != before[CART].version


@pytest.mark.parametrize("mode", UpdateMode)
def test_every_update_mode_can_be_set(mode: UpdateMode, desk: Desk) -> None:
    assert desk.run("policy", "set", CART, "--mode", mode) == 0
    assert [policy.update_mode for policy in desk.policies().values()] == [mode]


def test_a_policy_that_is_removed_is_gone(desk: Desk) -> None:
    desk.run("policy", "set", "demo/*")
    assert desk.run("policy", "remove", "demo/*") == 0
    assert desk.policies() == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("mode apply --budget 3", "--budget '3' is no share of pods"),
        ("mode apply --budget 300%", "--budget '300%' is no share of pods"),
        ("mode apply --budget much", "--budget 'much' is no share of pods"),
        ("mode fly", '"fly"'),
        ("pause", "--reason"),
        ("policy set cart", "TARGET 'cart' names no workload"),
        ("policy set de*mo/*", "TARGET 'de*mo/*' names no workload"),
        (f"policy set {CART} --min cpu=fast", "--min cpu 'fast' is no quantity"),
        (f"policy set {CART} --min memory=-1Mi", "--min memory '-1Mi' is negative"),
        (f"policy set {CART} --max disk=1Gi", "--max names 'disk'"),
        (f"policy set {CART} --max cpu", "--max 'cpu' is not of the form cpu=250m,memory=512Mi"),
        (f"policy set {CART} --min cpu=2 --max cpu=1", "min cpu 2000m is more than max 1000m"),
        (f"policy set {CART} --min memory=2Gi --max memory=1Gi", "min memory 2Gi is more than max 1Gi"),
        ("policy remove demo/*", "there is no policy with the target 'demo/*'; there are: none"),
        ("policy apply gone.yaml", "the policy file 'gone.yaml' cannot be read: No such file"),
    ],
)
def test_what_makes_no_sense_is_named_and_nothing_is_said(
    desk: Desk, words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert desk.run(*words.split()) == 2
    assert said in capsys.readouterr().err
    assert desk.control() is None
    assert desk.policies() == {}


def test_a_policy_that_leaves_new_pods_as_they_are_is_listed_as_it_was_applied(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text("- {target: demo/jvm/*, mode: InPlace, patch_new_pods: false, guards: {pod_warm_up: 600.0}}\n")
    assert desk.run("policy", "apply", str(file)) == 0
    assert [policy.patch_new_pods for policy in desk.policies().values()] == [False]
    capsys.readouterr()
    assert desk.run("policy", "list") == 0
    assert "patch_new_pods: false" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {mode: Off}", "at [0].target: Field required"),
        ("- {target: demo/*, mode: Fast}", "at [0].mode"),
        ("- {target: demo/*, colour: red}", "at [0].colour: Extra inputs are not permitted, not 'red'"),
        ("- {target: demo/*}\n- {target: demo/*}", "two policies with the target 'demo/*'"),
        ("- {target: demo/*, containers: [{container: a}, {container: a}]}", "[0].containers has two entries for 'a'"),
        ("- {target: demo/*, containers: [{min: {cpu: fast}}]}", "[0].containers[0].min cpu 'fast' is no quantity"),
        ("- {target: shop}", "'shop' names no workload"),
        ("a: [", "is no YAML"),
    ],
)
def test_a_policy_file_is_right_as_a_whole_or_nothing_of_it_is_said(
    desk: Desk, text: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(f"- target: {CART}\n{text}\n" if text.startswith("-") else text)
    assert desk.run("policy", "apply", str(file)) == 2
    err = capsys.readouterr().err
    assert said.replace("[0]", "[1]", 1) in err
    assert str(file) in err
    assert desk.policies() == {}


def test_a_trace_from_before_the_logs_newest_tick_is_refused(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "usage.csv"
    trace.write_text("container_id,timestamp_s,cpu_cores,memory_bytes\na,0,0.5,1000000\na,300,0.5,1000000\n")
    assert desk.run("source", "traces", str(trace), "--speed", "0") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "begins at 2026-01-01 00:00:00 UTC, but the newest tick in 'ullage.clock.v1' is of 2026-01-05 12:00:00 UTC" in said
    with FileLog(desk.path) as log:
        assert log.end(SHOP.wire("pod-metrics"), 0) == log.end(SHOP.wire("pod-metrics"), 1) == 0


def test_the_probe_of_a_clock_is_no_dead_letter(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    with FileLog(desk.path) as log:
        wire = SHOP.wire("dead-letters")
        log.append([NewRecord(wire, 0, PROBE, b"1"), NewRecord(wire, 0, b"x", b"cannot be read")])
    desk.run("status", "-o", "json")
    (letters,) = [row for row in json.loads(capsys.readouterr().out) if row["what"] == "dead letters"]
    assert letters["state"] == "1"


def test_the_status_of_a_log_without_ticks_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Desk(tmp_path / "log.jsonl").run("status") == 0
    assert "silent !  no clock has ticked, so nothing is decided" in capsys.readouterr().out


def test_a_tap_that_follows_shows_what_is_appended_after_it_began(
    desk: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ControlChanged(AT, "demo", Mode.PLAN, reason="said meanwhile")
    begun, start_positions = threading.Event(), tap.start_positions

    def begin(log: Log, topic: str, begin: str, *, now_ms: int) -> dict[tuple[str, int], int]:
        positions = start_positions(log, topic, begin, now_ms=now_ms)
        begun.set()
        return positions

    monkeypatch.setattr(tap, "start_positions", begin)

    def speak() -> None:
        assert begun.wait(60)
        with FileLog(desk.path) as log:
            OperatorLog(LogContext.of(log, SHOP)).publish(said)

    later = threading.Thread(target=speak)
    later.start()
    assert desk.run("tap", "control", "--from", "end", "--follow", "--limit", "1") == 0
    later.join()
    assert capsys.readouterr().out.count("reason: said meanwhile") == 1


def reported(desk: Desk, cluster: str) -> None:
    with FileLog(desk.path) as log:
        event = SourceReported(AT, cluster, "kube", ("oom-events",))
        log.append(Codec(SHOP).encode_for_all(event, topic="cluster-changes", key=cluster, source="/test"))


@pytest.mark.parametrize("words", [["pause", "--reason", "INC-1"], ["resume"], ["mode", "apply"]])
def test_a_cluster_that_no_source_has_named_is_refused_with_the_names_there_are(
    words: list[str], desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    reported(desk, "prod")
    reported(desk, "stage")
    assert desk.run(*words, "--cluster", "prdo") == 2
    assert "no source has named a cluster 'prdo'; the log has 'prod', 'stage'" in capsys.readouterr().err
    assert desk.run(*words, "--cluster", "prod") == 0


def test_a_policy_or_a_plan_for_a_cluster_that_no_source_has_named_is_refused(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    reported(desk, "prod")
    assert desk.run("policy", "set", "prd/shop/*", "--mode", "Off") == 2
    assert "no source has named a cluster 'prd'; the log has 'prod'" in capsys.readouterr().err
    assert desk.policies() == {}
    assert desk.run("policy", "set", "prod/shop/*", "--mode", "Off") == 0
    assert desk.run("policy", "set", "*", "--mode", "Off") == 0
    assert desk.run("plan", "--cluster", "prd") == 2
    assert "no source has named a cluster 'prd'; the log has 'prod'" in capsys.readouterr().err


@pytest.mark.parametrize("consumer", ["status", "webhook"])
def test_a_consumer_that_would_serve_the_vpas_of_another_recommender_than_the_workers_is_refused(
    consumer: str, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert desk.run("settings", "apply", "--set", "vertical.recommender=ullage") == 0
    assert desk.run("consumer", consumer, "--url", "http://127.0.0.1:1") == 2
    said = "the workers serve VPAs of the recommender 'ullage', says the log, and vertical.recommender is 'default' here"
    assert said in capsys.readouterr().err


def test_a_consumer_of_a_cluster_that_no_source_has_named_is_refused(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    reported(desk, "prod")
    assert desk.run("consumer", "resizer", "--url", "http://127.0.0.1:1", "--set", "cluster.name=prdo") == 2
    assert "no source has named a cluster 'prdo'; the log has 'prod'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {target: 'demo/shop/*', mode: Off}", "YAML reads Off without quotes as false, so write mode: 'Off'"),
        ("", "is empty: write a list of policies, as `ullage policy list` prints them"),
        ("# nothing yet", "is empty"),
    ],
)
def test_a_policy_file_that_says_something_else_than_meant_is_refused_with_what_to_write(
    text: str, said: str, desk: Desk, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "p.yaml").write_text(text)
    assert desk.run("policy", "apply", str(tmp_path / "p.yaml")) == 2
    assert said in capsys.readouterr().err


def test_where_an_object_commands_the_command_names_it_and_changes_nothing(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.tick()
    there = ControlChanged(AT, "demo", Mode.PLAN, through="ClusterControl/ullage")
    with FileLog(desk.path) as log:
        OperatorLog(LogContext.of(log, SHOP)).publish(there)
    for words, spec in (
        (("mode", "apply", "--budget", "0.2"), '{"spec": {"mode": "apply", "budget": 0.2}}'),
        (("resume",), '{"spec": {"paused": false}}'),
    ):
        assert desk.run(*words, "--set", "cluster.name=demo") != 0
        said = capsys.readouterr().err
        assert "the object ClusterControl/ullage says how far Ullage may go in cluster 'demo'" in said
        assert f"kubectl patch clustercontrol ullage --type merge -p '{spec}'" in said
    assert desk.run("mode", "shadow", "--unless-an-object-says", "--set", "cluster.name=demo") == 0
    assert "set through ClusterControl/ullage" in capsys.readouterr().out
    assert desk.control() == there


def test_a_pause_holds_also_where_an_object_commands_that_nobody_may_hear(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.tick()
    with FileLog(desk.path) as log:
        OperatorLog(LogContext.of(log, SHOP)).publish(ControlChanged(AT, "demo", Mode.PLAN, through="ClusterControl/ullage"))
    assert desk.run("pause", "--reason", "INC-1", "--set", "cluster.name=demo") == 0
    assert desk.control() == ControlChanged(AT, "demo", Mode.PLAN, paused=True, reason="INC-1")
    said = capsys.readouterr().err
    assert "undoes this within a minute, if the object's newest spec can be obeyed" in " ".join(said.split())
    assert 'kubectl patch clustercontrol ullage --type merge -p \'{"spec": {"paused": true}}\'' in said


def test_after_a_pause_that_no_source_undoes_the_commands_work_again_and_the_objects_schedules_end_with_a_mode(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    """What an object said stays in force when `cluster.control` is switched off, and nobody hears that the object goes."""
    desk.tick()
    noon = ControlSchedule("0 12 * * *", 60, mode=Mode.SHADOW, reason="noon")
    with FileLog(desk.path) as log:
        control = ControlChanged(AT, "demo", Mode.PLAN, through="ClusterControl/ullage", schedules=(noon,))
        OperatorLog(LogContext.of(log, SHOP)).publish(control)
    assert desk.run("status", "--set", "cluster.name=demo") == 0
    assert "shadow, 10% of the pods at one time (noon); schedules: 1, 1 of them now" in " ".join(capsys.readouterr().out.split())
    assert desk.run("pause", "--reason", "INC-1", "--set", "cluster.name=demo") == 0
    assert desk.control() == ControlChanged(AT, "demo", Mode.PLAN, paused=True, reason="INC-1", schedules=(noon,))
    capsys.readouterr()
    assert desk.run("mode", "plan", "--set", "cluster.name=demo") == 0
    assert "its schedules (1) are in force no more" in capsys.readouterr().err
    assert desk.run("resume", "--set", "cluster.name=demo") == 0
    assert desk.control() == ControlChanged(AT, "demo", Mode.PLAN)


def test_the_switch_as_an_object_keeps_what_is_in_force_and_changes_the_mode_alone(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.tick()
    assert desk.run("mode", "plan", "--budget", "25%", "--schedule", "@daily for 30 min: budget 0.3") == 0
    assert desk.run("pause", "--reason", "INC-1") == 0
    before = desk.control()
    for words, spec in (
        (("apply",), {"mode": "apply", "budget": 0.25, "paused": True, "reason": "INC-1"}),
        (
            ("shadow", "--budget", "5%", "--reason", "CHG-2"),
            {"mode": "shadow", "budget": 0.05, "paused": True, "reason": "INC-1"},
        ),
    ):
        capsys.readouterr()
        assert desk.run("mode", *words, "--as-object") == 0
        printed = yaml.safe_load(capsys.readouterr().out)["spec"]
        assert printed.pop("schedules") == [{"begins": "@daily", "minutes": 30, "budget": 0.3}]
        assert printed == {**spec, "paused": True, "reason": "INC-1"}
    assert desk.control() == before


def test_the_command_writes_schedules_and_a_mode_without_them_ends_them(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.tick()
    noon = "0 12 * * mon-fri Europe/Berlin for 8h: mode shadow, budget 5%, paused (lunch (long))"
    night = "@daily for 30 min: budget 0.3"
    assert desk.run("mode", "plan", "--schedule", noon, "--schedule", night) == 0
    schedules = (
        ControlSchedule(
            "0 12 * * mon-fri", 480, "Europe/Berlin", Mode.SHADOW, Fraction(0.05), paused=True, reason="lunch (long)"
        ),
        ControlSchedule("@daily", 30, budget=Fraction(0.3)),
    )
    assert desk.control() == ControlChanged(AT, "demo", Mode.PLAN, schedules=schedules)
    assert f"  {schedules[0]}\n  {schedules[1]}\n" in capsys.readouterr().out
    assert desk.run("mode", "plan", *(word for each in schedules for word in ("--schedule", str(each)))) == 0
    assert desk.control() == ControlChanged(AT, "demo", Mode.PLAN, schedules=schedules)
    assert desk.run("mode", "plan") == 0
    assert desk.control() == ControlChanged(AT, "demo", Mode.PLAN)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("every morning", "--schedule 'every morning' is none; one is '0 9"),
        ("0 9 * * * for 8h: sleep", "says 'sleep'; it says `mode` (shadow, plan, apply)"),
        ("0 9 * * * for 8h: ", "says ''; it says `mode`"),
        ("0 9 * * * for 8h: budget some", "has the budget 'some', which is no share"),
        ("0 9 * * * for 8h: budget 500%", "schedules[0].budget is 5.0"),
        ("0 9 * * * Mars/Olympus for 8h: paused", "'Mars/Olympus' is no time zone"),
        ("0 9 30 2 * for 8h: paused", "there is no such day, so it never begins"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused_and_changes_nothing(
    text: str, why: str, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert desk.run("mode", "plan", "--schedule", text) != 0
    assert why in " ".join(capsys.readouterr().err.split())
    assert desk.control() is None


@pytest.mark.parametrize("words", [("apply",), ("plan", "--schedule", "0 9 * * 1-5 for 8h: mode apply")])
def test_who_lets_pods_be_changed_now_or_at_some_time_reads_that_it_is_experimental(
    desk: Desk, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert desk.run("mode", *words) == 0
    assert "mode apply is experimental" in capsys.readouterr().err


def test_a_pause_by_schedule_is_named_by_resume_and_by_what_a_command_prints(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.tick()
    freeze = ("--schedule", "* * * * * for 5 min: paused (freeze)")
    assert desk.run("mode", "plan", *freeze) == 0
    assert "plan, 10% of the pods at one time; PAUSED: freeze; schedules: 1, 1 of them now" in capsys.readouterr().out
    assert desk.run("resume") == 0
    assert "demo is paused by a schedule, which `resume` does not end: plan" in capsys.readouterr().out
    assert desk.run("pause", "--reason", "INC-1") == desk.run("resume") == 0
    assert "PAUSED: freeze" in capsys.readouterr().out.splitlines()[-2]


def test_where_an_object_says_a_policy_the_command_names_it_and_changes_nothing(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = VerticalPolicyChanged(AT, CART, "shop/cart@1", UpdateMode.OFF, through="VerticalPolicy/shop/cart")
    with FileLog(desk.path) as log:
        OperatorLog(LogContext.of(log, SHOP)).publish(there)
    file = tmp_path / "policies.yaml"
    file.write_text(f"- target: demo/web/*\n- target: {CART}\n  mode: Auto\n", encoding="utf-8")
    for words in (("set", CART, "--mode", "Auto"), ("remove", CART), ("apply", str(file))):
        assert desk.run("policy", *words) != 0
        said = capsys.readouterr().err
        assert f"the object VerticalPolicy/shop/cart says the policy of '{CART}'" in said
        assert "kubectl edit verticalpolicy cart -n shop" in said
    assert desk.policies() == {CART: there}
    file.write_text(f"- target: {CART}\n  mode: 'Off'\n", encoding="utf-8")
    assert desk.run("policy", "apply", str(file)) == 0, "what the object says already is no change"
    assert desk.policies() == {CART: there}
    desk.run("policy", "list", "-o", "table")
    assert "VerticalPolicy/shop/cart" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "mode"),
    [(("set", CART, "--mode", "Auto"), UpdateMode.AUTO), (("set", CART), UpdateMode.OFF), (("remove", CART), None)],
)
def test_a_policy_of_an_object_that_nothing_mirrors_any_more_is_taken_over(
    words: tuple[str, ...], mode: UpdateMode | None, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody hears that an object went while its source was off, and anybody who writes the topic can name one that never was."""
    there = VerticalPolicyChanged(AT, CART, "1", UpdateMode.OFF, through="VerticalPolicy/shop/cart")
    with FileLog(desk.path) as log:
        OperatorLog(LogContext.of(log, SHOP)).publish(there)
    if words != ("set", CART):
        assert desk.run("policy", *words) != 0
        assert "--take-over" in capsys.readouterr().err
    assert desk.run("policy", *words, "--take-over") == 0
    assert "that object wins again within a minute" in " ".join(capsys.readouterr().err.split())
    assert [(policy.update_mode, policy.through) for policy in desk.policies().values()] == ([] if mode is None else [(mode, "")])
    assert desk.run("tap", "rules", "--last", "1", "-o", "json") == 0
    assert getpass.getuser() in capsys.readouterr().out, "who took it over"


def test_the_listed_policies_say_who_set_them_and_can_still_be_applied(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FileLog(desk.path) as log:
        said = VerticalPolicyChanged(AT, CART, "1", UpdateMode.OFF, through="VerticalPolicy/shop/cart")
        OperatorLog(LogContext.of(log, SHOP)).publish(said)
    assert desk.run("policy", "set", "demo/web/*", "--mode", "Off") == 0
    capsys.readouterr()
    assert desk.run("policy", "list") == 0
    listed = capsys.readouterr().out
    assert f"# {ME.removeprefix('set by ')}\n- target: demo/web/*\n" in listed
    assert "# through VerticalPolicy/shop/cart\n" in listed
    (file := tmp_path / "policies.yaml").write_text(listed, encoding="utf-8")
    assert desk.run("policy", "apply", str(file)) == 0
    assert "set" not in capsys.readouterr().out.split()
