"""Runs `ullage source simulated`: the simulated cluster runs on the log's ticks and publishes its facts, until stopped.

For each new tick the cluster advances, `scrape` is called when it is due, and `after` lets consumers in the same process act.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import structlog

from agents.processes.process_telemetry import running_source
from agents.processes.signals import until_stopped
from agents.processes.simulated_cluster import open_shop
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.telemetry import SourceMetrics
from agents.terminal.output import note
from schemas import times
from streams.clock_log import ClockReader
from streams.errors import EdgeError, LogUnavailable
from streams.log.log_port import Log
from streams.simulated import demo_shop
from streams.simulated.api_server import SimulatedServer
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.demo_shop import ShopSettings
from streams.topics import Topics

_WAIT = 0.2
"""Seconds to wait for a tick before looking whether to stop."""
_log = structlog.get_logger(__name__)


def nothing() -> None:
    """The default for `after`."""


@dataclass(slots=True)
class SimulationLoop:
    """A simulated cluster driven by `log`. `scrape` is asked with event time, every `period` of it; `after` after each tick."""

    cluster: SimulatedCluster
    log: Log
    topics: Topics
    scrape: Callable[[datetime], object]
    after: Callable[[], object] = nothing
    period: timedelta = timedelta(seconds=60)
    _clock: ClockReader | None = field(default=None, init=False)
    _due: datetime = field(default=times.EPOCH, init=False)

    def poll_once(self, *, wait: float = 0.0) -> int:
        """Advance through the new ticks of the log; returns how many there were. Raises LogUnavailable."""
        if self._clock is None:
            # begins at the end of the topic: earlier ticks are not part of this simulation
            self._clock = ClockReader(self.log, self.topics)
            self._clock.catch_up()
        ticks = self._clock.catch_up(wait=wait)
        for tick in ticks:
            self.advance(times.from_ms(tick.number))
        return len(ticks)

    def advance(self, at: datetime) -> None:
        """Process one tick: advance, scrape when it is due, let consumers act."""
        self.cluster.advance(at)
        if at >= self._due:
            # from this tick and not from the last due time: after a jump of the clock there is one scrape and not a row of them
            self._due = at + self.period
            try:
                self.scrape(at)
            # a scrape that fails is a hole in the usage, as in a real cluster, and no reason to stop time
            except EdgeError as error:
                _log.warning("a scrape failed", at=at.isoformat(), error=str(error))
        # last, so that consumers see the cluster as it is after the tick
        self.after()

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set. While the log is away no time passes; that is said once."""
        away = False
        while not stop.is_set():
            try:
                self.poll_once(wait=_WAIT)
                away = False
            except LogUnavailable as error:
                if not away:
                    _log.warning("the log is away, simulated time stands still", error=str(error))
                away = True
                stop.wait(_WAIT)


def run(settings: Settings, port: int) -> None:
    """Run on the log's ticks until stopped, and answer like an API server on `port`."""
    ours = settings.cluster
    with (
        until_stopped(),
        running_source("simulated", settings, partial(SourceMetrics, source="simulated")) as (log, topics, metrics),
    ):
        start = ours.start or _next_tick(log, topics)
        period = timedelta(seconds=ours.period_seconds)
        chosen = ShopSettings(ours.name, ours.seed, start, period)
        chosen = demo_shop.with_groups(chosen) if ours.nodes else chosen
        shop = open_shop(chosen, log, topics, another=lambda: log_factory.log(settings))

        def after() -> None:
            metrics.dropped(shop.dropped())
            shop.after()

        world = SimulationLoop(shop.cluster, log, topics, shop.scrape, after, period)
        world.poll_once()
        with SimulatedServer(shop.cluster, port) as server:
            note(f"simulated cluster '{ours.name}' answers at {server.url}; its time follows the log's ticks")
            world.run(threading.Event())


def _next_tick(log: Log, topics: Topics) -> datetime:
    """Wait for the next tick; a cluster without a start of its own begins then."""
    clock = ClockReader(log, topics)
    clock.catch_up()
    while not (ticks := clock.catch_up(wait=0.5)):
        pass
    return times.from_ms(ticks[0].number)
