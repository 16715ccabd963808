"""The chart on the real control plane: Helm renders it with ten sets of values, and the API server takes all of it strictly."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.settings import loading
from tests.controlplane import build
from tests.controlplane.asking import Refused
from tests.controlplane.plane import Plane
from tests.controlplane.world import World

CHART = Path(__file__).parents[2] / "deploy/helm/ullage"
GROUPS = {"v1": "/api/v1", "default": "/apis/{}"}
PLURAL = {"NetworkPolicy": "networkpolicies"}
CUSTOM = ("keda.sh", "kafka.strimzi.io", "monitoring.coreos.com")
"""API groups that others install; the plane does not know them."""
VALUES: Mapping[str, Mapping[str, object]] = {
    "everything": {
        "mode": "apply",
        "kafka.brokers": "kafka:9092",
        "nodeScaling.enabled": True,
        "nodeScaling.discovery": ["asg:tag=k8s.io/cluster-autoscaler/enabled"],
        "nodeScaling.region": "eu-west-1",
        "replicaScaling.enabled": True,
        "usage.prometheusUrl": "http://prometheus.monitoring.svc:9090",
        "monitoring.serviceMonitor.enabled": True,
        "monitoring.prometheusRule.enabled": True,
        "monitoring.dashboard.enabled": True,
    },
    "watch": {"kafka.brokers": "kafka:9092"},
    "shadow": {"mode": "shadow", "kafka.brokers": "kafka:9092"},
    "plan": {"mode": "plan", "kafka.brokers": "a:9092,b:9093"},
    "apply": {"mode": "apply", "kafka.brokers": "kafka:9092", "webhook.failurePolicy": "Fail"},
    "tried out": {"kafka.kind": "single", "kafka.single.storage": ""},
    "tried out, kept": {"kafka.kind": "single", "mode": "shadow"},
    "strimzi": {"kafka.kind": "strimzi", "kafka.strimzi.cluster": "main", "kafka.brokers": "main-kafka-bootstrap.kafka:9093"},
    "scram": {
        "kafka.brokers": "kafka:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.security.mechanism": "SCRAM-SHA-512",
        "kafka.security.secret": "kafka-user",
    },
    "msk": {
        "kafka.brokers": "b-1.main.kafka.eu-west-1.amazonaws.com:9098",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.security.mechanism": "AWS_MSK_IAM",
        "kafka.security.region": "eu-west-1",
    },
    "keda": {"kafka.brokers": "kafka:9092", "worker.keda.enabled": True, "networkPolicy.enabled": False},
    "prometheus": {
        "kafka.brokers": "kafka:9092",
        "usage.reads": "prometheus",
        "usage.prometheusUrl": "http://prometheus.monitoring.svc:9090",
        "settings.vertical.margin": 0.2,
        "podDisruptionBudget.enabled": False,
    },
}


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = build.helm()
    if not program.is_file():
        pytest.skip(f"there is no Helm at '{program}': python tests/controlplane/build.py helm builds it")
    del tmp_path_factory
    return program


def asked(helm: Path, *words: str, values: Mapping[str, object]) -> subprocess.CompletedProcess[str]:
    sets = [
        word
        for name, value in {"clusterName": "prod", **values}.items()
        for word in ("--set-json", f"{name}={json.dumps(value)}")
    ]
    command = [str(helm), *words, str(CHART), *sets]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={"HOME": "/nonexistent"})


def rendered(helm: Path, namespace: str, values: Mapping[str, object]) -> list[dict[str, Any]]:
    done = asked(helm, "template", "ullage", "--namespace", namespace, "--kube-version", "1.34.0", values=values)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def path_of(document: Mapping[str, Any]) -> str:
    group, kind = document["apiVersion"], document["kind"]
    base = "/api/v1" if group == "v1" else f"/apis/{group}"
    plural = PLURAL.get(kind, f"{kind.lower()}s")
    namespace = document["metadata"].get("namespace")
    return f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"


@pytest.fixture
def made(world: World) -> Iterator[list[str]]:
    """Paths of what belongs to no namespace, deleted at the end."""
    paths: list[str] = []
    yield paths
    for path in paths:
        world.ask.delete(path)


def test_helm_finds_nothing_to_complain_about(helm: Path) -> None:
    done = asked(helm, "lint", "--strict", values=VALUES["apply"])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", VALUES)
def test_the_api_server_takes_all_of_it_strictly(name: str, helm: Path, world: World) -> None:
    documents = [d for d in rendered(helm, world.namespace, VALUES[name]) if not d["apiVersion"].startswith(CUSTOM)]
    assert len(documents) > 12
    for document in documents:
        world.ask.post(f"{path_of(document)}?fieldValidation=Strict&dryRun=All", document)


@pytest.mark.parametrize(("mode", "writers"), [("watch", set()), ("shadow", {"consumer-status"}), ("plan", {"consumer-status"})])
def test_only_apply_starts_what_changes_pods_and_watch_grants_no_right_to_write(mode: str, writers: set[str], helm: Path) -> None:
    documents = rendered(helm, "ullage", {**VALUES["watch"], "mode": mode})
    components = {d["metadata"]["labels"]["app.kubernetes.io/component"] for d in documents if d["kind"] == "Deployment"}
    assert components == {"clock", "worker", "source-kube", "source-usage"} | writers
    verbs = {verb for d in documents if d["kind"] == "ClusterRole" for rule in d["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"} | ({"patch"} if writers else set())


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ({"mode": "watch"}, [["topics", "apply"], ["settings", "apply"], ["mode", "shadow"]]),
        ({"mode": "shadow"}, [["topics", "apply"], ["settings", "apply"], ["mode", "shadow"]]),
        ({"mode": "plan"}, [["topics", "apply"], ["settings", "apply"], ["mode", "plan"]]),
        ({"mode": "apply"}, [["topics", "apply"], ["settings", "apply"]]),
        ({"mode": "plan", "kafka.kind": "strimzi", "kafka.strimzi.cluster": "main"}, [["settings", "apply"], ["mode", "plan"]]),
        ({"mode": "apply", "kafka.kind": "strimzi", "kafka.strimzi.cluster": "main"}, [["settings", "apply"]]),
    ],
)
def test_no_release_puts_apply_into_the_log(values: Mapping[str, object], steps: list[list[str]], helm: Path) -> None:
    jobs = [d for d in rendered(helm, "ullage", {"kafka.brokers": "kafka:9092", **values}) if d["kind"] == "Job"]
    pods = [job["spec"]["template"]["spec"] for job in jobs]
    containers = [container for pod in pods for container in (*pod.get("initContainers", ()), *pod["containers"])]
    assert [container["args"][:2] for container in containers] == steps
    assert all(len(pod["containers"]) == 1 for pod in pods)


def test_the_rules_of_a_release_are_put_into_the_log_with_what_its_workers_are_told(helm: Path) -> None:
    told: dict[str, Any] = {
        "worker.extraEnv": [{"name": "ULLAGE_VERTICAL__MARGIN", "value": "0.2"}],
        "worker.extraArgs": ["--set", "updates.rate=5"],
    }
    releases: list[dict[str, Any]] = [{}, told, {"settings.vertical.margin": 0.3}]
    named = set()
    for values in releases:
        (job,) = (d for d in rendered(helm, "ullage", {"kafka.brokers": "kafka:9092", **values}) if d["kind"] == "Job")
        named.add(job["metadata"]["name"])
        steps = {step["name"]: step for step in job["spec"]["template"]["spec"]["initContainers"]}
        assert steps["settings"]["env"] == values.get("worker.extraEnv", [])
        assert steps["settings"]["args"][:-2] == ["settings", "apply", *values.get("worker.extraArgs", [])]
    assert len(named) == 3, "what the workers are told anew is put into the log anew"


@pytest.mark.parametrize("asks", [{"usage.reads": "prometheus"}, {"replicaScaling.enabled": True}])
def test_a_source_that_asks_prometheus_may_reach_it(asks: Mapping[str, object], helm: Path) -> None:
    values = {"kafka.brokers": "kafka:9092", "usage.prometheusUrl": "http://vmsingle.monitoring.svc:8428/prometheus", **asks}
    (policy,) = (d for d in rendered(helm, "ullage", values) if d["kind"] == "NetworkPolicy")
    assert 8428 in {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}


def test_what_is_asked_for_is_there_and_the_rules_are_those_that_are_tested(helm: Path) -> None:
    documents = rendered(helm, "ullage", VALUES["everything"])
    components = {d["metadata"]["labels"]["app.kubernetes.io/component"] for d in documents if d["kind"] == "Deployment"}
    assert {"source-asg", "consumer-asg", "consumer-autoscalers", "metrics-api"} <= components
    accounts = {d["metadata"]["name"] for d in documents if d["kind"] == "ServiceAccount"}
    used = {d["spec"]["template"]["spec"]["serviceAccountName"] for d in documents if d["kind"] == "Deployment"}
    assert used <= accounts
    (rules,) = (d for d in documents if d["kind"] == "PrometheusRule")
    assert rules["spec"] == yaml.safe_load((CHART / "files/alerts.yaml").read_text())
    (dashboard,) = (d for d in documents if d["metadata"]["name"] == "ullage-dashboard")
    assert json.loads(dashboard["data"]["ullage.json"]) == json.loads((CHART / "files/dashboard.json").read_text())
    assert [d["spec"]["endpoints"] for d in documents if d["kind"] == "ServiceMonitor"] == [
        [{"port": "metrics", "interval": "30s"}]
    ]


def test_every_pod_is_confined(helm: Path) -> None:
    for document in rendered(helm, "ullage", {**VALUES["apply"], "kafka.kind": "single"}):
        if document["kind"] not in {"Deployment", "Job", "StatefulSet"}:
            continue
        pod = document["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["enableServiceLinks"] is False
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["resources"]["requests"], "requests, as we tell others to set them"
            assert document["kind"] == "StatefulSet" or container["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize("name", VALUES)
def test_our_program_takes_the_settings_of_the_chart(name: str, helm: Path, tmp_path: Path) -> None:
    (config,) = (d for d in rendered(helm, "ullage", VALUES[name]) if d["kind"] == "ConfigMap" and "ullage.yaml" in d["data"])
    (tmp_path / "ullage.yaml").write_text(config["data"]["ullage.yaml"])
    settings = loading.load(file=tmp_path / "ullage.yaml").settings
    assert settings.cluster.name == "prod"
    assert settings.vertical.recommender == "ullage"
    assert settings.vertical.margin == (0.2 if name == "prometheus" else 0.15)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "kafka.brokers is needed: HOST:PORT of your Kafka, or kafka.kind=single to try without one"),
        ({"kafka.brokers": "a:1", "mode": "on"}, "mode"),
        ({"kafka.brokers": "a:1", "clusterName": ""}, "clusterName"),
        ({"kafka.brokers": "a:1", "wrker": {"replicas": 3}}, "wrker"),
        ({"kafka.brokers": "a:1", "nodeScaling.enabled": True}, "nodeScaling needs nodeScaling.groups"),
        (
            {"kafka.brokers": "a:1", "kafka.security.mechanism": "AWS_MSK_IAM"},
            "AWS_MSK_IAM needs kafka.security.protocol SASL_SSL",
        ),
        (
            {"kafka.brokers": "a:1", "kafka.security.protocol": "SASL_SSL", "kafka.security.mechanism": "SCRAM-SHA-512"},
            "need kafka.security.secret",
        ),
        ({"kafka.brokers": "a:1", "replicaScaling.enabled": True}, "replicaScaling needs usage.prometheusUrl"),
        ({"kafka.brokers": "a:1", "kafka.kind": "strimzi"}, "kafka.strimzi.cluster is needed"),
    ],
)
def test_values_that_make_no_sense_are_named(values: Mapping[str, object], said: str, helm: Path) -> None:
    done = asked(helm, "template", "ullage", "--kube-version", "1.34.0", values=values)
    assert done.returncode != 0
    assert said in done.stderr


def test_a_component_works_with_the_token_of_the_account_that_the_chart_made(
    helm: Path, plane: Plane, world: World, made: list[str], tmp_path: Path
) -> None:
    for document in rendered(helm, world.namespace, VALUES["watch"]):
        if document["kind"] in {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}:
            world.ask.post(path_of(document), document)
            if "namespace" not in document["metadata"]:
                made.append(f"{path_of(document)}/{document['metadata']['name']}")
    path = f"/api/v1/namespaces/{world.namespace}/serviceaccounts/ullage-source-kube/token"
    token = world.ask.post(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "it"}}],
        "clusters": [{"name": "here", "cluster": {"server": plane.url, "certificate-authority": str(plane.ca)}}],
        "users": [{"name": "it", "user": {"token": token}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(whole))
    with pytest.raises(Refused):
        world.ask.post(f"/api/v1/namespaces/{world.namespace}/serviceaccounts/ullage-consumer-evictor/token", {"spec": {}})
    command = [sys.executable, "-m", "agents", "doctor", "--set", f"cluster.kubeconfig={tmp_path / 'kubeconfig'}"]
    done = subprocess.run(
        [*command, "--set", "log.kind=memory"], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
    )
    assert "may do what source kube needs" in done.stdout
