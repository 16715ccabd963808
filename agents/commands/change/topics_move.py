"""Runs `topics move`: copies the log into topics that have another number of partitions, with the state of every stage.

Nothing is taken from the log that is moved, so whoever regrets it goes back to the old settings.
"""

from datetime import UTC, datetime

from agents.commands.change.topics import require_kafka, wanted
from agents.run import newest_checkpoint
from agents.run.pipeline import stages
from agents.run.stage_runner import Runner
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal.output import note, sentence
from agents.verify.committed_turns import committed
from streams import clock_log, repartitioned_copy
from streams.admin import topic_admin
from streams.errors import BadInput
from streams.log.log_port import Log
from streams.log_context import LogContext
from streams.publishing import source_reports

_SHOWN = 3


def run(settings: Settings, *, partitions: int, to: str) -> None:
    """Move; `to` is the prefix and the workers' name from then on. Raises BadInput while anybody is at work on the log."""
    require_kafka(settings)
    there = elsewhere(settings, partitions, to)
    with log_factory.log_to_write(settings) as log:
        # what a worker decides after the copy would be lost with the old topics
        now = datetime.now(UTC)  # noqa: TID251  # a driver, and sources that are at work report in real time
        require_quiet(LogContext.of(log, log_factory.topics(settings)), settings, now)
        with topic_admin.connect(log_factory.answering_connection(settings), right=topic_admin.CHANGE) as client:
            # planned as `topics apply` plans, so that the new topics are as it would make them
            topic_admin.apply(client, topic_admin.plan(client, wanted(there)))
        count = move(log, settings, there)
    # consumers read without groups, so one that has nothing to do leaves no sign
    note("what a consumer, a source or a person still writes into the old topics is lost: see that all of them have ended")
    note(f"{count:,} records copied, and the state of every stage; the old topics are as they were")
    sentence(f"from now on: topics.prefix={to} topics.partitions={partitions} worker.name={to}")


def elsewhere(settings: Settings, partitions: int, to: str) -> Settings:
    """The settings of the log that is made. Raises BadInput for the prefix or the name that the log has."""
    if to in (settings.topics.prefix, settings.worker.name):
        raise BadInput(f"'{to}' is the prefix or the workers' name of this log; a moved log needs another for both")
    topics = settings.topics.model_copy(update={"prefix": to, "partitions": partitions})
    return settings.model_copy(update={"topics": topics, "worker": settings.worker.model_copy(update={"name": to})})


def move(log: Log, settings: Settings, there: Settings) -> int:
    """Copy the log, and write a checkpoint of every stage at its last turn; how many records were copied."""
    new = LogContext.of(log, log_factory.topics(there))
    count = repartitioned_copy.copy(LogContext.of(log, log_factory.topics(settings)), new, lambda done: note(f"{done:,} records"))
    runner = Runner(stages(there), new)
    while runner.read():
        for _ in runner.turns():
            pass  # what these turns decided is in the log already
    last = repartitioned_copy.moved_until(new)
    for task in runner.tasks:
        # from a checkpoint of an earlier turn that turn would be decided again in the new topics
        if task.turn != last:
            raise BadInput(f"{task.source} came to turn {task.turn} of {last}: an input of the copy lacks what its ticks say")
    newest_checkpoint.write(log, runner.tasks, there.worker.name, family="moved")
    return count


def require_quiet(context: LogContext, settings: Settings, now: datetime) -> None:
    """Raises BadInput while a worker or a source is at work, or the last turn is not taken: what they still say would be lost.

    `now` is the real time.
    """
    newest = clock_log.newest(context.log, context.topics)
    listed = stages(settings)
    marks = committed(context, settings.worker.name, listed)
    parts = [(stage.name, partition) for stage in listed for partition in range(context.topics.partitions)]
    if at_work := [f"{name}/{p}" for name, p in parts if (name, p) in marks and marks[name, p].at_work]:
        raise BadInput(f"workers are at work on {', '.join(at_work[:_SHOWN])}: end them first, and all sources and consumers")
    last = -1 if newest is None else newest.number
    if behind := [f"{name}/{p}" for name, p in parts if (name, p) not in marks or marks[name, p].turn < last]:
        raise BadInput(
            f"no checkpoint of {', '.join(behind[:_SHOWN])} is of the newest tick: end the clock, let the workers take what is "
            "there, and end them with SIGTERM, at which they write their last checkpoint"
        )
    for (cluster, source), report in sorted(source_reports.newest_reports(context).items()):
        ago, late = (now - report.at).total_seconds(), source_reports.late(report)
        # a log of another time, as a simulated one, says nothing of who is at work now
        if abs(ago) <= late:
            raise BadInput(
                f"source '{source}' of cluster '{cluster}' reported {ago:.0f} s ago, and does so every {report.period:g} s: "
                f"end all sources and consumers, and move once {late:g} s have passed without a report"
            )
