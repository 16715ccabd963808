"""The object that commands a cluster: mirrored into the log, answered in its status, and harmless whatever it says."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from schemas.outcomes import OutcomeDetail
from schemas.policies.control import ControlChanged, ControlSchedule, Mode
from schemas.units import Fraction
from streams.clients.kube.commanding_objects import ControlObject
from streams.clients.kube.json_objects import Json
from streams.errors import GiveUp
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.sources.kube.publish.cluster_control import ControlDoor
from tests.support.kube_scene import KubeScene

KIND = "clustercontrols"


@dataclass
class Cluster:
    """A cluster that keeps the statuses that it was given; `open` says why its log is an open one, `away` that it refuses."""

    written: list[Json] = field(default_factory=list)
    open: str | None = None
    away: bool = False

    def write(self, _found: ControlObject, status: Json) -> None:
        if self.away:
            raise GiveUp(doing="writing", to="ullage", answer="403", detail=OutcomeDetail.FORBIDDEN)
        self.written.append(status)

    def said(self) -> tuple[str, str]:
        condition = self.written[-1]["conditions"][0]
        return condition["status"], condition["message"]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def scene(cluster: Cluster) -> KubeScene:
    return KubeScene(control=ControlDoor(cluster.write, lambda: cluster.open))


def control(spec: object, *, name: str = "ullage", generation: int = 1, status: object = None) -> ControlObject:
    fields = [{"manager": "argocd-controller", "time": "2026-01-05T12:00:00Z", "fieldsV1": {"f:spec": {}}}]
    meta = {"name": name, "uid": "1", "resourceVersion": "1", "generation": generation, "managedFields": fields}
    return msgspec.json.decode(msgspec.json.encode({"metadata": meta, "spec": spec, "status": status or {}}), type=ControlObject)


def operator(scene: KubeScene) -> OperatorLog:
    return OperatorLog(LogContext.of(scene.log, scene.topics, "real"))


def in_force(scene: KubeScene) -> ControlChanged:
    control = operator(scene).control("real")
    assert control is not None
    return control


def records(scene: KubeScene) -> int:
    return len(scene.events("control", 0))


def test_what_the_object_says_is_in_force_and_its_status_says_from_where_on(scene: KubeScene, cluster: Cluster) -> None:
    scene.see(KIND, control({"mode": "plan", "budget": 0.2, "paused": True, "reason": "INC-1"}))
    there = in_force(scene)
    assert (there.mode, there.budget, there.paused, there.reason) == (Mode.PLAN, 0.2, True, "INC-1")
    assert there.through == "ClusterControl/ullage"
    assert str(there.by) == "argocd-controller at 2026-01-05T12:00:00+00:00 (field manager)"
    partition = scene.topics.partition_of("real")
    assert cluster.said() == ("True", f"in force from ullage.control.v1:{partition}:0 on")


def test_whoever_removes_a_field_does_not_act_in_the_name_of_who_set_the_others(scene: KubeScene) -> None:
    """The server notes nobody for that: managedFields stay those of the last who set something."""
    scene.see(KIND, control({"mode": "apply", "paused": True}))
    scene.see(KIND, control({"mode": "apply"}, generation=2))
    doubtful = "argocd-controller at 2026-01-05T12:00:00+00:00, or who removed a field since (field manager)"
    assert (in_force(scene).paused, str(in_force(scene).by)) == (False, doubtful)
    operator(scene).publish(ControlChanged(scene.at, "real", Mode.SHADOW))
    scene.later(timedelta(minutes=1))
    assert (in_force(scene).mode, str(in_force(scene).by)) == (Mode.APPLY, doubtful), "what is said again"
    scene.restart()
    scene.see(KIND, control({"mode": "apply", "budget": 0.5}, generation=3))
    assert str(in_force(scene).by) == doubtful


def test_an_object_whose_status_says_so_is_not_published_again_also_after_a_restart(scene: KubeScene, cluster: Cluster) -> None:
    scene.see(KIND, control({"mode": "plan"}))
    answered = control({"mode": "plan"}, status=cluster.written[-1])
    scene.see(KIND, answered)
    scene.restart()
    scene.see(KIND, answered)
    assert (records(scene), len(cluster.written)) == (1, 1)


def test_when_the_object_is_gone_the_last_state_stays_and_the_command_may_change_it(scene: KubeScene) -> None:
    found = control({"mode": "apply", "paused": True})
    scene.see(KIND, found)
    scene.sync(KIND)
    scene.lose(KIND, found)
    there = in_force(scene)
    assert (there.mode, there.paused, there.through) == (Mode.APPLY, True, "")
    assert str(there.by).startswith("argocd-controller")


def test_an_object_that_went_while_the_source_was_down_is_noticed_once_all_are_listed(scene: KubeScene) -> None:
    scene.see(KIND, control({"mode": "plan"}))
    scene.restart()
    scene.later(timedelta(seconds=1))
    assert in_force(scene).through
    scene.sync(KIND)
    assert not in_force(scene).through


def test_what_somebody_wrote_past_the_object_is_undone_within_a_minute(scene: KubeScene, cluster: Cluster) -> None:
    scene.see(KIND, control({"mode": "shadow"}))
    scene.see(KIND, control({"mode": "shadow"}, status=cluster.written[-1]))
    operator(scene).publish(ControlChanged(scene.at, "real", Mode.APPLY))
    scene.later(timedelta(minutes=1))
    assert (in_force(scene).mode, in_force(scene).through) == (Mode.SHADOW, "ClusterControl/ullage")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"mode": "destroy"}, "spec.mode is 'destroy'; there are shadow, plan, apply"),
        ({"mode": "apply", "budget": 7}, "spec.budget is 7.0; it is a share of the pods, from 0 to 1"),
        ({"mode": "apply", "budget": "all"}, "Expected `float`, got `str`"),
        ({"mode": ["apply"]}, "Expected `str`, got `array`"),
        ({"mode": "plan", "schedules": [{"begins": "at nine", "minutes": 5, "mode": "shadow"}]}, "spec.schedules[0]: 'at nine'"),
        (
            {"mode": "plan", "schedules": [{"begins": "0 9 * * *", "minutes": 5, "mode": "all"}]},
            "spec.schedules[0].mode is 'all'",
        ),
        (
            {"mode": "plan", "schedules": [{"begins": "0 9 30 2 *", "minutes": 5, "paused": True}]},
            "spec.schedules[0].begins is '0 9 30 2 *'; there is no such day, so it never begins",
        ),
        ({"mode": "plan", "schedules": [{"begins": "0 9 * * *", "mode": "shadow"}]}, "missing required field `minutes`"),
        ({"mode": "x" * 100_000}, "spec.mode is 'xxx"),
        ({"mode": "plan", "reason": "x" * 2_000_000}, "the object is too large: reason"),
        ({}, "missing required field `mode`"),
        ([], "Expected `object`, got `array`"),
        (None, "Expected `object`, got `null`"),
    ],
)
def test_a_spec_that_cannot_be_obeyed_is_refused_in_the_status_and_changes_nothing(
    scene: KubeScene, cluster: Cluster, spec: object, why: str
) -> None:
    scene.see(KIND, control({"mode": "plan"}))
    before = in_force(scene)
    refused: Any = control(spec, generation=2)
    scene.see(KIND, refused)
    status, message = cluster.said()
    assert (status, len(message) <= 1000) == ("False", True)
    assert why in message
    scene.see(KIND, control(spec, generation=2, status=cluster.written[-1]))
    assert len(cluster.written) == 2
    assert in_force(scene) == before
    operator(scene).publish(ControlChanged(scene.at, "real", Mode.PLAN, paused=True))
    scene.later(timedelta(minutes=1))
    assert in_force(scene).paused, "what is written past it stays until the object can be obeyed"


def test_another_name_is_refused_and_an_odd_status_does_not_hide_an_object(scene: KubeScene, cluster: Cluster) -> None:
    scene.see(KIND, control({"mode": "apply"}, name="mine", status={"conditions": "none"}))
    assert cluster.said() == ("False", "only the ClusterControl with the name 'ullage' is obeyed, and this is 'mine'")
    assert records(scene) == 0
    scene.see(KIND, control({"mode": "plan"}, status=["odd"]))
    assert cluster.said()[0] == "True"


def test_mode_apply_on_an_open_log_is_refused_unless_the_object_says_so(scene: KubeScene, cluster: Cluster) -> None:
    cluster.open = "Kafka 'kafka:9092' lets us in without a login"
    scene.see(KIND, control({"mode": "apply"}))
    assert cluster.said()[0] == "False"
    assert "say spec.onAnOpenLog" in cluster.said()[1]
    scene.see(KIND, control({"mode": "apply", "onAnOpenLog": True}, generation=2))
    assert cluster.said()[0] == "True"
    assert in_force(scene).mode is Mode.APPLY


def test_schedules_are_facts_in_the_log_and_one_that_applies_needs_a_closed_log_too(scene: KubeScene, cluster: Cluster) -> None:
    night = {
        "begins": "0 1 * * *",
        "minutes": 120,
        "timeZone": "Europe/Berlin",
        "mode": "apply",
        "budget": 0.3,
        "reason": "night",
    }
    scene.see(KIND, control({"mode": "plan", "schedules": [night]}))
    assert cluster.said()[0] == "True"
    assert in_force(scene).schedules == (
        ControlSchedule("0 1 * * *", 120, "Europe/Berlin", Mode.APPLY, Fraction(0.3), reason="night"),
    )
    cluster.open = "Kafka 'kafka:9092' lets us in without a login"
    scene.see(KIND, control({"mode": "plan", "schedules": [night, night]}, generation=2))
    assert cluster.said()[0] == "False"
    assert len(in_force(scene).schedules) == 1


def test_while_the_log_or_the_cluster_is_away_the_object_waits_and_is_tried_again(scene: KubeScene, cluster: Cluster) -> None:
    cluster.away = scene.log.away = True
    scene.see(KIND, control({"mode": "plan"}))
    scene.log.away = False
    scene.later(timedelta(seconds=10))
    assert (in_force(scene).mode, cluster.written) == (Mode.PLAN, [])
    cluster.away = False
    scene.later(timedelta(minutes=1))
    assert cluster.said()[0] == "True"


def test_while_its_status_cannot_be_written_what_it_says_is_published_once(scene: KubeScene, cluster: Cluster) -> None:
    """A right that is missing stays so for days, and each try would be a record in every partition."""
    cluster.away = True
    scene.see(KIND, control({"mode": "plan"}))
    for _ in range(6):
        scene.later(timedelta(seconds=10))
    assert (records(scene), cluster.written) == (1, [])
    cluster.away = False
    scene.later(timedelta(minutes=1))
    assert cluster.said() == ("True", f"in force from ullage.control.v1:{scene.topics.partition_of('real')}:0 on")
