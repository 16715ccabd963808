"""The chart on the real control plane: Helm renders it, and the API server takes all of it strictly."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.cli.program import app
from agents.settings import loading
from tests.controlplane import plain_manifests
from tests.controlplane.api_requests import Refused
from tests.controlplane.chart_values import API_VERSIONS, CHART, CUSTOM, SCRAM, VALUES, asked, path_of, rendered
from tests.controlplane.plane import Plane
from tests.controlplane.world import World


@pytest.fixture
def made(world: World) -> Iterator[list[str]]:
    """Paths of what does not go with the namespace, deleted at the end."""
    paths: list[str] = []
    yield paths
    for path in paths:
        world.ask.delete(path)


def test_helm_finds_nothing_to_complain_about(helm: Path) -> None:
    done = asked(helm, "lint", "--strict", values=VALUES["apply"])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("layout", ["small", "large"])
@pytest.mark.parametrize("name", VALUES)
def test_the_api_server_takes_all_of_it_strictly(name: str, layout: str, helm: Path, world: World, made: list[str]) -> None:
    if runtime := VALUES[name].get("runtimeClassName"):
        kept = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": runtime}, "handler": "runsc"}
        world.ask.post("/apis/node.k8s.io/v1/runtimeclasses", kept)
        made.append(f"/apis/node.k8s.io/v1/runtimeclasses/{runtime}")
    documents = rendered(helm, world.namespace, {"layout": layout, **VALUES[name]}, API_VERSIONS.get(name, ()))
    documents = [d for d in documents if not d["apiVersion"].startswith(CUSTOM)]
    assert len(documents) > 12
    for document in documents:
        world.ask.post(f"{path_of(document)}?fieldValidation=Strict&dryRun=All", document)


@pytest.mark.parametrize(("mode", "writers"), [("watch", set()), ("shadow", {"consumer-status"}), ("plan", {"consumer-status"})])
def test_only_apply_starts_what_changes_pods_and_watch_grants_no_right_to_write(mode: str, writers: set[str], helm: Path) -> None:
    documents = rendered(helm, "ullage", {**VALUES["watch"], "mode": mode, "layout": "large"})
    components = {d["metadata"]["labels"]["app.kubernetes.io/component"] for d in documents if d["kind"] == "Deployment"}
    assert components == {"clock", "worker", "source-kube", "source-usage"} | writers
    small = rendered(helm, "ullage", {**VALUES["watch"], "mode": mode})
    (process,) = (d["spec"]["template"]["spec"]["containers"][0]["args"] for d in small if d["kind"] == "Deployment")
    assert set(process[1 : process.index("--config")]) == components
    for rendering in (documents, small):
        verbs = {verb for d in rendering if d["kind"] == "ClusterRole" for rule in d["rules"] for verb in rule["verbs"]}
        assert verbs == {"get", "list", "watch"} | ({"patch"} if writers else set())


@pytest.mark.parametrize(("setting", "plural"), [("control", "clustercontrols"), ("policies", "verticalpolicies")])
def test_the_rights_on_objects_that_command_come_with_their_setting(setting: str, plural: str, helm: Path) -> None:
    settings = {**VALUES["watch"].get("settings", {}), "cluster": {setting: True}}
    documents = rendered(helm, "ullage", {**VALUES["watch"], "settings": settings})
    rules = [
        rule for d in documents if d["kind"] == "ClusterRole" for rule in d["rules"] if "ullage.internal" in rule["apiGroups"]
    ]
    assert [(rule["resources"], rule["verbs"]) for rule in rules] == [
        ([plural], ["list", "watch"]),
        ([f"{plural}/status"], ["patch"]),
    ]


@pytest.mark.parametrize("name", ["watch", "apply", "everything"])
def test_the_small_layout_runs_the_same_parts_with_the_same_rights_and_settings(name: str, helm: Path) -> None:
    small, large = (rendered(helm, "ullage", {**VALUES[name], "layout": layout}) for layout in ("small", "large"))
    processes = [d["spec"]["template"]["spec"] for d in small if d["kind"] == "Deployment"]
    assert len(processes) == (1 if name == "watch" else 2)
    commands = [process["containers"][0]["args"] for process in processes]
    for words in commands:
        app.parse_args(words, exit_on_error=False, print_error=False)
    parts = {part for words in commands for part in words[1 : words.index("--config")]}
    alone = [d["spec"]["template"]["spec"]["containers"][0]["args"] for d in large if d["kind"] == "Deployment"]
    assert parts == {"-".join(words[: words.index("--config")]).replace("source-clock", "clock") for words in alone}
    assert {process["serviceAccountName"] for process in processes} == bound(small)
    assert roles(small) == roles(large)
    assert {d["metadata"]["name"] for d in small if d["kind"] == "ServiceAccount"} == bound(small) | {"ullage-agents"}
    ports = {port["name"] for process in processes for port in process["containers"][0]["ports"]}
    assert {port["targetPort"] for d in small if d["kind"] == "Service" for port in d["spec"]["ports"]} <= ports


def bound(documents: list[dict[str, Any]]) -> set[str]:
    """Every account that a role is given to."""
    return {each["name"] for d in documents if d["kind"].endswith("Binding") for each in d["subjects"]}


def roles(documents: list[dict[str, Any]]) -> list[object]:
    return [(d["metadata"]["name"], d["rules"]) for d in documents if d["kind"] in {"ClusterRole", "Role"}]


TOPICS, RULES = ["topics", "apply"], ["settings", "apply"]
"""What the chart's Job runs before it says the mode."""


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ({"mode": "watch"}, [TOPICS, RULES, ["mode", "shadow"]]),
        ({"mode": "shadow"}, [TOPICS, RULES, ["mode", "shadow"]]),
        ({"mode": "plan"}, [TOPICS, RULES, ["mode", "plan"]]),
        ({"mode": "apply"}, [TOPICS, RULES]),
        ({"mode": "plan", "kafka.kind": "strimzi", "kafka.strimzi.cluster": "main", **SCRAM}, [RULES, ["mode", "plan"]]),
        ({"mode": "apply", "kafka.kind": "strimzi", "kafka.strimzi.cluster": "main", **SCRAM}, [RULES]),
        ({"mode": "plan", "kafka.kind": "single", "kafka.brokers": ""}, [TOPICS, ["topics", "users"], RULES, ["mode", "plan"]]),
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
        assert steps["rules"]["env"] == values.get("worker.extraEnv", [])
        assert steps["rules"]["args"][:-2] == ["settings", "apply", *values.get("worker.extraArgs", [])]
    assert len(named) == 3, "what the workers are told anew is put into the log anew"


