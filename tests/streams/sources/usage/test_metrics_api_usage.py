"""The metrics API on the wire."""

import json
import math
from collections.abc import Iterator

import pytest
from kubernetes import client as official

from streams.clients.kube.api import Api
from streams.errors import GiveUp, TryAgain, Unreachable
from streams.sources.usage.metrics_api_usage import MetricsApiUsage
from streams.sources.usage.readings import RejectedRow, reject_impossible
from tests.support.canned_http_server import Answering, Asked, answering
from tests.support.usage_scene import START, at

PATH = "/apis/metrics.k8s.io/v1beta1/pods"


def _pod(
    name: str, *usage: tuple[str, dict[str, object]], timestamp: str = "2026-11-21T12:00:47Z", window: str = "15.5s"
) -> object:
    containers = [{"name": container, "usage": used} for container, used in usage]
    metadata = {"name": name, "namespace": "shop", "labels": {"app": "web"}, "creationTimestamp": timestamp}
    return {"metadata": metadata, "timestamp": timestamp, "window": window, "containers": containers}


def _list(*pods: object, again: str = "") -> bytes:
    return json.dumps({"kind": "PodMetricsList", "metadata": {"continue": again}, "items": pods}).encode()


@pytest.fixture
def server() -> Iterator[Answering]:
    with answering(lambda _: (200, _list())) as here:
        yield here


@pytest.fixture
def metrics(server: Answering) -> MetricsApiUsage:
    settings = official.Configuration(host=server.url, retries=False)
    settings.proxy = None
    return MetricsApiUsage(Api(official.ApiClient(settings)), cluster="prod")


def test_amounts_are_rounded_up_to_whole_millicores_and_bytes(server: Answering, metrics: MetricsApiUsage) -> None:
    spelled = [("12345678n", "1.5"), ("250m", "64Mi"), ("2", "2e6"), ("1500u", "1000Ki"), ("0", "0"), ("3000000n", "1G")]
    pods = [_pod(f"web-{i}", ("main", {"cpu": cpu, "memory": memory})) for i, (cpu, memory) in enumerate(spelled)]
    server.answer = lambda _: (200, _list(*pods))
    read = metrics.read(START)
    assert read.cores.tolist() == [0.013, 0.25, 2.0, 0.002, 0.0, 0.003]
    assert read.memory.tolist() == [2.0, 64 * 1024**2, 2e6, 1000 * 1024, 0.0, 1e9]
    assert {asked.path for asked in server.asked} == {PATH}


def test_each_row_has_its_pods_window_end_and_the_longest_window_counts(server: Answering, metrics: MetricsApiUsage) -> None:
    used: tuple[str, dict[str, object]] = ("main", {"cpu": "1", "memory": "1"})
    server.answer = lambda _: (
        200,
        _list(
            _pod("web-1", used, ("side", {"cpu": "2", "memory": "2"}), timestamp="2026-11-21T12:00:47Z", window="15.5s"),
            _pod("web-2", used, timestamp="2026-11-21T13:00:30.250+01:00", window="1m0s"),
        ),
    )
    read = metrics.read(START)
    assert list(read.pods) == ["web-1", "web-1", "web-2"]
    assert list(read.containers) == ["main", "side", "main"]
    assert (read.ends - START.timestamp()).tolist() == [47.0, 47.0, 30.25]
    assert read.window == 60.0


def test_what_an_answer_leaves_out_is_absent(server: Answering, metrics: MetricsApiUsage) -> None:
    server.answer = lambda _: (200, _list(_pod("web-1", ("main", {"cpu": "1"}), ("side", {"memory": "5"}), ("none", {}))))
    read = metrics.read(START)
    assert [math.isnan(number) for number in read.cores] == [False, True, True]
    assert [math.isnan(number) for number in read.memory] == [True, False, True]
    assert list(reject_impossible(read, at(60)).containers) == ["main", "side"]


def test_what_cannot_be_read_is_named_and_the_rest_is_there(server: Answering, metrics: MetricsApiUsage) -> None:
    good: tuple[str, dict[str, object]] = ("main", {"cpu": "1", "memory": "1"})
    server.answer = lambda _: (
        200,
        _list(
            _pod("web-1", ("odd", {"cpu": "1x", "memory": "1"}), good, ("odder", {"cpu": "1", "memory": "1kB"})),
            _pod("web-2", good, timestamp="yesterday"),
            _pod("web-3", good, timestamp="2026-11-21T12:00:00"),
            _pod("web-4", good, window="-5s"),
            _pod("web-5", ("void", {"cpu": "", "memory": "1"}), ("number", {"cpu": 2, "memory": 3})),
        ),
    )
    read = metrics.read(START)
    assert list(zip(read.pods, read.containers, read.cores, strict=True)) == [("web-1", "main", 1.0), ("web-5", "number", 2.0)]
    assert set(read.rejected) == {
        RejectedRow("unreadable", "shop", "web-1", "odd", "1x", "cpu is no quantity"),
        RejectedRow("unreadable", "shop", "web-1", "odder", "1kB", "memory is no quantity"),
        RejectedRow("unreadable", "shop", "web-2", "*", "yesterday", "the timestamp is no time"),
        RejectedRow("unreadable", "shop", "web-3", "*", "2026-11-21T12:00:00", "the timestamp is no time"),
        RejectedRow("unreadable", "shop", "web-4", "*", "-5s", "the window is no duration"),
        RejectedRow("unreadable", "shop", "web-5", "void", "", "cpu is no quantity"),
    }


