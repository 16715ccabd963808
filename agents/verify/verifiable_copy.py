"""Copies a log, with its places, so that the copy can be verified like the original, even while workers are running.

The changelogs are copied, too, because only the workers' marks show which of the last decisions were in flight; the copy notes
which workers were running.
"""

from collections.abc import Mapping, Sequence

from agents.engine.stage import Stage
from agents.verify import committed_turns
from streams.log_context import LogContext
from streams.log_range import RecordImporter, copy_range, has_topic
from streams.topics import TOPICS, changelog_topic


def export(context: LogContext, to: RecordImporter, *, stages: Sequence[Stage], worker: str) -> Mapping[str, int]:
    """Copy everything that `to` does not have yet; returns how many records of each topic were copied.

    `worker` is the name of the worker group, whose changelogs are copied if there are any. Topics that an older version did not
    have are left out.
    """
    wires = copied_topics(context, stages, worker)
    parts = committed_turns.at_work(context, worker, stages)
    copied = copy_range(context.log, to, wires)
    committed_turns.note_in_copy(to, parts, {wire: context.log.partitions(wire) for wire in wires})
    return copied


def copied_topics(context: LogContext, stages: Sequence[Stage], worker: str) -> list[str]:
    """The topics (wire names) of a whole copy that the log has, in the order in which their ends must be read."""
    changelogs = [changelog_topic(worker, stage.name) for stage in stages]
    written = [context.topics.wire(name) for stage in reversed(stages) for name in ("dead-letters", *stage.writes)]
    rest = [context.topics.wire(topic.name) for topic in TOPICS]
    # Changelogs first, then what the last stage wrote, then the one before, and inputs last. So every mark finds its decisions,
    # and every decision its inputs.
    return [wire for wire in dict.fromkeys((*changelogs, *written, *rest)) if has_topic(context.log, wire)]
