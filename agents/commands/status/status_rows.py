"""The state of every part by the end of the log: is it running, what does it wait for, what can it not see, since when?

Sources report that themselves. A stage leaves a mark with each checkpoint, which names its turn; it waits for the topics whose
newest tick is older than that turn. A consumer only shows in its outcomes, so one that acted may have stopped since; plans that
it leaves undone show that (see `waiting_work`). Only ends of partitions are read.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from agents.commands.status import newest_records
from agents.commands.status.newest_records import NewestRecords
from agents.engine.checkpoint_selection import CheckpointMark, is_mark
from agents.run.stage_topics import StageTopics
from agents.settings.all_settings import Settings
from agents.terminal.output import note
from schemas import times
from schemas.catalogue import parse_wire_name
from schemas.facts.sources import SourceReported
from schemas.outcomes import Action, ActionFinished, ObjectWritten, Outcome, Result, StatusWritten
from schemas.policies.control import ControlChanged, Mode
from schemas.times import to_ms
from schemas.units import Seconds
from streams import clock_log, reverse_log_reader
from streams.clock_rules import ClockRecord
from streams.codec.event_codec import header
from streams.errors import BadRecord
from streams.log.log_port import Log
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.publishing import source_reports
from streams.publishing.operator_log import NewestTick
from streams.topics import changelog_topic

_PODS = "pod-changes"
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_BEHIND_MS = 300_000
"""Time that a stage's mark may be behind the newest tick: where little comes, a worker leaves one within four minutes."""
_AHEAD_MS = 60_000
"""Time that a stage's newest turn may be ahead of the newest tick, which was read before it."""
_TAIL = (16, 256)
"""Records at the end of a changelog among which its newest mark is looked for."""
_TICKS = 64
"""Ticks by which the pace of a clock is known: half a minute of a live one."""
_WOULD = {
    "resize-planned": "would resize",
    "eviction-planned": "would evict",
    "scale-up-planned": "would scale up",
    "size-correction-planned": "would lower a size",
    "node-removal-planned": "would remove a node",
    "replicas-planned": "would set replicas",
}


@dataclass(frozen=True, slots=True)
class StatusRow:
    """One part: its kind, its name, its state in a word or two, and the rest in a sentence. `warns`: somebody should look."""

    kind: str
    name: str
    state: str
    says: str
    warns: bool = False


def clusters(context: LogContext, control: ControlChanged | None, allowed: str) -> Iterator[StatusRow]:
    """The configured cluster, with a warning when no source has named it."""
    named = source_reports.others(context, context.cluster)
    if named:
        there_are = ", ".join(f"'{name}'" for name in sorted(named))
        says = f"no source has named it; the log has {there_are}: set cluster.name"
        yield StatusRow("cluster", context.cluster, "unknown", says, warns=True)
        return
    state = "shadow" if control is None else "paused" if control.paused else control.mode.value
    yield StatusRow("cluster", context.cluster, state, allowed)


def sources(context: LogContext, now: datetime, within: Seconds) -> Iterator[StatusRow]:
    """A row for each source of each cluster that has reported lately. `within`: how old what is known of pods may be."""
    history: dict[tuple[str, str], list[SourceReported]] = {}
    for report in source_reports.reports(context):
        history.setdefault((report.cluster, report.source), []).append(report)
    for (cluster, name), reports in sorted(history.items()):
        last = reports[-1]
        age = (now - last.at).total_seconds()
        ever = {topic for report in reports for topic in report.sees}
        blind = {topic: _blind_since(reports, topic) for topic in sorted(ever - set(last.sees))}
        about = f"cluster '{cluster}'; last report {length(age)} ago"
        if age > source_reports.late(last):
            yield StatusRow("source", name, "silent", f"{about}: is it running?{_unplanned(ever, age, within)}", warns=True)
        elif blind or not last.sees:
            lacks = ", ".join(f"{topic} since {at:%Y-%m-%d %H:%M:%S}" for topic, at in blind.items()) or "everything so far"
            ago = (now - blind[_PODS]).total_seconds() if _PODS in blind else 0.0
            yield StatusRow("source", name, "blind", f"{about}; blind to {lacks}{_unplanned(blind, ago, within)}", warns=True)
        else:
            lacks = f"; but {'; '.join(last.lacks)}" if last.lacks else ""
            yield StatusRow("source", name, "at work", f"{about}; sees {', '.join(last.sees)}{lacks}", warns=bool(lacks))


def _unplanned(unseen: Collection[str], seconds: float, within: Seconds) -> str:
    """What the updater makes of pods that nobody has seen for so long."""
    if _PODS not in unseen:
        return ""
    if seconds <= within:
        return f"; nothing is planned for pods once none were seen for {length(within)}"
    return f"; nothing is planned for pods, as none were seen for over {length(within)}"


