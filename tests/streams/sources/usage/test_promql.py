"""The questions in PromQL, and usage that a Prometheus server gives; a real one is asked in tests/controlplane."""

import json
import math
from collections.abc import Iterator

import pytest

from schemas.units import Seconds
from streams.clients.prometheus import Prometheus
from streams.errors import Unreachable
from streams.sources.usage.promql import MetricNames, PrometheusUsage, oom_restarts
from tests.support.canned_http_server import Answer, Answering, Asked, answering
from tests.support.usage_scene import START, WEB, UsageScene, at

S = '{job="kubernetes-cadvisor", pod=~".+", container!="POD", container!=""}'


@pytest.fixture
def server() -> Iterator[Answering]:
    with answering(lambda _: (404, b"")) as here:
        yield here


def test_the_questions_select_as_upstream_does() -> None:
    words = MetricNames()
    by = "by (namespace, pod, container)"
    rate = f"rate(container_cpu_usage_seconds_total{S}[300s])"
    assert words.cpu(Seconds(300.0)) == f"max {by} (sum without (cpu, id, image, name) ({rate}))"
    assert words.memory() == f"max {by} (container_memory_working_set_bytes{S})"
    both = f"timestamp(container_cpu_usage_seconds_total{S}) or timestamp(container_memory_working_set_bytes{S})"
    assert words.ends() == f"max {by} ({both})"


def test_a_month_and_a_half_second_are_lengths_that_promql_knows() -> None:
    assert MetricNames().cpu(Seconds(2_592_000.0)).endswith("[2592000s])))")
    assert MetricNames().cpu(Seconds(90.5)).endswith("[90500ms])))")


def test_every_name_can_be_another() -> None:
    words = MetricNames(
        "cpu", "mem", job="", namespaces=("a", "b"), namespace_label="ns", pod_label="pod_name", container_label="name"
    )
    assert words.memory() == 'max by (ns, pod_name, name) (mem{pod_name=~".+", name!="POD", name!="", ns=~"a|b"})'
    assert words.count() == f"count({words.memory()})"
    assert "sum without (cpu, id, image) " in words.cpu(Seconds(60.0))
    assert (
        MetricNames(job='odd"one')
        .memory()
        .startswith('max by (namespace, pod, container) (container_memory_working_set_bytes{job="odd\\"one"')
    )


def test_labels_tell_a_cluster_from_others_on_the_same_server() -> None:
    words = MetricNames(labels=("cluster=prod", 'env=a"b'))
    for query in (words.memory(), words.cpu(Seconds(60.0)), words.memory_peak(Seconds(60.0))):
        assert query.count('container!="", cluster="prod", env="a\\"b"}') == 1
    assert words.ends().count('cluster="prod"') == 2
    assert oom_restarts(Seconds(60.0), words.labels).count('cluster="prod"') == 3
    assert "{}" not in oom_restarts(Seconds(60.0))


def answer(cpu: dict[str, str], memory: dict[str, str], ends: dict[str, float]) -> Answer:
    def answer(asked: Asked) -> tuple[int, bytes]:
        query = asked.fields["query"]
        stamps = {pod: str(START.timestamp() + end) for pod, end in ends.items()}
        numbers = stamps if "timestamp(" in query else cpu if "rate(" in query else memory
        labels = ({"namespace": "shop", "pod": pod, "container": "main"} for pod in numbers)
        result = [{"metric": metric, "value": [0, numbers[metric["pod"]]]} for metric in labels]
        return 200, json.dumps({"data": {"result": result}}).encode()

    return answer


def test_rows_are_joined_by_container_and_only_those_with_a_current_sample_are_there(server: Answering) -> None:
    ends = {"web-1": 47.25, "web-2": 50.0}
    server.answer = answer({"web-1": "0.0101", "gone": "0.5"}, {"web-1": "1.5", "web-2": "3"}, ends)
    read = PrometheusUsage(Prometheus(server.url), MetricNames()).read(at(60))
    assert (list(read.namespaces), list(read.pods), list(read.containers)) == (["shop"] * 2, ["web-1", "web-2"], ["main"] * 2)
    assert read.cores[0] == 0.011
    assert math.isnan(read.cores[1])
    assert read.memory.tolist() == [2.0, 3.0]
    assert (read.ends - START.timestamp()).tolist() == [47.25, 50.0]
    assert read.window == 300.0


def test_a_kubelet_that_is_not_scraped_any_more_gives_no_news(server: Answering) -> None:
    scene = UsageScene()
    scene.has("web-1")
    scene.asks = PrometheusUsage(Prometheus(server.url), MetricNames()).read
    source = scene.source()
    for seconds in (60, 120, 180):
        server.answer = answer({"web-1": f"0.{seconds}"}, {"web-1": "1e8"}, {"web-1": 47.0})
        source.scrape(at(seconds))
    assert scene.rows() == [(WEB.key, "web-1", "main", 0.6, 1e8, 47.0)]


def test_numbers_that_are_none_are_absent_and_those_that_cannot_be_are_left_out(server: Answering) -> None:
    scene = UsageScene()
    for pod in ("web-1", "web-2", "web-3"):
        scene.has(pod)
    cpu, memory = {"web-1": "NaN", "web-2": "+Inf", "web-3": "-1"}, {"web-1": "1e8", "web-2": "1e8", "web-3": "1e8"}
    server.answer = answer(cpu, memory, dict.fromkeys(cpu, 30.0))
    scene.asks = PrometheusUsage(Prometheus(server.url), MetricNames()).read
    source = scene.source()
    source.scrape(at(60))
    assert [(pod, math.isnan(cores)) for _, pod, _, cores, *_ in scene.rows()] == [("web-1", True)]
    assert source.counts["cores"] == 2


def test_while_a_server_is_away_the_source_reports_that_it_sees_nothing() -> None:
    scene = UsageScene()
    scene.asks = PrometheusUsage(Prometheus("http://127.0.0.1:9"), MetricNames()).read
    with pytest.raises(Unreachable):
        scene.source().scrape(at(60))
    assert [report.sees for _, report in scene.reports()] == [(), ()]
