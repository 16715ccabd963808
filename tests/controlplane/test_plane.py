"""The control plane itself: what the tests beside rely on when they break it."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.controlplane import flags
from tests.controlplane.api_requests import Refused, wait_for
from tests.controlplane.plane import Plane, free_ports
from tests.controlplane.program import PlaneError, Program
from tests.controlplane.world import World

REPOSITORY = Path(__file__).resolve().parents[2]


def first_event(world: World, version: str) -> Any:
    """The first change since `version` that a watch tells, within two seconds."""
    answer = world.ask.get(f"{world.path('pods')}?watch=1&resourceVersion={version}&timeoutSeconds=2")
    return json.loads(answer.split("\n")[0]) if isinstance(answer, str) else answer


def test_a_watch_and_a_list_from_a_version_that_expired_are_answered_410(plane: Plane, world: World) -> None:
    old = world.ask.get(world.path("pods"))["metadata"]["resourceVersion"]
    world.deployment("web", replicas=3)
    page = world.ask.get(f"{world.path('pods')}?limit=1")["metadata"]
    assert first_event(world, old)["type"] == "ADDED"
    plane.expire_versions()
    answer = first_event(world, old)
    assert (answer["type"], answer["object"]["code"], answer["object"]["reason"]) == ("ERROR", 410, "Expired")
    with pytest.raises(Refused) as refused:
        world.ask.get(f"{world.path('pods')}?limit=1&continue={page['continue']}")
    assert refused.value.code == 410


def test_the_real_vpa_type_takes_a_vpa_and_refuses_an_unknown_mode(world: World) -> None:
    world.vpa("web", "web", spec={"updatePolicy": {"updateMode": "Off"}})
    assert world.ask.get(world.path("vpas", "web"))["spec"]["updatePolicy"]["updateMode"] == "Off"
    with pytest.raises(Refused) as refused:
        world.vpa("bad", "web", spec={"updatePolicy": {"updateMode": "Sometimes"}})
    assert refused.value.code == 422


def test_a_pod_that_no_node_can_hold_waits_for_a_larger_node(world: World) -> None:
    world.deployment("big", {"app": {"requests": {"cpu": "6"}}}, wait=False)
    (node,) = world.add_nodes(1, cpu="8")
    (pod,) = world.running("big", 1)
    assert pod["spec"]["nodeName"] == node


_HOLDS = """
import sys, time
from pathlib import Path
from tests.controlplane.api_requests import Asking
from tests.controlplane.program import Program
log, url, *command = sys.argv[1:]
program = Program(command, Path(log), lambda: Asking(url, "", None).good("/health"))
program.start()
program.wait_ready(60)
print(program.pid, flush=True)
time.sleep(600)
"""


def test_a_killed_test_leaves_no_program_behind(plane: Plane, tmp_path: Path) -> None:
    client, peer = free_ports(2)
    at = dataclasses.replace(plane.at, folder=tmp_path, etcd=client, peer=peer)
    arguments = [str(tmp_path / "etcd.log"), f"http://{flags.HOST}:{at.etcd}", *flags.etcd(at)]
    holder = subprocess.Popen([sys.executable, "-c", _HOLDS, *arguments], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        assert psutil.Process(pid).is_running()
    finally:
        holder.kill()
        holder.communicate()
    wait_for(lambda: not psutil.pid_exists(pid), what="etcd has ended")


def test_a_program_that_ends_at_its_start_is_started_again_as_often_as_asked(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    command = ["/bin/sh", "-c", f'echo >>"{starts}"; test $(wc -l <"{starts}") -ge 3 && exec sleep 60']
    program = Program(command, tmp_path / "log", lambda: starts.exists() and starts.read_text().count("\n") >= 3)
    try:
        program.start()
        program.wait_ready(20, restarts=2)
        starts.unlink()
        program.stop()
        program.start()
        with pytest.raises(PlaneError, match="ended while it started"):
            program.wait_ready(20, restarts=1)
    finally:
        program.stop()
