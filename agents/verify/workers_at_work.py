"""Whether workers are running on a log: only then can decisions be in flight that are not in the log yet.

A broker says who is in the workers' group, and which partitions each holds. Without a broker no worker is running. But a copy of
a log notes on which partitions workers were running when it was made, which is valid while the copy ends where it ended then.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

from agents.engine.stage import Stage
from agents.verify.verification_report import Part
from streams.errors import BadInput
from streams.incidents.incident_copy import IncidentLog
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.log_range import RecordImporter, has_topic

NOTES = "ullage-copied"
"""The topic of a copy (never of a broker) with what the log was when it was copied."""
_KEY = b"copied"


def at_work(context: LogContext, worker: str, stages: Sequence[Stage]) -> frozenset[Part]:
    """The partitions on which a worker of this name is running, or was when this copy was made. Raises LogUnavailable."""
    held_by: Callable[[str], Iterable[tuple[str, int]] | None] | None = getattr(context.log, "held_by", None)
    # Only Kafka's log can say it; without a broker no worker is running.
    if held_by is not None:
        return _held(context, stages, held_by(worker))
    if isinstance(context.log, IncidentLog):
        return frozenset(context.log.manifest.at_work)
    if not has_topic(context.log, NOTES):
        return frozenset()
    newest: Mapping[str, Any] = {"at_work": [], "ends": {}}
    position = 0
    while records := context.log.poll({(NOTES, 0): position}):
        newest, position = orjson.loads(records[-1].value or b""), records[-1].offset + 1
    # The notes hold for as long as the copy ends where it ended then.
    if any(context.log.end(wire, p) != end for wire, ends in newest["ends"].items() for p, end in enumerate(ends)):
        return frozenset()
    return frozenset((stage, partition) for stage, partition in newest["at_work"])


def _held(context: LogContext, stages: Sequence[Stage], places: Iterable[tuple[str, int]] | None) -> frozenset[Part]:
    """The partitions whose inputs are all held, so that a worker takes their turns; during a rebalance, all partitions."""
    parts = [(stage, p) for stage in stages for p in range(context.topics.partitions)]
    if places is None:
        return frozenset((stage.name, p) for stage, p in parts)
    there = set(places)
    return frozenset(
        (stage.name, p) for stage, p in parts if all((context.topics.wire(name), p) in there for name in stage.reads)
    )


def note_in_copy(to: RecordImporter, parts: Iterable[Part], wires: Mapping[str, int]) -> None:
    """Note in a copy on which partitions workers were running. `wires`: what was copied, and how many partitions each has."""
    parts = sorted(parts)
    if not parts and not _noted(to):
        return
    to.create(NOTES, 1)
    ends = {wire: [to.end(wire, p) for p in range(count)] for wire, count in wires.items()}
    value = orjson.dumps({"at_work": parts, "ends": ends})
    to.import_records([Record(NOTES, 0, to.end(NOTES, 0), _KEY, value)])


def _noted(to: RecordImporter) -> bool:
    """Whether an existing copy has notes already."""
    try:
        return to.end(NOTES, 0) > 0
    except BadInput:
        return False
