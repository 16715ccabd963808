"""A real Prometheus server, filled with samples of the past by its own promtool."""

import csv
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from agents import cli
from schemas.facts.usage import MetricsScraped
from schemas.policies.scaling import MetricSpec, MetricTarget
from schemas.policies.vpa import Operator, Requirement, TargetRef, VpaChanged
from streams.clients.prometheus import Prometheus
from streams.sources.usage.history_source import HistoryPeriod, HistorySource, MetricsStore
from streams.sources.usage.promql import PrometheusUsage
from tests.controlplane import prometheus_package
from tests.support.load_scene import LoadScene, ehpa
from tests.support.usage_scene import CART, WEB, UsageScene

NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
HOURS = 48
STEP = 60
"""Seconds between two samples of the server."""


def _cpu(hours: float) -> float:
    """Seconds of CPU that a container has used by then: a quarter of a core for a day, half a core afterwards."""
    return 900 * hours if hours <= 24 else 900 * 24 + 1800 * (hours - 24)


def _memory(hours: float) -> float:
    return 1e8 + 1e6 * int(hours)


SERIES = {
    "web-1": ("shop", "web-1", 0.0, HOURS + 0.0),
    "cart-0": ("shop", "cart-0", 40.0, HOURS + 0.0),
    "web-old": ("shop", "web-old", 0.0, 30.0),
    "stray": ("shop", "stray", 0.0, 10.0),
}
"""Namespace, pod, and the first and last hour after the beginning."""


