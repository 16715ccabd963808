"""The Prometheus client on the wire."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from schemas.units import Seconds
from streams.clients.prometheus import Credentials, Prometheus, TimeRange, duration
from streams.errors import BadInput, GiveUp, TryAgain, Unreachable
from tests.support.canned_http_server import Answering, answering

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
WORD = "geheim"


def _vector(*values: tuple[dict[str, str], str]) -> bytes:
    result = [{"metric": metric, "value": [AT.timestamp(), value]} for metric, value in values]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


@pytest.fixture
def server() -> Iterator[Answering]:
    with answering(lambda _: (200, _vector())) as here:
        yield here


def test_an_instant_question_is_a_form_with_query_and_time(server: Answering) -> None:
    server.answer = lambda _: (200, _vector(({"pod": "web-1"}, "0.25"), ({"pod": "web-2"}, "NaN")))
    answer = Prometheus(f"{server.url}/").query('up{job="x"}', AT)
    assert [(series.metric["pod"], series.value and series.value[1]) for series in answer] == [
        ("web-1", "0.25"),
        ("web-2", "NaN"),
    ]
    (asked,) = server.asked
    assert (asked.path, asked.fields["query"], float(asked.fields["time"])) == ("/api/v1/query", 'up{job="x"}', AT.timestamp())
    assert asked.fields["timeout"] == "300s"


@pytest.mark.parametrize("content", [None, b"", b"rubbish"])
def test_what_is_wrong_with_the_authority_is_told_with_its_file(server: Answering, tmp_path: Path, content: bytes | None) -> None:
    ca = tmp_path / "ca.crt"
    if content is not None:
        ca.write_bytes(content)
    with pytest.raises(Unreachable, match=rf"TLS fails with those of prometheus\.ca '{ca}': "):
        Prometheus(server.url.replace("http:", "https:"), ca=ca).query("up", AT)


def test_a_question_about_a_stretch_names_its_ends_and_its_step(server: Answering) -> None:
    result = [{"metric": {"pod": "web-1"}, "values": [[0, "1"], [3600, "2"]]}]
    server.answer = lambda _: (200, json.dumps({"data": {"resultType": "matrix", "result": result}}).encode())
    (series,) = Prometheus(server.url).query_range("up", TimeRange(0.0, 7200.0, 3600.0))
    assert series.values == [(0.0, "1"), (3600.0, "2")]
    fields = server.asked[0].fields
    assert [float(fields[name]) for name in ("start", "end", "step")] == [0.0, 7200.0, 3600.0]
    assert server.asked[0].path == "/api/v1/query_range"


def test_credentials_go_into_the_headers(server: Answering, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    basic = base64.b64encode(f"reader:{WORD}".encode()).decode()
    given = Credentials(username="reader", password=WORD, headers={"X-Scope-OrgID": "shop"})
    Prometheus(server.url, given).query("up", AT)
    by_token = Prometheus(server.url, Credentials(token_file=tmp_path / "token"))
    by_token.query("up", AT)
    (tmp_path / "token").write_text("second\n")
    by_token.query("up", AT)
    assert [asked.headers.get("Authorization") for asked in server.asked] == [f"Basic {basic}", "Bearer first", "Bearer second"]
    assert server.asked[0].headers["X-Scope-OrgID"] == "shop"


def test_credentials_are_in_no_text(server: Answering, tmp_path: Path) -> None:
    given = Credentials(username="reader", password=WORD, headers={"X-Key": WORD})
    server.answer = lambda _: (401, b"who are you?")
    with pytest.raises(TryAgain) as error:
        Prometheus(server.url, given).query("up", AT)
    with pytest.raises(BadInput, match=r"prometheus.url 'http://here'") as address:
        Prometheus(f"http://reader:{WORD}@here")
    assert WORD not in f"{given!r} {error.value} {address.value}"
    with pytest.raises(TryAgain, match=r"none' of prometheus cannot be read: No such file"):
        Prometheus(server.url, Credentials(token_file=tmp_path / "none")).query("up", AT)
    (tmp_path / "binary").write_bytes(b"\xd0\xff")
    with pytest.raises(TryAgain, match=r"binary' of prometheus cannot be read: it is no text in UTF-8"):
        Prometheus(server.url, Credentials(token_file=tmp_path / "binary")).query("up", AT)


@pytest.mark.parametrize("word", [f"{WORD}\nsecond", f"{WORD}\x00", f"{WORD}\u2026"])
def test_an_error_about_a_secret_that_no_header_may_hold_does_not_quote_it(server: Answering, tmp_path: Path, word: str) -> None:
    (tmp_path / "token").write_text(word, encoding="utf-8")
    for given in (Credentials(token_file=tmp_path / "token"), Credentials(headers={"X-Key": word})):
        with pytest.raises(TryAgain, match=r"the header '(Authorization|X-Key)' for prometheus holds") as error:
            Prometheus(server.url, given).query("up", AT)
        assert WORD not in str(error.value)
    assert not server.asked


@pytest.mark.parametrize(("seconds", "text"), [(300.0, "300s"), (2_592_000.0, "2592000s"), (90.5, "90500ms"), (0.25, "250ms")])
def test_a_length_of_time_has_neither_fraction_nor_exponent(seconds: float, text: str) -> None:
    assert duration(Seconds(seconds)) == text


@pytest.mark.parametrize(
    "given",
    [
        {"token": "t", "username": "u", "password": "p"},
        {"token_file": Path("t"), "password_file": Path("p")},
        {"username": "u"},
        {"password": "p"},
    ],
)
def test_two_ways_at_once_and_half_a_way_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(BadInput, match=r"one way or the other|go together"):
        Credentials(**given)


@pytest.mark.parametrize("url", ["prometheus:9090", "ftp://here", "http://", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="is no address such as"):
        Prometheus(url)


@pytest.mark.parametrize(("code", "error"), [(400, GiveUp), (403, GiveUp), (422, GiveUp), (302, GiveUp), (503, TryAgain)])
def test_a_refusal_quotes_question_and_server(server: Answering, code: int, error: type[Exception]) -> None:
    server.answer = lambda _: (code, json.dumps({"status": "error", "errorType": "execution", "error": "too many"}).encode())
    with pytest.raises(error, match=f"asking for up of '{server.url}' did not work: {code} execution: too many"):
        Prometheus(server.url).query("up", AT)


def test_an_answer_that_makes_no_sense_and_none_at_all_are_tried_again(server: Answering) -> None:
    server.answer = lambda _: (200, b"<html>log in here</html>")
    with pytest.raises(TryAgain, match="an answer that cannot be read"):
        Prometheus(server.url).query("up", AT)
    with pytest.raises(Unreachable, match="asking for up of"):
        Prometheus("http://127.0.0.1:9").query("up", AT)


@pytest.mark.parametrize("code", [502, 503, 504])
def test_a_proxy_before_a_dead_server_is_nobody_and_prometheus_own_words_are_of_the_query(server: Answering, code: int) -> None:
    server.answer = lambda _: (code, b"Service Unavailable")
    with pytest.raises(Unreachable, match=f"did not work: {code} Service Unavailable"):
        Prometheus(server.url).query("up", AT)
    server.answer = lambda _: (code, b'{"status": "error", "errorType": "timeout", "error": "too slow"}')
    with pytest.raises(TryAgain, match=f"{code} timeout: too slow") as told:
        Prometheus(server.url).query("up", AT)
    assert not isinstance(told.value, Unreachable)
