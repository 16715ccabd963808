"""What clusters add to the chart reaches the objects that it is meant for, and nothing is left without its labels."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from tests.controlplane.chart_values import API_VERSIONS, CHART, VALUES, pods, rendered

LARGE = {"layout": "large"}


def test_what_is_said_of_all_pods_reaches_each_and_a_component_wins(helm: Path) -> None:
    said = pods(rendered(helm, "ullage", {**VALUES["istio"], **LARGE}))
    assert len(said) > 8
    for name, pod in said.items():
        wanted = "false" if name == "ullage-webhook" else "true"
        assert pod["metadata"]["labels"]["sidecar.istio.io/inject"] == wanted, name
        assert pod["metadata"]["annotations"]["traffic.sidecar.istio.io/excludeOutboundPorts"] == "9092", name
    placed = pods(rendered(helm, "ullage", {**VALUES["node pool"], **LARGE}))
    assert placed["ullage-worker"]["spec"]["nodeSelector"] == {"pool": "memory"}
    assert [each["key"] for each in placed["ullage-worker"]["spec"]["tolerations"]] == ["CriticalAddonsOnly", "memory"]
    assert placed["ullage-clock"]["spec"]["nodeSelector"] == {"pool": "system"}
    code = pods(rendered(helm, "ullage", {**VALUES["policies as code"], **LARGE}))
    for name, pod in code.items():
        for container in [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]:
            assert "/etc/ullage/policies" in {mount["mountPath"] for mount in container["volumeMounts"]}, name
    proxied = pods(rendered(helm, "ullage", {**VALUES["proxy"], **LARGE}))
    for name, pod in proxied.items():
        assert {"HTTPS_PROXY", "NO_PROXY"} <= {each["name"] for each in pod["spec"]["containers"][0]["env"]}, name


def test_what_a_part_is_told_reaches_the_process_that_it_shares(helm: Path) -> None:
    (process,) = (d for d in rendered(helm, "ullage", VALUES["authority"]) if d["kind"] == "Deployment")
    spec = process["spec"]["template"]["spec"]
    assert "company" in {volume["name"] for volume in spec["volumes"]}
    assert "/etc/company" in {mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}


STANDARD = {*(f"app.kubernetes.io/{name}" for name in ("name", "instance", "version", "part-of", "managed-by")), "helm.sh/chart"}


def test_every_object_and_every_pod_carries_the_standard_labels(helm: Path) -> None:
    documents = rendered(helm, "ullage", {**VALUES["everything"], **LARGE, "kafka.kind": "single", "kafka.brokers": ""})
    for document in documents:
        assert document["metadata"]["labels"].keys() >= STANDARD, (document["kind"], document["metadata"]["name"])
    for name, pod in pods(documents).items():
        assert pod["metadata"]["labels"].keys() >= STANDARD, name
    accounts = {d["metadata"]["labels"]["app.kubernetes.io/component"] for d in documents if d["kind"] == "ServiceAccount"}
    assert {"agents", "source-kube", "consumer-evictor"} <= accounts


@pytest.mark.parametrize("layout", ["small", "large"])
def test_every_object_carries_the_common_labels_and_every_selector_finds_its_pods(layout: str, helm: Path) -> None:
    documents = rendered(helm, "ullage", {**VALUES["everything"], **VALUES["names"], "layout": layout})
    for document in documents:
        labels = document["metadata"]["labels"]
        assert {"team": "platform", "cost-center": "42"}.items() <= labels.items(), document["kind"]
        assert labels["app.kubernetes.io/name"] == "autoscaler"
        assert labels["app.kubernetes.io/part-of"] == "autoscaler"
        assert document["metadata"]["annotations"]["example.com/owner"] == "platform"
    for document in documents:
        spec = document.get("spec", {})
        selector = spec.get("podSelector", spec.get("selector", {}))
        wanted = selector.get("matchLabels", selector)
        if wanted and document["kind"] != "Job":
            assert any(wanted.items() <= pod["metadata"]["labels"].items() for pod in pods(documents).values()), document


@pytest.mark.parametrize("name", ["cert-manager", "cert-manager, issuer", "own certificate"])
def test_the_webhook_serves_a_certificate_of_others(name: str, helm: Path) -> None:
    documents = rendered(helm, "ullage", VALUES[name])
    spec = pods(documents)["ullage-webhook"]["spec"]
    (secret,) = (each["secret"]["secretName"] for each in spec["volumes"] if each["name"] == "webhook-certificate")
    (config,) = (d for d in documents if d["kind"] == "ConfigMap" and "ullage.yaml" in d["data"])
    settings = yaml.safe_load(config["data"]["ullage.yaml"])["webhook"]
    (mount,) = (each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "webhook-certificate")
    assert {settings[key].rpartition("/")[0] for key in ("certificate", "key", "ca")} == {mount["mountPath"]}
    assert [settings[key].rpartition("/")[2] for key in ("certificate", "key", "ca")] == ["tls.crt", "tls.key", "ca.crt"]
    issued = {d["spec"]["secretName"]: d["spec"] for d in documents if d["kind"] == "Certificate"}
    assert (secret in issued) == (name != "own certificate")
    if issued:
        assert f"ullage-webhook.{'ullage'}.svc" in issued[secret]["dnsNames"]
        assert issued[secret]["issuerRef"]["kind"] == ("ClusterIssuer" if name.endswith("issuer") else "Issuer")


@pytest.mark.parametrize("values", API_VERSIONS)
def test_no_pod_names_a_user_so_that_openshift_may(values: str, helm: Path) -> None:
    made = pods(rendered(helm, "ullage", VALUES[values], API_VERSIONS[values]))
    assert ("ullage-kafka" in made) == (values == "openshift, tried out")
    for name, pod in made.items():
        context = pod["spec"]["securityContext"]
        assert context["runAsNonRoot"] is True, name
        assert {"runAsUser", "runAsGroup", "fsGroup"}.isdisjoint(context), name


@pytest.mark.parametrize("place", [None, "autoscaling/who-goes-first"])
def test_the_right_on_the_config_map_of_priorities_is_on_the_one_that_the_settings_name(place: str | None, helm: Path) -> None:
    told = {"settings.cluster.priorities": place} if place else {}
    named = {
        d["kind"]: d
        for d in rendered(helm, "ullage", {**VALUES["irsa"], **told})
        if d["metadata"]["name"].endswith("-priorities")
    }
    namespace, name = (place or "kube-system/cluster-autoscaler-priority-expander").split("/")
    assert {kind: d["metadata"]["namespace"] for kind, d in named.items()} == {"Role": namespace, "RoleBinding": namespace}
    assert [rule["resourceNames"] for rule in named["Role"]["rules"]] == [[name]]


TEXTS = {"name", "namespace", "image", "secretName", "priorityClassName", "runtimeClassName", "storageClassName"}
TEXTS |= {"topicName", "value"}
"""Fields that the API takes as texts alone, whatever they look like; so it takes what is in labels, annotations and data."""
NUMBERS: Mapping[str, Mapping[str, object]] = {
    "one log": {
        "kafka.brokers": "k:9092",
        "nameOverride": "123",
        "mode": "apply",
        "priorityClassName": "1",
        "runtimeClassName": "2",
    },
    "an image": {"kafka.brokers": "k:9092", "image.repository": "12", "image.tag": "1.10"},
    "single": {"kafka.kind": "single", "mode": "apply", "layout": "large", "kafka.topicPrefix": "1e3"},
    "strimzi": {**VALUES["strimzi"], "kafka.strimzi.cluster": "12", "kafka.topicPrefix": "12"},
    "keda": {**VALUES["keda"], **VALUES["scram"], "kafka.security.secret": "12"},
    "scram": {**VALUES["scram"], "kafka.security.secret": "12", "commonLabels": {"a": "1"}, "podAnnotations": {"b": "true"}},
}
"""Names as Kubernetes allows them, which YAML takes for numbers where nobody quotes them."""


@pytest.mark.parametrize("name", NUMBERS)
def test_a_name_that_looks_like_a_number_stays_a_text(name: str, helm: Path) -> None:
    for document in rendered(helm, "123", {"clusterName": "1e5", **NUMBERS[name]}):
        assert list(_no_texts(document, document["kind"])) == []


def _no_texts(value: object, path: str) -> Iterator[str]:
    parent = path.rpartition(".")[2]
    if isinstance(value, dict):
        for key, below in value.items():
            bare = not isinstance(below, str | dict | list)
            if bare and (key in TEXTS or parent in {"labels", "annotations", "matchLabels", "data"}):
                yield f"{path}.{key}: {below!r}"
            yield from _no_texts(below, f"{path}.{key}")
    elif isinstance(value, list):
        for below in value:
            yield from _no_texts(below, path)


def test_no_digest_is_written_without_quotes() -> None:
    """One in 700 looks like a number, such as 12e4567890123456, and the API server refuses the pods that have it."""
    bare = re.compile(r"^[^{]*: \{\{ (?![^}]*\bquote\b)[^}]*sha256sum[^}]*\}\}$")
    lines = [line for file in sorted((CHART / "templates").rglob("*.yaml")) for line in file.read_text().splitlines()]
    assert [line for line in lines if bare.match(line)] == []
