"""A receiver of usage that listens, and what came of what was sent to it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import urllib3

from schemas.units import Bytes, Seconds
from streams.serving.https_server import HttpsServer, ServerLimits
from streams.sources.usage.promql import MetricNames
from streams.sources.usage.readings import ContainerId, Readings
from streams.sources.usage.received.receiver_endpoint import ReceiverEndpoint, ReceiverOptions
from streams.sources.usage.received.usage_samples import UsageSamples
from tests.support import usage_senders

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
BEGIN = NOW.timestamp() - 300


@dataclass
class ReceiverScene:
    """`reasons` is why nothing is taken now."""

    names: MetricNames = MetricNames()
    most_series: int = 1000
    most_bytes: int = 1 << 20
    tokens: Sequence[str] = ()
    reasons: list[str] = field(default_factory=list)
    now: Callable[[], datetime] = lambda: NOW
    window: float = 300.0
    deadline: float = 4.0
    codes: Counter[tuple[str, int]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.samples = UsageSamples(Seconds(self.window), self.most_series)
        self._pool = urllib3.PoolManager(retries=False)

    def answered(self, protocol: str, code: int) -> None:
        self.codes[protocol, code] += 1

    @contextmanager
    def listening(self) -> Iterator["ReceiverScene"]:
        options = ReceiverOptions(self.names, lambda: self.tokens, Bytes(self.most_bytes))
        endpoint = ReceiverEndpoint(self.samples, self, options, not_taking=lambda: self.reasons, now=self.now)
        with HttpsServer(
            endpoint.routes, None, limits=ServerLimits(body=self.most_bytes, deadline=Seconds(self.deadline))
        ) as self.server:
            yield self
        endpoint.close()
        self._pool.clear()

    def send(self, path: str, body: bytes, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        return self._pool.request("POST", f"http://127.0.0.1:{self.server.port}{path}", body=body, headers=headers)

    def write(self, series: usage_senders.Written, *, version: int = 1) -> urllib3.BaseHTTPResponse:
        body, headers = (
            (usage_senders.v1(series), usage_senders.V1) if version == 1 else (usage_senders.v2(series), usage_senders.V2)
        )
        return self.send("/api/v1/write", usage_senders.packed(body), headers)

    def read(self, after: float = 0.0) -> Readings:
        return self.samples.read(NOW + timedelta(seconds=after))

    def rows(self, after: float = 0.0) -> dict[ContainerId, tuple[float, float]]:
        readings = self.read(after)
        names = zip(readings.namespaces, readings.pods, readings.containers, strict=True)
        return dict(zip(names, zip(readings.cores.tolist(), readings.memory.tolist(), strict=True), strict=True))


def steady(cores: float, *, step: float = 15.0, begin: float = BEGIN, start: float = 1000.0) -> list[tuple[float, float]]:
    """A counter of CPU that began long ago, sampled each `step` seconds until NOW."""
    count = int((NOW.timestamp() - begin) / step)
    return [(begin + step * n, start + step * n * cores) for n in range(count + 1)]
