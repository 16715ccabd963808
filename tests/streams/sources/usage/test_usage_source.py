"""The usage source: what it tells of readings, by a log in memory."""

import math
from collections.abc import Iterable

import pytest
import structlog

from schemas.facts.sources import SourceReported
from streams.errors import LogUnavailable, TryAgain
from streams.sources.usage import usage_source
from streams.sources.usage.readings import Readings
from tests.support.usage_scene import CART, NAN, WEB, UsageScene, at, readings

ROW = ("shop", "web-1", "main", 0.25, 1e8)


@pytest.fixture
def scene() -> UsageScene:
    return UsageScene()


def test_a_row_goes_to_its_workload_with_its_own_windows_end(scene: UsageScene) -> None:
    scene.has("web-1")
    scene.has("cart-0", CART)
    scene.asks = lambda _: readings(("shop", "cart-0", "main", 0.5, 2e8, 40.0), (*ROW, 47.0), window=15.5)
    assert scene.source().scrape(at(60))
    assert sorted(scene.rows()) == [
        (WEB.key, "web-1", "main", 0.25, 1e8, 47.0),
        (CART.key, "cart-0", "main", 0.5, 2e8, 40.0),
    ]
    assert {(scrape.at, scrape.window, scrape.history) for _, scrape in scene.scrapes()} == {(at(47), 15.5, False)}


def test_there_are_no_ages_where_all_windows_ended_together(scene: UsageScene) -> None:
    scene.has("web-1")
    scene.asks = lambda _: readings((*ROW, 47.0), ("shop", "web-1", "side", 0.1, 1e7, 47.0))
    scene.source().scrape(at(60))
    assert [scrape.ages for _, scrape in scene.scrapes()] == [()]


def test_what_was_published_before_is_not_published_again(scene: UsageScene) -> None:
    scene.has("web-1")
    source = scene.source()
    scene.asks = lambda _: readings((*ROW, 47.0))
    source.scrape(at(60))
    source.scrape(at(75))
    scene.asks = lambda _: readings((*ROW, 46.0))
    source.scrape(at(90))
    scene.asks = lambda _: readings((*ROW, 77.0))
    source.scrape(at(105))
    assert [end for *_, end in scene.rows()] == [47.0, 77.0]
    assert (source.counts["told"], source.counts["repeated"]) == (2, 2)


def test_nor_after_a_restart(scene: UsageScene) -> None:
    scene.has("web-1")
    scene.has("web-2")
    scene.asks = lambda _: readings((*ROW, 47.0), ("shop", "web-2", "main", 0.5, 2e8, 50.0))
    scene.source().scrape(at(60))
    scene.asks = lambda _: readings((*ROW, 47.0), ("shop", "web-2", "main", 0.5, 2e8, 65.0))
    scene.source().scrape(at(75))
    assert [(pod, end) for _, pod, *_, end in scene.rows()] == [("web-1", 47.0), ("web-2", 50.0), ("web-2", 65.0)]


def test_nor_after_an_answer_that_left_it_out(scene: UsageScene) -> None:
    scene.has("web-1")
    source = scene.source()
    for rows in ([(*ROW, 47.0)], [], [(*ROW, 47.0)], [(*ROW, 77.0)]):
        scene.asks = lambda _, rows=rows: readings(*rows)
        source.scrape(at(60))
    assert [end for *_, end in scene.rows()] == [47.0, 77.0]


def test_a_missing_resource_is_absent(scene: UsageScene) -> None:
    scene.has("web-1")
    scene.asks = lambda _: readings(("shop", "web-1", "main", 0.25, NAN, 1.0), ("shop", "web-1", "side", NAN, NAN, 1.0))
    scene.source().scrape(at(60))
    ((_, _, name, cores, memory, _),) = scene.rows()
    assert (name, cores) == ("main", 0.25)
    assert math.isnan(memory)


def test_a_missing_resource_is_zero_for_who_wants_upstreams_way(scene: UsageScene) -> None:
    scene.has("web-1")
    scene.asks = lambda _: readings(("shop", "web-1", "main", 0.25, NAN, 1.0), ("shop", "web-1", "side", NAN, NAN, 1.0))
    scene.source(zero=True).scrape(at(60))
    assert [row[2:5] for row in scene.rows()] == [("main", 0.25, 0.0), ("side", 0.0, 0.0)]