def _blind_since(reports: Sequence[SourceReported], topic: str) -> datetime:
    """When a topic was first missing after it was last seen."""
    last_seen = max(n for n, report in enumerate(reports) if topic in report.sees)
    return reports[last_seen + 1].at


def stages(context: LogContext, listed: Sequence[StageTopics], worker: str, now: datetime, mode: Mode) -> Iterator[StatusRow]:
    """A row for each stage: how far it is, and what it decided in the last hour."""
    log, topics = context.log, context.topics
    pace = _pace(context)
    for stage in listed:
        wire = topics.wire(stage.writes[0])
        if not has_topic(log, wire):
            yield StatusRow("stage", stage.name, "away", f"the log has no topic '{wire}'", warns=True)
            continue
        decided = _decided(log, wire, now, mode)
        turns = [_turn(log, changelog_topic(worker, stage.name), partition) for partition in range(topics.partitions)]
        reached = [turn for turn in turns if turn is not None]
        if len(reached) < len(turns):
            where = ", ".join(str(n) for n, turn in enumerate(turns) if turn is None)
            which = "has" if not reached else f"has in partition {where}"
            says = f"no worker of group '{worker}' {which} left a checkpoint; {decided}"
            yield StatusRow("stage", stage.name, "not seen", says, warns=True)
            # without a mark of every partition nobody knows how far the stage is
            continue
        ahead = max(reached) - to_ms(now)
        behind = to_ms(now) - min(reached)
        # in the clock's own pace: where a day is played in a minute, event time is ahead and behind by more
        if ahead > _AHEAD_MS * pace:
            says = f"{length(ahead / 1000)} ahead of the clock, and takes no turn before that is over: was a clock's time wrong?"
            yield StatusRow("stage", stage.name, "waiting", f"{says}; {decided}", warns=True)
        elif behind <= _BEHIND_MS * pace:
            yield StatusRow("stage", stage.name, "at work", decided)
        else:
            partition = reached.index(min(reached))
            says = f"{length(behind / 1000)} behind in partition {partition}: is the worker running?; {decided}"
            yield StatusRow("stage", stage.name, "waiting", says, warns=True)


def _pace(context: LogContext) -> float:
    """Seconds of event time that pass in a second, by the last ticks: 1 by a live clock, more where a day is played in a minute.

    At least 1, and 1 for a log that does not say when its records were appended.
    """
    clock = clock_log.place(context.topics)
    records = reverse_log_reader.last(context.log, [clock], _TICKS)[clock]
    ticks = [(tick.number, record.timestamp_ms) for record in records if (tick := ClockRecord.decode(record)) is not None]
    if not ticks or ticks[0][1] < 0 or ticks[-1][1] <= ticks[0][1]:
        return 1.0
    return max(1.0, (ticks[-1][0] - ticks[0][0]) / (ticks[-1][1] - ticks[0][1]))


def _turn(log: Log, topic: str, partition: int) -> int | None:
    """The turn of the newest mark at the end of a changelog; None where there is none."""
    if not has_topic(log, topic) or partition >= log.partitions(topic):
        return None
    # a mark is mostly among the last few records; only behind a large checkpoint it takes more
    for count in _TAIL:
        records = reverse_log_reader.last(log, [(topic, partition)], count)[topic, partition]
        marks = [_decoded(record.value) for record in records if is_mark(record.key or b"")]
        turns = [mark.turn for mark in marks if mark is not None]
        if turns:
            return max(turns)
    return None


def _decoded(value: bytes | None) -> CheckpointMark | None:
    try:
        return None if value is None else CheckpointMark.decode(value)
    except ValueError:
        return None


def _decided(log: Log, wire: str, now: datetime, mode: Mode) -> str:
    """What a stage decided in the last hour; decisions that will not be carried out are worded as "would"."""
    decisions = newest_records.read(log, wire, now - _HOUR)
    if decisions.newest_ms is None:
        return "no decision in the last hour"
    counts = Counter((parse_wire_name(header(record, "ce_type") or "") or ("unreadable", 0))[0] for record in decisions.records)
    names = {name: name if mode is Mode.APPLY else _WOULD.get(name, name) for name in counts}
    listed = ", ".join(f"{decisions.count(count)} {names[name]}" for name, count in sorted(counts.items()))
    return f"newest decision {length((to_ms(now) - decisions.newest_ms) / 1000)} ago; in the last hour: {listed}"


def outcomes(context: LogContext, now: datetime) -> NewestRecords:
    """The outcomes of the last hour."""
    return newest_records.read(context.log, context.topics.wire("outcomes"), now - _HOUR)


