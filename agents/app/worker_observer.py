"""What a worker says of itself: log lines for what is rare, metrics for what is not, and whether it is ready.

A partition counts as ready when it has passed the end that the log had when it was opened, and is near the newest tick. Nothing
decides on what is told here.
"""

from collections.abc import Iterable

import structlog
from prometheus_client import CollectorRegistry

from agents.app.owned_partition import Held
from agents.app.worker_plan import Plan
from agents.task import TurnResult
from agents.telemetry import HealthServer, Pulse, WorkerMetrics
from schemas.units import Bytes, Seconds
from streams.log.port import Record

log = structlog.get_logger("ullage", component="worker")


class Watch:
    """Told by the worker's parts."""

    def __init__(self, plan: Plan) -> None:
        """Nothing listens until `listen`."""
        self.plan, self.registry, self.pulse = plan, CollectorRegistry(), Pulse()
        self.metrics = WorkerMetrics(self.registry, plan.behind)

    def listen(self) -> None:
        """Serve metrics and health, if the plan asks for it."""
        host, port = self.plan.metrics
        if port:
            ready, alive = self.metrics.caught_up.reasons, self.pulse.reasons
            HealthServer(self.registry, ready=ready, alive=alive).listen(host, port)

    def assigned(self, tasks: Iterable[tuple[str, int]]) -> None:
        """These (stage, partition) and no others are ours."""
        tasks = set(tasks)
        self.metrics.assigned(tasks)
        for stage, partition in tasks:
            self.metrics.closed(stage, partition)

    def recovered(self, held: Held, *, found: str, seconds: float, torn: int = 0) -> None:
        """A partition's state is at its newest known turn. `found`: "checkpoint", "memory" or "nothing"."""
        stage, partition = held.task.stage.name, held.task.partition
        self.metrics.opened(stage, partition, found=found, seconds=Seconds(seconds), torn=torn)
        log.info("recovered", stage=stage, partition=partition, found=found, turn=held.task.turn, torn=torn)

    def state_gone(self, stage: str, partition: int) -> None:
        """A group that has read before finds no state: somebody took the changelog away."""
        log.error("state gone", stage=stage, partition=partition, next="begins at the oldest kept record")

    def opened(self, held: Held) -> None:
        """It takes turns from now on."""
        self._ready(held)

    def turn(self, held: Held, taken: TurnResult, seconds: float) -> None:
        """A turn was taken."""
        stage, partition = held.task.stage.name, held.task.partition
        self.metrics.turn_taken(stage, partition, taken, seconds=Seconds(seconds), lag=held.lag)
        self.metrics.ticked(stage, partition)
        self._ready(held)

    def waiting(self, held: Held) -> None:
        """A second tick came in of an input while another has none: what gets no ticks lets the lag grow."""
        self.metrics.ticked(held.task.stage.name, held.task.partition)
        self._ready(held)

    def revoked(self, held: Held) -> None:
        """It takes no turns until it is opened again."""
        self.metrics.closed(held.task.stage.name, held.task.partition)

    def _ready(self, held: Held) -> None:
        stage, partition = held.task.stage.name, held.task.partition
        if held.caught_up:
            self.metrics.lag(stage, partition, held.lag)
        else:
            self.metrics.closed(stage, partition)

    def checkpoint(self, held: Held, size: int, seconds: float) -> None:
        """A mark is in force."""
        stage, partition = held.task.stage.name, held.task.partition
        self.metrics.checkpoint_written(stage, partition, size=Bytes(size), seconds=Seconds(seconds))

    def gap(self, stage: str, came: Record, wanted: int) -> None:
        """Faust jumped, or the log has a hole."""
        self.metrics.gap_filled(stage, came.partition, came.topic)
        log.info("gap", stage=stage, topic=came.topic, partition=came.partition, wanted=wanted, came=came.offset)

    def lost(self, stage: str, topic: str, partition: int, first: int, after: int) -> None:
        """Retention took records before they were read: from here on decisions may differ from what they would have been."""
        self.metrics.lost(stage, partition, topic, after - first)
        log.error("LOST", stage=stage, topic=topic, partition=partition, first=first, next=after)
