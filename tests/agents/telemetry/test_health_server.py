import http.client
import json
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter

from agents.telemetry import HealthServer, Liveness
from schemas.units import Seconds
from streams.errors import BadInput

Answer = tuple[int, str, bytes]


@pytest.fixture
def reasons() -> list[str]:
    return []


@pytest.fixture
def server(reasons: list[str]) -> Iterator[HealthServer]:
    registry = CollectorRegistry()
    Counter("ullage_eggs", "Eggs", registry=registry).inc(3)
    with HealthServer(registry, ready=lambda: reasons).listen() as server:
        yield server


def _get(server: HealthServer, path: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers["Content-Type"], body


def test_metrics_are_served_as_prometheus_reads_them(server: HealthServer) -> None:
    status, kind, body = _get(server, "/metrics")
    assert status == 200
    assert kind.startswith("text/plain; version=")
    assert b"ullage_eggs_total 3.0\n" in body
    assert b"ullage_ready 1.0\n" in body


def test_readiness_answers_503_with_every_reason_and_200_without(server: HealthServer, reasons: list[str]) -> None:
    assert _get(server, "/readyz") == (200, "application/json", b'{"ok": true, "reasons": []}\n')
    reasons[:] = ["recommender/1 is behind", "updater/0 is not open"]
    status, _, body = _get(server, "/readyz")
    assert status == 503
    assert json.loads(body) == {"ok": False, "reasons": ["recommender/1 is behind", "updater/0 is not open"]}
    assert b"ullage_ready 0.0\n" in _get(server, "/metrics")[2]


def test_liveness_does_not_care_whether_the_process_is_ready(server: HealthServer, reasons: list[str]) -> None:
    reasons[:] = ["recovering"]
    assert [_get(server, path)[0] for path in ("/healthz", "/health-check")] == [200, 200]


def test_a_loop_that_no_longer_comes_round_is_not_alive() -> None:
    now = [100.0]
    pulse = Liveness(Seconds(60.0), clock=lambda: now[0])
    with HealthServer(CollectorRegistry(), alive=pulse.reasons).listen() as server:
        now[0] = 160.0
        assert _get(server, "/healthz")[0] == 200
        now[0] = 161.0
        status, _, body = _get(server, "/healthz")
        assert (status, json.loads(body)["reasons"]) == (503, ["the loop has not come round for 61 s"])
        pulse.beat()
        assert _get(server, "/healthz")[0] == 200


def test_other_paths_are_told_what_there_is(server: HealthServer) -> None:
    assert _get(server, "/")[0::2] == (404, b"there is /metrics, /healthz, /health-check, /readyz\n")


def test_an_address_in_use_is_a_sentence(server: HealthServer) -> None:
    with pytest.raises(
        BadInput, match=rf"metrics cannot be served on 127.0.0.1:{server.port} .*choose another with metrics.port"
    ):
        HealthServer(CollectorRegistry()).listen(port=server.port)