def test_a_negative_amount_is_read_and_sieved_out_with_its_value(server: Answering, metrics: MetricsApiUsage) -> None:
    server.answer = lambda _: (200, _list(_pod("web-1", ("main", {"cpu": "-250m", "memory": "1"}))))
    read = reject_impossible(metrics.read(START), at(60))
    assert len(read) == 0
    assert [(bad.kind, bad.value) for bad in read.rejected] == [("cores", "-0.25")]


def test_all_pages_are_asked_for(server: Answering, metrics: MetricsApiUsage) -> None:
    def pages(asked: Asked) -> tuple[int, bytes]:
        page = int(asked.fields.get("continue", "p=0").removeprefix("p="))
        pod = _pod(f"web-{page}", ("main", {"cpu": "1", "memory": "1"}))
        return 200, _list(pod, again=f"p={page + 1}" if page < 2 else "")

    server.answer = pages
    assert list(metrics.read(START).pods) == ["web-0", "web-1", "web-2"]
    assert [asked.fields.get("continue") for asked in server.asked] == [None, "p=1", "p=2"]
    assert {asked.fields["limit"] for asked in server.asked} == {"5000"}


def test_only_the_namespaces_that_are_wanted_are_asked_for(server: Answering) -> None:
    settings = official.Configuration(host=server.url, retries=False)
    settings.proxy = None
    server.answer = lambda asked: (200, _list(_pod(asked.path.split("/")[5], ("main", {"cpu": "1"}))))
    metrics = MetricsApiUsage(Api(official.ApiClient(settings)), cluster="prod", namespaces=("shop", "bank"))
    assert list(metrics.read(START).pods) == ["shop", "bank"]
    assert [asked.path for asked in server.asked] == [
        PATH.replace("pods", f"namespaces/{name}/pods") for name in ("shop", "bank")
    ]


def test_nulls_cost_only_the_pods_that_hold_them(server: Answering, metrics: MetricsApiUsage) -> None:
    good = _pod("web-1", ("main", {"cpu": "1", "memory": "1"}))
    empty = {"metadata": {"name": "web-2", "namespace": "shop"}, "timestamp": "2026-11-21T12:00:47Z", "containers": None}
    never = {"metadata": {"name": "web-3", "namespace": "shop"}, "timestamp": None, "window": "15s", "containers": []}
    unused = {**empty, "containers": [{"name": "main", "usage": None}]}
    server.answer = lambda _: (200, _list(good, empty, never, unused))
    read = metrics.read(START)
    assert (read.pods[0], read.cores[0]) == ("web-1", 1.0)
    assert [(bad.pod, bad.reason) for bad in read.rejected] == [("web-3", "the timestamp is no time")]
    assert reject_impossible(read, at(60)).pods == ("web-1",)
    server.answer = lambda _: (200, b'{"items": null}')
    assert len(metrics.read(START)) == 0


def test_no_pods_are_no_rows(metrics: MetricsApiUsage) -> None:
    assert len(metrics.read(START)) == 0


@pytest.mark.parametrize(("code", "error"), [(403, GiveUp), (404, GiveUp), (429, TryAgain), (503, TryAgain)])
def test_a_refusal_names_what_was_asked_of_whom(
    server: Answering, metrics: MetricsApiUsage, code: int, error: type[Exception]
) -> None:
    server.answer = lambda _: (code, json.dumps({"kind": "Status", "message": "not like this"}).encode())
    with pytest.raises(error, match=f"reading usage of 'prod' did not work: {code} not like this"):
        metrics.read(START)


def test_an_answer_that_makes_no_sense_and_none_at_all_are_tried_again(server: Answering, metrics: MetricsApiUsage) -> None:
    server.answer = lambda _: (200, b'{"items": [{"metadata": {}}]}')
    with pytest.raises(TryAgain, match="cannot be read"):
        metrics.read(START)
    settings = official.Configuration(host="http://127.0.0.1:9", retries=False)
    settings.proxy = None
    with pytest.raises(Unreachable):
        MetricsApiUsage(Api(official.ApiClient(settings)), cluster="prod").read(START)
