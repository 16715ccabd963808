"""The object that commands a cluster, on a real API server: what it takes, what it refuses, and who wins against the command."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agents import cli
from schemas import times
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import VerticalPolicyChanged
from streams.clients.kube.commanding_objects import CONTROLS_PATH
from streams.log.file_log import FileLog
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.sources.kube import kube_source
from tests.controlplane.api_requests import Refused, wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.watched_namespace import PARTITIONS, WatchedScene, now
from tests.controlplane.world import World

NIGHT = {"begins": "0 1 * * *", "minutes": 120, "timeZone": "Europe/Berlin", "budget": 0.3, "reason": "night"}


@pytest.fixture
def scene(plane: Plane, world: World, tmp_path: Path) -> Iterator[WatchedScene]:
    """The source's log is a file, which the command can read and write."""
    yield WatchedScene(plane, world, FileLog.open_or_create(tmp_path / "log.jsonl"))
    with suppress(Refused):
        world.ask.delete(f"{CONTROLS_PATH}/ullage")


def make(world: World, spec: dict[str, Any], name: str = "ullage") -> Any:
    body = {"apiVersion": "ullage.internal/v1alpha1", "kind": "ClusterControl", "metadata": {"name": name}, "spec": spec}
    return world.ask.post(f"{CONTROLS_PATH}?fieldValidation=Strict", body)


def in_force(scene: WatchedScene) -> ControlChanged:
    control = OperatorLog(LogContext.of(scene.log, scene.topics)).control("real")
    return control or ControlChanged(now(), "real", Mode.SHADOW)


def condition(world: World) -> dict[str, Any]:
    found = world.ask.request("GET", f"{CONTROLS_PATH}/ullage")
    return next(iter(found.get("status", {}).get("conditions", [])), {}) | {"generation": found["metadata"]["generation"]}


def answered(world: World) -> bool:
    said = condition(world)
    return said.get("observedGeneration") == said["generation"]


@pytest.mark.parametrize(
    "spec",
    [
        {"mode": "destroy"},
        {"mode": "apply", "budget": 2},
        {"mode": "apply", "budget": "all"},
        {},
        {"mode": "plan", "more": 1},
        {"mode": "plan", "schedules": [{"begins": "0 9 * * *", "minutes": 60}]},
        {"mode": "plan", "schedules": [{"begins": "0 9 * * *", "minutes": 0, "paused": True}]},
    ],
)
def test_the_api_server_refuses_what_cannot_be_obeyed(scene: WatchedScene, world: World, spec: dict[str, Any]) -> None:
    del scene
    with pytest.raises(Refused):
        make(world, spec)


def test_the_api_server_refuses_another_name(scene: WatchedScene, world: World) -> None:
    del scene
    with pytest.raises(Refused, match="only the ClusterControl with the name 'ullage' is obeyed"):
        make(world, {"mode": "apply"}, name="mine")


def test_made_changed_and_deleted_the_object_wins_while_it_exists(scene: WatchedScene, world: World) -> None:
    operator = OperatorLog(LogContext.of(scene.log, scene.topics))
    operator.publish(ControlChanged(now(), "real", Mode.APPLY, reason="by the command"))
    with scene.watching(control=True):
        make(world, {"mode": "plan", "budget": 0.25, "schedules": [NIGHT]})
        wait_for(lambda: answered(world), what="the status says from where on it is in force")
        said, there = condition(world), in_force(scene)
        assert (there.mode, there.budget, there.through) == (Mode.PLAN, 0.25, "ClusterControl/ullage")
        assert [str(each) for each in there.schedules] == ["0 1 * * * Europe/Berlin for 120 min: budget 0.3 (night)"]
        assert "(field manager)" in str(there.by)
        assert said["status"] == "True"
        assert said["message"].startswith("in force from ullage.control.v1:")
        world.ask.patch(f"{CONTROLS_PATH}/ullage", {"spec": {"paused": True, "reason": "INC-1"}}, kind="merge")
        wait_for(lambda: in_force(scene).paused, what="the pause is in force")
        wait_for(lambda: answered(world), what="the status is that of the pause")
        written = len(scene.events("control", 0))
        wait_for(lambda: scene.events("cluster-changes", 0), what="the source goes on")
        world.ask.delete(f"{CONTROLS_PATH}/ullage")
        wait_for(lambda: not in_force(scene).through, what="the command may change it again")
        assert (in_force(scene).mode, in_force(scene).paused) == (Mode.PLAN, True)
        assert len(scene.events("control", 0)) == written + 1
        make(world, {"mode": "apply"})
        wait_for(lambda: in_force(scene).mode is Mode.APPLY, what="another object of that name commands")


