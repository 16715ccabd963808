"""A load that only Prometheus tells, forecast and scaled by on a real control plane; then Prometheus dies.

All is real but the worker's process: a Prometheus filled with eight days, the load source, the forecaster, the metrics API,
the autoscalers consumer and the HPA controller. Event time goes a minute a second, so that a forecast is soon old.
"""

import math
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agents.logic.replicas.metric_series import WantedLoads
from agents.processes.source_load import LoadWishesOfObjects
from agents.run import pipeline
from agents.run.stage_runner import Runner
from agents.settings.all_settings import ClockSettings, Settings, TopicSettings
from schemas import times
from schemas.decisions.replica_plans import LoadForecast
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import AlgorithmOptions, DspOptions, MetricSpec, MetricTarget, PredictionOptions
from schemas.policies.vpa import TargetRef
from streams.clients.prometheus import Prometheus
from streams.codec.event_codec import is_of_a_clock
from streams.errors import Unreachable
from streams.log_context import LogContext
from streams.sources.load_queries import LoadQueries
from streams.sources.load_source import LoadSource
from tests.controlplane import prometheus_package
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.replicas import CLUSTER, HPAS, Replicas
from tests.controlplane.world import World

LONG = 60.0
STEP = 60
END = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
START = END - timedelta(hours=6)
"""Event time when the test begins; Prometheus knows six hours more, so that there is always a value of now."""
RUSH = timedelta(minutes=30)
"""After the start, and a day and two days before it: the load is 0.4 cores from then on for two hours, and else 0.06."""
QUERY = 'sum(busy_cores{app="ahead"})'


def _load(at: datetime) -> float:
    return 0.4 if timedelta() <= (at - START - RUSH) % timedelta(days=1) < timedelta(hours=2) else 0.06


def _exposition() -> Iterator[str]:
    yield "# TYPE busy_cores gauge"
    count = int(timedelta(days=8) / timedelta(seconds=STEP))
    for at in (END - timedelta(seconds=STEP * back) for back in reversed(range(count))):
        yield f'busy_cores{{app="ahead"}} {_load(at):.3f} {at.timestamp():.0f}'
    yield "# EOF"


class Worker:
    """The forecaster stage over the log, and the load source beside it; `dead` once the server does not answer."""

    def __init__(self, scaled: Replicas, url: str) -> None:
        settings = Settings(topics=TopicSettings(partitions=2), cluster={"name": CLUSTER})
        (stage,) = (each for each in pipeline.stages(settings) if each.name == "forecaster")
        scaled.ticked |= set(stage.reads)
        context = LogContext.of(scaled.log, scaled.topics, CLUSTER)
        self._runner = Runner([stage], context)
        wanted = WantedLoads(CLUSTER, scaled.topics.partition_of, settings.replicas.most_metrics)
        self._source = LoadSource(LoadQueries(Prometheus(url)), context, LoadWishesOfObjects(wanted))
        self._scaled, self.dead = scaled, False

    def run(self, stop: threading.Event) -> None:
        """Ask and forecast until stopped."""
        while not stop.wait(1.0):
            try:
                self._source.scrape(self._scaled.now())
            except Unreachable:
                self.dead = True
            self._runner.run()
        self._source.close()


@pytest.fixture
def scaled(plane: Plane) -> Iterator[Replicas]:
    anchor = datetime.now(UTC)
    clock = ClockSettings(speed=60.0, origin_ms=times.to_ms(START), anchor_ms=times.to_ms(anchor))
    home, world = World(plane.ask), World(plane.ask)
    made = Replicas(plane, home, world, clock)
    yield made
    made.close()
    world.close()
    home.close()


def _forecasts(scaled: Replicas) -> list[LoadForecast]:
    places = {(scaled.topics.wire("load-forecasts"), p): 0 for p in range(2)}
    records = [record for record in scaled.log.poll(places, limit=100_000) if not is_of_a_clock(record)]
    found = [scaled.codec.decode(record) for record in records]
    return sorted((event for event in found if isinstance(event, LoadForecast)), key=lambda event: event.at)


@pytest.mark.timeout(300)
def test_when_prometheus_is_dead_its_forecasts_expire_and_live_metrics_rule(scaled: Replicas, tmp_path: Path) -> None:
    binaries = prometheus_package.programs()
    (tmp_path / "samples").write_text("\n".join(_exposition()) + "\n")
    (tmp_path / "prometheus.yml").write_text("global: {}\n")
    (tmp_path / "data").mkdir()
    prometheus_package.run([str(binaries / "promtool"), "tsdb", "create-blocks-from", "openmetrics", "samples", "data"], tmp_path)
    scaled.world.deployment("ahead", replicas=2)
    scaled.loads["ahead"] = 0.06
    scaled.registered()
    stop = threading.Event()
    with prometheus_package.server(tmp_path) as url:
        worker = Worker(scaled, url)
        thread = threading.Thread(target=worker.run, args=(stop,), daemon=True)
        thread.start()
        scaled.say(_changed(scaled, scaled.ehpa("ahead")))
        wait_for(lambda: scaled.replicas("ahead") >= 8, timeout=LONG, what="8 pods and more for 400m that are to come")
        assert not worker.dead
        (metric,) = _forecasts(scaled)[-1].metrics
        assert max(metric.values) == pytest.approx(0.4, rel=0.25)
    try:
        wait_for(lambda: worker.dead, what="the source saw that nobody answers")
        wait_for(
            lambda: _forecasts(scaled)[-1].metrics[0].reason == "Stale", timeout=LONG, what="the forecast goes, and says why"
        )
        wait_for(lambda: _asks_for(scaled) == [""], timeout=LONG, what="no forecast in the HPA")
        wait_for(lambda: scaled.replicas("ahead") == math.ceil(0.06 / 0.05), timeout=LONG, what="the live load rules")
    finally:
        stop.set()
        thread.join(60.0)


def _asks_for(scaled: Replicas) -> list[str]:
    found = scaled.found(HPAS, "ehpa-ahead")
    return [each.get("external", {}).get("metric", {}).get("name", "") for each in found["spec"]["metrics"]]


def _changed(scaled: Replicas, made: dict[str, dict[str, str]]) -> EhpaChanged:
    """What a source says of it: its CPU is what the query gives."""
    return EhpaChanged(
        scaled.now(),
        CLUSTER,
        scaled.world.namespace,
        "ahead",
        scaled.now(),
        TargetRef("Deployment", "ahead", "apps/v1"),
        max_replicas=10,
        min_replicas=2,
        metrics=(MetricSpec("Resource", "cpu", MetricTarget("AverageValue", average_value="50m")),),
        prediction=PredictionOptions(3600, AlgorithmOptions("dsp", DspOptions("1m", "7d"))),
        annotations={"metric-query.autoscaling.crane.io/resource.cpu": QUERY},
        uid=made["metadata"]["uid"],
        generation=2,
    )
