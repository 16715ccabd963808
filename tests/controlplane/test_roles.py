"""Each component as a process under its own ServiceAccount of the chart: it can do its work, and is refused everything else."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agents.processes import dependency_probes
from agents.settings.all_settings import ClusterSettings, Settings
from agents.settings.consumer_settings import WebhookSettings
from schemas.catalogue import Event
from schemas.decision_subjects import Subject
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.decisions.vpa_conditions import ConditionStatus, ConditionType, DecidedCondition, VpaConditionsDecided
from schemas.facts.pods import PodChanged
from schemas.facts.update_facts import WebhookLeaseSeen
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts, PodName, Workload
from schemas.outcomes import ActionFinished, StatusWritten
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import VerticalPolicyChanged
from schemas.units import Bytes, Cores
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.errors import GiveUp
from streams.log.file_log import FileLog
from streams.topics import TOPICS, Topics
from tests.controlplane.api_requests import Asking, Refused, wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.roles import ROLES, Account
from tests.controlplane.world import World
from tests.support import ticks
from tests.support.attested_plans import of_a_turn, with_attestations

NAMES = Topics(partitions=1)
CLUSTER = "real"
MIB = 1 << 20

CORE, APPS, VPA, STORAGE, OURS = "", "apps", "autoscaling.k8s.io", "storage.k8s.io", "ullage.internal"
KUBE, USAGE, STATUS = "source-kube", "source-usage", "consumer-status"
AUTOSCALERS, METRICS_API = "consumer-autoscalers", "consumer-metrics-api"
CRANE, PREDICTION, HPA = "autoscaling.crane.io", "prediction.crane.io", "autoscaling"
RESIZER, EVICTOR, WEBHOOK, EXPORT, AGENTS = (
    "consumer-resizer",
    "consumer-evictor",
    "consumer-webhook",
    "checkpoints-export",
    "agents",
)
ASG, ASG_SOURCE = "consumer-asg", "source-asg"
COMPONENTS = {KUBE, USAGE, STATUS, RESIZER, EVICTOR, WEBHOOK, EXPORT, AGENTS, AUTOSCALERS, METRICS_API, ASG, ASG_SOURCE}
RIGHTS: tuple[tuple[str, str, str, set[str]], ...] = (
    (CORE, "pods", "get", {RESIZER, EVICTOR, ASG}),
    (CORE, "pods", "list", {KUBE, ASG, AUTOSCALERS}),
    (CORE, "pods", "watch", {KUBE}),
    (CORE, "pods", "create", set()),
    (CORE, "pods", "update", set()),
    (CORE, "pods", "patch", set()),
    (CORE, "pods", "delete", set()),
    (CORE, "pods", "deletecollection", set()),
    (CORE, "pods/resize", "patch", {RESIZER}),
    (CORE, "pods/eviction", "create", {EVICTOR, ASG}),
    (CORE, "pods/exec", "create", set()),
    (CORE, "pods/log", "get", set()),
    (CORE, "nodes", "list", {KUBE, ASG}),
    (CORE, "nodes", "patch", {ASG}),
    (CORE, "nodes", "delete", set()),
    (CORE, "namespaces", "watch", {KUBE}),
    (CORE, "namespaces", "get", set()),
    (CORE, "persistentvolumeclaims", "list", {KUBE}),
    (CORE, "podtemplates", "list", {KUBE}),
    ("autoscaling.x-k8s.io", "capacitybuffers", "watch", {KUBE}),
    ("autoscaling.x-k8s.io", "capacitybuffers", "get", {ASG}),
    ("autoscaling.x-k8s.io", "capacitybuffers/status", "patch", {ASG}),
    (CORE, "persistentvolumeclaims", "delete", set()),
    (CORE, "persistentvolumes", "watch", {KUBE}),
    (STORAGE, "storageclasses", "list", {KUBE}),
    (STORAGE, "csinodes", "watch", {KUBE}),
    (CORE, "limitranges", "list", {KUBE}),
    (CORE, "limitranges", "update", set()),
    (CORE, "events", "list", {KUBE}),
    (CORE, "events", "create", {RESIZER, EVICTOR, ASG, AUTOSCALERS}),
    (CORE, "events", "update", set()),
    (CORE, "secrets", "get", set()),
    (CORE, "secrets", "list", set()),
    (CORE, "configmaps", "get", set()),
    (CORE, "serviceaccounts/token", "create", set()),
    (APPS, "deployments", "list", {KUBE}),
    (APPS, "deployments", "get", {WEBHOOK}),
    (APPS, "deployments", "patch", set()),
    (APPS, "deployments/scale", "get", {KUBE, WEBHOOK, AUTOSCALERS}),
    (APPS, "deployments/scale", "patch", {AUTOSCALERS}),
    (APPS, "replicasets", "get", {WEBHOOK}),
    (CORE, "resourcequotas", "list", {KUBE}),
    (CORE, "serviceaccounts", "list", {KUBE}),
    (CORE, "serviceaccounts", "get", set()),
    (CORE, "resourcequotas", "update", set()),
    ("policy", "poddisruptionbudgets", "list", {KUBE}),
    ("policy", "poddisruptionbudgets", "update", set()),
    (HPA, "horizontalpodautoscalers", "get", {AUTOSCALERS}),
    (HPA, "horizontalpodautoscalers", "list", {KUBE}),
    (HPA, "horizontalpodautoscalers", "create", {AUTOSCALERS}),
    (HPA, "horizontalpodautoscalers", "patch", {AUTOSCALERS}),
    (HPA, "horizontalpodautoscalers", "delete", {AUTOSCALERS}),
    (CRANE, "effectivehorizontalpodautoscalers", "get", {AUTOSCALERS}),
    (CRANE, "effectivehorizontalpodautoscalers", "create", set()),
    (CRANE, "effectivehorizontalpodautoscalers", "delete", set()),
    (CRANE, "effectivehorizontalpodautoscalers/status", "patch", {AUTOSCALERS}),
    (CRANE, "substitutes", "delete", {AUTOSCALERS}),
    (PREDICTION, "timeseriespredictions", "create", {AUTOSCALERS}),
    (PREDICTION, "timeseriespredictions/status", "patch", {AUTOSCALERS}),
    ("apiregistration.k8s.io", "apiservices", "create", {METRICS_API}),
    ("apiregistration.k8s.io", "apiservices", "update", set()),
    ("apiregistration.k8s.io", "apiservices", "delete", set()),
    (OURS, "clustercontrols", "watch", {KUBE}),
    (OURS, "clustercontrols", "patch", set()),
    (OURS, "clustercontrols/status", "patch", {KUBE}),
    (OURS, "verticalpolicies", "list", {KUBE}),
    (OURS, "verticalpolicies", "create", set()),
    (OURS, "verticalpolicies", "update", set()),
    (OURS, "verticalpolicies", "delete", set()),
    (OURS, "verticalpolicies/status", "patch", {KUBE}),
    (VPA, "verticalpodautoscalers", "list", {KUBE, STATUS}),
    (VPA, "verticalpodautoscalers", "get", {STATUS}),
    (VPA, "verticalpodautoscalers", "patch", set()),
    (VPA, "verticalpodautoscalers", "delete", set()),
    (VPA, "verticalpodautoscalers/status", "patch", {STATUS}),
    (VPA, "verticalpodautoscalercheckpoints", "list", {KUBE}),
    (VPA, "verticalpodautoscalercheckpoints", "create", {EXPORT}),
    (VPA, "verticalpodautoscalercheckpoints", "update", {EXPORT}),
    (VPA, "verticalpodautoscalercheckpoints", "delete", set()),
    ("metrics.k8s.io", "pods", "list", {USAGE}),
    ("metrics.k8s.io", "pods", "get", {RESIZER}),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "create", {WEBHOOK}),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "list", set()),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "delete", set()),
    ("rbac.authorization.k8s.io", "clusterroles", "update", set()),
    ("coordination.k8s.io", "leases", "delete", set()),
)
"""Group, resource, verb, and who may do that to any object of any namespace."""


class Component:
    """One command of ours under one account, on a log in a file."""

    def __init__(self, plane: Plane, home: World, world: World, folder: Path) -> None:
        self.plane, self.home, self.world, self.folder = plane, home, world, folder
        self.codec, self.path = Codec(NAMES), folder / "log.jsonl"
        self.log = FileLog.open_or_create(self.path)
        self._accounts: list[Account] = []
        self._running: list[subprocess.Popen[bytes]] = []
        for topic in TOPICS:
            self.log.create(NAMES.wire(topic.name), NAMES.partitions)
        now = int(datetime.now(UTC).timestamp() * 1000)
        ticks.append(self.log, NAMES, now)

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait(60.0)
        for account in self._accounts:
            account.close()
        self.log.close()

    def account(self, component: str) -> Account:
        made = Account(self.plane, self.home, component)
        self._accounts.append(made)
        return made

    def start(self, component: str, *command: str, **settings: str) -> subprocess.Popen[bytes]:
        folder = self.folder / component
        folder.mkdir()
        told = {
            "log.kind": "file",
            "log.path": str(self.path),
            "topics.partitions": "1",
            "cluster.name": CLUSTER,
            "cluster.kubeconfig": str(self.account(component).kubeconfig(folder)),
            **{key.replace("__", "."): value for key, value in settings.items()},
        }
        whole = [sys.executable, "-m", "agents", *command]
        whole += [part for key, value in told.items() for part in ("--set", f"{key}={value}")]
        with (folder / "said.txt").open("wb") as said:
            self._running.append(subprocess.Popen(whole, stdout=said, stderr=said))
        return self._running[-1]

    def stop(self, component: str, process: subprocess.Popen[bytes]) -> None:
        """Asked to end it ends well, and it was refused nothing."""
        process.send_signal(signal.SIGTERM)
        assert process.wait(60.0) == 0
        said = (self.folder / component / "said.txt").read_text(errors="replace")
        assert not re.search(r"\b403\b", said), said
        assert "Traceback" not in said

    def publish(self, event: Event, topic: str, key: str) -> None:
        record = self.codec.encode(of_a_turn(event), topic=topic, key=key, partition=0, source="/test")
        self.log.append(with_attestations([record], NAMES))

    def logged(self, topic: str) -> list[Event]:
        records = self.log.poll({(NAMES.wire(topic), 0): 0}, limit=1_000_000)
        return [self.codec.decode(record) for record in records if not is_of_a_clock(record)]

    def pod(self) -> tuple[Workload, PodName]:
        (pod,) = self.world.deployment("web")
        about = pod["metadata"]
        name = PodName(self.world.namespace, about["name"], about["uid"])
        return Workload(CLUSTER, self.world.namespace, "Deployment", "web"), name

    def wait_for_fact_of(self, pod: PodName) -> None:
        wait_for(
            lambda: any(isinstance(event, PodChanged) and event.pod == pod for event in self.logged("pod-changes")),
            timeout=40.0,
            what="the pod is in the log",
        )

    def apply(self) -> None:
        self.publish(ControlChanged(datetime.now(UTC), CLUSTER, Mode.APPLY), "control", CLUSTER)

    def told(self, uid: str) -> list[tuple[str, str, str]]:
        """The events about an object that `kubectl describe` would show, by our components."""
        path = f"/api/v1/namespaces/{self.world.namespace}/events?fieldSelector=involvedObject.uid%3D{uid}"
        events = self.world.ask.get(path)["items"]
        found = [(e["reason"], e["source"].get("component", ""), e["message"]) for e in events]
        return [each for each in found if each[1].startswith("ullage")]

    def says_of_the_webhook(self, alive: list[bool]) -> None:
        """Wait until the log has said so, in this order."""
        wait_for(
            lambda: [e.alive for e in self.logged("pod-changes-by-cluster") if isinstance(e, WebhookLeaseSeen)] == alive,
            what=f"the log says of the webhook {alive}",
        )

    def done(self) -> list[str]:
        """How each action ended, once there is one; meanwhile time goes by."""

        def ended() -> list[ActionFinished | StatusWritten]:
            ticks.append(self.log, NAMES, int(datetime.now(UTC).timestamp() * 1000))
            return [e for e in self.logged("outcomes") if isinstance(e, ActionFinished | StatusWritten)]

        return [each.result.value for each in wait_for(ended, what="an outcome")]


@pytest.fixture
def component(plane: Plane, world: World, tmp_path: Path) -> Iterator[Component]:
    home = World(plane.ask)
    made = Component(plane, home, world, tmp_path)
    yield made
    made.close()
    home.close()


def test_every_file_of_roles_is_that_of_a_component() -> None:
    assert {path.stem for path in ROLES.glob("*.yaml")} == COMPONENTS


@pytest.mark.parametrize("name", sorted(COMPONENTS))
def test_an_account_may_do_what_its_component_does_and_nothing_else(component: Component, name: str) -> None:
    account, namespace = component.account(name), component.world.namespace
    allowed = {(g, r, v) for g, r, v, _ in RIGHTS if account.may(v, g, r, namespace)}
    assert allowed == {(group, resource, verb) for group, resource, verb, who in RIGHTS if name in who}


def test_the_asg_consumer_is_green_only_with_the_rights_of_its_role(component: Component, tmp_path: Path) -> None:
    for name in (ASG, EVICTOR):
        (tmp_path / name).mkdir()
        cluster = ClusterSettings(name=CLUSTER, kubeconfig=component.account(name).kubeconfig(tmp_path / name))
        settings = Settings(cluster=cluster, webhook=WebhookSettings(namespace=component.home.namespace))
        look = dependency_probes.rights(settings, "consumer asg")
        if name == ASG:
            look()
            continue
        with pytest.raises(GiveUp, match=r"asking whether we may get nodes, .* no: apply deploy/helm/ullage/rbac or the chart"):
            look()


def test_the_kube_source_sees_pods_under_its_role(component: Component) -> None:
    process = component.start(KUBE, "source", "kube", webhook__namespace=component.home.namespace)
    _, pod = component.pod()
    component.wait_for_fact_of(pod)
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{component.home.namespace}/leases"
    component.says_of_the_webhook([False])
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    component.home.ask.post(leases, {"metadata": {"name": "ullage-webhook"}, "spec": {"renewTime": now}})
    component.says_of_the_webhook([False, True])
    component.home.ask.delete(f"{leases}/ullage-webhook")
    component.says_of_the_webhook([False, True, False])
    component.stop(KUBE, process)


def test_the_kube_source_mirrors_what_commands_under_its_role_and_says_so_in_each_status(component: Component) -> None:
    ours, world = "/apis/ullage.internal/v1alpha1", component.world
    switch, policy = f"{ours}/clustercontrols", f"{ours}/namespaces/{world.namespace}/verticalpolicies"

    def applied(path: str) -> bool:
        conditions = world.ask.get(path).get("status", {}).get("conditions", [])
        return any(each["type"] == "Applied" and each["status"] == "True" for each in conditions)

    world.ask.post(switch, {**_ours("ClusterControl"), "metadata": {"name": "ullage"}, "spec": {"mode": "plan"}})
    try:
        spec = {"target": {"kind": "Deployment", "name": "web"}, "mode": "InPlace"}
        world.ask.post(policy, {**_ours("VerticalPolicy"), "metadata": {"name": "web"}, "spec": spec})
        process = component.start(
            KUBE, "source", "kube", cluster__control="true", cluster__policies="true", webhook__namespace=component.home.namespace
        )
        wait_for(lambda: applied(f"{switch}/ullage"), timeout=40.0, what="the switch is in force")
        wait_for(lambda: applied(f"{policy}/web"), timeout=40.0, what="the policy is in force")
        component.stop(KUBE, process)
    finally:
        world.ask.delete(f"{switch}/ullage")
    assert [(e.mode, e.through) for e in component.logged("control") if isinstance(e, ControlChanged)] == [
        (Mode.PLAN, "ClusterControl/ullage")
    ]
    through = {e.through for e in component.logged("rules") if isinstance(e, VerticalPolicyChanged)}
    assert through == {f"VerticalPolicy/{world.namespace}/web"}


def _ours(kind: str) -> dict[str, str]:
    return {"apiVersion": "ullage.internal/v1alpha1", "kind": kind}


def test_whoever_may_edit_a_namespace_may_neither_command_nor_read_logins_nor_enter_our_pods(component: Component) -> None:
    """The role `edit` of Kubernetes, in a namespace that is not ours: it has its own pods, and their annotations."""
    ask, namespace, home = component.world.ask, component.world.namespace, component.home.namespace
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
    ask.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "mallory"}})
    subject = {"kind": "ServiceAccount", "name": "mallory", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    ask.post(rbac, {"metadata": {"name": "mallory"}, "subjects": [subject], "roleRef": role})
    token = ask.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/mallory/token", {"spec": {}})["status"]["token"]
    theirs = Asking(component.plane.url, token, str(component.plane.ca))

    def may(verb: str, group: str, resource: str, where: str) -> bool:
        plural, _, sub = resource.partition("/")
        asked = {"verb": verb, "group": group, "resource": plural, "subresource": sub, "namespace": where}
        answer = theirs.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"resourceAttributes": asked}})
        return bool(answer["status"]["allowed"])

    wait_for(lambda: may("create", APPS, "deployments", namespace), what="the role is in force")
    assert may("patch", CORE, "pods", namespace)
    refused = [
        ("create", OURS, "clustercontrols", ""),
        ("patch", OURS, "clustercontrols", ""),
        ("create", OURS, "verticalpolicies", namespace),
        ("patch", OURS, "verticalpolicies", namespace),
        ("create", VPA, "verticalpodautoscalers", namespace),
        ("get", CORE, "secrets", home),
        ("create", CORE, "pods/exec", home),
        ("create", CORE, "pods/portforward", home),
        ("impersonate", CORE, "serviceaccounts", home),
        ("create", CORE, "serviceaccounts/token", home),
        ("patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", ""),
        ("patch", CORE, "namespaces", namespace),
        ("create", CORE, "limitranges", namespace),
        ("create", CRANE, "effectivehorizontalpodautoscalers", namespace),
        ("create", PREDICTION, "timeseriespredictions", namespace),
        ("create", "autoscaling.x-k8s.io", "capacitybuffers", namespace),
        ("update", "coordination.k8s.io", "leases", home),
        ("patch", CORE, "nodes", ""),
    ]
    assert [each for each in refused if may(*each)] == []
    own = [(HPA, "horizontalpodautoscalers"), ("policy", "poddisruptionbudgets"), (APPS, "deployments/scale"), (CORE, "pods")]
    assert [each for each in own if not may("patch", *each, namespace)] == [], "what docs/security.md says that it has"
    with pytest.raises(Refused, match="403"):
        theirs.post(
            "/apis/ullage.internal/v1alpha1/clustercontrols",
            {**_ours("ClusterControl"), "metadata": {"name": "ullage"}, "spec": {"mode": "apply"}},
        )


def test_the_usage_source_reads_the_metrics_api_under_its_role(component: Component) -> None:
    workload, pod = component.pod()
    now = datetime.now(UTC)
    component.plane.metrics.serve(pod.namespace, pod.name, {"app": {"cpu": "250m"}}, at=now, window="30s")
    source = component.start(KUBE, "source", "kube", webhook__namespace=component.home.namespace)
    # Usage waits five polls for its pod, which is here five seconds, and this server gives one sample and no later one.
    component.wait_for_fact_of(pod)
    process = component.start(USAGE, "source", "usage", usage__interval_seconds="1")
    scraped = wait_for(
        lambda: [e for e in component.logged("pod-metrics") if isinstance(e, MetricsScraped)],
        timeout=40.0,
        what="usage is in the log",
    )
    assert workload.key in {key for each in scraped for key in each.workloads}
    component.stop(USAGE, process)
    component.stop(KUBE, source)


def test_the_status_consumer_writes_a_status_under_its_role(component: Component) -> None:
    vpa: Any = component.world.vpa("web", "web")["metadata"]
    at, amounts = datetime.now(UTC), Amounts(Cores(0.25), Bytes(200 * MIB))
    event = VpaConditionsDecided(
        id=f"conditions/0/{int(at.timestamp() * 1000)}/status/{CLUSTER}/{component.world.namespace}/web",
        at=at,
        cluster=CLUSTER,
        namespace=component.world.namespace,
        name="web",
        uid=vpa["uid"],
        generation=vpa["generation"],
        conditions=(DecidedCondition(ConditionType.PROVIDED, ConditionStatus.TRUE, at),),
        containers=(ContainerRecommendation("app", amounts, amounts, amounts, amounts),),
        because={},
    )
    component.publish(event, "vpa-conditions", event.key)
    process = component.start(STATUS, "consumer", "status")
    assert component.done() == ["done"]
    status = component.world.ask.get(component.world.path("vpas", "web"))["status"]
    assert status["recommendation"]["containerRecommendations"][0]["target"]["cpu"] == "250m"
    component.stop(STATUS, process)


def test_the_resizer_resizes_under_its_role(component: Component) -> None:
    workload, pod = component.pod()
    component.apply()
    at, before, after = datetime.now(UTC), Amounts(Cores(0.1), Bytes(64 * MIB)), Amounts(Cores(0.25), Bytes(64 * MIB))
    plan = ResizePlanned("r", at, at + timedelta(minutes=5), workload, pod, {"app": after}, {}, {"app": before}, {})
    component.publish(plan, "pod-updates", CLUSTER)
    process = component.start(RESIZER, "consumer", "resizer")
    assert component.done() == ["done"]
    found = component.world.ask.get(component.world.path("pods", pod.name))
    assert found["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "250m"
    message = "Pod was resized in place to requests app 250m / 64.0 MiB; decision test/0/1/plan/r"
    assert component.told(pod.uid) == [("InPlaceResizedByVPA", "ullage-resizer", message)]
    component.stop(RESIZER, process)


def test_the_evictor_evicts_under_its_role_and_only_while_a_webhook_is_at_work(component: Component) -> None:
    workload, pod = component.pod()
    component.apply()
    at, before = datetime.now(UTC), Amounts(Cores(0.1), Bytes(64 * MIB))
    about = component.world.vpa("web", "web")["metadata"]
    vpa = Subject.of_object(CLUSTER, "VerticalPodAutoscaler", about["namespace"], about["name"], about["uid"])
    plan = EvictionPlanned("e", at, at + timedelta(minutes=5), workload, pod, {"app": before}, {}, vpa=vpa)
    component.publish(plan, "pod-updates", CLUSTER)
    process = component.start(EVICTOR, "consumer", "evictor", webhook__namespace=component.home.namespace)
    assert component.done() == ["refused"]
    assert component.world.pods("web")[0]["metadata"]["uid"] == pod.uid
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{component.home.namespace}/leases"
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    component.home.ask.post(leases, {"metadata": {"name": "ullage-webhook"}, "spec": {"renewTime": now}})
    component.publish(replace(plan, id="f"), "pod-updates", CLUSTER)
    wait_for(lambda: component.done() == ["refused", "done"], what="the second eviction ends")
    (after,) = component.world.running("web", 1)
    assert after["metadata"]["uid"] != pod.uid
    message = "was evicted to apply recommended requests; decision test/0/1/plan/f"
    assert component.told(pod.uid) == [("EvictedByVPA", "ullage-evictor", f"Pod {message}")]
    assert component.told(about["uid"]) == [("EvictedPod", "ullage-evictor", f"Pod {pod.name} {message}")]
    component.stop(EVICTOR, process)