@pytest.mark.parametrize("asks", [{"usage.reads": "prometheus"}, {"replicaScaling.enabled": True}])
def test_a_source_that_asks_prometheus_may_reach_it(asks: Mapping[str, object], helm: Path) -> None:
    values = {"kafka.brokers": "kafka:9092", "usage.prometheusUrl": "http://vmsingle.monitoring.svc:8428/prometheus", **asks}
    (policy,) = (d for d in rendered(helm, "ullage", values) if d["kind"] == "NetworkPolicy")
    assert 8428 in {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}


def test_what_is_asked_for_is_there_and_the_rules_are_those_that_are_tested(helm: Path) -> None:
    documents = rendered(helm, "ullage", {**VALUES["everything"], "layout": "large"})
    components = {d["metadata"]["labels"]["app.kubernetes.io/component"] for d in documents if d["kind"] == "Deployment"}
    assert {"source-asg", "consumer-asg", "consumer-autoscalers", "metrics-api"} <= components
    accounts = {d["metadata"]["name"] for d in documents if d["kind"] == "ServiceAccount"}
    used = {d["spec"]["template"]["spec"]["serviceAccountName"] for d in documents if d["kind"] == "Deployment"}
    assert used <= accounts
    (rules,) = (d for d in documents if d["kind"] == "PrometheusRule")
    assert rules["spec"] == yaml.safe_load((CHART / "files/alerts.yaml").read_text())
    linked = {**VALUES["everything"], "monitoring.prometheusRule.runbookUrl": "https://wiki.example/troubleshooting"}
    (with_links,) = (d for d in rendered(helm, "ullage", linked) if d["kind"] == "PrometheusRule")
    for rule in with_links["spec"]["groups"][0]["rules"]:
        assert rule["annotations"].pop("runbook_url") == f"https://wiki.example/troubleshooting#:~:text={rule['alert']}"
    assert with_links["spec"] == rules["spec"]
    (dashboard,) = (d for d in documents if d["metadata"]["name"] == "ullage-dashboard")
    for name, file in (("ullage.json", "dashboard.json"), ("ullage-fleet.json", "fleet-dashboard.json")):
        assert json.loads(dashboard["data"][name]) == json.loads((CHART / "files" / file).read_text())
    assert [d["spec"]["endpoints"] for d in documents if d["kind"] == "ServiceMonitor"] == [
        [{"port": "metrics", "interval": "30s"}]
    ]


