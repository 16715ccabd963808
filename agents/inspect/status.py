"""Runs `ullage status`. Everything it prints comes from the log, nothing from a process.

A stage's newest decision shows how far the stage is: the recommender repeats each recommendation at least once an hour, so an
hour without one is a warning. A decision that was published twice (with the same id) counts once.
"""

import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from agents.inspect import waiting_inputs
from agents.operate import mode
from agents.pipeline import decision_topics
from agents.processes.output import data
from agents.settings import log_factory
from agents.settings.tree import Settings
from schemas.catalogue import parse_wire_name
from schemas.outcomes import ActionFinished, ObjectWritten, StatusWritten
from schemas.times import to_ms
from streams.codec.event_codec import Codec, header, tick_number
from streams.errors import BadRecord
from streams.log.log_port import Log, Record
from streams.log_context import LogContext
from streams.log_range import event_time_ms, has_topic, read_range
from streams.publishing.operator_log import NewestTick, OperatorLog
from streams.topics import Topics

_HOUR = timedelta(hours=1)


def run(settings: Settings) -> None:
    """Print the newest tick, what is allowed, the last hour of stages and consumers, and the number of dead letters."""
    topics = log_factory.topics(settings)
    with log_factory.answering_log(settings) as log:
        operator = OperatorLog(LogContext.of(log, topics))
        tick, control = operator.newest_tick(), operator.control(settings.cluster.name)
        data(f"{'newest tick':<14}{_tick(tick)}")
        allowed = "shadow: nobody has set a mode" if control is None else mode.describe(control)
        data(f"{'cluster':<14}{settings.cluster.name}: {allowed}")
        for line in () if tick is None else waiting_inputs.lines(log, topics, within=settings.ready_within):
            data(f"{'waiting':<14}{line}")
        for line in () if tick is None else _last_hour(log, topics, tick):
            data(line)
        data(f"{'dead letters':<14}{_dead_letters(log, topics)}")


def _tick(tick: NewestTick | None) -> str:
    if tick is None:
        return "none: no clock has ticked, so nothing is decided"
    at = f"{tick.at:%Y-%m-%d %H:%M:%S} UTC"
    if tick.appended_ms < 0:
        return at
    age = max(0.0, time.time_ns() / 1e6 - tick.appended_ms) / 1000
    return f"{at}, written {_length(age)} ago"


def _last_hour(log: Log, topics: Topics, tick: NewestTick) -> Iterator[str]:
    now = to_ms(tick.at)
    for stage, topic in decision_topics().items():
        if not has_topic(log, topics.wire(topic)):
            yield f"{stage:<14}the log has no topic '{topics.wire(topic)}'"
            continue
        found = _last_hour_of(log, topics, topic, tick)
        newest = max((event_time_ms(record) for record in found), default=None)
        lag = "no decision in the last hour" if newest is None else f"newest decision {_length((now - newest) / 1000)} ago"
        counts = Counter((parse_wire_name(header(record, "ce_type") or "") or ("unreadable", 0))[0] for record in found)
        yield f"{stage:<14}{lag}{_listed(counts)}"
    outcomes = _outcomes(_last_hour_of(log, topics, "outcomes", tick), Codec(topics))
    yield f"{'consumers':<14}{_listed(outcomes).removeprefix('; ') or 'no outcome in the last hour'}"


def _last_hour_of(log: Log, topics: Topics, name: str, tick: NewestTick) -> list[Record]:
    """The records of the last hour, without ticks and repeats."""
    records = read_range(log, [topics.wire(name)], since=tick.at - _HOUR)
    return list({header(record, "ce_id"): record for record in records if tick_number(record) is None}.values())


def _outcomes(records: list[Record], codec: Codec) -> Counter[str]:
    counts: Counter[str] = Counter()
    for record in records:
        try:
            event = codec.decode(record)
        except BadRecord:
            counts["unreadable"] += 1
            continue
        if isinstance(event, ActionFinished):
            counts[f"{event.action} {event.result}"] += 1
        elif isinstance(event, StatusWritten):
            counts[f"status {event.result}"] += 1
        elif isinstance(event, ObjectWritten):
            counts[f"{event.object_kind} {event.change} {event.result}"] += 1
    return counts


def _listed(counts: Counter[str]) -> str:
    return "; in the last hour: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) if counts else ""


def _dead_letters(log: Log, topics: Topics) -> int:
    """How many there are. Clocks append probes to the same topic; those are ticks and do not count."""
    return sum(tick_number(record) is None for record in read_range(log, [topics.wire("dead-letters")]))


def _length(seconds: float) -> str:
    """A length of time in the largest unit of which there are two or more."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"
