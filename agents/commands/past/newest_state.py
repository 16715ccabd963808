"""The state of one partition of a stage at the end of the log, as in a worker: from its newest checkpoint and the log after it.

Without a checkpoint, or with one of another form, the log is replayed from its beginning. Inputs that the log lacks, because an
older version wrote it, are left out. Nothing is appended.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from msgspec import MsgspecError

from agents.commands.status import clock_silence
from agents.engine.checkpoint_selection import StoredState
from agents.engine.stage import Stage
from agents.engine.turn import State
from agents.logic.nodes.scaler.scaler_stage import Scaler
from agents.logic.updates.updater import Updater
from agents.processes.signals import stoppable
from agents.run.newest_checkpoint import newest_checkpoint
from agents.run.pipeline import stages
from agents.run.stage_runner import Runner, TaskStart
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal.output import note
from streams import truncated_topics
from streams.errors import BadInput
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.publishing import source_reports
from streams.publishing.operator_log import NewestTick, OperatorLog


def newest_state(context: LogContext, stage: Stage, partition: int, worker: str) -> State:
    """The state after the last turn that the log holds. `worker`: the group whose checkpoints count. Raises LogUnavailable."""
    return newest_turn(context, stage, partition, worker)[0]


def newest_turn(
    context: LogContext, stage: Stage, partition: int, worker: str, *, say: Callable[[str], None] | None = None
) -> tuple[State, int]:
    """That state, and the number of that turn (below 0 if there was none). Raises LogUnavailable.

    `say` receives a sentence on what the state lacks because the log no longer has it. Topics that the log never had, because an
    older version wrote it, count as empty.
    """
    stage = replace(stage, reads=tuple(name for name in stage.reads if has_topic(context.log, context.topics.wire(name))))
    start = _start(context, stage, partition, worker)
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


@dataclass(frozen=True, slots=True)
class ClusterStates:
    """The states of one cluster's stages at the end of a log that is open. `context` reads that log."""

    context: LogContext
    _settings: Settings
    _said: set[str] = field(default_factory=set)

    def of(self, name: str) -> tuple[State, int]:
        """That of the stage of this name in the cluster's partition, and its turn. Says once what the log has lost."""
        [stage] = [each for each in stages(self._settings) if each.name == name]
        partition = self.context.topics.partition_of(self.context.cluster)
        return newest_turn(self.context, stage, partition, self._settings.worker.name, say=self._say_once)

    def scaler(self) -> tuple[Scaler, int]:
        """That of the scaler, and its turn, which is below 0 if it has taken none."""
        state, turn = self.of("scaler")
        assert isinstance(state, Scaler)  # noqa: S101  # the stage opens nothing else
        return state, turn

    def updater(self) -> Updater:
        """That of the updater. Raises BadInput for a log that no clock has ticked in."""
        state, _ = self.of("updater")
        if not isinstance(state, Updater) or state.turn == 0:
            raise BadInput("the log holds no turn that is complete yet: is `ullage source clock` running?")
        return state

    def newest_tick(self) -> NewestTick | None:
        """The newest tick of the log."""
        return OperatorLog(self.context).newest_tick()

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            note(sentence)


@contextmanager
def cluster_states(settings: Settings) -> Iterator[ClusterStates]:
    """The states of the cluster of the settings, of a log that is opened once; reports if no clock ticks.

    Raises BadInput for a cluster that no source has named, LogUnavailable.
    """
    with stoppable(), log_factory.log_to_read(settings) as (log, fitted):
        states = ClusterStates(LogContext.of(log, log_factory.topics(fitted), settings.cluster.name), fitted)
        source_reports.require_cluster(states.context, settings.cluster.name)
        clock_silence.warn_of_silence(states.newest_tick(), settings)
        yield states


def _start(context: LogContext, stage: Stage, partition: int, worker: str) -> TaskStart | None:
    found = newest_checkpoint(context, stage, partition, worker).found
    state = None if found is None else _loaded(stage, partition, found)
    if found is None or state is None:
        return None
    begins = {name: context.log.begin(context.topics.wire(name), partition) for name in stage.reads}
    positions = {name: found.mark.positions.get(name, begins[name]) for name in stage.reads}
    return TaskStart(found.mark.turn, positions, state, found.mark.tick)


def _loaded(stage: Stage, partition: int, found: StoredState) -> State | None:
    """The state that a checkpoint holds; None for one that another version wrote in another form."""
    state = stage.open(partition)
    try:
        for name in sorted(found.chunks):
            state.load(name, found.chunks[name])
    except (KeyError, ValueError, IndexError, TypeError, struct.error, MsgspecError):
        return None
    return state