def test_kubectl_and_the_command_change_the_same_switch_and_why_explains_each_state(
    scene: WatchedScene, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_source, "UPKEEP_PERIOD", timedelta(seconds=2))  # what was written past the object is undone then
    where = ["--set", "log.kind=file", "--set", f"log.path={tmp_path / 'log.jsonl'}", "--set", f"topics.partitions={PARTITIONS}"]
    topic = scene.topics.wire("control")

    def ullage(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = cli.run([*words, *where])
        shown = capsys.readouterr()
        return code, " ".join((shown.out + shown.err).split())

    def command(*words: str) -> tuple[int, str]:
        return ullage(*words, "--set", "cluster.name=real")

    def why_in_force() -> str:
        """What `why` says of the newest record."""
        code, said = ullage("why", f"{topic}:0:{scene.log.end(topic, 0) - 1}")
        assert code == 0, said
        return said

    assert command("mode", "apply", "--reason", "by hand")[0] == 0
    said = why_in_force()
    assert ("apply" in said, "by hand" in said, "ClusterControl" in said) == (True, True, False)
    with scene.watching(control=True):
        make(world, {"mode": "plan", "budget": 0.25, "reason": "in git"})
        wait_for(lambda: answered(world), what="the object is in force")
        said = why_in_force()
        assert [word for word in ("plan", "in git", "ClusterControl/ullage", "(field manager)") if word not in said] == []
        place = condition(world)["message"].removeprefix("in force from ").removesuffix(" on")
        assert "in git" in ullage("why", place)[1], "as the status says"

        code, said = command("mode", "apply")
        assert code != 0
        assert "the object ClusterControl/ullage says how far Ullage may go in cluster 'real'" in said
        assert in_force(scene).mode is Mode.PLAN

        world.ask.patch(f"{CONTROLS_PATH}/ullage", {"spec": {"mode": "apply", "reason": "reviewed"}}, kind="merge")
        wait_for(lambda: in_force(scene).mode is Mode.APPLY and answered(world), what="the change is in force")
        assert "reviewed" in why_in_force()

        assert command("pause", "--reason", "INC-1")[0] == 0
        said = why_in_force()
        assert ("paused" in said, "INC-1" in said) == (True, True)
        wait_for(
            lambda: in_force(scene).through == "ClusterControl/ullage" and not in_force(scene).paused, what="the object wins"
        )
        assert "reviewed" in why_in_force()

        world.ask.delete(f"{CONTROLS_PATH}/ullage")
        wait_for(lambda: not in_force(scene).through, what="the object is gone")
        said = why_in_force()
        assert [word for word in ("apply", "ClusterControl/ullage") if word not in said] == []
        assert command("mode", "shadow", "--reason", "back to hand")[0] == 0, "the command may say it again"
        assert "back to hand" in why_in_force()
    assert (in_force(scene).mode, in_force(scene).through) == (Mode.SHADOW, "")


def test_kubectl_applies_what_the_commands_print_as_objects_and_then_finds_no_difference(
    scene: WatchedScene, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--set", "log.kind=file", "--set", f"log.path={tmp_path / 'log.jsonl'}", "--set", f"topics.partitions={PARTITIONS}"]

    def ullage(*words: str) -> str:
        """What a command prints."""
        capsys.readouterr()
        assert cli.run([*words, *where, "--set", "cluster.name=real"]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    def kubectl(verb: str, manifest: str, *words: str) -> tuple[int, str]:
        command = ["kubectl", "--kubeconfig", str(scene.plane.kubeconfig), verb, *words, "-f", "-"]
        done = subprocess.run(command, input=manifest, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    own = f"real/{world.namespace}"
    bounds = ("--container", "app", "--min", "memory=64Mi", "--max", "cpu=2")
    ullage("policy", "set", f"{own}/Deployment/cart", "--mode", "InPlace", *bounds)
    ullage("policy", "set", f"{own}/Deployment/cart-*", "--mode", "Off")
    ullage("policy", "set", f"{own}/*", "--mode", "Initial")
    said = OperatorLog(LogContext.of(scene.log, scene.topics)).policies()
    schedule = "0 9 * * mon-fri Europe/Berlin for 8h: mode shadow, budget 5% (office hours)"
    switch = ullage("mode", "plan", "--budget", "25%", "--reason", "in git", "--schedule", schedule, "--as-object")
    assert OperatorLog(LogContext.of(scene.log, scene.topics)).control("real") is None, "printed, and not sent"
    policies = ullage("policy", "list", "--as-objects")
    with scene.watching(control=True, policies=True):
        for printed in (switch, policies):
            assert kubectl("diff", printed)[0] == 1, "they are not there yet"
            code, answer = kubectl("apply", printed, "--validate=strict")
            assert (code, "warning" in answer.lower()) == (0, False), answer
        wait_for(lambda: in_force(scene).through == "ClusterControl/ullage", what="the switch is the object's")
        wait_for(
            lambda: all(policy.through for policy in OperatorLog(LogContext.of(scene.log, scene.topics)).policies().values()),
            what="the policies are those of objects",
        )
        wait_for(lambda: answered(world), what="the status is written")
        for printed in (switch, policies):
            assert kubectl("diff", printed) == (0, "")
            assert "configured" not in kubectl("apply", printed)[1], "applied again, it changes nothing"
        shown = " ".join(ullage("status").split())
        assert [word for word in ("plan", "in git", "ClusterControl/ullage") if word not in shown] == []
        mirrored = OperatorLog(LogContext.of(scene.log, scene.topics)).policies()
        assert {name: _alone(policy) for name, policy in mirrored.items()} == {
            name: _alone(policy) for name, policy in said.items()
        }
        assert ullage("policy", "list", "--as-objects") == policies


def _alone(policy: VerticalPolicyChanged) -> VerticalPolicyChanged:
    """What a policy says, without who said it, and when."""
    return replace(policy, at=times.from_ms(0), version="", by=None, through="")


def test_an_object_deleted_while_the_source_was_down_commands_no_longer(scene: WatchedScene, world: World) -> None:
    with scene.watching(control=True):
        make(world, {"mode": "plan"})
        wait_for(lambda: answered(world), what="it is in force")
    world.ask.delete(f"{CONTROLS_PATH}/ullage")
    with scene.watching(control=True):
        wait_for(lambda: not in_force(scene).through, what="it is noticed")
    assert in_force(scene).mode is Mode.PLAN
