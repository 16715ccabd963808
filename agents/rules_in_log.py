"""Puts the rules that stages decide by into the log, where what is there differs.

Every decision cites its rules instead of repeating them, every worker decides by what the log says, and a replay uses what was in
force. A record takes effect at the turn that takes it in. This module compares and appends; stages obey.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from agents.engine.stage import Stage
from schemas.policies.rules import StageRulesChanged, rules_version
from streams import compacted_copy
from streams.errors import BadInput
from streams.log.port import Record
from streams.log_context import LogContext

SOURCE = "/ullage/rules"
_PATIENCE = 5.0
"""Seconds to wait for records that the log says it has."""


def rules_of(stage: Stage, at: datetime) -> StageRulesChanged | None:
    """The record of a stage's rules; None for a stage that has none."""
    if stage.program == 0:
        return None
    return StageRulesChanged(at, stage.name, stage.program, stage.rules, rules_version(stage.name, stage.program, stage.rules))


def in_log(context: LogContext) -> dict[str, StageRulesChanged]:
    """The newest rules of each stage that the log says, as far as the copy and the end of the topic reach.

    Rules that stand further back are not found and are appended again, which changes nothing.
    """
    found: dict[str, StageRulesChanged] = {}
    for record in _records(context):
        event = context.codec.decode_or_none(record) if (record.key or b"").startswith(b"stage/") else None
        if isinstance(event, StageRulesChanged):
            found[event.stage] = event
    return found


def changed(context: LogContext, stages: Iterable[Stage], at: datetime) -> list[StageRulesChanged]:
    """The rules of these stages that the log does not say, or says otherwise."""
    there = in_log(context)
    rules = (found for stage in stages if (found := rules_of(stage, at)) is not None)
    return [own for own in rules if own.stage not in there or there[own.stage].version != own.version]


def publish(context: LogContext, stages: Iterable[Stage], at: datetime) -> Sequence[StageRulesChanged]:
    """Append the rules that differ to every partition; which. Raises LogUnavailable."""
    new = changed(context, stages, at)
    records = [r for rules in new for r in context.codec.encode_for_all(rules, topic="policies", key=rules.key, source=SOURCE)]
    context.log.append(records)
    if _has_copy(context):
        context.log.append(compacted_copy.copies_of(records, context.topics))
    return new


def _records(context: LogContext) -> Iterator[Record]:
    copied = compacted_copy.latest_of_copy(context.log, context.topics, "policies")
    yield from copied or ()
    place = (context.topics.wire("policies"), 0)
    position, end = max(context.log.begin(*place), context.log.end(*place) - compacted_copy.TAIL), context.log.end(*place)
    while position < end and (records := context.log.poll({place: position}, wait=_PATIENCE)):
        yield from records
        position = records[-1].offset + 1


def _has_copy(context: LogContext) -> bool:
    try:
        context.log.partitions(context.topics.wire(compacted_copy.COPIES["policies"]))
    except BadInput:
        return False
    return True
