"""What follows from an EHPA where we differ from upstream, and on examples worked out by hand."""

import re
from typing import Any

import pytest

from agents.logic.replicas import ehpa_manifest, generated_objects, metric_queries
from agents.logic.replicas.generated_objects import CannotGenerate, HpaSurroundings, LabelPropagation, TargetPod
from schemas.well_known_labels import EHPA_UID, METRIC_QUERY

LABEL = re.compile("[A-Za-z0-9]([-A-Za-z0-9_.]{,61}[A-Za-z0-9])?")
"""What the API server takes as the value of a label."""
NOW = 1_709_633_640.0
DSP = {"predictionWindowSeconds": 3600, "predictionAlgorithm": {"algorithmType": "dsp", "dsp": {"sampleInterval": "1m"}}}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}


def made(*entries: Any, about: dict[str, Any] | None = None, **spec: Any) -> ehpa_manifest.Ehpa:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    usual = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9, "metrics": list(entries), "prediction": DSP}
    return ehpa_manifest.read(
        {"metadata": {"name": "web", "namespace": "shop", "uid": "u", **(about or {})}, "spec": {**usual, **spec}}
    )


def pod(cpu: int | None, ready_for: float = 300) -> TargetPod:
    return TargetPod(
        "p", running=True, deleting=False, ready_at=NOW - ready_for, requests=(("c", {} if cpu is None else {"cpu": cpu}),)
    )


def around(*pods: TargetPod, identifier: str = "resource.cpu", **told: Any) -> HpaSurroundings:
    return HpaSurroundings(pods, [{"resourceIdentifier": identifier, "ready": True, "prediction": [{}]}], NOW, **told)


def targets(found: generated_objects.GeneratedObject) -> list[Any]:
    spec: Any = found.manifest["spec"]
    added = [entry["external"] for entry in spec["metrics"] if "external" in entry]
    return [entry["target"]["averageValue"] for entry in added if entry["metric"]["name"] == ehpa_manifest.PREDICTION]


@pytest.mark.parametrize(
    ("requests", "percent", "expected"), [((200, 200), 50, "100m"), ((250, 250, 500), 60, "200m"), ((333, 333), 50, "166m")]
)
def test_the_forecasts_target_is_a_share_of_what_pods_request_cut(requests: tuple[int, ...], percent: int, expected: str) -> None:
    entry = {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": percent}}}
    assert targets(generated_objects.hpa(made(entry), around(*map(pod, requests)))) == [expected]


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        ((), "the target has no pods"),
        ((pod(200, ready_for=29),), "none of 1 pod has been ready for 30 s"),
        ((pod(None),), "pod 'p' has a container without a request for cpu"),
    ],
)
def test_a_forecast_that_has_no_target_is_left_out_and_the_rest_stays(pods: Any, reason: str) -> None:
    found = generated_objects.hpa(made(CPU), around(*pods))
    assert targets(found) == []
    assert found.left_out == (f"metric 'resource.cpu': {reason}",)
    with pytest.raises(CannotGenerate, match=reason):
        generated_objects.hpa(made(CPU), around(*pods, as_upstream=True))


def test_a_pod_ready_for_31_seconds_counts() -> None:
    assert targets(generated_objects.hpa(made(CPU), around(pod(200, ready_for=31)))) == ["100m"]


def test_an_external_metric_with_a_value_gets_no_forecast_rather_than_an_object_nobody_takes() -> None:
    entry = {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "30"}}}
    found = generated_objects.hpa(made(entry), around(identifier="external.q"))
    assert targets(found) == []
    assert found.left_out == ("metric 'external.q': its target is neither a utilisation nor an average value",)


def test_labels_and_annotations_propagate_by_prefix_and_by_name() -> None:
    mine = made(CPU, about={"labels": {"team.a": "1", "x": "2"}, "annotations": {"note": "n", "other": "o"}})
    handed = LabelPropagation(label_prefixes=("team.",), annotations=("note",))
    about: Any = generated_objects.hpa(mine, around(pod(200), propagation=handed)).manifest["metadata"]
    assert about["annotations"] == {"note": "n"}
    assert set(about["labels"]) == {
        "team.a", "app.kubernetes.io/name", "app.kubernetes.io/part-of", "app.kubernetes.io/managed-by", EHPA_UID,
    }  # fmt: skip


def test_a_preview_scales_the_substitute_and_an_unknown_strategy_nothing() -> None:
    spec: Any = generated_objects.hpa(made(CPU, scaleStrategy="Preview"), around(pod(200))).manifest["spec"]
    assert spec["scaleTargetRef"] == {"apiVersion": ehpa_manifest.API, "kind": "Substitute", "name": "ehpa-web"}
    with pytest.raises(CannotGenerate, match="'Manual' is no strategy"):
        generated_objects.hpa(made(CPU, scaleStrategy="Manual"), around(pod(200)))