def _exposition() -> Iterator[str]:
    """OpenMetrics: a metric's samples together, those of a series in order."""
    begin = NOW.timestamp() - HOURS * 3600
    moments = [begin + STEP * i for i in range(HOURS * 3600 // STEP + 1)]
    for metric, kind, number in (
        ("container_cpu_usage_seconds_total", "counter", _cpu),
        ("container_memory_working_set_bytes", "gauge", _memory),
    ):
        yield f"# TYPE {metric.removesuffix('_total')} {kind}"
        for namespace, pod, first, last in SERIES.values():
            for container in ("main", "POD", ""):
                labels = f'job="kubernetes-cadvisor",namespace="{namespace}",pod="{pod}",container="{container}",cluster="here"'
                hours = ((at, (at - begin) / 3600) for at in moments)
                yield from (f"{metric}{{{labels}}} {number(h):.3f} {at:.0f}" for at, h in hours if first <= h <= last)
    yield "# TYPE kube_pod_labels gauge"
    for pod, app, last in (("web-old", "web", 30.0), ("stray", "none", 10.0)):
        labels = f'namespace="shop",pod="{pod}",label_app_kubernetes_io_name="{app}",cluster="here"'
        yield from (f"kube_pod_labels{{{labels}}} 1 {at:.0f}" for at in moments if (at - begin) / 3600 <= last)
    yield from _exported(begin)
    yield from _killed(begin, moments)
    yield "# EOF"


def _killed(begin: float, moments: list[float]) -> Iterator[str]:
    """The web's container ran out of memory after 30 hours, and started again."""
    labels = 'namespace="shop",pod="web-1",container="main",cluster="here"'
    yield "# TYPE kube_pod_container_status_restarts counter"
    for at in moments:
        yield f"kube_pod_container_status_restarts_total{{{labels}}} {int(at - begin >= 30 * 3600)} {at:.0f}"
    yield "# TYPE kube_pod_container_status_last_terminated_reason gauge"
    for at in moments:
        if at - begin >= 30 * 3600:
            yield f'kube_pod_container_status_last_terminated_reason{{{labels},reason="OOMKilled"}} 1 {at:.0f}'


def _exported(begin: float) -> Iterator[str]:
    """What kube-state-metrics says of the living pods, once a minute in the last hour."""
    moments = [begin + HOURS * 3600 - 60 * minute for minute in reversed(range(60))]
    one = 'namespace="shop",pod="web-1"'
    for metric, labels, value in (
        ("kube_pod_owner", f'{one},owner_kind="ReplicaSet",owner_name="web-5f"', 1),
        ("kube_replicaset_owner", 'namespace="shop",replicaset="web-5f",owner_kind="Deployment",owner_name="web"', 1),
        ("kube_pod_container_resource_requests", f'{one},container="main",resource="cpu",unit="core"', 2),
    ):
        yield f"# TYPE {metric} gauge"
        yield from (f'{metric}{{{labels},cluster="here"}} {value} {at:.0f}' for at in moments)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    binaries, folder = prometheus_package.programs(), tmp_path_factory.mktemp("prometheus")
    (folder / "samples").write_text("\n".join(_exposition()) + "\n")
    (folder / "prometheus.yml").write_text("global: {}\n")
    (folder / "data").mkdir()
    prometheus_package.run([str(binaries / "promtool"), "tsdb", "create-blocks-from", "openmetrics", "samples", "data"], folder)
    with prometheus_package.server(folder) as address:
        yield Prometheus(address)


@pytest.fixture
def scene() -> UsageScene:
    """A log that knows two living pods, and a VPA for the web."""
    scene = UsageScene()
    seconds = (NOW - timedelta(hours=1) - datetime(2026, 11, 21, 12, tzinfo=UTC)).total_seconds()
    scene.has("web-1", when=seconds)
    scene.has("cart-0", CART, when=seconds)
    selector = (Requirement("app.kubernetes.io/name", Operator.IN, ("web",)),)
    target = TargetRef("Deployment", "web", "apps/v1")
    vpa = VpaChanged(NOW, "prod", "shop", "web", NOW, target, selector)
    scene.log.append(
        [
            scene.codec.encode(vpa, topic="policies", key=vpa.key, partition=p, source="test")
            for p in range(scene.topics.partitions)
        ]
    )
    return scene


def test_what_is_used_now_is_published_with_the_time_of_the_newest_sample(server: Prometheus, scene: UsageScene) -> None:
    reader = PrometheusUsage(server, MetricsStore(server).names)
    scene.asks = reader.read
    source = scene.source()
    source.scrape(NOW + timedelta(seconds=30))
    end = (NOW - datetime(2026, 11, 21, 12, tzinfo=UTC)).total_seconds()
    assert sorted(scene.rows()) == [
        (WEB.key, "web-1", "main", 0.5, 148_000_000.0, end),
        (CART.key, "cart-0", "main", 0.5, 148_000_000.0, end),
    ]
    source.scrape(NOW + timedelta(seconds=50))
    assert len(scene.rows()) == 2
    assert source.counts["repeated"] == 2


def test_history_is_published_in_order_of_time_for_living_pods_and_for_those_that_are_gone(
    server: Prometheus, scene: UsageScene
) -> None:
    period = HistoryPeriod(NOW, length=HOURS * 3600.0)
    source = HistorySource(MetricsStore(server), scene.context, period)
    *_, progress = source.publish(source.begin())
    published: dict[str, list[tuple[int, float, float]]] = {}
    for workload, pod, container, cores, memory, end in scene.rows():
        assert container == "main"
        hour = round((end - (period.start - datetime(2026, 11, 21, 12, tzinfo=UTC)).total_seconds()) / 3600)
        published.setdefault(f"{workload} {pod}", []).append((hour, cores, memory))
    assert set(published) == {f"{WEB.key} web-1", f"{WEB.key} web-old", f"{CART.key} cart-0"}
    web = published[f"{WEB.key} web-1"]
    assert [hour for hour, *_ in web] == list(range(HOURS + 1))
    assert [memory for *_, memory in web] == [_memory(hour) for hour in range(HOURS + 1)]
    assert [cores for _, cores, _ in web][1:] == pytest.approx([0.25] * 24 + [0.5] * 24, abs=0.001)
    assert [hour for hour, *_ in published[f"{CART.key} cart-0"]] == list(range(40, HOURS + 1))
    assert [hour for hour, *_ in published[f"{WEB.key} web-old"]] == list(range(31))
    assert progress.unmatched == {("shop", "stray")}
    assert progress.rows == len(scene.rows())
    scrapes = [event for _, event in scene.scrapes()]
    assert {(event.history, event.window, event.ages) for event in scrapes} == {(True, 3600.0, ())}
    for partition in range(scene.topics.partitions):
        times = [event.at for where, event in scene.scrapes() if where == partition]
        assert times == sorted(set(times))


def test_upstreams_way_to_ask_for_labels_gives_the_same(server: Prometheus) -> None:
    ours = MetricsStore(server).labels
    theirs = type(ours)(metric="kube_pod_labels[48h]")
    asked = (NOW, HOURS * 3600.0, 3600.0)
    wanted = {("shop", "web-old"): {"app_kubernetes_io_name": "web"}, ("shop", "stray"): {"app_kubernetes_io_name": "none"}}
    assert ours.ask(server, *asked) == theirs.ask(server, *asked) == wanted


def test_history_goes_on_where_it_ended(server: Prometheus, scene: UsageScene) -> None:
    half = HistoryPeriod(NOW - timedelta(hours=24), length=24 * 3600.0)
    first = HistorySource(MetricsStore(server), scene.context, half)
    list(first.publish(first.begin()))
    whole = HistorySource(MetricsStore(server), scene.context, HistoryPeriod(NOW, length=HOURS * 3600.0))
    begin = whole.begin()
    assert begin == NOW - timedelta(hours=24)
    list(whole.publish(begin))
    hours = sorted({event.at for _, event in scene.scrapes() if isinstance(event, MetricsScraped)})
    assert hours == [NOW - timedelta(hours=HOURS - hour) for hour in range(HOURS + 1)]


def test_a_month_and_a_fraction_of_a_second_are_lengths_that_a_real_server_takes(server: Prometheus) -> None:
    month = MetricsStore(server).labels.ask(server, NOW, 30 * 86_400.0, 3600.0)
    assert set(month) == {("shop", "web-old"), ("shop", "stray")}
    read = PrometheusUsage(server, MetricsStore(server).names, window=600.5).read(NOW + timedelta(seconds=30))
    assert sorted(zip(read.pods, read.cores.tolist(), strict=True)) == [("cart-0", 0.5), ("web-1", 0.5)]


def test_a_scan_of_the_server_and_of_a_file_with_its_samples_give_the_same_table(
    server: Prometheus, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    scan = ["scan", "-p", server.url, "--history", "1d", "-f", "json", "--set", f"clock.origin_ms={_ms(NOW)}"]
    assert cli.run([*scan, "--set", f"clock.anchor_ms={_ms(datetime.now(UTC))}"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["kind"], row["name"], row["requests_cpu"]) == ("Deployment", "web", 2.0)
    assert cli.run([*scan, "-l", "here", "--set", f"clock.anchor_ms={_ms(datetime.now(UTC))}"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["recommended_requests_cpu"] == row["recommended_requests_cpu"]
    assert cli.run([*scan, "-l", "elsewhere", "--set", f"clock.anchor_ms={_ms(datetime.now(UTC))}"]) == 2
    assert "has no 'kube_pod_owner'" in capsys.readouterr().err
    trace = tmp_path / "usage.csv"
    with trace.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["timestamp_s", "namespace", "workload", "pod", "container", "cpu_cores", "memory_bytes"])
        for hour in range(HOURS - 24, HOURS + 1):
            at = NOW.timestamp() - (HOURS - hour) * 3600
            table.writerow([at, "shop", "web", "web-1", "main", 0.25 if hour == HOURS - 24 else 0.5, _memory(hour)])
    assert cli.run(["scan", "--from-file", str(trace), "-f", "json"]) == 0
    [of_file] = json.loads(capsys.readouterr().out)
    assert of_file["recommended_requests_memory"] == row["recommended_requests_memory"]
    assert of_file["recommended_requests_cpu"] == pytest.approx(
        row["recommended_requests_cpu"], rel=0.051
    )  # a bucket: rates round


def test_the_loads_of_objects_are_read_with_their_past(server: Prometheus) -> None:
    scene, minute = LoadScene(), NOW + timedelta(seconds=30)
    cpu = MetricSpec("Resource", "cpu", MetricTarget("Utilization", average_utilization=50))
    cart = ehpa("cart", target_ref=TargetRef("StatefulSet", "cart", "apps/v1"), metrics=(cpu,))
    memory = 'max(container_memory_working_set_bytes{pod="web-1"})'
    scene.say(cart, ehpa("web", query=memory), ehpa("each", query="container_memory_working_set_bytes"))
    source = scene.source(server.url)
    source.scrape(minute)
    assert scene.rows() == [("web", "pods.http_requests", _memory(HOURS))]
    [(name, reason)] = [(failure.workload.name, failure.reason) for failure in scene.failures()]
    assert (name, "it gives 6 series" in reason) == ("each", True)
    values = {history.workload.name: history.values for history in scene.histories()}
    assert values["web"][-2:] == (_memory(HOURS - 1), _memory(HOURS))
    assert len(values["web"]) == 60
    assert values["cart"][-1] == pytest.approx(1.0)  # half a core in each of two containers


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def test_a_backtest_of_what_is_stored_is_that_of_the_trace_it_keeps(
    server: Prometheus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept.parquet"
    assert cli.run(["backtest", "-p", server.url, "--history", "50h", "--step", "10m", "--keep", str(kept), "-o", "json"]) == 0
    of_server = json.loads(capsys.readouterr().out)
    assert cli.run(["backtest", str(kept), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == of_server
    labelled = ["backtest", "-p", server.url, "-l", "cluster=here", "--history", "50h", "--step", "10m", "-o", "json"]
    assert cli.run(labelled) == 0
    assert json.loads(capsys.readouterr().out)["kills"] == of_server["kills"]
    assert of_server["kills"]["recorded"] == 1
    rows = duckdb.read_parquet(str(kept))
    web = rows.filter("pod = 'web-1'")
    assert web.aggregate("any_value(workload), any_value(cpu_request_cores), sum(oom_kills)").fetchall() == [("web", 2.0, 1.0)]
    # Memory grows with each hour and the peak is that of ten minutes, so no peak is below what was used.
    assert rows.filter("memory_bytes_max < memory_bytes").fetchall() == []
    assert rows.filter("memory_bytes_max > memory_bytes").fetchall() == []
    late = web.filter(f"timestamp_s > {NOW.timestamp() - 20 * 3600} and timestamp_s < {NOW.timestamp() - 600}")
    assert late.aggregate("min(cpu_cores), max(cpu_cores)").fetchall() == [(pytest.approx(0.5), pytest.approx(0.5))]
