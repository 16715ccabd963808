"""What a worker reports about itself: log lines for what is rare, metrics for what is not, and whether it is ready.

A partition counts as ready when it has passed the end that the log had when it was opened, and is near the newest tick. It does
not influence decisions.
"""

import time
from collections.abc import Callable, Collection, Iterable
from functools import partial

import structlog
from prometheus_client import CollectorRegistry

from agents.app.owned_partition import OwnedPartition
from agents.app.worker_plan import WorkerPlan
from agents.engine.turn_aligner import Wait
from agents.logic.updates.updater import Updater
from agents.run.partition_task import TurnResult
from agents.telemetry import DependencyMonitor, HealthServer, Liveness, WorkerMetrics, logging_setup, process_parts
from schemas import times
from schemas.units import Bytes, Seconds
from streams.consumers.executing.control_state import TickSilence
from streams.log.connection_check import require_entry
from streams.log.log_port import Record

WAITED = Seconds(5.0)
"""Seconds without a turn after which one is said to wait. While a worker catches up, some input is always behind."""
LOOK_AFTER = Seconds(1.0)
"""Seconds after its last turn or look after which a task that waits is looked at."""
log = structlog.get_logger("ullage", component="worker")


class WorkerObserver:
    """Receives events from the worker's parts."""

    def __init__(self, plan: WorkerPlan, clock: Callable[[], float] = time.monotonic) -> None:
        """Opens no port before `listen`. `clock` counts real seconds."""
        self.plan, self.registry, self.liveness = plan, CollectorRegistry(), Liveness(clock=clock)
        self.metrics = WorkerMetrics(self.registry, plan.behind)
        self._clock = clock
        self._waits: dict[tuple[str, int], Wait | None] = {}
        self._looked: dict[tuple[str, int], float] = {}
        self._dependencies, self._silence = DependencyMonitor(logging_setup.client_log_filter()), TickSilence(clock)
        self._unnamed: Collection[str] = ()
        self._lacking: dict[tuple[str, int], tuple[int, float]] = {}
        """The last turn of each task whose next one lacks records, and since when."""
        self._held: dict[tuple[str, int], dict[str, float]] = {}
        """The inputs of each task that are read no further, and since when."""

    def listen(self) -> None:
        """Serve metrics and health, if the plan says so, and watch from now on whether Kafka answers.

        In a process of several parts that one does both, for all of them.
        """
        part = process_parts.present()
        if part is not None:
            self._dependencies = part.parts.dependencies
            part.parts.add(part.name, self.registry, ready=self.own_reasons, alive=self.liveness.reasons)
            self._dependencies.watch(f"Kafka '{self.plan.where.brokers}'", partial(require_entry, self.plan.where))
            return
        host, port = self.plan.metrics
        if port:
            HealthServer(self.registry, ready=self.not_ready, alive=self.liveness.reasons).listen(host, port)
        self._dependencies.watch(f"Kafka '{self.plan.where.brokers}'", partial(require_entry, self.plan.where))
        self._dependencies.begin()

    def not_ready(self) -> list[str]:
        """Why the process is not ready."""
        return [*self._dependencies.reasons(), *self.own_reasons()]

    def own_reasons(self) -> list[str]:
        """Why the worker is not ready. In a log that has no ticks yet, there is nothing to wait for."""
        long_turn = self.liveness.long_turn()  # no tick is read while the turn lasts, so silence says nothing about the clock
        silence = [] if long_turn else self._silence.reasons_once_heard()
        old = [
            f"no tick says how far '{name}' got, so what came there is left unread: is `ullage source clock` an older version?"
            for name in sorted(self._unnamed)
        ]
        until, held = self._clock() - WAITED, list(self._held.values())  # a copy: this runs in the thread of the server
        full = [
            f"'{name}' is read no further: what came fills worker.buffer, and no tick takes it"
            for name in sorted({name for inputs in held for name, since in inputs.items() if since <= until})
        ]
        return [*silence, *self.metrics.readiness.reasons(), *long_turn, *old, *full]

    def assigned(self, tasks: Iterable[tuple[str, int]]) -> None:
        """This worker owns these pairs of stage and partition, and no others."""
        tasks = set(tasks)
        self.metrics.assigned(tasks)
        for stage, partition in tasks:
            self.metrics.closed(stage, partition)

    def recovered(self, owned: OwnedPartition, *, found: str, seconds: float, torn: int = 0) -> None:
        """A partition's state is at its newest known turn. `found`: "checkpoint", "memory" or "nothing"."""
        stage, partition = owned.task.stage.name, owned.task.partition
        self.metrics.opened(stage, partition, found=found, seconds=Seconds(seconds), torn=torn)
        log.info("recovered", stage=stage, partition=partition, found=found, turn=owned.task.turn, torn=torn)

    def state_gone(self, stage: str, partition: int) -> None:
        """A group that has read before finds no complete state: the changelog, or a part of it, was deleted."""
        self.metrics.state_lost(stage, partition)
        log.error("state gone", stage=stage, partition=partition, next="begins at the oldest kept record")

    def checkpoint_refused(self, stage: str, partition: int, *, turn: int, reason: str) -> None:
        """A whole checkpoint was passed over, because the log contradicts it or what it names cannot be loaded."""
        self.metrics.checkpoint_refused(stage, partition)
        log.error("a checkpoint is not believed", stage=stage, partition=partition, turn=turn, reason=reason)

    def opened(self, owned: OwnedPartition) -> None:
        """The partition takes turns from now on."""
        self.held(owned)
        self._update_readiness(owned)

    def turn_began(self, owned: OwnedPartition) -> None:
        """Nothing else happens in this worker until `turn_ended`."""
        self.liveness.turn_began(f"{owned.task.stage.name}/{owned.task.partition}")

    def turn_ended(self) -> None:
        """The turn was taken, or there was none to take."""
        self.liveness.turn_ended()

    def turn(self, owned: OwnedPartition, result: TurnResult, seconds: float) -> None:
        """A turn was taken, in this many seconds."""
        stage, partition = owned.task.stage.name, owned.task.partition
        self._looked[stage, partition] = self._clock()
        self.metrics.turn_taken(stage, partition, result, seconds=Seconds(seconds))
        self.metrics.ticked(stage, partition)
        if isinstance(owned.task.state, Updater):
            self.metrics.fleet.look((stage, partition), owned.task.state.clusters)
        self._silence.moved_on(owned.task.aligner.newest)
        self._update_readiness(owned)

    def waiting(self, owned: OwnedPartition) -> None:
        """A tick came in that completes no turn: its inputs were not read up to its ends yet."""
        task, now = (owned.task.stage.name, owned.task.partition), self._clock()
        # While a worker catches up, thousands of ticks a second come in that complete no turn.
        if now - self._looked.get(task, -LOOK_AFTER) < LOOK_AFTER:
            return
        self._looked[task] = now
        self.metrics.ticked(*task)
        self._silence.moved_on(owned.task.aligner.newest)
        self._update_readiness(owned)

    def held(self, owned: OwnedPartition) -> None:
        """Which inputs of the task are read no further has changed, because too much waits, or some of it was taken."""
        task, now = (owned.task.stage.name, owned.task.partition), self._clock()
        since = self._held.pop(task, {})
        if owned.held:
            self._held[task] = {name: since.get(name, now) for name in owned.held}
        self.metrics.held(*task, owned.held)

    def unnamed(self, inputs: Collection[str]) -> None:
        """These inputs have records, and no tick has named them."""
        self._unnamed = inputs

    def revoked(self, owned: OwnedPartition) -> None:
        """The partition takes no turns until it is opened again."""
        self._held.pop((owned.task.stage.name, owned.task.partition), None)
        self.metrics.closed(owned.task.stage.name, owned.task.partition)

    def checkpoint(self, owned: OwnedPartition, size: int, seconds: float) -> None:
        """A checkpoint of `size` bytes is in force; writing it took this many seconds."""
        stage, partition = owned.task.stage.name, owned.task.partition
        self.metrics.checkpoint_written(stage, partition, size=Bytes(size), seconds=Seconds(seconds))

    def gap(self, stage: str, record: Record, wanted: int) -> None:
        """Faust jumped, or the log has a gap: `record` is not the one at the offset `wanted`."""
        self.metrics.gap_filled(stage, record.partition, record.topic)
        log.info("gap", stage=stage, topic=record.topic, partition=record.partition, wanted=wanted, came=record.offset)

    def lost(self, stage: str, topic: str, partition: int, first: int, after: int) -> None:
        """Retention deleted records before they were read. From here on decisions may differ from what they would have been."""
        self.metrics.lost(stage, partition, topic, after - first)
        log.error("LOST", stage=stage, topic=topic, partition=partition, first=first, next=after)

    def _update_readiness(self, owned: OwnedPartition) -> None:
        stage, partition = owned.task.stage.name, owned.task.partition
        if owned.caught_up:
            wait = owned.task.aligner.waits()
            waited = self._waited(stage, partition, owned.task.turn, lacks=wait is not None)
            lag = owned.lag
            # While a worker catches up some input is always behind, so a wait counts only once nothing moved for a while.
            wait = wait if lag > self.plan.behind and waited >= WAITED else None
            self.metrics.lag(stage, partition, lag, wait=wait)
            self._report_wait(stage, partition, wait)
        else:
            self.metrics.catching_up(stage, partition, owned.lag)

    def _waited(self, stage: str, partition: int, turn: int, *, lacks: bool) -> Seconds:
        """How long the turn after this one has waited for records."""
        if not lacks:
            self._lacking.pop((stage, partition), None)
            return Seconds(0.0)
        now = self._clock()
        last, since = self._lacking.get((stage, partition), (turn, now))
        self._lacking[stage, partition] = last, since = (turn, now if last != turn else since)
        return Seconds(now - since)

    def _report_wait(self, stage: str, partition: int, wait: Wait | None) -> None:
        """One line when a turn has waited for too long, and one when it was taken after all."""
        before = self._waits.get((stage, partition))
        self._waits[stage, partition] = wait
        if wait is not None and before is None:
            for_what = {"inputs": list(wait.inputs), "tick": times.from_ms(wait.tick).isoformat()}
            log.warning("a turn waits", stage=stage, partition=partition, **for_what)
        elif wait is None and before is not None:
            log.info("the turn waits no more", stage=stage, partition=partition)
