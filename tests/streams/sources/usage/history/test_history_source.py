"""History into the log, from a server on loopback that speaks Prometheus' API; a real one is asked in tests/controlplane."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog

from agents.logic.vertical.vertical_settings import VerticalSettings
from agents.run.pipeline import stages
from agents.run.stage_runner import Runner
from agents.settings.all_settings import Settings
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.usage import MetricsScraped
from schemas.policies.vpa import Operator, Requirement, TargetRef, VpaChanged, VpaRemoved
from schemas.units import Seconds
from streams.clients.prometheus import Prometheus
from streams.errors import BadInput, GiveUp, LogUnavailable
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.sources.usage import history_source
from streams.sources.usage.history_source import HistoryPeriod, HistorySource, MetricsStore
from tests.support import ticks
from tests.support.canned_http_server import Answering, Asked, answering
from tests.support.usage_scene import CART, START, WEB, UsageScene, at, readings

HOUR = 3600.0
Number = Callable[[int], float | None]
"""By the hour before START, as in -2; None where there is nothing."""


@dataclass
class Memory:
    """What the server remembers by pod, each with one container, and the labels of pods."""

    cpu: dict[str, Number] = field(default_factory=dict)
    memory: dict[str, Number] = field(default_factory=dict)
    labels: list[dict[str, str]] = field(default_factory=list)
    most: int = 1_000_000
    """Moments of one answer; the server refuses more."""

    def __call__(self, asked: Asked) -> tuple[int, bytes]:
        query = asked.fields["query"]
        if "kube_pod_labels" in query:
            return _said([{"metric": labels, "value": [0, "1"]} for labels in self.labels])
        if query.startswith("count("):
            return _said([{"metric": {}, "value": [0, str(len(self.memory))]}])
        first, last, step = (float(asked.fields[name]) for name in ("start", "end", "step"))
        moments = [first + step * i for i in range(int((last - first) / step) + 1)]
        if len(moments) > self.most:
            return 422, b'{"status":"error","errorType":"execution","error":"query processing would load too many samples"}'
        return _said([_series(pod, number, moments) for pod, number in (self.cpu if "rate(" in query else self.memory).items()])


def _said(result: list[Any]) -> tuple[int, bytes]:
    return 200, json.dumps({"status": "success", "data": {"resultType": "any", "result": result}}).encode()


def _series(pod: str, number: Number, moments: list[float]) -> dict[str, object]:
    values = [(moment, number(round((moment - START.timestamp()) / HOUR))) for moment in moments]
    known = [[moment, str(value)] for moment, value in values if value is not None]
    return {"metric": {"namespace": "shop", "pod": pod, "container": "main"}, "values": known}


@pytest.fixture
def server() -> Iterator[Answering]:
    with answering(Memory()) as here:
        yield here


@pytest.fixture
def scene() -> UsageScene:
    return UsageScene()


def history(server: Answering, scene: UsageScene, *, hours: int = 4, end: datetime = START) -> HistorySource:
    period = HistoryPeriod(end, Seconds(hours * HOUR))
    return HistorySource(MetricsStore(Prometheus(server.url)), scene.context, period)


def vpa(scene: UsageScene, name: str, *, age: int = 0, **requirements: Any) -> None:
    selector = tuple(requirements.get("selector", (Requirement("app.kubernetes.io/name", Operator.IN, (name,)),)))
    target = TargetRef("Deployment", name, "apps/v1")
    _policy(scene, VpaChanged(START, "prod", "shop", name, START - timedelta(days=age), target, selector))


def _policy(scene: UsageScene, event: VpaChanged | VpaRemoved) -> None:
    for partition in range(scene.topics.partitions):
        record = scene.codec.encode(event, topic="policies", key=event.key, partition=partition, source="test")
        scene.log.append([record])


def test_each_moment_is_one_record_a_partition_marked_as_history_in_order_of_time(server: Answering, scene: UsageScene) -> None:
    scene.has("web-1")
    scene.has("cart-0", CART)
    server.answer = Memory(
        cpu={"web-1": lambda _: 0.0019, "cart-0": lambda hour: 1.25 if hour >= -1 else None},
        memory={"web-1": lambda hour: 1e8 + hour + 0.9, "cart-0": lambda hour: 2e8 if hour >= -1 else None},
    )
    *_, progress = history(server, scene).publish(START - timedelta(hours=4))
    rows = scene.rows()
    assert [row for row in rows if row[1] == "web-1"] == [
        (WEB.key, "web-1", "main", 0.001, 1e8 + hour, hour * HOUR) for hour in (-4, -3, -2, -1, 0)
    ]
    assert [row for row in rows if row[1] == "cart-0"] == [
        (CART.key, "cart-0", "main", 1.25, 2e8, hour * HOUR) for hour in (-1, 0)
    ]
    assert {(event.history, event.window, event.ages) for _, event in scene.scrapes()} == {(True, HOUR, ())}
    assert (progress.rows, len(progress.containers), progress.unmatched, progress.at) == (7, 2, set(), START)


def test_the_past_is_asked_for_in_stretches_and_in_halves_where_they_are_refused(
    server: Answering, scene: UsageScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_source, "POINTS", 6)
    scene.has("web-1")
    server.answer = Memory({"web-1": lambda _: 0.5}, {"web-1": lambda _: 1e8}, most=4)
    list(history(server, scene, hours=12).publish(START - timedelta(hours=12)))
    assert [end / HOUR for *_, end in scene.rows()] == list(range(-12, 1))
    asked = [asked.fields for asked in server.asked if asked.path.endswith("query_range") and "rate(" in asked.fields["query"]]
    moments = [round((float(f["end"]) - float(f["start"])) / HOUR) + 1 for f in asked]
    assert moments == [6, 3, 3, 6, 3, 3, 1]


def test_a_question_that_is_wrong_by_itself_is_not_asked_for_ever(server: Answering, scene: UsageScene) -> None:
    server.answer = Memory({"web-1": lambda _: 0.5}, {"web-1": lambda _: 1e8}, most=0)
    with pytest.raises(GiveUp, match="too many samples"):
        list(history(server, scene, hours=8).publish(START - timedelta(hours=8)))
    assert len([asked for asked in server.asked if asked.path.endswith("query_range")]) == 4


def test_a_pod_that_is_gone_is_of_the_oldest_vpa_that_matches_its_labels_as_metrics_spell_them(
    server: Answering, scene: UsageScene
) -> None:
    vpa(scene, "web")
    vpa(scene, "elder", age=7, selector=[Requirement("tier", Operator.EXISTS)])
    vpa(scene, "removed", age=9, selector=[])
    _policy(scene, VpaRemoved(START, "prod", "shop", "removed"))
    labels = {"namespace": "shop", "instance": "exporter:8080"}
    server.answer = Memory(
        {pod: lambda _: 0.5 for pod in ("web-old", "tier-old", "other", "ghost")},
        labels=[
            {**labels, "pod": "web-old", "label_app_kubernetes_io_name": "web"},
            {**labels, "pod": "tier-old", "label_app_kubernetes_io_name": "web", "label_tier": "front"},
            {**labels, "pod": "other", "label_app_kubernetes_io_name": "none"},
        ],
    )
    *_, progress = history(server, scene).publish(START)
    elder = replace(WEB, name="elder").key
    assert sorted(row[:2] for row in scene.rows()) == [(elder, "tier-old"), (WEB.key, "web-old")]
    assert progress.unmatched == {("shop", "other"), ("shop", "ghost")}


@pytest.mark.parametrize(
    ("operator", "values", "label", "matches"),
    [
        (Operator.IN, ("a", "b"), "b", True),
        (Operator.IN, ("a",), None, False),
        (Operator.NOT_IN, ("a",), "b", True),
        (Operator.NOT_IN, ("a",), None, True),
        (Operator.NOT_IN, ("a",), "a", False),
        (Operator.EXISTS, (), "a", True),
        (Operator.EXISTS, (), None, False),
        (Operator.DOES_NOT_EXIST, (), None, True),
        (Operator.DOES_NOT_EXIST, (), "a", False),
    ],
)
def test_selectors_mean_what_they_mean_in_kubernetes(  # noqa: PLR0917  # a table
    server: Answering, scene: UsageScene, operator: Operator, values: tuple[str, ...], label: str | None, matches: bool
) -> None:
    vpa(scene, "web", selector=[Requirement("tier", operator, values)])
    labels = {"namespace": "shop", "pod": "old", **({} if label is None else {"label_tier": label})}
    server.answer = Memory({"old": lambda _: 0.5}, labels=[labels])
    list(history(server, scene).publish(START))
    assert bool(scene.rows()) == matches


def test_a_pod_whose_end_the_log_knows_is_of_the_workload_that_it_was_of(server: Answering, scene: UsageScene) -> None:
    scene.has("web-1", when=-3 * HOUR)
    scene.loses("web-1", when=-1 * HOUR)
    server.answer = Memory({"web-1": lambda hour: 0.5 if hour < 0 else None})
    list(history(server, scene).publish(START - timedelta(hours=4)))
    assert [row[0] for row in scene.rows()] == [WEB.key] * 4


def test_what_cannot_be_is_left_out_with_a_line(server: Answering, scene: UsageScene) -> None:
    scene.has("web-1")
    server.answer = Memory({"web-1": lambda hour: -0.5 if hour == -1 else 0.5})
    with structlog.testing.capture_logs() as lines:
        *_, progress = history(server, scene, hours=2).publish(START - timedelta(hours=2))
    assert [(row[3], row[5] / HOUR) for row in scene.rows()] == [(0.5, -2), (0.5, 0)]
    assert (progress.rows, progress.left_out) == (2, 1)
    assert [(line["pod"], line["container"], line["value"]) for line in lines] == [("shop/web-1", "main", "-0.5")]


def test_it_refuses_a_log_with_live_usage_from_after_its_beginning_unless_forced(server: Answering, scene: UsageScene) -> None:
    scene.has("web-1")
    scene.asks = lambda _: readings(("shop", "web-1", "main", 0.5, 1e8, 50.0))
    scene.source().scrape(at(60))
    later = history(server, scene, end=START + timedelta(hours=1))
    with pytest.raises(BadInput, match="the log holds usage of cluster 'prod' of 2026-11-21 12:00 UTC, later than the beginning"):
        later.begin()
    assert later.begin(force=True) == START - timedelta(hours=3)
    period = HistoryPeriod(START + timedelta(hours=1), Seconds(4 * HOUR))
    other = HistorySource(MetricsStore(Prometheus(server.url)), LogContext.of(scene.log, scene.topics, "test"), period)
    assert other.begin() == START - timedelta(hours=3)
    much_later = history(server, scene, end=START + timedelta(hours=5))
    assert much_later.begin() == START + timedelta(hours=1)


def test_a_run_that_was_ended_goes_on_where_it_was(server: Answering, scene: UsageScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_source, "POINTS", 2)
    scene.has("web-1")
    server.answer = Memory({"web-1": lambda _: 0.5}, {"web-1": lambda _: 1e8})
    first = history(server, scene)
    for _ in first.publish(first.begin()):
        break
    again = history(server, scene)
    begin = again.begin()
    assert begin == START - timedelta(hours=3)
    list(again.publish(begin))
    assert sorted({end / HOUR for *_, end in scene.rows()}) == [-4, -3, -2, -1, 0]


def test_an_append_of_which_one_partition_took_nothing_loses_nothing(server: Answering, scene: UsageScene) -> None:
    scene.has("web-1")
    scene.has("cart-0", CART)
    assert scene.topics.partition_of(WEB.key) != scene.topics.partition_of(CART.key)
    server.answer = Memory({"web-1": lambda _: 0.5, "cart-0": lambda _: 0.5})
    taken = scene.log.append

    def partly(records: Iterable[NewRecord]) -> Any:
        taken([record for record in records if record.partition == scene.topics.partition_of(WEB.key)])
        raise LogUnavailable("the log in this test is away")

    first = history(server, scene)
    scene.log.append = partly  # type: ignore[method-assign]  # a broker that is lost in the middle of an append
    with pytest.raises(LogUnavailable, match="away"):
        list(first.publish(first.begin()))
    scene.log.append = taken  # type: ignore[method-assign]  # and is back
    again = history(server, scene)
    list(again.publish(again.begin()))
    for pod in ("web-1", "cart-0"):
        assert sorted({row[5] / HOUR for row in scene.rows() if row[1] == pod}) == [-4, -3, -2, -1, 0]


def test_an_append_that_fails_ends_it(server: Answering, scene: UsageScene) -> None:
    scene.has("web-1")
    server.answer = Memory({"web-1": lambda _: 0.5})
    playing = history(server, scene).publish(START)
    scene.log.append = _away  # type: ignore[method-assign]  # the log goes away after it was read
    with pytest.raises(LogUnavailable, match="away"):
        next(playing)


def _away(_records: object) -> Any:
    raise LogUnavailable("the log in this test is away")


def test_a_server_that_knows_no_containers_is_an_error_and_no_success(server: Answering, scene: UsageScene) -> None:
    with pytest.raises(BadInput, match=r"remembers no containers of job 'kubernetes-cadvisor' .* must be those of its cAdvisor"):
        list(history(server, scene).publish(START))


def _newest(scene: UsageScene) -> dict[str, Any]:
    """The newest recommendation of each workload: the amounts, and what they rest on, without places."""
    newest = {}
    for _, event in scene.events("recommendations"):
        if isinstance(event, RequestsRecommended):
            newest[event.workload.key] = (event.containers, event.because["containers"])
    return newest


def _take(scene: UsageScene) -> None:
    pipeline = stages(Settings(vertical=VerticalSettings(bounds_step=0.0), topics={"partitions": 2}))[:1]
    Runner(pipeline, LogContext(scene.log, scene.topics, scene.codec)).run()


def test_what_is_recommended_from_history_is_what_the_same_samples_give_live(server: Answering) -> None:
    """50 hours of two workloads. Live: a turn for each hour; history: all in one turn, at the end."""
    server.answer = Memory(
        cpu={"web-1": lambda hour: 0.1 + (hour % 7) / 10, "cart-0": lambda hour: 2.0 if hour % 3 else 0.2},
        memory={"web-1": lambda hour: 1e8 + 1e7 * (hour % 24), "cart-0": lambda hour: 5e8 - 1e6 * hour},
    )
    before, live = UsageScene(), UsageScene()
    for scene in (before, live):
        scene.has("web-1", when=-51 * HOUR, containers=("main",))
        scene.has("cart-0", CART, when=-51 * HOUR, containers=("main",))
    list(history(server, before, hours=50).publish(START - timedelta(hours=50)))
    published = [event for _, event in before.scrapes()]
    for moment in sorted({event.at for event in published}):
        for event in published:
            if event.at == moment:
                _say_live(live, event)
        ticks.append(live.log, live.topics, round(moment.timestamp() * 1000))
    ticks.append(before.log, before.topics, round(START.timestamp() * 1000))
    _take(before)
    _take(live)
    newest = _newest(before)
    assert set(newest) == {WEB.key, CART.key}
    assert newest == _newest(live)
    assert newest[WEB.key][1]["main"]["samples"] == 51


def _say_live(scene: UsageScene, event: MetricsScraped) -> None:
    partition = scene.topics.partition_of(event.workloads[0])
    live = replace(event, history=False)
    scene.log.append([scene.codec.encode(live, topic="pod-metrics", key="prod", partition=partition, source="test")])
