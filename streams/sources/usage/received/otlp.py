"""OTLP metrics, as protobuf or JSON: from the bytes of a request to samples of containers' usage.

Read is what the kubeletstats receiver of the OpenTelemetry Collector calls `container.cpu.time`, `container.cpu.usage` and
`container.memory.working_set`, of resources that name a namespace, a pod and a container. Where there is no `container.cpu.time`,
`container.cpu.usage`, an average over some seconds that the kubelet computes, stands for it. Other metrics are passed over.
"""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, Final

from google.protobuf import json_format, message
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.metrics.v1 import metrics_pb2

from streams.log import bounded_decompression
from streams.sources.usage.received.sample_table import RequestTooLarge, UnreadableRequest, UnreadableSeries
from streams.sources.usage.received.usage_samples import NO_USAGE, SampleBatch, UsageKind, UsageSamples, UsageSeries

PROTOBUF, JSON = "application/x-protobuf", "application/json"
KINDS: Final = {
    "container.cpu.time": UsageKind.CPU_SECONDS,
    "container.cpu.usage": UsageKind.CORES,
    "container.memory.working_set": UsageKind.MEMORY,
}
NAMES: Final = ("k8s.namespace.name", "k8s.pod.name", "k8s.container.name")
"""The attributes of a resource that name its container."""
_RUNS: Final = ("k8s.pod.uid", "container.id")
"""Attributes by which the runs of one container differ."""
_CLUSTER: Final = "k8s.cluster.name"
_READ: Final = (*NAMES, *_RUNS, _CLUSTER)
MOST_IDENTITY = 16 << 10
"""Bytes of the attributes of a resource that are read."""
_NANO = 1e9
_NAN = float("nan")


def gunzipped(body: bytes, most: int) -> bytes:
    """What was packed with gzip. Raises UnreadableRequest before it takes too much memory."""
    try:
        return bounded_decompression.gunzip(body, most)
    except bounded_decompression.UnpacksTooLarge:
        raise RequestTooLarge(f"the request has more than {most} bytes unpacked") from None
    except bounded_decompression.NotReadable as error:
        raise UnreadableRequest(f"the body {error}") from error


def decode(media: str, content: bytes, namespaces: Iterable[str], samples: UsageSamples) -> SampleBatch:
    """The samples of a request whose body is PROTOBUF or JSON. No `namespaces` means all. Raises UnreadableRequest."""
    request = metrics_service_pb2.ExportMetricsServiceRequest()
    try:
        if media == JSON:
            json_format.Parse(content, request, ignore_unknown_fields=True)
        else:
            request.ParseFromString(content)
    except (message.DecodeError, json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableRequest(f"the request cannot be read as OTLP metrics in {media}: {str(error)[:200]}") from error
    batch, wanted = SampleBatch([], [], []), frozenset(namespaces)
    for resource in request.resource_metrics:
        attributes = _attributes(resource.resource)
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                _add(batch, metric, attributes, (wanted, samples))
    return batch


def answer(media: str, rejected: int, why: str) -> bytes:
    """The answer to a request, with the data points that were not taken."""
    response = metrics_service_pb2.ExportMetricsServiceResponse()
    if rejected:
        response.partial_success.rejected_data_points = rejected
        response.partial_success.error_message = why
    return json_format.MessageToJson(response).encode() if media == JSON else bytes(response.SerializeToString())


def _add(batch: SampleBatch, metric: Any, attributes: Mapping[str, str], into: tuple[frozenset[str], UsageSamples]) -> None:
    wanted, samples = into
    kind = metric.WhichOneof("data")
    points = getattr(metric, kind).data_points if kind in ("gauge", "sum") else ()
    deltas = kind == "sum" and metric.sum.aggregation_temporality != metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE
    identity = "\xff".join((metric.name, str(deltas), *(attributes.get(name, "") for name in _READ))).encode()

    def read() -> UsageSeries | None:
        series = _series(metric.name, attributes, identity, wanted)
        if series is not None and deltas:
            raise UnreadableSeries(f"'{metric.name}' comes as deltas; it is read as a cumulative sum, as kubelets count it")
        return series

    number = samples.number(identity, read)
    batch.require_room(len(points))  # an empty point takes two bytes of a request
    for point in points:
        stale = point.flags & metrics_pb2.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
        value = float(point.as_double if point.HasField("as_double") else point.as_int)
        batch.series.append(number if stale or isfinite(value) else NO_USAGE)
        batch.at.append(point.time_unix_nano / _NANO)
        batch.values.append(_NAN if stale else value)


def _series(name: str, attributes: Mapping[str, str], identity: bytes, wanted: frozenset[str]) -> UsageSeries | None:
    """Raises UnreadableSeries for names that no object of Kubernetes has."""
    namespace, pod, container = (attributes.get(part, "") for part in NAMES)
    if name not in KINDS or not namespace or not pod or not container or (wanted and namespace not in wanted):
        return None
    if len(identity) > MOST_IDENTITY:
        raise UnreadableSeries(f"the names of a container have {len(identity)} bytes, more than {MOST_IDENTITY}")
    # Without what tells the runs of a container apart: these are added up.
    group = "\xff".join((namespace, pod, container, attributes.get(_CLUSTER, ""))).encode()
    return UsageSeries(KINDS[name], (namespace, pod, container), group, identity)


def _attributes(resource: Any) -> dict[str, str]:
    """The attributes that are read."""
    # Others are passed over, so that a collector that adds some makes no other series of it.
    return {attribute.key: attribute.value.string_value for attribute in resource.attributes if attribute.key in _READ}