def setup_job(helm: Path, values: Mapping[str, object]) -> tuple[str, list[list[str]]]:
    """Its name, and the commands that it runs, one after the other."""
    (job,) = (d for d in rendered(helm, "ullage", {**VALUES["watch"], **values}) if d["kind"] == "Job")
    pod = job["spec"]["template"]["spec"]
    commands = [one["args"] for one in [*pod.get("initContainers", []), *pod["containers"]]]
    for words in commands:
        app.parse_args(words, exit_on_error=False, print_error=False)
    return job["metadata"]["name"], [words[:2] for words in commands]


def test_the_release_never_says_apply_for_a_person(helm: Path) -> None:
    for mode, said in (("watch", "shadow"), ("shadow", "shadow"), ("plan", "plan")):
        commands = setup_job(helm, {"mode": mode})[1]
        assert commands == [["topics", "apply"], ["settings", "apply"], ["mode", said]]
    assert setup_job(helm, {"mode": "apply"})[1] == [["topics", "apply"], ["settings", "apply"]]


@pytest.mark.parametrize(
    "change",
    [
        {"kafka.security.secret": "other"},
        {"imagePullSecrets": [{"name": "registry"}]},
        {"image.pullPolicy": "Always"},
        {"resources": {"requests": {"cpu": "1"}}},
        {"settings.vertical.margin": 0.2},
        {"mode": "plan"},
    ],
)
def test_what_would_change_the_setup_makes_a_new_job_because_a_job_cannot_be_changed(
    change: Mapping[str, object], helm: Path
) -> None:
    assert setup_job(helm, change)[0] != setup_job(helm, {})[0]
    assert setup_job(helm, {"clock.replicas": 2})[0] == setup_job(helm, {})[0]


@pytest.mark.parametrize(
    ("values", "ports"),
    [
        ({"kafka.brokers": "a:9092,b:9094"}, {9092, 9094}),
        ({"replicaScaling.enabled": True, "usage.prometheusUrl": "http://prometheus:9090"}, {9092, 9090}),
        ({"usage.reads": "prometheus", "usage.prometheusUrl": "http://mimir.here:8080/prometheus"}, {9092, 8080}),
        ({"usage.reads": "prometheus", "settings.prometheus.url": "https://[fd00::1]"}, {9092}),
        ({"usage.reads": "prometheus"}, {9092, 80}),
        ({"networkPolicy.egressPorts": [8443]}, {9092, 8443}),
    ],
)
def test_the_network_policy_lets_out_what_the_settings_ask_for(values: Mapping[str, object], ports: set[int], helm: Path) -> None:
    (policy,) = (d for d in rendered(helm, "ullage", {**VALUES["watch"], **values}) if d["kind"] == "NetworkPolicy")
    assert {p["port"] for rule in policy["spec"]["egress"] for p in rule["ports"]} == {53, 443, 6443} | ports


@pytest.mark.parametrize("senders", [[], [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]])
def test_the_network_policy_lets_in_whoever_may_send_usage(senders: list[Mapping[str, object]], helm: Path) -> None:
    values = {**VALUES["watch"], "usage.reads": "remote-write", "networkPolicy.usageSenders": senders}
    (policy,) = (d for d in rendered(helm, "ullage", values) if d["kind"] == "NetworkPolicy")
    (rule,) = (rule for rule in policy["spec"]["ingress"] if {"port": 9365, "protocol": "TCP"} in rule["ports"])
    assert (len(rule["ports"]), rule.get("from", [])) == (1, senders)


def test_keda_asks_for_the_workers_group_and_signs_in_as_they_do(helm: Path) -> None:
    values = {
        **VALUES["scram"],
        "layout": "large",
        "worker.keda.enabled": True,
        "worker.keda.maxReplicas": 50,
        "settings.worker.name": "blue",
    }
    documents = {d["kind"]: d for d in rendered(helm, "ullage", values)}
    assert documents["ScaledObject"]["spec"]["maxReplicaCount"] == 4
    (trigger,) = documents["ScaledObject"]["spec"]["triggers"]
    assert {"consumerGroup": "blue", "sasl": "scram_sha512", "tls": "enable"}.items() <= trigger["metadata"].items()
    assert trigger["authenticationRef"]["name"] == documents["TriggerAuthentication"]["metadata"]["name"]
    given = {one["parameter"]: one["key"] for one in documents["TriggerAuthentication"]["spec"]["secretTargetRef"]}
    assert given == {"username": "username", "password": "password", "ca": "ca.crt"}


