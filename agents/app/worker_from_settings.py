"""From settings to the plan of a live worker. Refuses a log that is not Kafka: there is nothing to share among workers."""

from agents import pipeline
from agents.app.worker_plan import Pacing, Plan
from agents.settings import loading, log_factory
from agents.settings.tree import Settings
from schemas.units import Seconds
from streams.errors import BadInput

READY_WITHIN = 10.0
"""Seconds of real time that a worker may be behind and still be ready; with rare ticks two periods of them."""


def plan(settings: Settings | None = None) -> Plan:
    """The plan that these settings ask for; without any, those of the settings file and the environment."""
    told = loading.load().settings if settings is None else settings
    if told.log.kind != "kafka":
        raise BadInput(f"log.kind is '{told.log.kind}', but a worker needs 'kafka'; `ullage simulate` and `backtest` need none")
    worker = told.worker
    return Plan(
        where=log_factory.connection(told),
        topics=log_factory.topics(told),
        stages=pipeline.stages(told),
        name=worker.name,
        pacing=Pacing(Seconds(worker.checkpoint_least), Seconds(worker.checkpoint_most), worker.checkpoint_rate),
        buffer=worker.buffer,
        metrics=(told.metrics.host, told.metrics.port),
        behind=Seconds(max(READY_WITHIN * max(1.0, told.clock.speed), 2 * told.clock.period_ms / 1000)),
    )
