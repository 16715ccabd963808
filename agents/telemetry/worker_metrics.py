"""A worker's metrics: turns, checkpoints, recoveries, and everything that went wrong with a record.

The worker reports what happened; the same calls update `readiness`.
"""

import collections
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from agents.engine.turn_aligner import Wait
from agents.run.partition_task import TurnResult
from agents.telemetry.fleet_metrics import DeliveredRiskMetrics, FleetMetrics
from agents.telemetry.health_server import Readiness, StagePartition
from agents.telemetry.source_metrics import AgeGauge
from schemas.catalogue import CATALOGUE
from schemas.decisions.node_updates import NodeScalingHalted, ScaleRefused
from schemas.decisions.recommendations import MemoryLeakFound, RequestsRecommended
from schemas.units import Bytes, Seconds
from streams import typed_json
from streams.codec import event_codec
from streams.log.log_port import NewRecord

LAG_BOUND = Seconds(10.0)
_REFUSED, _REFUSED_KIND = "/refuse-", "update-refused"
_TASK = ("stage", "partition")
_HALTED, _LEAK = CATALOGUE.of(NodeScalingHalted).wire, CATALOGUE.of(MemoryLeakFound).wire
_RECOMMENDED = CATALOGUE.of(RequestsRecommended).wire
_SCALE_REFUSED = CATALOGUE.of(ScaleRefused).wire
_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_SLOW = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


class _ScaleRefusal(msgspec.Struct):
    """The code of a refusal to scale nodes."""

    code: str


class _Halt(msgspec.Struct):
    """The labels of a decision that a group is out; an empty code says that it is back."""

    cluster: str
    group: str
    code: str


class _LeakFound(msgspec.Struct):
    """What is counted of a decision about a memory leak; its end and what was said before are not."""

    class Workload(msgspec.Struct):
        cluster: str

    workload: Workload
    over: bool = False
    again: bool = False


Form = TypeVar("Form", bound=msgspec.Struct)


def _decoded(decisions: Iterable[NewRecord], kind: str, form: type[Form]) -> Iterator[Form]:
    """What the decisions of a kind say, as far as it is counted."""
    for record in decisions:
        if event_codec.header(record, "ce_type") == kind:
            yield typed_json.decode(record.value or b"{}", form)


@dataclass(frozen=True, slots=True)
class _TurnSeries:
    """The series that each turn of a task updates."""

    # Kept, because looking them up by labels costs more than updating them.
    took: Histogram
    records: Counter
    samples: Counter
    dead: Counter


class _InputGauge:
    """A gauge that is 1 for some inputs of a task."""

    def __init__(self, name: str, documentation: str, registry: CollectorRegistry) -> None:
        self._gauge = Gauge(name, documentation, (*_TASK, "topic"), registry=registry)
        self._shown: dict[StagePartition, set[str]] = {}

    def show(self, stage: str, partition: int, inputs: Collection[str]) -> None:
        """It is 1 for these inputs of the task, and no longer for others."""
        if not inputs and not self._shown:
            return
        shown, wanted = self._shown.pop((stage, partition), set()), set(inputs)
        # A series that is 0 would stay on the page for every input that ever was 1.
        for topic in shown - wanted:
            self._gauge.remove(stage, str(partition), topic)
        for topic in wanted - shown:
            self._gauge.labels(stage, str(partition), topic).set(1)
        if wanted:
            self._shown[stage, partition] = wanted


