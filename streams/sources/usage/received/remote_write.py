"""Prometheus remote-write 1.0 and 2.0: from the bytes of a request to samples of containers' usage.

The format is the specification's (prometheus.io/docs/specs/prw). Histograms, exemplars and metadata are passed over. What a
series is follows from `MetricNames`, as in the queries that a Prometheus server would be asked.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any, Final

import cramjam
from google.protobuf import message

from streams import protobuf_messages
from streams.protobuf_messages import BYTES, DOUBLE, INT64, MANY, ONE, UINT32
from streams.sources.usage.promql import OWN_LABELS, MetricNames
from streams.sources.usage.received.sample_table import RequestTooLarge, UnreadableRequest, UnreadableSeries
from streams.sources.usage.received.usage_samples import NO_USAGE, SampleBatch, UsageKind, UsageSamples, UsageSeries

V1: Final = "prometheus.WriteRequest"
V2: Final = "io.prometheus.write.v2.Request"
MOST_LABELS = 64
"""Labels of one series."""
MOST_LABEL_BYTES = 16 << 10
"""Bytes of the labels of one series."""
MOST_SERIES_BYTES = 1 << 20
"""Bytes of one series with its samples, which take many times that when they are read."""
_STALE = struct.pack("<Q", 0x7FF0000000000002)
"""Prometheus' stale marker (model/value/value.go): this NaN and no other."""
# Each series stays bytes until it is its turn: a request of many empty series costs its length and no more, and labels are read
# once for each way of writing a series.
_MESSAGES: Final = {
    "Sample": (("value", 1, DOUBLE, ONE), ("timestamp", 2, INT64, ONE)),
    "Label": (("name", 1, BYTES, ONE), ("value", 2, BYTES, ONE)),
    "RequestV1": (("timeseries", 1, BYTES, MANY),),
    "SeriesV1": (("labels", 1, BYTES, MANY), ("samples", 2, "Sample", MANY)),
    "RequestV2": (("symbols", 4, BYTES, MANY), ("timeseries", 5, BYTES, MANY)),
    "SeriesV2": (("labels_refs", 1, UINT32, MANY), ("samples", 2, "Sample", MANY)),
}
"""The messages, with the fields that are read: name, number, type and how many."""


_CLASS: Final = protobuf_messages.classes("ullage.remote_write", _MESSAGES)


def unpacked(body: bytes, most: int) -> bytes:
    """The content of a block of Snappy, which begins with its length. Raises UnreadableRequest, before it takes memory."""
    try:
        length = cramjam.snappy.decompress_raw_len(body)
        if length > most:
            raise RequestTooLarge(f"the request says that it has {length} bytes unpacked, more than {most}")
        return bytes(cramjam.snappy.decompress_raw(body))
    except cramjam.DecompressionError as error:
        raise UnreadableRequest(f"the body is no block of Snappy: {error}") from error


def decode(version: str, content: bytes, names: MetricNames, samples: UsageSamples) -> SampleBatch:
    """The samples of a request of this version, one of V1 and V2. Raises UnreadableRequest."""
    batch = SampleBatch([], [], [])
    try:
        if version == V1:
            for raw in _CLASS["RequestV1"].FromString(content).timeseries:
                series = _CLASS["SeriesV1"].FromString(_bounded(raw))
                written = series.labels
                _add(batch, series, samples.number(b"".join(written), partial(_of_v1, written, names)))
        else:
            request = _CLASS["RequestV2"].FromString(content)
            symbols = list(request.symbols)
            for raw in request.timeseries:
                series = _CLASS["SeriesV2"].FromString(_bounded(raw))
                written = _symbols(symbols, series.labels_refs)
                _add(batch, series, samples.number(b"\xff".join(written), partial(_of_v2, written, names)))
    except message.DecodeError as error:
        raise UnreadableRequest(f"the request cannot be read as {version}: {error}") from error
    return batch


def series_of(labels: Mapping[str, str], names: MetricNames) -> UsageSeries | None:
    """What a series with these labels is; None for one that the queries about usage would not select."""
    kind = {names.cpu_metric: UsageKind.CPU_SECONDS, names.memory_metric: UsageKind.MEMORY}.get(labels.get("__name__", ""))
    if kind is None or not names.selects(labels):
        return None
    container = tuple(labels.get(name, "") for name in (names.namespace_label, names.pod_label, names.container_label))
    own = {label for label in OWN_LABELS if label not in (names.namespace_label, names.pod_label, names.container_label)}
    rest = [(name, value) for name, value in sorted(labels.items()) if name != "__name__"]
    group = [(name, value) for name, value in rest if name not in own]
    return UsageSeries(kind, (container[0], container[1], container[2]), _bytes(group), _bytes(rest))


def _add(batch: SampleBatch, series: Any, number: int) -> None:
    batch.require_room(len(series.samples))
    for sample in series.samples:
        value = sample.value
        no_amount = not isfinite(value) and struct.pack("<d", value) != _STALE
        batch.series.append(NO_USAGE if no_amount else number)
        # In milliseconds, as Prometheus has all its times.
        batch.at.append(sample.timestamp / 1000)
        batch.values.append(value)


def _bounded(raw: bytes) -> bytes:
    if len(raw) > MOST_SERIES_BYTES:
        raise RequestTooLarge(f"a series has {len(raw)} bytes, more than {MOST_SERIES_BYTES}")
    return raw


def _symbols(symbols: Sequence[bytes], references: Sequence[int]) -> list[bytes]:
    """The labels that a series refers to; one symbol, which no labels are, where it refers to what is not there."""
    if len(references) > 2 * MOST_LABELS or any(reference >= len(symbols) for reference in references):
        return [b""]
    return [symbols[reference] for reference in references]


def _of_v1(written: Iterable[bytes], names: MetricNames) -> UsageSeries | None:
    try:
        labels = [_CLASS["Label"].FromString(raw) for raw in written]
    except message.DecodeError as error:
        raise UnreadableSeries(f"a label cannot be read: {error}") from error
    return series_of(_read_labels([(label.name, label.value) for label in labels]), names)


def _of_v2(written: Sequence[bytes], names: MetricNames) -> UsageSeries | None:
    if len(written) % 2:
        raise UnreadableSeries("a series refers to symbols that the request does not have, to too many, or to no pairs of them")
    return series_of(_read_labels(list(zip(written[::2], written[1::2], strict=True))), names)


def _read_labels(pairs: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Labels as text. Raises UnreadableSeries for what no series has."""
    if len(pairs) > MOST_LABELS:
        raise UnreadableSeries(f"a series has {len(pairs)} labels, more than {MOST_LABELS}")
    if sum(len(name) + len(value) for name, value in pairs) > MOST_LABEL_BYTES:
        raise UnreadableSeries(f"the labels of a series have more than {MOST_LABEL_BYTES} bytes")
    try:
        labels = {name.decode(): value.decode() for name, value in pairs}
    except UnicodeDecodeError as error:
        raise UnreadableSeries(f"a label is no text: {error}") from error
    # The specification forbids both, and which of two values counts would be anybody's guess.
    if len(labels) < len(pairs) or "" in labels:
        raise UnreadableSeries("a series has a label twice, or one without a name")
    return labels


def _bytes(pairs: Iterable[tuple[str, str]]) -> bytes:
    return b"\xff".join(part.encode() for pair in pairs for part in pair)
