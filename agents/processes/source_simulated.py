"""Runs `ullage source simulated`: the simulated cluster runs on the log's ticks and publishes its facts, until stopped."""

import threading
from datetime import datetime, timedelta
from functools import partial

from agents.processes.process_telemetry import running_source
from agents.processes.signals import until_stopped
from agents.processes.simulated_cluster import open_shop
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.telemetry import SourceMetrics
from agents.terminal.output import note
from schemas import times
from streams.clock_log import ClockReader
from streams.log.log_port import Log
from streams.simulated import demo_shop
from streams.simulated.api_server import SimulatedServer
from streams.simulated.demo_shop import ShopSettings
from streams.simulated.simulation_loop import SimulationLoop
from streams.topics import Topics


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
