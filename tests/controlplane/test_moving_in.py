"""docs/migration.md, walked as a new user would: its commands, on a real control plane with what the originals have left."""

import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.settings import loading
from tests.controlplane import build, started_pods
from tests.controlplane.api_requests import Refused, wait_for
from tests.controlplane.chart_values import CHART, pods, rendered
from tests.controlplane.conftest import started
from tests.controlplane.plane import Plane
from tests.controlplane.started_pods import Node
from tests.controlplane.world import World
from tests.support.commands import ROOT

PAGE = (ROOT / "docs/migration.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")}
BOX = re.compile(r"^ *```(sh|yaml)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
NAMESPACE = "ullage"
STOCK = ("vpa-recommender", "vpa-updater", "vpa-admission-controller")
POLICIES: Mapping[str, Mapping[str, Any]] = {
    "web": {
        "updatePolicy": {"updateMode": "Auto"},
        "resourcePolicy": {
            "containerPolicies": [
                {
                    "containerName": "*",
                    "minAllowed": {"cpu": "50m", "memory": "64Mi"},
                    "maxAllowed": {"cpu": 1, "memory": "1Gi"},
                    "controlledResources": ["cpu", "memory"],
                }
            ]
        },
    },
    "api": {
        "updatePolicy": {
            "updateMode": "InPlaceOrRecreate",
            "minReplicas": 1,
            "evictionRequirements": [{"resources": ["cpu", "memory"], "changeRequirement": "TargetHigherThanRequests"}],
        },
        "resourcePolicy": {
            "containerPolicies": [
                {"containerName": "app", "controlledValues": "RequestsOnly", "minAllowed": {"memory": "100Mi"}},
                {"containerName": "proxy", "mode": "Off"},
            ]
        },
    },
    "report": {"updatePolicy": {"updateMode": "Off"}},
}
"""VPA objects as people have them, by target."""


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest) -> Iterator[Plane]:
    """A plane of its own, for the namespace and the names are those of the page."""
    yield from started(request)


class Shell:
    """Where a person types what the page says."""

    def __init__(self, plane: Plane, folder: Path, *, broker: str, prefix: str) -> None:
        self._environment = {
            "PATH": f"{ROOT / '.venv/bin'}:{build.helm().parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT),
            "KUBECONFIG": str(plane.kubeconfig),
            "ULLAGE_LOG__BROKERS": broker,
            "ULLAGE_CLUSTER__NAME": "prod",
            "ULLAGE_TOPICS__PREFIX": prefix,
            "ULLAGE_TOPICS__PARTITIONS": "1",
            "ULLAGE_WORKER__NAME": prefix,
        }

    def run(self, script: str) -> str:
        """Every command must do its part; what they print."""
        command = ["bash", "-ec", script]
        ended = subprocess.run(command, cwd=ROOT, env=self._environment, capture_output=True, text=True, check=False, timeout=120)
        assert ended.returncode == 0, f"{script}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout


class Installed:
    """The pods of the release, started anew after each upgrade."""

    def __init__(self, plane: Plane, folder: Path) -> None:
        self._plane, self._folder, self._count = plane, folder, 0
        self.node: Node | None = None

    def roll_out(self) -> None:
        """The Job runs, and the Deployments' newest pods; those before have ended."""
        self.close()
        self._count += 1
        self.node = Node(self._plane, NAMESPACE, self._folder / str(self._count))
        asked = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io%2Fpart-of%3Dullage"
        deployments = self._plane.ask.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments")["items"]
        settings = {d["metadata"]["name"]: d["spec"]["template"]["metadata"]["annotations"] for d in deployments}
        jobs = [job["metadata"]["name"] for job in self._plane.ask.get(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")["items"]]

        def newest(name: str, annotations: Mapping[str, str]) -> Any:
            every = self._plane.ask.get(asked)["items"]
            mine = [pod for pod in every if pod["metadata"]["name"].startswith(f"{name}-")]
            return next((p for p in mine if annotations.items() <= p["metadata"].get("annotations", {}).items()), None)

        (job,) = jobs
        self.node.run(wait_for(lambda: newest(job, {}), what="the pod of the setup"))
        for name, said in settings.items():
            self.node.run(wait_for(lambda name=name, said=said: newest(name, said), what=f"the pod of {name}"))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        for process in self.node.running:
            if "readinessProbe" in process.container:
                wait_for(process.ready, timeout=60.0, what=process.log.name)

    def close(self) -> None:
        if self.node is not None:
            self.node.close()


@pytest.fixture
def release(plane: Plane, tmp_path: Path) -> Iterator[Installed]:
    started_pods.needed()
    made = Installed(plane, tmp_path)
    yield made
    made.close()


def boxes(section: str) -> list[str]:
    return [text for _, text in BOX.findall(SECTIONS[section])]


def stock(plane: Plane, names: tuple[str, ...], namespace: str) -> None:
    for name in names:
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": name, "image": "x"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        plane.ask.post(f"/apis/apps/v1/namespaces/{namespace}/deployments", {"metadata": {"name": name}, "spec": spec})


def webhook(name: str, rule: Mapping[str, object], policy: str) -> dict[str, object]:
    """A configuration that an original has left: its Service leads nowhere once it is stopped."""
    client = {"service": {"name": "gone", "namespace": "kube-system"}}
    hook = {"name": "x.k8s.io", "clientConfig": client, "rules": [rule], "sideEffects": "None", "failurePolicy": policy}
    return {"metadata": {"name": name}, "webhooks": [{**hook, "admissionReviewVersions": ["v1"], "timeoutSeconds": 1}]}


@pytest.fixture
def in_use(plane: Plane) -> Iterator[Callable[[str, list[str]], None]]:
    """Lets the metrics API measure these pods each second, from the call on."""
    stop, measuring = threading.Event(), list[threading.Thread]()

    def measure(namespace: str, names: list[str]) -> None:
        use = {"app": {"cpu": "100m", "memory": "150Mi"}, "proxy": {"cpu": "10m", "memory": "30Mi"}}
        while not stop.wait(1.0):
            for name in names:
                plane.metrics.serve(namespace, name, use, at=datetime.now(UTC), window="1s")

    def begin(namespace: str, names: list[str]) -> None:
        measuring.append(threading.Thread(target=measure, args=(namespace, names), daemon=True))
        measuring[-1].start()

    yield begin
    stop.set()
    for thread in measuring:
        thread.join(60.0)


REGISTRATION = "/apis/admissionregistration.k8s.io/v1"


@pytest.mark.timeout(400)
def test_a_cluster_moves_from_the_stock_vpa(
    plane: Plane,
    world: World,
    release: Installed,
    in_use: Callable[[str, list[str]], None],
    *,
    broker: str,
    prefix: str,
    tmp_path: Path,
) -> None:
    shell = Shell(plane, tmp_path, broker=broker, prefix=prefix)
    stock(plane, STOCK, "kube-system")
    pods_created = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    plane.ask.post(f"{REGISTRATION}/mutatingwebhookconfigurations", webhook("vpa-webhook-config", pods_created, "Ignore"))
    measured = list[str]()
    for name, spec in POLICIES.items():
        small = {"requests": {"cpu": "500m", "memory": "200Mi"}}
        replicas = world.deployment(name, {"app": small, "proxy": small}, replicas=2)
        measured += [pod["metadata"]["name"] for pod in replicas]
        world.vpa(name, name, spec=spec)
    in_use(world.namespace, measured)
    told = {
        "clusterName": "prod",
        "kafka.brokers": broker,
        "kafka.topicPrefix": prefix,
        "kafka.partitions": 1,
        "settings.worker.name": prefix,
        "settings.cluster.namespaces": world.namespace,
        "settings.usage.interval_seconds": 1,
        "settings.vertical.interval": 1,
        "settings.updates.interval": 2,
        "settings.updates.cool_down": 1,
        "settings.updates.lifetime": 0,
        "settings.updates.warm_up": 0,
    }
    sets = " ".join(f"--set {name}={value}" for name, value in told.items())
    shell.run(f"helm install ullage {CHART} -n {NAMESPACE} --create-namespace {sets}")
    release.roll_out()

    def has_rows() -> bool:
        shown = shell.run("ullage recommendations -o csv")
        return all(name in shown for name in POLICIES)

    wait_for(has_rows, timeout=60.0, what="rows")
    assert "VPA of 'default'" in shell.run("ullage recommendations -o wide")

    hand_over, take_over, allow = (
        re.sub(r"-n shop\b", f"-n {world.namespace}", box) for box in boxes("From the Vertical Pod Autoscaler")
    )
    shell.run(hand_over)
    release.roll_out()

    def status(name: str) -> Any:
        return world.ask.get(world.path("vpas", name)).get("status", {}).get("recommendation")

    recommended = wait_for(lambda: status("web"), timeout=60.0, what="the status of the one that was handed over")
    assert {c["containerName"] for c in recommended["containerRecommendations"]} == {"app", "proxy"}
    assert (status("api"), status("report")) == (None, None)

    shell.run(take_over)
    assert plane.ask.find(f"{REGISTRATION}/mutatingwebhookconfigurations/vpa-webhook-config") is None
    release.roll_out()
    for name in POLICIES:
        wait_for(lambda name=name: status(name), timeout=60.0, what=f"the status of {name}")  # type: ignore[misc]  # mypy cannot infer a lambda with a default
    assert [c["containerName"] for c in status("api")["containerRecommendations"]] == ["app"]
    said = shell.run(allow)
    assert "web" in said

    def memory(name: str) -> set[str]:
        return {pod["spec"]["containers"][0]["resources"]["requests"]["memory"] for pod in world.pods(name)}

    wait_for(lambda: memory("api") - {"200Mi"}, timeout=60.0, what="a pod of api is resized")
    wait_for(
        lambda: {pod["metadata"]["name"] for pod in world.pods("web")} - {*measured}, timeout=60.0, what="a pod of web is evicted"
    )
    assert memory("report") == {"200Mi"}
    assert shell.run("ullage mode shadow --reason back")
    shell.run("ullage checkpoints export")
    kept = world.ask.get(f"/apis/autoscaling.k8s.io/v1/namespaces/{world.namespace}/verticalpodautoscalercheckpoints")["items"]
    assert {item["spec"]["vpaObjectName"] for item in kept} >= {"web", "api"}


def test_the_flags_of_a_stock_cluster_autoscaler_are_values_of_the_chart(helm: Path, tmp_path: Path) -> None:
    (values,) = (yaml.safe_load(box) for box in boxes("From the Cluster Autoscaler, on AWS"))
    documents = rendered(helm, NAMESPACE, {"kafka.brokers": "kafka:9092", **values})
    (config,) = (d for d in documents if d["kind"] == "ConfigMap" and "ullage.yaml" in d["data"])
    (tmp_path / "ullage.yaml").write_text(config["data"]["ullage.yaml"])
    settings = loading.load(file=tmp_path / "ullage.yaml").settings
    assert (settings.nodes.skip_local_storage, settings.nodes.unneeded_time) == (False, 600.0)
    assert settings.aws.discovery == ("asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod",)
    assert "source-asg" in pods(documents)["ullage-worker"]["spec"]["containers"][0]["args"]


def test_nothing_of_crane_is_in_the_way_once_it_is_taken_away(plane: Plane, tmp_path: Path) -> None:
    shell = Shell(plane, tmp_path, broker="none:1", prefix="x")
    plane.ask.post("/api/v1/namespaces", {"metadata": {"name": "crane-system"}})
    stock(plane, ("craned", "metric-adapter"), "crane-system")
    written = {"apiGroups": ["prediction.crane.io"], "apiVersions": ["v1alpha1"], "operations": ["CREATE", "UPDATE"]}
    rule = {**written, "resources": ["timeseriespredictions"]}
    for kind in ("mutating", "validating"):
        plane.ask.post(f"{REGISTRATION}/{kind}webhookconfigurations", webhook(f"crane-{kind}-webhook", rule, "Fail"))
    served = {"group": "external.metrics.k8s.io", "version": "v1beta1", "insecureSkipTLSVerify": True}
    place = {
        "service": {"name": "metric-adapter", "namespace": "crane-system"},
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
    }
    plane.ask.post(
        "/apis/apiregistration.k8s.io/v1/apiservices",
        {"metadata": {"name": "v1beta1.external.metrics.k8s.io"}, "spec": {**served, **place}},
    )
    algorithm = {"algorithmType": "dsp", "dsp": {"sampleInterval": "60s", "historyLength": "3d"}}
    metric = {"resourceIdentifier": "cpu", "type": "ResourceQuery", "resourceQuery": "cpu", "algorithm": algorithm}
    prediction = {
        "apiVersion": "prediction.crane.io/v1alpha1",
        "kind": "TimeSeriesPrediction",
        "metadata": {"name": "web"},
        "spec": {
            "predictionWindowSeconds": 3600,
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "default"},
            "predictionMetrics": [metric],
        },
    }

    def refused() -> str:
        """Why the server takes no TimeSeriesPrediction; empty if it does."""
        try:
            plane.ask.post("/apis/prediction.crane.io/v1alpha1/namespaces/default/timeseriespredictions?dryRun=All", prediction)
        except Refused as error:
            return str(error)
        return ""

    wait_for(lambda: "failed calling webhook" in refused(), what="the webhooks are in the way")
    (box,) = boxes("From Crane's EHPA")
    shell.run(box)
    wait_for(lambda: not refused(), what="nothing is in the way")
    assert plane.ask.find("/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io") is None