@pytest.mark.parametrize(
    ("row", "kind", "value", "reason"),
    [
        ((-0.5, 1e8, 1.0), "cores", "-0.5", "cores must be between 0 and 1e+06"),
        ((2e6, 1e8, 1.0), "cores", "2e+06", "cores must be between 0 and 1e+06"),
        ((0.5, -1.0, 1.0), "memory", "-1", "bytes must be between 0 and 1e+16"),
        ((0.5, math.inf, 1.0), "memory", "inf", "bytes must be between 0 and 1e+16"),
        ((0.5, 1e8, 300.0), "future", "2026-11-21T12:05:00+00:00", "the window ends more than 120 s from now"),
        ((0.5, 1e8, -3600.0), "old", "2026-11-21T11:00:00+00:00", "the window ended more than 3600 s ago"),
    ],
)
def test_a_row_that_cannot_be_is_named_and_left_out_and_the_rest_goes_on(
    scene: UsageScene, row: tuple[float, float, float], kind: str, value: str, reason: str
) -> None:
    scene.has("web-1")
    scene.asks = lambda _: readings(("shop", "web-1", "odd", *row), (*ROW, 1.0))
    source = scene.source()
    with structlog.testing.capture_logs() as lines:
        source.scrape(at(60))
    assert [container for _, _, container, *_ in scene.rows()] == ["main"]
    line = {"event": "usage left out", "log_level": "warning", "pod": "shop/web-1", "container": "odd"}
    assert lines == [{**line, "value": value, "reason": reason}]
    assert source.counts[kind] == 1


def test_of_very_many_bad_rows_twenty_are_named_and_the_rest_is_counted(scene: UsageScene) -> None:
    scene.asks = lambda _: readings(*(("shop", f"web-{i}", "main", -1.0, 1.0, 1.0) for i in range(25)))
    source = scene.source()
    with structlog.testing.capture_logs() as lines:
        source.scrape(at(60))
    assert len(lines) == 21
    assert lines[-1] == {"event": "more usage left out", "log_level": "warning", "rows": 5}
    assert source.counts["cores"] == 25


def test_usage_of_a_pod_that_is_not_published_yet_is_published_once_the_pod_is(scene: UsageScene) -> None:
    scene.has("web-1")
    source = scene.source()
    scene.asks = lambda _: readings((*ROW, 30.0), ("shop", "web-2", "main", 0.5, 2e8, 31.0))
    source.scrape(at(60))
    assert [pod for _, pod, *_ in scene.rows()] == ["web-1"]
    assert source.pending == 1
    scene.has("web-2", when=61)
    scene.asks = lambda _: readings((*ROW, 60.0), ("shop", "web-2", "main", 0.6, 3e8, 61.0))
    source.scrape(at(120))
    assert [(pod, end) for _, pod, *_, end in scene.rows()] == [
        ("web-1", 30.0),
        ("web-2", 31.0),
        ("web-1", 60.0),
        ("web-2", 61.0),
    ]
    assert source.pending == 0
    assert source.counts["told"] == 4


def test_usage_of_a_pod_that_is_never_published_is_dropped_after_five_looks_with_a_line(scene: UsageScene) -> None:
    source = scene.source()
    scene.asks = lambda _: readings(("shop", "ghost", "main", 0.5, 2e8, 1.0))
    with structlog.testing.capture_logs() as lines:
        for scrape in range(1, 6):
            assert source.counts["unknown"] == 0
            source.scrape(at(60 * scrape))
    assert (source.counts["unknown"], source.pending) == (1, 0)
    event = "usage of pods that no source has published was dropped"
    assert lines == [{"event": event, "log_level": "warning", "rows": 1, "first": "shop/ghost"}]


def test_what_waits_for_its_pods_is_bounded(scene: UsageScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_source, "MOST_ROWS", 3)
    source = scene.source()
    for scrape in (1, 2):
        scene.asks = lambda _, end=60.0 * scrape: readings(*(("shop", f"ghost-{i}", "main", 0.5, 2e8, end) for i in range(2)))
        source.scrape(at(60 * scrape))
    assert (source.pending, source.counts["unknown"]) == (2, 2)


def test_what_a_server_reports_of_a_deleted_pod_is_dropped(scene: UsageScene) -> None:
    scene.has("web-1")
    scene.loses("web-1", when=30)
    scene.asks = lambda _: readings((*ROW, 29.0))
    source = scene.source()
    with structlog.testing.capture_logs() as lines:
        source.scrape(at(60))
    assert (scene.rows(), lines, source.pending, source.counts["gone"]) == ([], [], 0, 1)


def test_the_end_of_an_earlier_pod_of_the_same_name_does_not_end_the_new_one(scene: UsageScene) -> None:
    scene.has("cart-0", CART, uid="first")
    scene.has("cart-0", CART, uid="second", when=20)
    scene.loses("cart-0", CART, uid="first", when=25)
    scene.asks = lambda _: readings(("shop", "cart-0", "main", 0.5, 2e8, 50.0))
    scene.source().scrape(at(60))
    assert [row[0] for row in scene.rows()] == [CART.key]


def test_usage_of_a_successor_under_the_same_name_waits_until_it_is_published(scene: UsageScene) -> None:
    scene.has("cart-0", CART, uid="first")
    scene.loses("cart-0", CART, uid="first", when=10)
    scene.asks = lambda _: readings(("shop", "cart-0", "main", 0.5, 2e8, 50.0), window=30.0)
    source = scene.source()
    source.scrape(at(60))
    assert (scene.rows(), source.pending) == ([], 1)
    scene.has("cart-0", CART, uid="second", when=65)
    source.scrape(at(120))
    assert [row[:3] for row in scene.rows()] == [(CART.key, "cart-0", "main")]