def consumers(context: LogContext, outcomes_of_hour: NewestRecords, now: datetime) -> Iterator[StatusRow]:
    """A row for each consumer that had one of these outcomes of the last hour."""
    counts: dict[str, Counter[str]] = {}
    last: dict[str, datetime] = {}
    failed: set[str] = set()
    for record in outcomes_of_hour.records:
        try:
            event = context.codec.decode(record)
        except BadRecord:
            counts.setdefault("unreadable", Counter())["outcomes"] += 1
            continue
        if isinstance(event, Outcome):
            name = consumer_of(event)
            counts.setdefault(name, Counter())[result_of(event)] += 1
            last[name] = max(event.at, last.get(name, event.at))
            if event.result in (Result.FAILED, Result.LOST):
                failed.add(name)
    if not counts:
        yield StatusRow("consumer", "all", "idle", "no outcome in the last hour")
    for name, results in sorted(counts.items()):
        listed = ", ".join(f"{outcomes_of_hour.count(count)} {result}" for result, count in sorted(results.items()))
        age = f"last outcome {length((now - last[name]).total_seconds())} ago; " if name in last else ""
        yield StatusRow("consumer", name, "acted", f"{age}in the last hour: {listed}", warns=name in failed)


def dead_letters(context: LogContext, now: datetime) -> StatusRow:
    """How many records could not be read in the last day."""
    letters = newest_records.read(context.log, context.topics.wire("dead-letters"), now - _DAY)
    if not letters.records:
        return StatusRow("dead letters", "all", "none", "every record of the last day could be read")
    newest_ms = letters.newest_ms or 0
    at = f", the newest at {times.from_ms(newest_ms):%Y-%m-%d %H:%M:%S} UTC" if newest_ms > 0 else ""
    return StatusRow(
        "dead letters", "all", letters.count(), f"in the last day{at}; `ullage tap dead-letters` shows them", warns=True
    )


def length(seconds: float) -> str:
    """A length of time in the largest unit of which there are at least two.

    Negative lengths, from differing clocks, count as zero.
    """
    seconds = max(0.0, seconds)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


# Which consumer an outcome is of, by the name that its command has: people start and stop consumers, not kinds of acts.


CONSUMERS: Mapping[Action, str] = {
    Action.PATCH: "webhook",
    Action.RESIZE: "resizer",
    Action.EVICT: "evictor",
    Action.SCALE: "autoscalers",
    Action.SCALE_UP: "asg",
    Action.REMOVE_NODE: "asg",
    Action.SOFT_TAINT: "asg",
    Action.CORRECT_SIZE: "asg",
    Action.BUFFER_STATUS: "asg",
    Action.ASK_EXPANDER: "expander",
}
_ONE_ACT = (Action.PATCH, Action.RESIZE, Action.EVICT)
"""The acts of consumers that have no other."""


def consumer_of(outcome: Outcome) -> str:
    """As `ullage consumer` calls it: `resizer`."""
    if isinstance(outcome, ActionFinished):
        return CONSUMERS[outcome.action]
    return "status" if isinstance(outcome, StatusWritten) else "autoscalers"


def result_of(outcome: Outcome) -> str:
    """What came of it, with the act if its consumer has several: `done`, `scale-up done`."""
    if isinstance(outcome, ObjectWritten):
        return f"{outcome.object_kind} {outcome.change} {outcome.result}"
    if isinstance(outcome, StatusWritten) or outcome.action in _ONE_ACT:
        return str(outcome.result)
    return f"{outcome.action} {outcome.result}"


SILENT = 20.0
"""Real seconds since the newest tick was written after which the clock counts as silent."""


def silence(tick: NewestTick, settings: Settings) -> Seconds:
    """How long no clock has ticked, in real time; 0 while one is running, and for a log that is a file or in the past."""
    if settings.log.kind != "kafka" or settings.log.at is not None or tick.appended_ms < 0:
        return Seconds(0.0)
    seconds = tick_age(tick)
    return Seconds(seconds if seconds > SILENT else 0.0)


def tick_age(tick: NewestTick) -> float:
    """Real seconds since the log appended a tick; 0 if that is in the future by this machine's time."""
    return max(0.0, time.time_ns() / 1e6 - tick.appended_ms) / 1000


def warn_of_silence(tick: NewestTick | None, settings: Settings) -> None:
    """Warn on stderr that the output is about the past, if no clock is running."""
    silent = 0.0 if tick is None else silence(tick, settings)
    if silent:
        note(f"ullage: no clock has ticked for {length(silent)}, so this is as it was then; `ullage status` says what is at work")