@pytest.mark.parametrize(
    ("window", "entries", "reason"),
    [(599, (CPU,), "the window is 599 s"), (3600, (), "no metric can be forecast"), (3600, (CPU, CPU), "two metrics are called")],
)
def test_a_forecast_that_admission_would_refuse_is_not_asked_for(window: int, entries: Any, reason: str) -> None:
    with pytest.raises(CannotGenerate, match=reason):
        generated_objects.tsp(made(*entries, prediction={**DSP, "predictionWindowSeconds": window}))


def test_the_query_of_an_annotation_comes_before_the_default() -> None:
    entry = {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"averageValue": "5"}}}
    mine = made(entry, about={"annotations": {f"{METRIC_QUERY}/pods.rps": "sum(mine)"}})
    assert metric_queries.query(mine, mine.metrics[0]) == "sum(mine)"


def test_our_queries_are_of_the_workload_alone_and_one_series() -> None:
    rps = {
        "type": "Pods",
        "pods": {"metric": {"name": "rps", "selector": {"matchLabels": {"p": 'a"b'}}}, "target": {"averageValue": "5"}},
    }
    one = {
        "type": "ContainerResource",
        "containerResource": {"name": "memory", "container": "c", "target": {"averageUtilization": 5}},
    }
    mine = made(CPU, rps, one)
    cpu, pods, container = (metric_queries.query(mine, metric) for metric in mine.metrics)
    where = 'namespace="shop",pod=~"^web-[a-z0-9]+-[a-z0-9]{5}$"'
    rate = f'irate(container_cpu_usage_seconds_total{{{where},container!=""}}[3m])'
    once = "max by (namespace, pod, container)"  # a pair of servers has each container twice
    assert cpu == f"sum({once} (sum without (cpu, id, image, name) ({rate})))"
    assert pods == f'sum(rps{{p="a\\"b",{where}}})'
    assert container == f'sum({once} (container_memory_working_set_bytes{{{where},container="c"}}))'


def test_a_window_of_ten_minutes_is_long_enough() -> None:
    spec: Any = generated_objects.tsp(made(CPU, prediction={**DSP, "predictionWindowSeconds": 600})).manifest["spec"]
    assert spec["predictionWindowSeconds"] == 600


def test_labels_of_an_ehpa_with_a_long_name_are_shortened_to_what_kubernetes_takes() -> None:
    def labels(name: str) -> list[str]:
        found: Any = generated_objects.hpa(made(CPU, about={"name": name}), around(pod(200))).manifest
        assert found["metadata"]["name"] == f"ehpa-{name}"
        return [found["metadata"]["labels"][f"app.kubernetes.io/{word}"] for word in ("name", "part-of")]

    assert labels("n" * 58) == [f"ehpa-{'n' * 58}", "n" * 58]
    short, part = labels("n" * 59)
    assert (short[:54], len(short), part) == (f"ehpa-{'n' * 49}", 63, "n" * 59)
    assert labels(f"{'n' * 53}.n{'x' * 60}")[1][:54] == f"{'n' * 53}-"
    assert labels("n" * 100) != labels("n" * 101)


@pytest.mark.parametrize("name", ["w" * 63, "w" * 64, "w" * 253, f"{'w' * 53}.-{'x' * 60}"])
def test_a_target_with_a_long_name_has_a_selector_and_labels_that_kubernetes_takes(name: str) -> None:
    """It is scaled by its own name; only values of labels have 63 characters at most."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    ehpa = made(CPU, scaleTargetRef=target, crons=[{"name": "c", "start": "0 8 * * *", "end": "0 9 * * *", "targetReplicas": 2}])
    hpa: Any = generated_objects.hpa(ehpa, around(pod(200))).manifest
    tsp: Any = generated_objects.tsp(ehpa).manifest
    found = {each["external"]["metric"]["selector"]["matchLabels"]["targetName"] for each in hpa["spec"]["metrics"][1:]}
    assert found == {tsp["metadata"]["labels"]["app.kubernetes.io/target-name"]}
    [value] = found
    assert (value == name) is (len(name) == 63)
    assert LABEL.fullmatch(value)
    assert hpa["spec"]["scaleTargetRef"]["name"] == tsp["spec"]["targetRef"]["name"] == name


@pytest.mark.parametrize("metric", ["job:http_requests:rate5m", "queue/depth", "q" * 60, "::", "Ünicode"])
def test_a_metric_whose_name_is_no_label_is_asked_for_by_one_that_is(metric: str) -> None:
    """Kubernetes refused the whole HPA; Prometheus' recording rules have colons."""
    entry = {"type": "External", "external": {"metric": {"name": metric}, "target": {"averageValue": "5"}}}
    hpa: Any = generated_objects.hpa(made(entry), around(pod(200), identifier=f"external.{metric}")).manifest
    value = hpa["spec"]["metrics"][1]["external"]["metric"]["selector"]["matchLabels"]["resourceIdentifier"]
    assert LABEL.fullmatch(value)
    assert value == ehpa_manifest.label_value(value)
