"""The state of one partition of a stage at the end of the log, as in a worker: from its newest checkpoint and the log after it.

Without a checkpoint, or with one of another form, the log is replayed from its beginning. Inputs that the log lacks, because an
older version wrote it, are left out. Nothing is appended.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from msgspec import MsgspecError

from agents.commands.status import status_rows
from agents.commands.status.status_rows import length
from agents.engine.checkpoint_selection import StoredState
from agents.engine.stage import Stage
from agents.engine.turn import State
from agents.logic.updates.updater import Updater
from agents.processes.signals import stoppable
from agents.run.newest_checkpoint import newest_checkpoint
from agents.run.pipeline import stages
from agents.run.stage_runner import Runner, TaskStart
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal.output import note
from schemas import times
from streams import truncated_topics
from streams.errors import BadInput
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.publishing import source_reports
from streams.publishing.operator_log import NewestTick, OperatorLog

if TYPE_CHECKING:
    from agents.logic.nodes.scaler.scaler_stage import Scaler


def newest_turn(
    context: LogContext, stage: Stage, partition: int, worker: str, *, say: Callable[[str], None] | None = None
) -> tuple[State, int]:
    """The state after the last turn of the log, and that turn's number (below 0 if there was none). Raises LogUnavailable.

    `worker`: the group whose checkpoints count. `say` receives a sentence on what the state lacks because the log no longer has
    it. Topics that the log never had count as empty.
    """
    # an older version's log lacks topics that came later
    stage = replace(stage, reads=tuple(name for name in stage.reads if has_topic(context.log, context.topics.wire(name))))
    start = _start(context, stage, partition, worker)
    # with a checkpoint, what retention took from before it is not needed
    if start is None and say is not None:
        lost = truncated_topics.sentence(
            truncated_topics.late_starts(context.log, context.topics, stage.reads, partition=partition)
        )
        if lost:
            say(f"no checkpoint serves, so this is reckoned from what is kept; {lost}")
    starts: Mapping[tuple[str, int], TaskStart] = {} if start is None else {(stage.name, partition): start}
    runner = Runner((stage,), context, starts, only=(partition,))
    while runner.read():
        for _ in runner.turns():
            pass
    return runner.tasks[0].state, runner.tasks[0].turn


_BEHIND_MS = 60_000
"""Event time that a state may be behind the newest tick, which may come while it is read."""


@dataclass(frozen=True, slots=True)
class ClusterStates:
    """The states of one cluster's stages at the end of a log that is open. `context` reads it; `tick` is its newest."""

    context: LogContext
    tick: NewestTick | None
    _settings: Settings
    _notes: set[str] = field(default_factory=set)

    def of(self, name: str) -> tuple[State, int]:
        """That of the stage of this name in the cluster's partition, and its turn. Says once what the log has lost, or lacks."""
        [stage] = [stage for stage in stages(self._settings) if stage.name == name]
        partition = self.context.topics.partition_of(self.context.cluster)
        state, turn = newest_turn(self.context, stage, partition, self._settings.worker.name, say=self._say_once)
        # a turn below 0 means that none was taken, which is not late
        if self.tick is not None and 0 <= turn < times.to_ms(self.tick.at) - _BEHIND_MS:
            behind = length((times.to_ms(self.tick.at) - turn) / 1000)
            lacks = f"what stage '{name}' reads lacks records, and `ullage status` says where"
            self._say_once(f"this is as of {times.from_ms(turn):%Y-%m-%d %H:%M:%S} UTC, {behind} before the newest tick: {lacks}")
        return state, turn

    def scaler(self) -> "tuple[Scaler, int]":
        """That of the scaler, and its turn, which is below 0 if it has taken none."""
        from agents.logic.nodes.scaler.scaler_stage import Scaler

        state, turn = self.of("scaler")
        assert isinstance(state, Scaler)  # noqa: S101  # the stage opens nothing else
        return state, turn

    def updater(self) -> Updater:
        """That of the updater. Raises BadInput for a log that no clock has ticked in."""
        state, _ = self.of("updater")
        if not isinstance(state, Updater) or state.turn == 0:
            why = "is `ullage source clock` running?"
            if self.tick is not None:
                why = "the clock ticks, but what stage 'updater' reads lacks records, and `ullage status` says where"
            raise BadInput(f"the log holds no turn that is complete yet: {why}")
        return state

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._notes:
            self._notes.add(sentence)
            note(sentence)


@contextmanager
def cluster_states(settings: Settings) -> Iterator[ClusterStates]:
    """The states of the cluster of the settings, of a log that is opened once; reports if no clock ticks.

    Raises BadInput for a cluster that no source has named, LogUnavailable.
    """
    with stoppable(), log_factory.context_to_read(settings) as (context, fitted):
        source_reports.require_cluster(context, settings.cluster.name)
        tick = OperatorLog(context).newest_tick()
        status_rows.warn_of_silence(tick, settings)
        yield ClusterStates(context, tick, fitted)


def _start(context: LogContext, stage: Stage, partition: int, worker: str) -> TaskStart | None:
    checkpoint = newest_checkpoint(context, stage, partition, worker).found
    state = None if checkpoint is None else _loaded(stage, partition, checkpoint)
    if checkpoint is None or state is None:
        return None
    begins = {name: context.log.begin(context.topics.wire(name), partition) for name in stage.reads}
    # a topic that came after the checkpoint is read from its beginning
    positions = {name: checkpoint.mark.positions.get(name, begins[name]) for name in stage.reads}
    return TaskStart(checkpoint.mark.turn, positions, state, checkpoint.mark.tick)


def _loaded(stage: Stage, partition: int, checkpoint: StoredState) -> State | None:
    """The state that a checkpoint holds; None for one that another version wrote in another form."""
    state = stage.open(partition)
    try:
        for name in sorted(checkpoint.chunks):
            state.load(name, checkpoint.chunks[name])
    # another version's form: replay from the beginning gives the state, only slower
    except (KeyError, ValueError, IndexError, TypeError, struct.error, MsgspecError):
        return None
    return state