def test_pods_published_three_hours_ago_are_known_and_those_of_other_clusters_are_not(scene: UsageScene) -> None:
    scene.has("web-1", when=-3 * 3600)
    scene.has("web-2", type(WEB)("test", "shop", "Deployment", "web"))
    scene.asks = lambda _: readings((*ROW, 1.0), ("shop", "web-2", "main", 0.5, 2e8, 1.0))
    scene.source().scrape(at(60))
    assert [pod for _, pod, *_ in scene.rows()] == ["web-1"]


def test_every_partition_hears_that_the_source_is_at_work_and_when_it_sees_nothing(scene: UsageScene) -> None:
    scene.has("web-1")
    scene.asks = lambda _: readings((*ROW, 47.0))
    source = scene.source()
    source.scrape(at(60))
    scene.asks = _unable
    with pytest.raises(TryAgain, match="no answer"):
        source.scrape(at(120))
    seen = SourceReported(at(60), "prod", "usage", ("pod-metrics",), 60.0)
    blind = SourceReported(at(120), "prod", "usage", (), 60.0)
    assert scene.reports() == [(partition, event) for partition in (0, 1) for event in (seen, blind)]


def test_an_answer_without_a_container_is_said_and_so_is_usage_of_pods_that_nobody_published(scene: UsageScene) -> None:
    scene.has("web-1")
    source = scene.source(when_empty="is the job right?")
    source.scrape(at(60))
    scene.asks = lambda _: readings((*ROW, 100.0))
    source.scrape(at(120))
    for scrape in range(3, 3 + usage_source.MOST_LOOKS):
        scene.asks = lambda _, end=60.0 * scrape: readings((*ROW, end), ("shop", "nobody", "main", 0.1, 1e7, end))
        source.scrape(at(60 * scrape))
    said = [event.lacks for partition, event in scene.reports() if partition == 0]
    assert said[:2] == [("the answer names no container: is the job right?",), ()]
    assert said[-1] == ("1 rows are of pods that no source has published: is `ullage source kube` at work?",)
    assert set(said[2:-1]) == {()}


def test_while_the_log_is_away_usage_waits_and_goes_out_in_order(scene: UsageScene) -> None:
    scene.has("web-1")
    source = scene.source()
    source.scrape(at(0))
    scene.log.away = True
    for scrape in (1, 2):
        scene.asks = lambda _, end=60.0 * scrape: readings((*ROW, end))
        assert not source.scrape(at(60 * scrape))
    scene.log.away = False
    scene.asks = lambda _: readings((*ROW, 180.0))
    assert source.scrape(at(180))
    assert [end for *_, end in scene.rows()] == [60.0, 120.0, 180.0]
    assert [report.at for partition, report in scene.reports() if partition == 0] == [at(s) for s in (0, 60, 120, 180)]


def test_usage_over_the_bound_is_dropped_oldest_first_and_counted(scene: UsageScene) -> None:
    scene.has("web-1")
    source = scene.source(bound=2_500)
    source.scrape(at(0))
    scene.log.away = True
    for scrape in (1, 2, 3):
        scene.asks = lambda _, end=60.0 * scrape: readings((*ROW, end))
        source.scrape(at(60 * scrape))
    scene.log.away = False
    scene.asks = lambda _: readings()
    source.scrape(at(240))
    ends = [end for *_, end in scene.rows()]
    assert ends == sorted(ends)
    assert 180.0 in ends
    assert 60.0 not in ends
    assert source.dropped[scene.topics.wire("pod-metrics")] >= 1


def test_the_first_scrape_needs_the_log(scene: UsageScene) -> None:
    scene.log.away = True
    with pytest.raises(LogUnavailable, match="away"):
        scene.source().scrape(at(0))


def test_the_name_columns_stay_the_same_whatever_order_a_server_answers_in(scene: UsageScene) -> None:
    for pod in ("web-1", "web-2", "web-3"):
        scene.has(pod)
    source = scene.source()
    for scrape, order in enumerate(((1, 2, 3), (3, 1, 2)), start=1):
        scene.asks = lambda _, end=60.0 * scrape, order=order: _web(end, order)
        source.scrape(at(60 * scrape))
    first, second = (scrape for _, scrape in scene.scrapes())
    assert (first.workloads, first.pods, first.containers) == (second.workloads, second.pods, second.containers)
    assert list(first.cores) == list(second.cores) == [1.0, 2.0, 3.0]


def _web(end: float, order: Iterable[int]) -> Readings:
    return readings(*(("shop", f"web-{i}", "main", float(i), 1e8, end) for i in order))


def _unable(_at: object) -> Readings:
    raise TryAgain(doing="reading usage of", to="prod", answer="no answer", after=10.0)
