"""Statuses of commanding objects that two installations write by turns, or that are refused: not for ever at one pace."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged
from streams.clients.kube.commanding_objects import CommandingObject, ControlObject, PolicyObject
from streams.clients.kube.json_objects import Json
from streams.errors import GiveUp
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.sources.kube.publish.cluster_control import ControlDoor
from streams.sources.kube.publish.policy_objects import PolicyDoor
from tests.support.kube_scene import KubeScene

POLICIES, CONTROLS = "verticalpolicies", "clustercontrols"
HOURS, STEP, MOST_ECHOES = 3, 10, 10
"""Hours that are played, in steps of so many seconds, in each of which no more echoes reach the installations."""


def seen(kind: str, generation: int, status: Json, manager: str) -> CommandingObject:
    fields = [{"manager": manager, "subresource": "status", "time": "2026-01-05T12:00:00Z", "fieldsV1": {"f:status": {}}}]
    spec: Json = {"mode": "apply"} if kind == CONTROLS else {"target": {"kind": "Deployment", "name": "cart"}, "mode": "Off"}
    about = {"name": "ullage" if kind == CONTROLS else "cart", "uid": "1", "resourceVersion": "1", "generation": generation}
    about |= {"managedFields": fields, "creationTimestamp": "2026-01-05T10:00:00Z"}
    about |= {} if kind == CONTROLS else {"namespace": "shop"}
    body = msgspec.json.encode({"metadata": about, "spec": spec, "status": status})
    return msgspec.json.decode(body, type=ControlObject if kind == CONTROLS else PolicyObject)


@dataclass
class Cluster:
    """One object that two installations watch, each with a log of its own; `answer` refuses all writes of statuses."""

    kind: str
    generation: int = 1
    status: Json = field(default_factory=dict)
    written: list[float] = field(default_factory=list)
    echoes: list[Json] = field(default_factory=list)
    """What watches have not shown yet."""
    answer: str = ""
    scenes: list[KubeScene] = field(default_factory=list)

    def __post_init__(self) -> None:
        doors = (self._door(None), self._door("the log has no logins"))
        self.scenes = [KubeScene(**door) for door in doors]
        for scene in self.scenes:
            scene.sync(self.kind)

    def _door(self, why_open: str | None) -> dict[str, Any]:
        if self.kind == CONTROLS:
            return {"control": ControlDoor(self.write, lambda: why_open)}
        return {"policies": PolicyDoor(self.write, lambda _: None)}

    def write(self, _item: CommandingObject, status: Json) -> None:
        self.written.append((self.scenes[0].at if self.scenes else KubeScene().at).timestamp())
        if self.answer:
            raise GiveUp(doing="writing the status", to="cart", answer=self.answer)
        self.status = status
        self.echoes.append(status)

    def show(self, manager: str = "ullage-commands") -> None:
        """As watches do."""
        status = self.echoes.pop(0) if self.echoes else self.status
        for scene in self.scenes:
            scene.see(self.kind, seen(self.kind, self.generation, status, manager))  # type: ignore[arg-type]

    def play(self, hours: float, spoil: Callable[[], None] = lambda: None) -> None:
        for _ in range(int(hours * 3600 / STEP)):
            for scene in self.scenes:
                scene.later(timedelta(seconds=STEP))
            spoil()
            for _ in range(MOST_ECHOES):
                if self.echoes:
                    self.show()


@pytest.fixture(params=[POLICIES, CONTROLS])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    cluster = Cluster(request.param)
    if request.param == POLICIES:
        # Their logs differ, as one has had other records before, and so do the places in their statuses.
        earlier = VerticalPolicyChanged(cluster.scenes[1].at, "real/shop/Deployment/cart", "1", UpdateMode.OFF)
        OperatorLog(LogContext.of(cluster.scenes[1].log, cluster.scenes[1].topics, "real")).publish(earlier)
    return cluster


def test_two_installations_write_one_status_more_and_more_seldom_and_the_log_names_the_writer(cluster: Cluster) -> None:
    with capture_logs() as lines:
        cluster.show()
        cluster.play(HOURS)
    pauses = [later - earlier for earlier, later in pairwise(cluster.written)]
    assert 6 <= len(cluster.written) <= 40
    assert max(pauses) >= 600
    told = [line for line in lines if line["event"] == "somebody else keeps changing an object"]
    assert 0 < len(told) <= 40, "once in each pause"
    what = "status of VerticalPolicy" if cluster.kind == POLICIES else "status of ClusterControl"
    assert {line["what"] for line in told} == {what}
    assert {line["object"] for line in told} == {"shop/cart" if cluster.kind == POLICIES else "ullage"}
    assert {line["writer"] for line in told} == {"ullage-commands"}


def test_another_writer_is_named_and_what_is_new_is_said_at_once(cluster: Cluster) -> None:
    del cluster.scenes[1]

    def spoil() -> None:
        if cluster.echoes:
            cluster.show()
        cluster.status = {}
        cluster.show("velero")

    with capture_logs() as lines:
        cluster.show()
        cluster.play(1, spoil)
    assert 3 <= len(cluster.written) <= 12, "each ten seconds it would be 360"
    told = [line for line in lines if line["event"] == "somebody else keeps changing an object"]
    assert {line["writer"] for line in told} == {"velero"}
    before, cluster.generation = len(cluster.written), 2
    cluster.show("velero")
    assert len(cluster.written) == before + 1
    assert cluster.status["observedGeneration"] == 2


def test_a_status_that_is_refused_is_asked_for_more_and_more_seldom_and_each_new_answer_is_told(cluster: Cluster) -> None:
    del cluster.scenes[1]
    with capture_logs() as lines:
        for cluster.answer in ("403 forbidden", "422 invalid"):
            cluster.show()
            cluster.play(HOURS)
        tries = len(cluster.written)
        assert 8 <= tries <= 30, "each minute it would be 360"
        cluster.answer = ""
        cluster.play(1)
    assert len(cluster.written) == tries + 1
    told = [(line["event"], line.get("error", "").rpartition(": ")[2]) for line in lines if "write was" in line["event"]]
    assert told == [
        ("a write was refused", "403 forbidden"),
        ("a write was refused", "422 invalid"),
        ("a refused write was accepted", ""),
    ]
