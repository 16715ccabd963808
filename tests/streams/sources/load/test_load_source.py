"""The source of loads, between a log and a server that answers queries."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from schemas.policies.ehpa import EhpaRemoved
from schemas.policies.scaling import MetricSpec, MetricTarget
from schemas.units import Seconds
from streams.errors import LogUnavailable, Unreachable
from tests.support.canned_http_server import Answering, Asked, answering
from tests.support.load_scene import START, LoadScene, at, ehpa, flat, matrix, vector


@pytest.fixture
def server() -> Iterator[Answering]:
    with answering(flat("7.5")) as here:
        yield here


def _queries(server: Answering, path: str = "query") -> list[str]:
    return [asked.fields["query"] for asked in server.asked if asked.path.endswith(f"/{path}")]


def test_a_load_is_read_each_round_and_its_history_once(server: Answering) -> None:
    scene = LoadScene()
    scene.say(ehpa("web", query="sum(rate(hits[1m]))"))
    source = scene.source(server.url)
    assert source.scrape(at(0))
    assert source.scrape(at(60))
    assert scene.rows() == [("web", "pods.http_requests", 7.5)] * 2
    (history,) = scene.histories()
    assert (history.workload.name, history.step, len(history.values)) == ("web", 60.0, 61)
    assert set(history.values) == {7.5}
    assert (START - history.start).total_seconds() == 3600
    assert _queries(server) == ["sum(rate(hits[1m]))"] * 2
    assert scene.sees() == [("load-metrics",)] * 2


def test_without_an_annotation_the_default_query_is_asked(server: Answering) -> None:
    scene = LoadScene()
    scene.say(ehpa("web"))
    scene.source(server.url).scrape(at(0))
    assert _queries(server) == ['sum(http_requests{namespace="shop",pod=~"^web-[a-z0-9]+-[a-z0-9]{5}$"})']


def test_of_a_load_that_pods_tell_only_the_history_is_asked(server: Answering) -> None:
    scene = LoadScene()
    cpu = MetricSpec("Resource", "cpu", MetricTarget("Utilization", average_utilization=50))
    scene.say(ehpa("web", metrics=(cpu,)))
    source = scene.source(server.url)
    source.scrape(at(0))
    source.scrape(at(60))
    assert (_queries(server), len(_queries(server, "query_range"))) == (["vector(1)"], 1)
    assert [history.series.partition("#")[0] for history in scene.histories()] == ["resource.cpu"]


def test_after_a_restart_only_what_is_missing_is_asked(server: Answering) -> None:
    scene = LoadScene()
    scene.say(ehpa("web"))
    scene.source(server.url).scrape(at(0))
    scene.source(server.url).scrape(at(600))
    first, second = [asked.fields for asked in server.asked if asked.path.endswith("query_range")]
    assert float(first["end"]) - float(first["start"]) == 3600
    assert float(second["end"]) - float(second["start"]) == 600
    assert sum(len(history.values) for history in scene.histories()) == 61 + 11


def test_a_query_that_gives_several_series_is_refused_once_with_their_number(server: Answering) -> None:
    scene = LoadScene()
    server.answer = lambda _: (200, vector("1", "2", "3"))
    scene.say(ehpa("web"))
    source = scene.source(server.url)
    for second in (0, 60, 120, 180):
        source.scrape(at(second))
    (failure,) = scene.failures()
    assert failure.reason.startswith("it gives 3 series")
    assert "add them up" in failure.reason
    assert scene.rows() == []
    assert (
        len([query for query in _queries(server) if "http" in query]) == 2
    )  # at 0 and, two periods later, at 120; the next time four periods later


def test_an_answer_beyond_the_bound_is_refused_with_the_bound(server: Answering) -> None:
    scene = LoadScene()
    server.answer = lambda _: (200, vector(*["1"] * 100_000))
    scene.say(ehpa("web"), ehpa("cart", query="one"))
    source = scene.source(server.url, most=1 << 20)
    source.scrape(at(0))
    reasons = {failure.reason for failure in scene.failures()}
    assert reasons == {"the answer has more than 1048576 bytes: ask for fewer series, or for a shorter time, at once"}


def test_a_load_that_fails_takes_no_other_with_it_and_comes_back(server: Answering) -> None:
    scene = LoadScene()
    good = flat("1")

    def answer(asked: Asked) -> tuple[int, bytes]:
        refusal = json.dumps({"errorType": "bad_data", "error": "parse error"}).encode()
        return (400, refusal) if asked.fields["query"] == "bad(" else good(asked)

    server.answer = answer
    scene.say(ehpa("web", query="bad("), ehpa("cart"))
    source = scene.source(server.url)
    source.scrape(at(0))
    assert [(failure.workload.name, "parse error" in failure.reason) for failure in scene.failures()] == [("web", True)]
    assert scene.rows() == [("cart", "pods.http_requests", 1.0)]
    server.answer = good
    source.scrape(at(120))
    assert max(scene.rows()) == ("web", "pods.http_requests", 1.0)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "1e300", "x"])
def test_what_is_no_number_is_absent_and_said(server: Answering, value: str) -> None:
    scene = LoadScene()
    server.answer = lambda asked: (
        (200, vector(value)) if asked.path.endswith("/query") else (200, matrix([(START.timestamp(), value)]))
    )
    scene.say(ehpa("web"))
    scene.source(server.url).scrape(at(0))
    assert scene.rows() == []
    assert [failure.reason for failure in scene.failures()] == [f"it gives '{value}' now, and no number"]


def test_gaps_in_a_history_stay_gaps(server: Answering) -> None:
    scene, first = LoadScene(), START.timestamp() - 3600
    known = [(first + 600, "1"), (first + 660, "NaN"), (first + 720, "3"), (first + 1800, "4")]
    server.answer = lambda asked: (200, vector("1") if asked.path.endswith("/query") else matrix(known))
    scene.say(ehpa("web"))
    scene.source(server.url).scrape(at(0))
    (history,) = scene.histories()
    assert history.start.timestamp() == first + 600
    assert history.values == (1.0, None, 3.0, *[None] * 17, 4.0)


def test_when_nobody_answers_the_rest_of_the_round_is_left_out_and_the_report_sees_nothing() -> None:
    scene = LoadScene()
    scene.say(*[ehpa(f"web-{n}") for n in range(40)])
    source = scene.source("http://127.0.0.1:9", concurrency=1)
    with pytest.raises(Unreachable):
        source.scrape(at(0))
    assert (scene.failures(), scene.rows(), scene.sees()) == ([], [], [()])


def test_a_query_that_takes_the_server_too_long_is_its_own_failure_and_the_others_go_on(server: Answering) -> None:
    scene = LoadScene()
    good = flat("1")
    server.answer = lambda asked: (504, b"") if asked.fields["query"] == "slow" else good(asked)
    scene.say(ehpa("a", query="slow"), *[ehpa(name, query=name) for name in ("b", "c")])
    source = scene.source(server.url, concurrency=1)
    for second in (0, 60):
        source.scrape(at(second))
    assert [failure.workload.name for failure in scene.failures()] == ["a"]
    assert {row[0] for row in scene.rows()} == {"b", "c"}
    assert all(scene.sees())
    assert _queries(server).count("slow") == 1


def test_with_nothing_to_ask_for_the_server_is_looked_at_all_the_same() -> None:
    scene = LoadScene()
    with pytest.raises(Unreachable):
        scene.source("http://127.0.0.1:9").scrape(at(0))
    assert scene.sees() == [()]


def test_an_object_that_is_gone_is_asked_for_no_more(server: Answering) -> None:
    scene = LoadScene()
    scene.say(ehpa("web"))
    source = scene.source(server.url)
    source.scrape(at(0))
    gone = EhpaRemoved(at(30), "prod", "shop", "web")
    scene.log.append(scene.codec.encode_for_all(gone, topic="policies", key=gone.key, source="test"))
    source.scrape(at(60))
    assert len(scene.rows()) == 1


def test_histories_of_one_round_are_bounded_and_the_others_follow(server: Answering) -> None:
    scene = LoadScene()
    scene.say(*[ehpa(f"web-{n}") for n in range(5)])
    source = scene.source(server.url, histories=2)
    source.scrape(at(0))
    assert (len(scene.rows()), len(scene.histories())) == (5, 2)
    source.scrape(at(60))
    source.scrape(at(120))
    assert {history.workload.name for history in scene.histories()} == {f"web-{n}" for n in range(5)}
    assert len(scene.histories()) == 5


def test_an_object_with_too_many_metrics_asks_for_nothing(server: Answering) -> None:
    scene = LoadScene()
    one = ehpa("web").metrics[0]
    scene.say(ehpa("web", metrics=tuple(replace(one, name=f"m_{n}") for n in range(1000))), ehpa("cart"))
    scene.source(server.url).scrape(at(0))
    assert [name for name, *_ in scene.rows()] == ["cart"]


def test_histories_that_were_dropped_while_the_log_was_away_are_read_again(server: Answering) -> None:
    scene = LoadScene()
    scene.say(ehpa("web"), ehpa("cart"))
    source = scene.source(server.url, bound=1500, histories=1)
    scene.log.away = True
    with pytest.raises(LogUnavailable):
        source.scrape(at(0))
    scene.log.away = False
    source.scrape(at(0))
    scene.log.away = True
    assert not source.scrape(at(60))  # the second history does not fit into the outbox
    assert sum(source.dropped.values()) > 0
    scene.log.away = False
    for second in (120, 180, 240):
        assert source.scrape(at(second))
    assert {history.workload.name for history in scene.histories()} == {"web", "cart"}


def test_a_past_that_cannot_be_read_does_not_cost_the_present(server: Answering) -> None:
    scene, point = LoadScene(), (START.timestamp(), "1")
    server.answer = lambda asked: (200, vector("2") if asked.path.endswith("/query") else matrix([point], [point]))
    scene.say(ehpa("web"))
    source = scene.source(server.url)
    source.scrape(at(0))
    source.scrape(at(60))
    assert scene.rows() == [("web", "pods.http_requests", 2.0)] * 2
    assert (scene.failures(), len(_queries(server, "query_range"))) == ([], 1)


def test_what_a_server_that_was_away_remembers_is_read_when_it_is_back(server: Answering) -> None:
    scene = LoadScene()
    scene.say(ehpa("web"))
    source, good = scene.source(server.url), server.answer
    for second in (0, 60):
        source.scrape(at(second))
    server.answer = lambda _: (503, b"")
    with pytest.raises(Unreachable):
        source.scrape(at(120))
    server.answer = good
    for second in (1800, 1860, 1920):
        source.scrape(at(second))
    whole, gap = scene.histories()
    assert len(whole.values) == 61
    assert (gap.start - START).total_seconds() == 60
    assert len(gap.values) == 31  # from the newest value to the second round after the gap


def _hanging(server: Answering) -> threading.Event:
    """Answers no query with `evil` in it before the event is set."""
    released = threading.Event()

    def answer(asked: Asked) -> tuple[int, bytes]:
        if "evil" in asked.fields["query"]:
            released.wait(60)
        return flat("7.5")(asked)

    server.answer = answer
    return released


def test_a_value_is_published_while_another_namespace_waits_for_its_own(server: Answering) -> None:
    scene, released = LoadScene(), _hanging(server)
    scene.say(ehpa("evil", query="evil", namespace="evil"), ehpa("web", query="good"))
    source = scene.source(server.url, period=Seconds(600.0))
    round_under_way = threading.Thread(target=source.scrape, args=(at(0),))
    round_under_way.start()
    try:
        while not scene.rows() and round_under_way.is_alive():
            time.sleep(0.05)
        assert [workload for workload, *_ in scene.rows()] == ["web"]
        assert round_under_way.is_alive()
    finally:
        released.set()
        round_under_way.join()


def test_rounds_go_on_beside_a_query_without_an_answer(server: Answering) -> None:
    scene, released = LoadScene(), _hanging(server)
    scene.say(ehpa("evil", query="evil", namespace="evil"), ehpa("web", query="good"))
    source = scene.source(server.url, period=Seconds(1.0))
    try:
        for second in range(3):
            source.scrape(at(second))
            assert [workload for workload, *_ in scene.rows()] == ["web"] * (second + 1)
        assert _queries(server).count("evil") == 1
    finally:
        released.set()
    while [workload for workload, *_ in scene.rows()].count("evil") == 0:
        source.scrape(at(3))
    assert scene.sees() == [("load-metrics",)] * len(scene.sees())


def test_what_tenants_write_is_not_asked_where_only_the_adapters_queries_are(server: Answering) -> None:
    scene = LoadScene()
    cpu = MetricSpec("Resource", "cpu", MetricTarget("Utilization", average_utilization=50))
    named = MetricSpec("External", "up) or vector(1", MetricTarget("AverageValue", average_value="10"))
    scene.say(
        ehpa("annotated", query="evil"),
        ehpa("named", metrics=(named,)),
        ehpa("plain"),
        ehpa("ruled", queries={"pods.http_requests": "of_the_adapter"}),
        ehpa("cpu", metrics=(cpu,)),
    )
    source = scene.source(server.url, tenant_queries=False)
    for second in (0, 60, 600):
        source.scrape(at(second))
    asked = {item.fields["query"].partition("(")[0] for item in server.asked}
    assert asked == {"of_the_adapter", "sum"}
    assert all("container_cpu_usage" in item.fields["query"] for item in server.asked if item.fields["query"].startswith("sum"))
    assert {failure.workload.name: failure.reason for failure in scene.failures()} == dict.fromkeys(
        ("annotated", "named", "plain"),
        "it is PromQL that a tenant wrote, and load.tenant_queries is off: only the rules of prometheus-adapter give queries",
    )
    assert len(scene.failures()) == 3
    assert {workload for workload, *_ in scene.rows()} == {"ruled"}
