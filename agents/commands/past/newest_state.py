"""The state of one partition of a stage at the end of the log, as in a worker: from its newest checkpoint and the log after it.

Without a checkpoint, or with one of another form, the log is replayed from its beginning. Inputs that the log lacks, because an
older version wrote it, are left out. Nothing is appended.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import replace

from msgspec import MsgspecError

from agents.commands.status import clock_silence
from agents.engine.checkpoint_selection import StoredState
from agents.engine.stage import Stage
from agents.engine.turn import State
from agents.processes.signals import stoppable
from agents.run.newest_checkpoint import newest_checkpoint
from agents.run.pipeline import stages
from agents.run.stage_runner import Runner, TaskStart
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal.output import note
from streams import truncated_topics
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.publishing import source_reports
from streams.publishing.operator_log import OperatorLog


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


def newest_of_cluster(settings: Settings, name: str, *, warn: bool = True) -> tuple[State, int]:
    """That of the stage of this name in the cluster's partition, and its turn.

    With `warn` it reports if no clock ticks, and what the log has lost.

    Raises BadInput for a cluster that no source has named, LogUnavailable.
    """
    cluster = settings.cluster.name
    with stoppable(), log_factory.log_to_read(settings) as (log, fitted):
        context = LogContext.of(log, log_factory.topics(fitted), cluster)
        [stage] = [each for each in stages(fitted) if each.name == name]
        source_reports.require_cluster(context, cluster)
        if warn:
            clock_silence.warn_of_silence(OperatorLog(context).newest_tick(), settings)
        return newest_turn(context, stage, context.topics.partition_of(cluster), settings.worker.name, say=note if warn else None)


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
