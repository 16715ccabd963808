"""One value a container, whatever labels a real Prometheus server adds and however often its kubelet is scraped."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agents import cli
from agents.processes import source_usage
from schemas.units import Seconds
from streams.clients.prometheus import Prometheus
from streams.sources.usage.history_source import MetricsStore, UsageHistory
from streams.sources.usage.prometheus_export import ExportedPods
from streams.sources.usage.promql import MetricNames, PrometheusUsage
from tests.controlplane import prometheus_package

NOW = datetime.now(UTC).replace(second=0, microsecond=0)
LENGTH = 6 * 3600
STEP = 30
MOMENTS = [NOW.timestamp() - LENGTH + STEP * i for i in range(LENGTH // STEP + 1)]
NAMES = MetricNames(job="")
KUBELET = {"job": "kubelet", "instance": "10.0.0.1:10250", "node": "n1", "endpoint": "https-metrics", "service": "kubelet"}
CADVISOR = {**KUBELET, "metrics_path": "/metrics/cadvisor"}
RUN = {"id": "/kubepods/pod1/run1", "name": "run1", "image": "shop:1", "cpu": "total"}
POD = "web-7d9f-abcde"
ADDED = {"prometheus_replica", "__replica__", "replica", "cluster", "k8s_cluster"}
"""Labels that a server adds to all that it has, metrics of kube-state-metrics among them."""
Labels = Mapping[str, str]

ONE: Sequence[Labels] = ({**CADVISOR, **RUN},)
SCRAPED: Mapping[str, Sequence[Labels]] = {
    "once": ONE,
    "pair of servers": [{**each, "prometheus": "k8s", "prometheus_replica": f"p{n}"} for n in range(2) for each in ONE],
    "pair under other names": [{**each, "__replica__": f"r{n}", "ruler": f"x{n}"} for n in range(2) for each in ONE],
    "two jobs": [*ONE, {**RUN, "job": "integrations/cadvisor", "instance": "n1", "agent_hostname": "n1"}],
    "a job that drops what tells runs apart": [*ONE, {"job": "agent", "instance": "n1"}],
    "two endpoints of one job": [*ONE, {**CADVISOR, **RUN, "instance": "n1.internal:10250"}],
    "pair and two jobs": [{**RUN, "job": job, "prometheus_replica": r} for job, r in itertools.product("ab", "xy")],
    "each CPU alone": [{**CADVISOR, **RUN, "cpu": f"cpu0{n}"} for n in range(4)],
    "each CPU alone, by a pair": [{**CADVISOR, **RUN, "cpu": f"cpu0{n}", "replica": r} for n in range(4) for r in "ab"],
    "old and new cluster label": [{**each, **more} for each in ONE for more in ({"cluster": "prod"}, {"k8s_cluster": "prod"})],
}
"""The labels of the series of one container that uses half a core and 400 MiB."""


def series(metric: str, kind: str, rows: Sequence[tuple[Labels, float, bool]]) -> Iterator[str]:
    """OpenMetrics: what each series adds in a second, or is."""
    yield f"# TYPE {metric.removesuffix('_total')} {kind}"
    for labels, amount, counts in rows:
        text = ",".join(f'{name}="{value}"' for name, value in labels.items())
        yield from (f"{metric}{{{text}}} {amount * (at - MOMENTS[0]) if counts else amount:.3f} {at:.0f}" for at in MOMENTS)


def exposition(scraped: Sequence[Labels]) -> str:
    named = [{**labels, "namespace": "shop", "pod": POD, "container": "app"} for labels in scraped]
    cpus = len({labels.get("cpu", "") for labels in scraped if labels.get("cpu") != "total"} - {""}) or 1
    added = [{name: value for name, value in labels.items() if name in ADDED} for labels in scraped]
    exporters = [labels for number, labels in enumerate(added) if labels not in added[:number]]
    pod = {"namespace": "shop", "pod": POD}
    owned = {**pod, "owner_kind": "ReplicaSet", "owner_name": "web-7d9f"}
    above = {"namespace": "shop", "replicaset": "web-7d9f", "owner_kind": "Deployment", "owner_name": "web"}
    wants = {**pod, "container": "app", "resource": "cpu", "unit": "core"}
    lines = [
        *series("container_cpu_usage_seconds_total", "counter", [(labels, 0.5 / cpus, True) for labels in named]),
        *series("container_memory_working_set_bytes", "gauge", [(labels, 400 << 20, False) for labels in named]),
        *series("kube_pod_owner", "gauge", [({**owned, **more}, 1, False) for more in exporters]),
        *series("kube_replicaset_owner", "gauge", [({**above, **more}, 1, False) for more in exporters]),
        *series("kube_pod_container_resource_requests", "gauge", [({**wants, **more}, 1, False) for more in exporters]),
        "# EOF\n",
    ]
    return "\n".join(lines)


@contextmanager
def server(folder: Path, text: str) -> Iterator[Prometheus]:
    binaries = prometheus_package.programs()
    (folder / "samples").write_text(text)
    (folder / "prometheus.yml").write_text("global: {}\n")
    (folder / "data").mkdir()
    prometheus_package.run([str(binaries / "promtool"), "tsdb", "create-blocks-from", "openmetrics", "samples", "data"], folder)
    with prometheus_package.server(folder) as address:
        yield Prometheus(address)


@pytest.mark.parametrize("scraped", SCRAPED)
def test_a_container_counts_once(scraped: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with server(tmp_path, exposition(SCRAPED[scraped])) as store:
        now = PrometheusUsage(store, NAMES).read(NOW)
        assert (now.cores.tolist(), now.memory.tolist()) == ([0.5], [400 << 20])
        [matrix] = UsageHistory(store, NAMES, Seconds(600.0)).matrices(NOW.timestamp() - 3 * 3600, NOW.timestamp())
        assert matrix.cores.tolist() == [pytest.approx([0.5] * 19, abs=0.001)]
        words = ["scan", "-p", store.url, "--history", "5h", "--step", "10m", "-f", "json", "--set", "prometheus.job="]
        assert cli.run([*words, "--set", f"clock.origin_ms={NOW.timestamp() * 1000:.0f}", *_anchor()]) == 0
        [row] = json.loads(capsys.readouterr().out)
        assert (row["name"], row["pods"]) == ("web", 1)
        assert row["recommended_requests_cpu"] == pytest.approx(0.5 * 1.15, rel=0.06)


def _anchor() -> list[str]:
    return ["--set", f"clock.anchor_ms={datetime.now(UTC).timestamp() * 1000:.0f}"]


def test_both_runs_of_a_restarted_container_count(tmp_path: Path) -> None:
    """A run of a core until a minute ago and one of a core since then have used a core in the last five minutes."""
    first, second = ({**CADVISOR, **RUN, "id": f"/run{n}", "name": f"run{n}", "prometheus_replica": "a"} for n in range(2))
    runs = [(run, replica) for run in (first, second) for replica in "ab"]
    lines = ["# TYPE container_cpu_usage_seconds counter"]
    begin = NOW.timestamp() - 600
    for run, replica in runs:
        labels = {**run, "prometheus_replica": replica, "namespace": "shop", "pod": "web-1", "container": "app"}
        text = ",".join(f'{name}="{value}"' for name, value in labels.items())
        since, until = (begin, NOW.timestamp() - 120) if run is first else (NOW.timestamp() - 110, NOW.timestamp())
        at = since
        while at <= until:
            lines.append(f"container_cpu_usage_seconds_total{{{text}}} {at - since:.3f} {at:.0f}")
            at += 10
    with server(tmp_path, "\n".join([*lines, "# EOF\n"])) as store:
        [value] = NAMES.values(store.query(NAMES.cpu(Seconds(300.0)), NOW)).values()
    assert value == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("exporters", ["ab", "ba"])
def test_what_an_earlier_start_of_kube_state_metrics_said_does_not_hold(exporters: str, tmp_path: Path) -> None:
    """A pod that was resized from 2 to 1 core while kube-state-metrics came back under another address."""
    lines, pod = [], f'namespace="shop",pod="{POD}"'
    for metric, labels in (
        ("kube_pod_owner", 'owner_kind="ReplicaSet",owner_name="web-7d9f"'),
        ("kube_pod_container_resource_requests", 'container="app",resource="cpu",unit="core"'),
    ):
        lines.append(f"# TYPE {metric} gauge")
        for run, instance in enumerate(exporters):
            moments = [at for at in MOMENTS if (at > NOW.timestamp() - 1800) == bool(run)]
            value = 1 if metric == "kube_pod_owner" or run else 2
            lines += [f'{metric}{{{pod},{labels},instance="{instance}"}} {value} {at:.0f}' for at in moments]
    with server(tmp_path, "\n".join([*lines, "# EOF\n"])) as store:
        [exported] = ExportedPods(store, "prod", NOW, Seconds(4 * 3600.0)).read()
        [past] = ExportedPods(store, "prod", NOW + timedelta(hours=1), Seconds(4 * 3600.0)).read()
    [container] = exported.event.containers
    assert (exported.alive, container.requests.cpu) == (True, 1.0)
    assert not past.alive


def test_several_clusters_in_one_server_are_said_with_what_chooses_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clusters = [{**CADVISOR, **RUN, "cluster": name} for name in ("east", "west")]
    with server(tmp_path, exposition(clusters)) as store:
        source_usage.warn_of_clusters(MetricsStore(store, NAMES), NOW)
        said = capsys.readouterr().err
        assert "containers of 2 clusters, told apart by the label 'cluster' ('east', 'west')" in said
        assert "choose with prometheus.labels, as cluster=east" in said
        source_usage.warn_of_clusters(MetricsStore(store, MetricNames(job="", labels=("cluster=east",))), NOW)
        source_usage.warn_of_clusters(MetricsStore(store, NAMES), NOW + timedelta(days=1))
        assert capsys.readouterr().err == ""
