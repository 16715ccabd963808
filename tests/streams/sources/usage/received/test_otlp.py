"""OTLP metrics, as the kubeletstats receiver calls them, into samples of usage, over HTTP."""

import gzip
import json

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

from schemas.units import Seconds
from streams.sources.usage.received import otlp
from streams.sources.usage.received.sample_table import UnreadableRequest
from streams.sources.usage.received.usage_samples import UsageSamples
from tests.support.receiver_scene import NOW, ReceiverScene, steady

AT = NOW.timestamp()
WEB = ("shop", "web-1", "main")
Points = list[tuple[float, float]]


def metric(name: str, points: Points, *, counter: bool = False, temporality: int = 2, flags: int = 0) -> dict[str, object]:
    written = [{"timeUnixNano": str(round(at * 1e9)), "asDouble": value, "flags": flags} for at, value in points]
    if counter:
        return {"name": name, "sum": {"dataPoints": written, "aggregationTemporality": temporality, "isMonotonic": True}}
    return {"name": name, "gauge": {"dataPoints": written}}


def request(*metrics: dict[str, object], **attributes: str) -> bytes:
    names = {"k8s.namespace.name": "shop", "k8s.pod.name": "web-1", "k8s.container.name": "main", "k8s.pod.uid": "u"}
    names |= {name.replace("_", "."): value for name, value in attributes.items()}
    resource = {"attributes": [{"key": key, "value": {"stringValue": value}} for key, value in names.items() if value]}
    return json.dumps({"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": list(metrics)}]}]}).encode()


def as_protobuf(body: bytes) -> bytes:
    return bytes(json_format.Parse(body, metrics_service_pb2.ExportMetricsServiceRequest()).SerializeToString())


CPU = metric("container.cpu.time", steady(0.25), counter=True)
MEMORY = metric("container.memory.working_set", [(AT, 1.5e8)])


@pytest.mark.parametrize("members", [0, 1, 2])
@pytest.mark.parametrize("media", [otlp.PROTOBUF, otlp.JSON])
def test_cpu_is_a_rate_and_memory_the_newest_value(media: str, members: int) -> None:
    """Packed with gzip, too, of one member or of several, which are one body."""
    body = request(CPU, MEMORY) if media == otlp.JSON else as_protobuf(request(CPU, MEMORY))
    headers = {"Content-Type": media} | ({"Content-Encoding": "gzip"} if members else {})
    cut = len(body) if members == 1 else 9
    packed = gzip.compress(body[:cut]) + (gzip.compress(body[cut:]) if members > 1 else b"")
    with ReceiverScene().listening() as scene:
        answer = scene.send("/v1/metrics", packed if members else body, headers)
        assert (answer.status, answer.headers["Content-Type"]) == (200, media)
        assert answer.data in (b"", b"{}")
        assert scene.rows() == {WEB: (0.25, 1.5e8)}


def test_the_kubelets_own_average_stands_for_a_counter_that_is_not_sent() -> None:
    usage = metric("container.cpu.usage", [(AT, 0.125)])
    with ReceiverScene().listening() as scene:
        scene.send("/v1/metrics", request(usage), {"Content-Type": otlp.JSON})
        assert scene.rows()[WEB][0] == 0.125
        scene.send("/v1/metrics", request(CPU), {"Content-Type": otlp.JSON})
        assert scene.rows()[WEB][0] == 0.25


def test_pods_and_nodes_and_other_metrics_are_passed_over() -> None:
    with ReceiverScene().listening() as scene:
        for body in (request(CPU, k8s_container_name=""), request(metric("container.filesystem.usage", [(AT, 1.0)]))):
            assert scene.send("/v1/metrics", body, {"Content-Type": otlp.JSON}).data == b"{}"
        assert not scene.rows()


def test_a_pod_that_came_again_under_its_name_counts_from_its_own_beginning() -> None:
    """The second pod's counter is at 90 s when the first one's was at 1075 s; nothing is taken for a new beginning of one."""
    with ReceiverScene().listening() as scene:
        scene.send("/v1/metrics", request(metric("container.cpu.time", steady(0.0), counter=True)), {"Content-Type": otlp.JSON})
        again = metric("container.cpu.time", steady(0.25, begin=AT - 300, start=90.0), counter=True)
        scene.send("/v1/metrics", request(again, k8s_pod_uid="v"), {"Content-Type": otlp.JSON})
        assert scene.rows()[WEB][0] == 0.25


def test_deltas_are_rejected_with_a_sentence() -> None:
    with ReceiverScene().listening() as scene:
        deltas = metric("container.cpu.time", [(AT, 1.0)], counter=True, temporality=1)
        answer = json.loads(scene.send("/v1/metrics", request(deltas, MEMORY), {"Content-Type": otlp.JSON}).data)
        assert answer["partialSuccess"]["rejectedDataPoints"] == "1"
        assert "comes as deltas" in answer["partialSuccess"]["errorMessage"]
        assert scene.rows()[WEB][1] == 1.5e8


def test_a_point_without_a_value_ends_its_series() -> None:
    with ReceiverScene().listening() as scene:
        scene.send("/v1/metrics", request(metric("container.memory.working_set", [(AT - 15, 1.0)])), {"Content-Type": otlp.JSON})
        ended = metric("container.memory.working_set", [(AT, 0.0)], flags=1)
        scene.send("/v1/metrics", request(ended), {"Content-Type": otlp.JSON})
        assert not scene.rows()


@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"{}", {"Content-Type": otlp.JSON, "Content-Encoding": "zstd"}, 415),
        (b"{", {"Content-Type": otlp.JSON}, 400),
        (b"\xff", {"Content-Type": otlp.PROTOBUF}, 400),
        (b"[" * 10_000, {"Content-Type": otlp.JSON}, 400),
        (b"no gzip", {"Content-Type": otlp.JSON, "Content-Encoding": "gzip"}, 400),
        (gzip.compress(b"{}", mtime=0)[:-4], {"Content-Type": otlp.JSON, "Content-Encoding": "gzip"}, 400),
        (gzip.compress(bytes(1 << 22), mtime=0), {"Content-Type": otlp.PROTOBUF, "Content-Encoding": "gzip"}, 413),
    ],
)
def test_what_is_no_otlp_is_refused(body: bytes, headers: dict[str, str], code: int) -> None:
    with ReceiverScene().listening() as scene:
        assert scene.send("/v1/metrics", body, headers).status == code
        assert scene.send("/v1/metrics", request(MEMORY), {"Content-Type": otlp.JSON}).status == 200


@given(st.binary(max_size=200), st.sampled_from([otlp.PROTOBUF, otlp.JSON]))
def test_any_bytes_are_a_request_or_refused(content: bytes, media: str) -> None:
    samples = UsageSamples(Seconds(300.0), 10)
    try:
        samples.take(lambda into: otlp.decode(media, content, (), into), NOW)
    except UnreadableRequest:
        assert not samples.counts
