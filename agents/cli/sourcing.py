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

from agents.cli.output import note
from agents.cli.stopping import until_stopped
from agents.cli.stride import Stride
from agents.cli.telling import telling
from agents.demo.shop import Plot, open_shop
from agents.settings import Settings, opened
from agents.telemetry import ClockMetrics, SourceMetrics, WatchedLog
from agents.telemetry.watched import Watcher
from streams.codec import Codec, tick_number
from streams.log import Log
from streams.simulated.server import SimulatedServer
from streams.simulated.world import World
from streams.sources.clock import Clock, ClockSettings, TimeBase, wall_ms
from streams.sources.traces import Player, Playing, Trace
from streams.topics import Topics

W = TypeVar("W", bound=Watcher)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def clock(settings: Settings, *, in_step: bool) -> None:
    """Tick until stopped."""
    ours = settings.clock
    base = TimeBase(ours.origin_ms, ours.anchor_ms, ours.speed)
    with _running("clock", settings, ClockMetrics) as (log, topics, _):
        note(f"ticking every {ours.period_ms} ms of event time at speed {ours.speed:g}")
        with opened.log(settings) as aside:
            time.sleep(max(0, ours.anchor_ms - wall_ms()) / 1000)
            sleep = Stride(aside, topics).sleep if in_step else time.sleep
            Clock(log, topics, ClockSettings(ours.period_ms, base), sleep=sleep, tell=note).run(lambda: False)


def simulated(settings: Settings, port: int) -> None:
    """Live on the log's ticks until stopped."""
    ours = settings.cluster
    with _running("simulated", settings, partial(SourceMetrics, source="simulated")) as (log, topics, metrics):
        start = ours.start or _first_tick(log, topics)
        period = timedelta(seconds=ours.period_seconds)
        shop = open_shop(Plot(ours.name, ours.seed, start, period), log, topics, another=lambda: opened.log(settings))

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
    topics = opened.topics(settings)
    with until_stopped(), telling(name, settings) as registry, opened.log(settings) as log:
        metrics = watching(registry, topics)
        yield WatchedLog(log, metrics), topics, metrics


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


def traces(settings: Settings, file: Path, speed: float, seconds: float | None) -> None:
    """Play a trace at a speed, or so that it takes so many seconds, with its own ticks; ends with it."""
    with _running("traces", settings, partial(SourceMetrics, source="traces")) as (log, topics, _), Trace(file) as trace:
        pace = speed if seconds is None else max(1.0, (trace.last - trace.first) / seconds)
        note(f"playing {trace.rows} samples of {len(trace.names)} containers" + (f" at speed {pace:.0f}" if pace else ""))
        playing = Playing(cluster=settings.cluster.name, speed=pace)
        told = 0
        for progress in Player(trace, log=log, codec=Codec(topics), topics=topics, playing=playing).play():
            if progress.rows * 10 // progress.of > told:
                told = progress.rows * 10 // progress.of
                note(f"{progress.rows} of {progress.of} samples, {progress.at:%Y-%m-%d %H:%M}")
