"""Policies as objects, on a real API server: kubectl and the command change the same, and `why` explains each state.

What the API server can judge it refuses; what it cannot the status says.
"""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agents import cli
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged
from streams.clients.kube.commanding_objects import POLICY_PLURAL
from streams.log.file_log import FileLog
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from tests.controlplane.api_requests import Refused, wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.watched_namespace import PARTITIONS, WatchedScene
from tests.controlplane.world import World

CART = {"kind": "Deployment", "name": "cart"}


@pytest.fixture
def scene(plane: Plane, world: World, tmp_path: Path) -> WatchedScene:
    """The source's log is a file, which the command can read and write."""
    return WatchedScene(plane, world, FileLog.open_or_create(tmp_path / "log.jsonl"))


def path(world: World) -> str:
    return f"/apis/ullage.internal/v1alpha1/namespaces/{world.namespace}/{POLICY_PLURAL}"


def make(world: World, spec: dict[str, Any], name: str = "cart") -> Any:
    body = {"apiVersion": "ullage.internal/v1alpha1", "kind": "VerticalPolicy", "metadata": {"name": name}, "spec": spec}
    return world.ask.post(f"{path(world)}?fieldValidation=Strict", body)


def in_force(scene: WatchedScene) -> dict[str, VerticalPolicyChanged]:
    return OperatorLog(LogContext.of(scene.log, scene.topics)).policies()


def answer(world: World, name: str = "cart") -> tuple[str, str]:
    """The condition `Applied` of the spec of now; two empty texts until the source has answered it."""
    found = world.ask.request("GET", f"{path(world)}/{name}")
    said = next(iter(found.get("status", {}).get("conditions", [])), {})
    return (said["status"], said["message"]) if said.get("observedGeneration") == found["metadata"]["generation"] else ("", "")


@pytest.mark.parametrize(
    "spec",
    [
        {"mode": "destroy"},
        {"target": {"name": "cart"}},
        {"target": {"kind": "Deployment", "name": "../other/Deployment/cart"}},
        {"target": {"kind": "Deployment", "name": "a*b"}},
        {"target": {"kind": "Deployment/x", "name": "cart"}},
        {"target": {"kind": "Deployment", "name": "cart", "namespace": "other"}},
        {"containers": [{"container": "app"}, {"container": "app"}]},
        {"containers": [{"min": {"gpu": 1}}]},
        {"containers": [{"riskCpu": 0.9}]},
        {"containers": [{"policy": "mine.py"}]},
        {"guards": {"speed": 1}},
        {"guards": {"budget": 7}},
        {"guards": {"profile": "none"}},
        {"more": 1},
    ],
)
def test_the_api_server_refuses_what_cannot_be_obeyed(world: World, spec: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        make(world, spec)


def test_kubectl_and_the_command_change_the_same_policy_and_why_explains_each_state(
    scene: WatchedScene, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = f"real/{world.namespace}/Deployment/cart"
    where = ["--set", "log.kind=file", "--set", f"log.path={tmp_path / 'log.jsonl'}", "--set", f"topics.partitions={PARTITIONS}"]

    def ullage(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = cli.run([*words, *where, "--cluster", "real"])
        shown = capsys.readouterr()
        return code, " ".join((shown.out + shown.err).split())

    def why(place: str) -> str:
        code, said = ullage("why", place.removeprefix("in force from ").removesuffix(" on"))
        assert code == 0, said
        return said

    with scene.watching(policies=True):
        assert ullage("policy", "set", target, "--mode", "Auto")[0] == 0
        make(world, {"target": CART, "mode": "Off", "containers": [{"max": {"cpu": "2"}}]})
        wait_for(lambda: answer(world)[0] == "True", what="the object is in force")
        assert in_force(scene)[target].update_mode is UpdateMode.OFF
        name = f"VerticalPolicy/{world.namespace}/cart"
        made = why(answer(world)[1])
        assert (name in made, "Off" in made, "(field manager)" in made) == (True, True, True)

        for words in (("set", target, "--mode", "Auto"), ("remove", target)):
            code, said = ullage("policy", *words)
            assert code != 0
            assert f"the object {name} says the policy of '{target}'" in said
            assert f"kubectl edit verticalpolicy cart -n {world.namespace}" in said
        assert ullage("policy", "set", f"real/{world.namespace}/*", "--mode", "Initial")[0] == 0, (
            "another target is the command's"
        )

        world.ask.patch(f"{path(world)}/cart", {"spec": {"mode": "InPlace"}}, kind="merge")
        wait_for(
            lambda: answer(world)[0] == "True" and in_force(scene)[target].update_mode is UpdateMode.IN_PLACE, what="the change"
        )
        changed = why(answer(world)[1])
        assert (changed != made, f"{world.namespace}/cart@2" in changed) == (True, True)

        world.ask.patch(f"{path(world)}/cart", {"spec": {"guards": {"budgetSchedules": "now and then"}}}, kind="merge")
        wait_for(lambda: answer(world)[0] == "False", what="what only we can judge is refused")
        assert "spec.guards.budget_schedules is now and then" in answer(world)[1]
        assert in_force(scene)[target].update_mode is UpdateMode.IN_PLACE

        make(world, {"target": CART, "mode": "Auto"}, name="later")
        wait_for(lambda: answer(world, "later")[0] == "False", what="the newer of two is refused")
        assert f"{name} is older" in answer(world, "later")[1]

        world.ask.delete(f"{path(world)}/cart")
        wait_for(lambda: answer(world, "later")[0] == "True", what="the newer one counts once the older is gone")
        world.ask.delete(f"{path(world)}/later")
        wait_for(lambda: target not in in_force(scene), what="the policy is gone with its last object")
        rules = scene.topics.wire("rules")
        removed = why(f"{rules}:0:{scene.log.end(rules, 0) - 1}")
        assert ("removed" in removed, f"VerticalPolicy/{world.namespace}/later" in removed) == (True, True)
        assert list(in_force(scene)) == [f"real/{world.namespace}/*"]
        assert ullage("policy", "set", target, "--mode", "Auto")[0] == 0, "the command may say it again"
    assert in_force(scene)[target].through == ""


def test_a_status_that_somebody_keeps_setting_back_is_left_after_three_times_and_the_log_names_them(
    scene: WatchedScene, world: World
) -> None:
    false = {
        "type": "Applied",
        "status": "False",
        "reason": "Refused",
        "message": "no",
        "lastTransitionTime": "2026-01-05T12:00:00Z",
    }
    status = {"observedGeneration": 1, "conditions": [false | {"observedGeneration": 1}]}
    with capture_logs() as lines, scene.watching(policies=True):
        make(world, {"target": CART, "mode": "Off"})
        for _ in range(4):
            wait_for(lambda: answer(world)[0] == "True", what="the status is ours")
            world.ask.patch(f"{path(world)}/cart/status?fieldManager=velero", {"status": status}, kind="merge")
        told = lambda: [line for line in lines if line["event"] == "somebody else keeps changing an object"]  # noqa: E731
        wait_for(lambda: bool(told()), what="the log has a warning")
        assert answer(world)[0] == "False", "left as they made it"
    assert [(line["object"], line["writer"]) for line in told()] == [(f"{world.namespace}/cart", "velero")]
    managers = world.ask.request("GET", f"{path(world)}/cart")["metadata"]["managedFields"]
    assert {entry["manager"] for entry in managers if entry.get("subresource") == "status"} <= {"velero", "ullage-commands"}
