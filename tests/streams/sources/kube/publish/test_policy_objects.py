"""VerticalPolicy objects: mirrored into the log for their own namespace, answered in their status, harmless whatever they say."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from agents.logic import stage_rules
from agents.logic.updates.update_settings import UpdateSettings
from schemas.names import Amounts
from schemas.outcomes import OutcomeDetail
from schemas.policies.vertical import ContainerPolicy, GuardOverrides, Tuning, UpdateMode, VerticalPolicyChanged
from schemas.units import Bytes, Cores, Fraction
from streams.clients.kube.commanding_objects import PolicyObject
from streams.clients.kube.json_objects import Json
from streams.errors import GiveUp
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.sources.kube.publish import policy_objects
from streams.sources.kube.publish.policy_objects import PolicyDoor
from tests.support.kube_scene import KubeScene

KIND = "verticalpolicies"
CART = "real/shop/Deployment/cart"


@dataclass
class Cluster:
    """A cluster that keeps the statuses that it was given; `away` names an object whose status it refuses to write."""

    written: list[tuple[str, Json]] = field(default_factory=list)
    away: str = ""

    def write(self, found: PolicyObject, status: Json) -> None:
        if self.away == found.metadata.name:
            raise GiveUp(doing="writing", to=self.away, answer="403", detail=OutcomeDetail.FORBIDDEN)
        self.written.append((found.metadata.name, status))

    def said(self, name: str) -> tuple[str, str]:
        condition = next(status for of, status in reversed(self.written) if of == name)["conditions"][0]
        return condition["status"], condition["message"]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def scene(cluster: Cluster) -> KubeScene:
    scene = KubeScene(policies=PolicyDoor(cluster.write, lambda said: stage_rules.fault(UpdateSettings, said)))
    scene.sync(KIND)
    return scene


def policy(
    spec: object, *, name: str = "cart", namespace: str = "shop", generation: int = 1, born: int = 0, status: object = None
) -> PolicyObject:
    fields = [{"manager": "argocd-controller", "time": "2026-01-05T12:00:00Z", "fieldsV1": {"f:spec": {}}}]
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "resourceVersion": "1"}
    meta |= {"generation": generation, "managedFields": fields, "creationTimestamp": f"2026-01-05T10:00:{born:02d}Z"}
    return msgspec.json.decode(msgspec.json.encode({"metadata": meta, "spec": spec, "status": status or {}}), type=PolicyObject)


def of_cart(**spec: object) -> dict[str, object]:
    return {"target": {"kind": "Deployment", "name": "cart"}, **spec}


def operator(scene: KubeScene) -> OperatorLog:
    return OperatorLog(LogContext.of(scene.log, scene.topics, "real"))


def in_force(scene: KubeScene) -> dict[str, VerticalPolicyChanged]:
    return operator(scene).policies()


def records(scene: KubeScene) -> int:
    return len(scene.events("rules", 0))


def test_all_that_an_object_says_is_in_force_and_its_status_says_from_where_on(scene: KubeScene, cluster: Cluster) -> None:
    container = {"container": "app", "min": {"cpu": "50m"}, "max": {"memory": "1Gi", "cpu": 2}, "policy": "adaptive"}
    spec = of_cart(
        mode="InPlace",
        containers=[container | {"riskCpu": 0.05, "riskOom": 1}],
        guards={"coolDown": 60, "budget": 0.05, "honorOptOuts": False},
        patchNewPods=False,
    )
    scene.see(KIND, policy(spec))
    there = in_force(scene)[CART]
    assert (there.version, there.update_mode, there.patch_new_pods) == ("shop/cart@1", UpdateMode.IN_PLACE, False)
    most = Amounts(Cores(2.0), Bytes(1 << 30))
    tuning = Tuning(risk_cpu=Fraction(0.05), risk_oom=1.0)
    assert there.containers == (ContainerPolicy("app", Amounts(Cores(0.05)), most, tuning=tuning, policy="adaptive"),)
    assert there.guards == GuardOverrides(cool_down=60, budget=Fraction(0.05), honor_opt_outs=False)
    assert there.through == "VerticalPolicy/shop/cart"
    assert str(there.by) == "argocd-controller at 2026-01-05T12:00:00+00:00 (field manager)"
    assert cluster.said("cart") == ("True", f"in force from ullage.rules.v1:{scene.topics.partition_of(CART)}:0 on")


@pytest.mark.parametrize(
    ("target", "key"),
    [
        (None, "real/shop/*"),
        ({"kind": "Deployment"}, "real/shop/Deployment/*"),
        ({"kind": "Deployment", "name": "cart-*"}, "real/shop/Deployment/cart-*"),
    ],
)
def test_an_object_speaks_for_workloads_of_its_own_namespace(scene: KubeScene, target: object, key: str) -> None:
    scene.see(KIND, policy({"target": target} if target else {}))
    assert list(in_force(scene)) == [key]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"mode": "destroy"}, "spec.mode is 'destroy'; there are Off"),
        ({"target": {"name": "cart"}}, "spec.target has a name and no kind"),
        ({"target": {"kind": "Deployment", "name": "../other/Deployment/cart"}}, "spec.target.name is '../other"),
        ({"target": {"kind": "*"}}, "this is no kind that Kubernetes would take"),
        ({"target": {"kind": "Deployment", "name": "c*t"}}, "spec.target.name is 'c*t'"),
        ({"guards": {"speed": 1}}, "spec.guards names 'speed'; there are budget"),
        ({"guards": {"budget": 7}}, "spec.guards.budget is 7"),
        ({"guards": {"budgetSchedules": "now and then"}}, "spec.guards.budget_schedules is now and then"),
        ({"guards": {"profile": "none"}}, "spec.guards.profile is none"),
        ({"containers": [{"min": {"cpu": "2"}, "max": {"cpu": "1"}}]}, "spec.containers[0].min cpu '2' is more than its max '1'"),
        ({"containers": [{"min": {"cpu": "much"}}]}, "spec.containers[0].min makes no sense"),
        ({"containers": [{"min": {"cpu": -1}}]}, "spec.containers[0].min is negative"),
        ({"containers": [{"min": {"gpu": 1}}]}, "spec.containers[0].min names 'gpu'; there are cpu and memory"),
        ({"containers": [{"riskCpu": 0.9}]}, "spec.containers[0].riskCpu is 0.9; it is from 0.001 to 0.2"),
        ({"containers": [{"policy": "mine.py"}]}, "spec.containers[0].policy is 'mine.py'; there are"),
        ({"containers": [{}, {}]}, "spec.containers has two entries for '*'"),
        ({"containers": [{"container": f"c{i}"} for i in range(101)]}, "spec.containers has 101 entries; 100 are allowed"),
        ({"containers": [{"container": "c" * 5_000}]}, "the object is too large: containers[0].container"),
        ({"containers": [{"min": {"memory": "1e40"}}]}, "spec.containers[0].min makes no sense"),
        ({"containers": "all"}, "Expected `array`, got `str` - at `spec.containers`"),
        ([], "Expected `object`, got `array`"),
        (None, "Expected `object`, got `null`"),
    ],
)
def test_what_cannot_be_obeyed_changes_nothing_and_the_status_says_why(
    scene: KubeScene, cluster: Cluster, spec: object, why: str
) -> None:
    scene.see(KIND, policy(of_cart(mode="Off")))
    scene.see(KIND, policy(spec, generation=2))
    status, message = cluster.said("cart")
    assert (status, records(scene)) == ("False", 1)
    assert why in message
    assert in_force(scene)[CART].update_mode is UpdateMode.OFF
    scene.later(timedelta(minutes=1))
    assert (records(scene), len(cluster.written)) == (1, 2)


def test_a_changed_target_ends_the_policy_of_the_old_one(scene: KubeScene) -> None:
    scene.see(KIND, policy(of_cart(mode="Off")))
    scene.see(KIND, policy({"mode": "Off"}, generation=2))
    assert list(in_force(scene)) == ["real/shop/*"]


def test_when_the_object_is_gone_so_is_its_policy_also_when_the_source_was_down(scene: KubeScene) -> None:
    found = policy(of_cart(mode="Off"))
    operator(scene).publish(VerticalPolicyChanged(scene.at, "real/shop/*", "1"))
    scene.see(KIND, found)
    scene.lose(KIND, found)
    assert list(in_force(scene)) == ["real/shop/*"]
    scene.see(KIND, found)
    scene.restart()
    scene.later(timedelta(seconds=1))
    assert CART in in_force(scene), "what is not listed yet is not gone"
    scene.sync(KIND)
    assert list(in_force(scene)) == ["real/shop/*"]


def test_a_source_of_another_cluster_or_of_other_namespaces_takes_no_policy_away(scene: KubeScene) -> None:
    for target, name in (("other/shop/*", "shop/all"), ("real/web/*", "web/all")):
        operator(scene).publish(VerticalPolicyChanged(scene.at, target, "1", through=f"VerticalPolicy/{name}"))
    publisher = policy_objects.PolicyObjectPublisher(
        LogContext.of(scene.log, scene.topics, "real"), PolicyDoor(lambda *_: None, lambda _: None), ("shop",)
    )
    publisher.restore(None, scene.at)  # type: ignore[arg-type]  # it reads the log itself
    publisher.synced(KIND, controllers=True, at=scene.at)
    publisher.publish_due(scene.at)
    assert list(in_force(scene)) == ["other/shop/*", "real/web/*"]


def test_an_object_whose_status_says_so_is_not_published_again_also_after_a_restart(scene: KubeScene, cluster: Cluster) -> None:
    scene.see(KIND, policy(of_cart()))
    answered = policy(of_cart(), status=cluster.written[-1][1])
    scene.see(KIND, answered)
    scene.restart()
    scene.see(KIND, answered)
    scene.sync(KIND)
    assert (records(scene), len(cluster.written)) == (1, 1)


def test_a_status_that_somebody_else_wrote_is_put_right(scene: KubeScene, cluster: Cluster) -> None:
    lie = {"conditions": [{"type": "Applied", "status": "False", "message": "nothing", "observedGeneration": 1}]}
    scene.see(KIND, policy(of_cart(mode="Off")))
    honest = cluster.written[-1][1]
    scene.see(KIND, policy(of_cart(mode="Off"), status=lie))
    assert len(cluster.written) == 1, "the watch may show what was there before"
    for shown in (honest, lie):
        scene.see(KIND, policy(of_cart(mode="Off"), status=shown))
    assert (len(cluster.written), cluster.said("cart")) == (2, ("True", honest["conditions"][0]["message"]))
    scene.see(KIND, policy(of_cart(mode="Off"), status=cluster.written[-1][1]))
    assert (records(scene), len(cluster.written)) == (1, 2)


def test_what_somebody_wrote_past_the_object_is_undone_within_a_minute(scene: KubeScene) -> None:
    scene.see(KIND, policy(of_cart(mode="Off")))
    operator(scene).publish(VerticalPolicyChanged(scene.at, CART, "1", UpdateMode.RECREATE))
    scene.later(timedelta(minutes=1))
    assert (in_force(scene)[CART].update_mode, in_force(scene)[CART].through) == (UpdateMode.OFF, "VerticalPolicy/shop/cart")


def test_whoever_removes_a_field_does_not_act_in_the_name_of_who_set_the_others(scene: KubeScene) -> None:
    scene.see(KIND, policy(of_cart(mode="Off", guards={"coolDown": 60})))
    scene.see(KIND, policy(of_cart(mode="Off"), generation=2))
    assert str(in_force(scene)[CART].by).endswith("or who removed a field since (field manager)")


def test_what_the_command_had_said_for_its_target_is_not_there_again_when_an_object_goes(scene: KubeScene) -> None:
    operator(scene).publish(VerticalPolicyChanged(scene.at, "real/shop/*", "1", UpdateMode.OFF))
    scene.later(timedelta(minutes=1))
    whole = policy({"mode": "Auto"})
    scene.see(KIND, whole)
    assert in_force(scene)["real/shop/*"].update_mode is UpdateMode.AUTO
    scene.lose(KIND, whole)
    assert in_force(scene) == {}


def test_of_two_objects_with_one_target_the_older_counts_and_then_the_other(scene: KubeScene, cluster: Cluster) -> None:
    old, new = policy(of_cart(mode="Off"), name="old"), policy(of_cart(mode="Auto"), name="new", born=1)
    scene.see(KIND, new)
    scene.see(KIND, old)
    assert in_force(scene)[CART].update_mode is UpdateMode.OFF
    assert cluster.said("new") == ("False", f"VerticalPolicy/shop/old is older, and says what holds for '{CART}'")
    scene.lose(KIND, old)
    assert in_force(scene)[CART].update_mode is UpdateMode.AUTO
    assert cluster.said("new")[0] == "True"


def test_a_status_that_cannot_be_written_holds_up_no_other_object_and_fills_no_log(scene: KubeScene, cluster: Cluster) -> None:
    cluster.away = "a"
    scene.see(KIND, policy({"mode": "Off"}, name="a"), policy(of_cart(mode="Off"), name="b"))
    assert cluster.said("b")[0] == "True"
    for _ in range(5):
        scene.later(timedelta(seconds=11))
    assert records(scene) == 2
    cluster.away = ""
    scene.later(timedelta(seconds=11))
    assert cluster.said("a")[0] == "True"


def test_while_the_log_is_away_the_object_waits(scene: KubeScene, cluster: Cluster) -> None:
    scene.log.away = True
    scene.see(KIND, policy(of_cart(mode="Off")))
    assert not cluster.written
    scene.log.away = False
    scene.later(timedelta(seconds=11))
    assert (list(in_force(scene)), cluster.said("cart")[0]) == ([CART], "True")


def test_more_objects_of_one_namespace_than_count_are_refused(
    scene: KubeScene, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_objects, "MOST", 1)
    scene.see(KIND, policy({"mode": "Off"}, name="a"), policy(of_cart(), name="b", born=1), policy({}, name="c", namespace="web"))
    assert list(in_force(scene)) == ["real/shop/*", "real/web/*"]
    assert cluster.said("b") == ("False", "namespace 'shop' has 1 older objects of this kind, and no more count")
