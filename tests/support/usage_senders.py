"""What senders of usage put on the wire, written byte by byte as the specifications say, without what reads it."""

import struct
from collections.abc import Iterable, Mapping, Sequence

import cramjam

STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
V1 = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0"}
V2 = {
    "Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "2.0.0",
}
CPU, MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
Samples = Sequence[tuple[float, float]]
"""Seconds since the epoch and values."""
Written = Iterable[tuple[Mapping[str, str], Samples]]


def varint(number: int) -> bytes:
    written = bytearray()
    number &= (1 << 64) - 1
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def message(number: int, content: bytes) -> bytes:
    """A field of a message, a text or bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def labels(metric: str, pod: str = "web-1", container: str = "main", **more: str) -> dict[str, str]:
    of = {"__name__": metric, "job": "kubernetes-cadvisor", "namespace": "shop", "pod": pod, "container": container}
    return of | {name: value for name, value in more.items() if value}


def v1(series: Written) -> bytes:
    request = b""
    for names, samples in series:
        written = b"".join(
            message(1, message(1, name.encode()) + message(2, value.encode())) for name, value in sorted(names.items())
        )
        request += message(1, written + _samples(samples))
    return request


def v2(series: Written) -> bytes:
    symbols, request = {"": 0}, b""
    for names, samples in series:
        references = [symbols.setdefault(text, len(symbols)) for pair in sorted(names.items()) for text in pair]
        request += message(5, message(1, b"".join(map(varint, references))) + _samples(samples))
    return b"".join(message(4, text.encode()) for text in symbols) + request


def packed(content: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(content))


def _samples(samples: Samples) -> bytes:
    return b"".join(
        message(2, varint(1 << 3 | 1) + struct.pack("<d", value) + varint(2 << 3) + varint(round(at * 1000)))
        for at, value in samples
    )
