"""How the sources run in processes of their own: opened log in, until somebody says stop."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from prometheus_client import CollectorRegistry

from agents.pipeline import ticked_topics
from agents.processes.output import note
from agents.processes.process_metrics import telling
from agents.processes.signals import until_stopped
from agents.processes.simulated_cluster import open_shop
from agents.processes.simulation_pace import SimulationPace
from agents.settings import log_factory
from agents.settings.tree import Settings
from agents.telemetry import ClockMetrics, ObservedLog, SourceMetrics
from agents.telemetry.observed_log import LogObserver
from streams.codec.event_codec import Codec, tick_number
from streams.errors import BadInput
from streams.log.port import Log
from streams.publishing.operator import Operator
from streams.simulated.api_server import SimulatedServer
from streams.simulated.demo_shop import ShopSettings
from streams.simulated.world import World
from streams.sources.clock import Clock, ClockSettings, TimeBase, wall_ms
from streams.sources.traces import Player, Playing, Trace
from streams.topics import Topics

W = TypeVar("W", bound=LogObserver)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def clock(settings: Settings, *, in_step: bool) -> None:
    """Tick until stopped."""
    ours = settings.clock
    base = TimeBase(ours.origin_ms, ours.anchor_ms, ours.speed)
    with _running("clock", settings, partial(ClockMetrics, ticked=ticked_topics())) as (log, topics, _):
        note(f"ticking every {ours.period_ms} ms of event time at speed {ours.speed:g}")
        with log_factory.log(settings) as aside:
            time.sleep(max(0, ours.anchor_ms - wall_ms()) / 1000)
            sleep = SimulationPace(aside, topics).sleep if in_step else time.sleep
            how = ClockSettings(ours.period_ms, base)
            Clock(log, topics, how, ticked=ticked_topics(), sleep=sleep, tell=note).run(lambda: False)


def simulated(settings: Settings, port: int) -> None:
    """Live on the log's ticks until stopped."""
    ours = settings.cluster
    with _running("simulated", settings, partial(SourceMetrics, source="simulated")) as (log, topics, metrics):
        start = ours.start or _first_tick(log, topics)
        period = timedelta(seconds=ours.period_seconds)
        shop = open_shop(
            ShopSettings(ours.name, ours.seed, start, period), log, topics, another=lambda: log_factory.log(settings)
        )

        def after() -> None:
            metrics.dropped(shop.dropped())
            shop.after()

        world = World(shop.cluster, log, topics, shop.scrape, after, period)
        world.poll_once()
        with SimulatedServer(shop.cluster, port) as server:
            note(f"simulated cluster '{ours.name}' answers at {server.url}; its time follows the log's ticks")
            world.run(threading.Event())


@contextmanager
def _running(
    name: str, settings: Settings, watching: Callable[[CollectorRegistry, Topics], W]
) -> Iterator[tuple[Log, Topics, W]]:
    topics = log_factory.topics(settings)
    with until_stopped(), telling(name, settings) as registry, log_factory.log(settings) as log:
        metrics = watching(registry, topics)
        yield ObservedLog(log, metrics), topics, metrics


def _first_tick(log: Log, topics: Topics) -> datetime:
    """The next tick that comes in: when a cluster begins that was given no time."""
    at = (topics.wire("control"), 0)
    position = log.end(*at)
    while True:
        for record in log.poll({at: position}, wait=0.5):
            position = record.offset + 1
            number = tick_number(record)
            if number is not None:
                return _EPOCH + timedelta(milliseconds=number)


def _refuse_the_past(log: Log, topics: Topics, *, begin: datetime) -> None:
    """A tick counts only above all earlier ones: a trace from before the log's newest tick would make no turn of its own."""
    newest = Operator(log, topics, Codec(topics)).tick()
    if newest is not None and newest.at >= begin:
        raise BadInput(
            f"the trace begins at {begin:%Y-%m-%d %H:%M:%S} UTC, but the newest tick in '{topics.wire('control')}' is of "
            f"{newest.at:%Y-%m-%d %H:%M:%S} UTC, and time does not go back; play it into topics of its own, as in "
            "--set topics.prefix=trace (and without a clock, for it brings its own ticks)"
        )


def traces(settings: Settings, file: Path, speed: float, seconds: float | None) -> None:
    """Play a trace at a speed, or so that it takes so many seconds, with its own ticks; ends with it."""
    with _running("traces", settings, partial(SourceMetrics, source="traces")) as (log, topics, _), Trace(file) as trace:
        pace = speed if seconds is None else max(1.0, (trace.last - trace.first) / seconds)
        note(f"playing {trace.rows} samples of {len(trace.names)} containers" + (f" at speed {pace:.0f}" if pace else ""))
        playing = Playing(cluster=settings.cluster.name, speed=pace)
        player = Player(trace, log=log, codec=Codec(topics), topics=topics, ticked=ticked_topics(), playing=playing)
        _refuse_the_past(log, topics, begin=datetime.fromtimestamp(trace.first + player.shift(), UTC))
        told = 0
        for progress in player.play():
            if progress.rows * 10 // progress.of > told:
                told = progress.rows * 10 // progress.of
                note(f"{progress.rows} of {progress.of} samples, {progress.at:%Y-%m-%d %H:%M}")
