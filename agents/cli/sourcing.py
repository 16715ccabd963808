"""How the sources run in processes of their own: opened log in, until somebody says stop."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agents.cli.output import note
from agents.cli.stopping import until_stopped
from agents.demo.shop import Plot, open_shop
from agents.settings import Settings, opened
from agents.telemetry import logs
from streams.codec import Codec, tick_number
from streams.log import Log
from streams.simulated.server import SimulatedServer
from streams.simulated.world import World
from streams.sources.clock import Clock, ClockSettings, TimeBase
from streams.sources.traces import Player, Playing, Trace
from streams.topics import Topics

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def clock(settings: Settings) -> None:
    """Tick until stopped."""
    ours = settings.clock
    base = TimeBase(ours.origin_ms, ours.anchor_ms, ours.speed)
    with _running("clock", settings) as (log, topics):
        note(f"ticking every {ours.period_ms} ms of event time at speed {ours.speed:g}")
        Clock(log, topics, ClockSettings(ours.period_ms, base), tell=note).run(lambda: False)


def simulated(settings: Settings, port: int) -> None:
    """Live on the log's ticks until stopped."""
    ours = settings.cluster
    with _running("simulated", settings) as (log, topics):
        start = ours.start or _first_tick(log, topics)
        period = timedelta(seconds=ours.period_seconds)
        shop = open_shop(Plot(ours.name, ours.seed, start, period), log, topics)
        world = World(shop.cluster, log, topics, shop.scrape, shop.after, period)
        world.poll_once()
        with SimulatedServer(shop.cluster, port) as server:
            note(f"simulated cluster '{ours.name}' answers at {server.url}; its time follows the log's ticks")
            world.run(threading.Event())


@contextmanager
def _running(name: str, settings: Settings) -> Iterator[tuple[Log, Topics]]:
    logs.set_up(name)
    with until_stopped(), opened.log(settings) as log:
        yield log, opened.topics(settings)


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


def traces(settings: Settings, file: Path, seconds: float | None) -> None:
    """Play a trace as fast as asked for, with its own ticks; end with it, or after so many seconds."""
    with Trace(file) as trace, _running("traces", settings) as (log, topics):
        note(f"playing {trace.rows} samples of {len(trace.names)} containers")
        until = None if seconds is None else time.monotonic() + seconds
        player = Player(trace, log=log, codec=Codec(topics), topics=topics, playing=Playing(cluster=settings.cluster.name))
        told = 0
        for progress in player.play():
            if progress.rows * 10 // progress.of > told:
                told = progress.rows * 10 // progress.of
                note(f"{progress.rows} of {progress.of} samples, {progress.at:%Y-%m-%d %H:%M}")
            if until is not None and time.monotonic() > until:
                return