class WorkerMetrics:
    """The metrics of one worker, cheap enough for every turn. Partitions that the worker no longer owns disappear."""

    def __init__(self, registry: CollectorRegistry, lag_bound: Seconds = LAG_BOUND) -> None:
        """`lag_bound` is the event-time lag above which the worker is not ready."""
        self.readiness = Readiness(lag_bound)
        self._tasks: set[StagePartition] = set()
        self._make_turns(registry)
        self._make_checkpoints(registry)
        self._make_troubles(registry)
        self._risks, self.fleet = DeliveredRiskMetrics(registry), FleetMetrics(registry)

    def _make_turns(self, to: CollectorRegistry) -> None:
        self._lag = Gauge("ullage_turn_lag_seconds", "Event time of newest tick less that of last turn", _TASK, registry=to)
        self._took = Histogram("ullage_turn_seconds", "Real time to take a turn", ("stage",), registry=to, buckets=_FAST)
        self._records = Counter("ullage_records", "Records folded into state", _TASK, registry=to)
        self._samples = Counter("ullage_samples", "Usage samples folded into state", _TASK, registry=to)
        self._decisions = Counter("ullage_decisions", "Decisions published", ("stage", "kind"), registry=to)
        self._refusals = Counter("ullage_refusals", "Refusals published", ("stage", "guard"), registry=to)
        self._tick_age = AgeGauge("ullage_tick_age_seconds", "Real time since a tick came in", _TASK, to)
        self._turns: dict[StagePartition, _TurnSeries] = {}
        self._lags: dict[StagePartition, Gauge] = {}
        self._open = Gauge("ullage_partitions_open", "Partitions that take turns here", ("stage",), registry=to)

    def _make_checkpoints(self, to: CollectorRegistry) -> None:
        self._written = Counter("ullage_checkpoint_bytes", "Bytes of checkpoints", _TASK, registry=to)
        self._writing = Histogram(
            "ullage_checkpoint_seconds", "Real time to write a checkpoint", ("stage",), registry=to, buckets=_SLOW
        )
        self._checkpoint_age = AgeGauge("ullage_checkpoint_age_seconds", "Real time since the last checkpoint", _TASK, to)
        self._torn = Counter("ullage_checkpoints_torn", "Torn checkpoints passed over at recovery", _TASK, registry=to)
        self._refused = Counter("ullage_checkpoints_refused", "Whole checkpoints that were not believed", _TASK, registry=to)
        self._recoveries = Counter("ullage_recoveries", "Partitions opened", ("stage", "found"), registry=to)
        self._recovering = Histogram(
            "ullage_recovery_seconds", "Real time to open a partition", ("stage",), registry=to, buckets=_SLOW
        )

    def _make_troubles(self, to: CollectorRegistry) -> None:
        self._dead = Counter("ullage_dead_letters", "Records that could not be read", ("stage",), registry=to)
        self._lost = Counter("ullage_lost_records", "Records gone before they were read", (*_TASK, "topic"), registry=to)
        self._waits = _InputGauge("ullage_turn_waits", "1 while a turn waits too long for this input", to)
        self._held = _InputGauge("ullage_input_held", "1 while an input is read no further, as too much waits for a tick", to)
        self._states = Counter("ullage_lost_states", "States that were gone from the changelog", _TASK, registry=to)
        self._halts = Counter(
            "ullage_node_scaling_halts",
            "Times that a group was said to be out, once in ten minutes; without group: the cluster",
            ("cluster", "group"),
            registry=to,
        )
        self._leaks = Counter("ullage_memory_leaks", "Times that a container was found to leak memory", ("cluster",), registry=to)
        self._gaps = Counter("ullage_gaps_filled", "Jumps in a topic that were read again", (*_TASK, "topic"), registry=to)

    def assigned(self, tasks: Iterable[StagePartition]) -> None:
        """The worker owns these tasks and no others. One that it did not own before is not open until `opened`."""
        tasks = set(tasks)
        # Another worker shows these now, and two of them would be added up.
        for stage, partition in self._tasks - tasks:
            self._forget(stage, partition)
        self._tasks = tasks
        self.readiness.assigned(tasks)

    def closed(self, stage: str, partition: int) -> None:
        """The task takes no turns until it is opened again (revoked, or about to recover)."""
        if (stage, partition) in self._tasks:
            self.readiness.closed(stage, partition)
            self._count_open(stage)

    def opened(self, stage: str, partition: int, *, found: str, seconds: Seconds, torn: int = 0) -> None:
        """The task has its state. `found`: "checkpoint", "memory" or "nothing". It is ready once `lag` was called."""
        self._recoveries.labels(stage, found).inc()
        self._recovering.labels(stage).observe(seconds)
        self._torn.labels(stage, str(partition)).inc(torn)

    def checkpoint_refused(self, stage: str, partition: int) -> None:
        """The log contradicts a checkpoint, or its state cannot be loaded.

        That is an alarm; an older checkpoint, or the log, is used.
        """
        self._refused.labels(stage, str(partition)).inc()

    def ticked(self, stage: str, partition: int) -> None:
        """A tick came in."""
        self._tick_age.happened(stage, str(partition))

    def lag(self, stage: str, partition: int, seconds: Seconds, *, wait: Wait | None = None) -> None:
        """How far the last turn is behind the newest known tick, in event time. Also for a task that took no turn.

        `wait` is what the next turn waits for, when that takes too long.
        """
        self._show_lag(stage, partition, seconds)
        opened = self.readiness.lag(stage, partition, seconds, wait=wait)
        self._waits.show(stage, partition, wait.inputs if wait is not None else ())
        if opened:
            self._count_open(stage)

    def catching_up(self, stage: str, partition: int, lag: Seconds) -> None:
        """The task takes turns, but not all that was in the log when it was opened has come in: it counts as closed."""
        self._show_lag(stage, partition, lag)
        self.closed(stage, partition)

    def _show_lag(self, stage: str, partition: int, seconds: Seconds) -> None:
        # Kept like the series of turns: this is called for each task whenever the clock ticks.
        shown = self._lags.get((stage, partition))
        if shown is None:
            shown = self._lags[stage, partition] = self._lag.labels(stage, str(partition))
        shown.set(seconds)

    def turn_taken(self, stage: str, partition: int, taken: TurnResult, *, seconds: Seconds) -> None:
        """A turn was taken: its result, and how long it took in real time."""
        series = self._turns.get((stage, partition)) or self._series_of(stage, partition)
        series.took.observe(seconds)
        if taken.records:
            series.records.inc(taken.records)
            series.samples.inc(taken.samples)
        if taken.dead:
            series.dead.inc(len(taken.dead))
        if taken.decisions:
            self._count_decisions((stage, partition), taken.turn, taken.decisions)

    def _count_decisions(self, task: StagePartition, turn: int, decisions: Sequence[NewRecord]) -> None:
        stage = task[0]
        kinds = collections.Counter(event_codec.header(decision, "ce_type") or "unknown" for decision in decisions)
        for kind, count in kinds.items():
            self._decisions.labels(stage, kind).inc(count)
        # Most turns refuse nothing, so ids are only looked at where a kind says that there is a refusal.
        if any(_REFUSED_KIND in kind for kind in kinds):
            for decision in decisions:
                if (guard := _guard(event_codec.header(decision, "ce_id") or "")) is not None:
                    self._refusals.labels(stage, guard).inc()
        if kinds.get(_SCALE_REFUSED):
            for refusal in _decoded(decisions, _SCALE_REFUSED, _ScaleRefusal):
                self._refusals.labels(stage, refusal.code).inc()
        if kinds.get(_HALTED):
            self._count_halts(decisions)
        if kinds.get(_LEAK):
            self._count_leaks(decisions)
        if kinds.get(_RECOMMENDED):
            self._risks.decided(task, turn, decisions)

    def _count_halts(self, decisions: Iterable[NewRecord]) -> None:
        for halt in _decoded(decisions, _HALTED, _Halt):
            if halt.code:
                self._halts.labels(halt.cluster, halt.group).inc()

    def _count_leaks(self, decisions: Iterable[NewRecord]) -> None:
        for leak in _decoded(decisions, _LEAK, _LeakFound):
            if not leak.over and not leak.again:
                self._leaks.labels(leak.workload.cluster).inc()

    def _series_of(self, stage: str, partition: int) -> _TurnSeries:
        labels = (stage, str(partition))
        series = _TurnSeries(
            self._took.labels(stage), self._records.labels(*labels), self._samples.labels(*labels), self._dead.labels(stage)
        )
        self._turns[stage, partition] = series
        return series

    def checkpoint_written(self, stage: str, partition: int, *, size: Bytes, seconds: Seconds) -> None:
        """A checkpoint's mark is acknowledged."""
        self._written.labels(stage, str(partition)).inc(size)
        self._writing.labels(stage).observe(seconds)
        self._checkpoint_age.happened(stage, str(partition))

    def lost(self, stage: str, partition: int, topic: str, records: int) -> None:
        """Retention deleted records before this task read them. That is an alarm: decisions may differ from then on."""
        self._lost.labels(stage, str(partition), topic).inc(records)

    def state_lost(self, stage: str, partition: int) -> None:
        """The changelog had no complete state any more. That is an alarm: the task replays the log, as far back as it reaches."""
        self._states.labels(stage, str(partition)).inc()

    def gap_filled(self, stage: str, partition: int, topic: str) -> None:
        """A jump in a topic was noticed and read again: harmless."""
        self._gaps.labels(stage, str(partition), topic).inc()

    def held(self, stage: str, partition: int, inputs: Collection[str]) -> None:
        """These inputs of the task are read no further, and no others."""
        self._held.show(stage, partition, inputs)

    def _count_open(self, stage: str) -> None:
        self._open.labels(stage).set(self.readiness.open_partitions(stage))

    def _forget(self, stage: str, partition: int) -> None:
        self.readiness.closed(stage, partition)
        self._count_open(stage)
        self._lag.remove(stage, str(partition))
        self._lags.pop((stage, partition), None)
        self._waits.show(stage, partition, ())
        self._held.show(stage, partition, ())
        self._tick_age.forget(stage, str(partition))
        self._checkpoint_age.forget(stage, str(partition))
        self._risks.forget((stage, partition))
        self.fleet.forget((stage, partition))


def _guard(decision: str) -> str | None:
    """The guard of a refusal, which is part of the decision's id; None for other decisions."""
    # The id has it, so that no decision is decoded for this.
    _, separator, rest = decision.partition(_REFUSED)
    return rest.split("/", 1)[0] if separator else None
