"""docs/migration.md, walked as a new user would: its commands, on a real control plane with what the originals have left."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from agents.settings import loading
from tests.controlplane.api_requests import Refused, wait_for
from tests.controlplane.chart_values import pods, rendered
from tests.controlplane.conftest import started
from tests.controlplane.plane import Plane
from tests.support.commands import ROOT

PAGE = (ROOT / "docs/migration.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")}
BOX = re.compile(r"^ *```(sh|yaml)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
NAMESPACE = "ullage"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest) -> Iterator[Plane]:
    """A plane of its own, for the namespace and the names are those of the page."""
    yield from started(request)


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
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(plane.kubeconfig)}
    subprocess.run(["bash", "-ec", box], env=environment, check=True, timeout=120)
    wait_for(lambda: not refused(), what="nothing is in the way")
    assert plane.ask.find("/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io") is None
