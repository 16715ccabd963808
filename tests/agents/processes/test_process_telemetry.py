import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from prometheus_client import CollectorRegistry

from agents.processes.process_telemetry import serving
from agents.telemetry import HealthServer
from streams.errors import BadInput, LogUnavailable


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    yield
    root.handlers[:], root.level = before
    structlog.reset_defaults()


def _said(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, object]]:
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {line["component"] for line in lines} == {"clock"}
    return [(line["event"], line.get("settings") or line.get("code", line.get("error"))) for line in lines]


def test_a_process_says_that_it_starts_and_ends_and_serves_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    server = HealthServer(CollectorRegistry())
    with HealthServer(CollectorRegistry()).listen() as other:
        free = other.port
    with serving("clock", server, settings={"clock.period_ms": 500}, listen=("127.0.0.1", free)):
        assert server.port == free
    assert server.port == 0
    assert _said(capsys) == [("process started", {"clock.period_ms": 500}), ("process ended", 0)]


def test_port_zero_serves_nothing() -> None:
    server = HealthServer(CollectorRegistry())
    with serving("clock", server, settings={}):
        assert server.port == 0


def test_an_error_is_a_failure_and_goes_on_its_way(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LogUnavailable), serving("clock", HealthServer(CollectorRegistry()), settings={"a": 1}):
        raise LogUnavailable("the log went away")
    assert _said(capsys) == [
        ("process started", {"a": 1}),
        ("failure", "LogUnavailable: the log went away"),
        ("process ended", 1),
    ]


def test_the_line_of_the_end_has_the_exit_code_of_wrong_input(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadInput), serving("clock", HealthServer(CollectorRegistry()), settings={"a": 1}):
        raise BadInput("no source has named it")
    assert _said(capsys)[-1] == ("process ended", 2)


def test_being_asked_to_stop_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), serving("clock", HealthServer(CollectorRegistry()), settings={"a": 1}):
        raise KeyboardInterrupt
    assert _said(capsys) == [("process started", {"a": 1}), ("process ended", 0)]