@pytest.mark.parametrize("name", ["scram", "strimzi", "strimzi, by certificate"])
def test_a_kafka_secret_need_not_have_an_authority_of_its_own(name: str, helm: Path) -> None:
    """A broker whose certificate the system trusts needs no ca.crt, and one that asks for a password no certificate of ours."""
    deployments = [d for d in rendered(helm, "ullage", VALUES[name]) if d["kind"] == "Deployment"]
    for deployment in deployments:
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        files = {
            each["name"]: each["value"] for each in container["env"] if str(each.get("value")).startswith("/etc/ullage/kafka")
        }
        assert files == {"ULLAGE_LOG__SECURITY__FOLDER": "/etc/ullage/kafka"}


def test_the_plain_manifests_are_those_of_the_chart(helm: Path) -> None:
    files = plain_manifests.made(helm)
    kustomization = yaml.safe_load((plain_manifests.BASE / "kustomization.yaml").read_text(encoding="utf-8"))
    assert kustomization["resources"] == list(files)
    for name, text in files.items():
        assert (plain_manifests.BASE / name).read_text(encoding="utf-8") == text, "make manifests"


def test_helm_lint_takes_the_defaults_and_an_install_without_values_says_what_is_needed(helm: Path) -> None:
    done = subprocess.run([str(helm), "lint", "--strict", str(CHART)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    words = [str(helm), "template", "ullage", str(CHART), "--kube-version", "1.34.0"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert "clusterName is needed" in done.stderr
    assert "kafka.brokers, HOST:PORT of your Kafka, or kafka.kind=single" in done.stderr


def test_every_pod_is_confined(helm: Path) -> None:
    for document in rendered(helm, "ullage", {**VALUES["apply"], "kafka.kind": "single", "kafka.brokers": ""}):
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
        ({"kafka.brokers": ""}, "kafka.brokers is needed: HOST:PORT of your Kafka, or kafka.kind=single to try without one"),
        ({"mode": "on"}, "mode"),
        ({"clusterName": ""}, "clusterName is needed, the name of this cluster in the log (--set clusterName=prod)"),
        ({"extraVolumeMounts": [{"name": "x"}]}, "/extraVolumeMounts/0"),
        ({"accountAnnotations": {"default": {"a": "b"}}}, "accountAnnotations: 'default' is no account of this chart"),
        ({"accountAnnotations": {"ullage-source-asg": {"a": "b"}}}, "there is no 'ullage-source-asg' in the small layout"),
        ({"podLabels": {"app.kubernetes.io/name": "x"}}, "cannot say app.kubernetes.io/name"),
        (
            {"webhook.certificateSecret": "x", "webhook.certManager.enabled": True},
            "webhook.certificateSecret is a Secret of yours, and webhook.certManager.enabled makes one",
        ),
        ({"settings.webhook.ca": "/x"}, "settings.webhook.ca: say it in webhook.certificateSecret"),
        ({"wrker": {"replicas": 3}}, "wrker"),
        ({"nodeScaling.enabled": True}, "nodeScaling needs nodeScaling.groups"),
        (
            {"kafka.security.mechanism": "AWS_MSK_IAM"},
            "AWS_MSK_IAM needs kafka.security.protocol SASL_SSL",
        ),
        (
            {"kafka.security.protocol": "SASL_SSL", "kafka.security.mechanism": "SCRAM-SHA-512"},
            "need kafka.security.secret",
        ),
        ({"replicaScaling.enabled": True}, "replicaScaling needs usage.prometheusUrl"),
        ({"kafka.kind": "strimzi", **SCRAM}, "kafka.strimzi.cluster is needed"),
        ({"kafka.kind": "strimzi", "kafka.strimzi.cluster": "main"}, "authentication scram-sha-512 needs"),
        (
            {"kafka.kind": "strimzi", "kafka.strimzi.cluster": "main", "kafka.strimzi.authentication": "tls", **SCRAM},
            "authentication tls needs kafka.security.protocol SSL",
        ),
        (
            {"kafka.kind": "strimzi", "kafka.strimzi.cluster": "main", "kafka.strimzi.namespace": "kafka", **SCRAM},
            "copy them into one",
        ),
        ({"kafka.brokers": "kafka"}, "/kafka/brokers"),
        ({"kafka.brokers": "kafka:9092,"}, "/kafka/brokers"),
        ({"kafka.brokers": "kafka:99999"}, "'kafka:99999' has no port between 1 and 65535"),
        ({"kafka.brokers": "a:1\nevil: true"}, "/kafka/brokers"),
        ({"kafka.kind": "single"}, "leave kafka.brokers empty"),
        ({"kafka.kind": "single", "kafka.brokers": "", "kafka.replication": 3}, "one node, which keeps one copy"),
        ({"kafka.kind": "single", "kafka.brokers": "", "kafka.security.protocol": "SSL"}, "has a login that is made with it"),
        ({"kafka.security.mechanism": "PLAIN"}, "mechanism PLAIN needs kafka.security.protocol"),
        ({"kafka.security.protocol": "SASL_SSL", "kafka.security.secret": "x"}, "SASL_SSL needs kafka.security.mechanism"),
        ({"kafka.security": None}, "security"),
        ({"kafka.single.storage": "lots"}, "/kafka/single/storage"),
        ({"usage.prometheusUrl": "prometheus:9090"}, "/usage/prometheusUrl"),
        ({"layout": "huge"}, "/layout"),
        ({"worker.replicas": 9}, "worker.replicas is 9, and kafka.partitions, 4, is the upper bound"),
        ({"worker.keda.enabled": True}, "worker.keda.enabled needs layout large"),
        ({"worker.keda.enabled": True, "worker.keda.maxReplicas": 1, "layout": "large"}, "which is below worker.replicas, 2"),
        ({"clock.keda.enabled": True}, "keda"),
        ({"image.repository": ""}, "/image/repository"),
        ({"imagePullSecrets": ["x"]}, "/imagePullSecrets/0"),
        ({"image.tag": "a b"}, "/image/tag"),
        ({"kafka.replication": 0}, "/kafka/replication"),
        ({"nodeScaling.enabled": True, "nodeScaling.groups": ["5:1:a"]}, "'5:1:a' wants at least 5 nodes and at most 1"),
        ({"sourceKube.resources": {"request": {"cpu": "1"}}}, "'request' not allowed"),
        ({"sourceKube.resources": {"requests": {"cpu": "lots"}}}, "/sourceKube/resources/requests/cpu"),
        ({"sourceKube.tolerations": [{"ky": "a"}]}, "'ky' not allowed"),
        ({"sourceKube.affinity": {"nodeAffinty": {}}}, "'nodeAffinty' not allowed"),
        ({"webhookServer.extraEnv": [{"nam": "x"}]}, "/webhookServer/extraEnv/0"),
        ({"webhookServer.priorityClassName": "Bad_Name"}, "/webhookServer/priorityClassName"),
        ({"settings": {"vertical": {"margni": 0.2}}}, "at '/settings/vertical': additional properties 'margni' not allowed"),
        ({"worker.podAnnotations": {"a": 1}}, "/worker/podAnnotations/a"),
        ({"networkPolicy.egressPorts": [70000]}, "/networkPolicy/egressPorts/0"),
        ({"settings.topics.partitions": 8}, "settings.topics.partitions: say it in kafka.partitions"),
        ({"settings.cluster.name": "other"}, "settings.cluster.name: say it in clusterName"),
        ({"settings.webhook.port": 9443}, "settings.webhook.port: the chart's Services and probes depend on it"),
    ],
)
def test_values_that_make_no_sense_are_named(values: Mapping[str, object], said: str, helm: Path) -> None:
    done = asked(helm, "template", "ullage", "--kube-version", "1.34.0", values={"kafka.brokers": "a:92", **values})
    assert done.returncode != 0
    assert said in done.stderr


def test_a_component_works_with_the_token_of_the_account_that_the_chart_made(
    helm: Path, plane: Plane, world: World, made: list[str], tmp_path: Path
) -> None:
    for document in rendered(helm, world.namespace, {**VALUES["watch"], "layout": "large"}):
        if document["kind"] in {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}:
            world.ask.post(path_of(document), document)
            if document["metadata"].get("namespace") != world.namespace:
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
