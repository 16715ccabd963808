"""Recomputes turns from the log and compares the decisions with the published ones.

A decision that today's version of its type published is compared byte for byte, one of an older version field by field, after
lifting (see `record_comparison`). Memory only holds digests and one stretch of the log, never the values.

Every turn of the clock must be published in full, to the very end of the log. Only a running worker can excuse a
missing decision: if it is of a turn after the worker's newest mark, it may be in flight and counts as waiting. The marks are read
again at the end of the replay, by when those decisions must be there. The marks also have digests of what the worker had read, so
a changed input is found even if it changed no decision.

Where retention deleted the beginning of an input or of the clock, a partition is verified from a given start or not at all,
because its state is unknown. In an output that was compacted beyond its lag, decisions seem to be missing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agents.engine.stage import Stage
from agents.run.partition_task import Task, TurnResult
from agents.run.stage_runner import Runner, TaskStart
from agents.verify import record_comparison
from agents.verify.committed_turns import CommittedTurn, InputComparison
from agents.verify.record_comparison import FieldCensus, PublishedRecord, PublishedRecords
from agents.verify.verification_report import Discrepancy, DiscrepancyKind, Part, VerificationReport
from schemas.ids import TaskSource
from schemas.policies.control import StageRulesChanged
from schemas.times import from_ms
from streams import clock_log, repartitioned_copy
from streams.codec.event_codec import header
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.topics import CLOCK


@dataclass(slots=True)
class ForeignRules:
    """The first turn of each partition of one stage that another program decided, and that program's rules."""

    stage: Stage
    since: dict[int, tuple[int, StageRulesChanged]] = field(default_factory=dict)

    def observe(self, partition: int, taken: TurnResult) -> bool:
        """Examine a replayed turn; True if it cannot be compared."""
        rules = None if taken.rules is None else taken.rules.rules
        if rules is not None and rules.program != self.stage.program:
            # The state after such a turn cannot be recomputed either, so nothing after it is compared.
            self.since.setdefault(partition, (taken.turn, rules))
        return partition in self.since

    def covers(self, partition: int, turn: int | None) -> bool:
        """Whether the results of this turn cannot be compared. `turn` is None for a dead letter, which does not name its turn."""
        return partition in self.since and (turn is None or turn >= self.since[partition][0])

    def sentence(self, partition: int) -> str:
        """What is not compared, and why."""
        turn, rules = self.since[partition]
        since = f"from turn {turn} ({from_ms(turn):%Y-%m-%d %H:%M:%S}) on"
        decided = f"version {rules.program} of the program's rules decided ({rules.version})"
        return f"{self.stage.name}, partition {partition}: {since} {decided}, and this program has version {self.stage.program}"


_NO_MARK = CommittedTurn(-1, {}, None)
DEAD_LETTERS = "dead-letters"


def verify(
    context: LogContext,
    stages: Sequence[Stage],
    *,
    starts: Mapping[Part, TaskStart] | None = None,
    committed: Mapping[Part, CommittedTurn] | None = None,
    again: Callable[[Stage], Mapping[Part, CommittedTurn]] | None = None,
) -> VerificationReport:
    """Verify every partition of every stage.

    `starts`: where to begin instead of at the first offset. `committed`: how far the workers say that all is published, what
    they had read, and whether they are at work (see `committed_turns`). A partition without a worker at work must be published
    to the last tick. `again` gives the same of a stage as it is by then, for a log that goes on.
    """
    report, moved = VerificationReport(), repartitioned_copy.moved_until(context)
    for stage in stages:
        lacking = _lacking(context, stage)
        # With a worker's mark the stage was at work, so a topic that is missing was lost, and not merely not made yet.
        if lacking and not any(name == stage.name and mark.turn >= 0 for (name, _), mark in (committed or {}).items()):
            report.absent.append(f"{stage.name}: the log has no topic '{lacking[0]}'; it is older than this stage")
            continue
        _StageVerification(context, stage, report, starts or {}, committed or {}, again, ForeignRules(stage), moved).run()
    return report


def _lacking(context: LogContext, stage: Stage) -> list[str]:
    """The missing topics (wire names) among those that a stage reads and the first one that it writes."""
    # Other outputs may be newer than the log; records recomputed for them then count as missing.
    return [
        wire for name in (CLOCK, *stage.reads, stage.writes[0]) if not has_topic(context.log, wire := context.topics.wire(name))
    ]


@dataclass(frozen=True, slots=True)
class _Unpublished:
    """A recomputed record that was not published when the inputs were read, with both kinds of digest."""

    turn: int
    topic: str
    partition: int
    id: str
    source: str
    whole: bytes
    fields: Mapping[str, bytes]


@dataclass(slots=True)
class _StageVerification:
    """One stage."""

    context: LogContext
    stage: Stage
    report: VerificationReport
    starts: Mapping[Part, TaskStart]
    committed: Mapping[Part, CommittedTurn]
    again: Callable[[Stage], Mapping[Part, CommittedTurn]] | None
    foreign: ForeignRules
    moved: int
    """Up to this turn another log's partitions decided, of which this log is a copy."""
    published: PublishedRecords = field(init=False)
    unpublished: dict[int, list[_Unpublished]] = field(default_factory=dict)
    """For each partition the recomputed records that may still be in flight."""
    inputs: dict[int, InputComparison] = field(default_factory=dict)
    """For each partition with a worker's mark, whether the worker read what is in the log now."""
    census: FieldCensus = field(default_factory=FieldCensus)

    def run(self) -> None:
        """Read what was published, replay, compare, and examine what is left over."""
        first, *more = self.stage.writes
        there = [first, *(name for name in more if has_topic(self.context.log, self.context.topics.wire(name)))]
        # First, so that the replayed inputs reach everything that was published by now, while a live worker goes on beside this.
        self.published = record_comparison.read(self.context, (*there, DEAD_LETTERS))
        reachable = [p for p in range(self.context.topics.partitions) if self._reachable(p)]
        for p in range(self.context.topics.partitions):
            for says in self.committed.get((self.stage.name, p), _NO_MARK).refused:
                self._add(DiscrepancyKind.MARK, p, says)
        self.unpublished = {p: [] for p in reachable}
        marks = {p: mark for p in reachable if (mark := self.committed.get((self.stage.name, p))) is not None}
        self.inputs = {p: InputComparison(self.context, mark) for p, mark in marks.items()}
        newest = clock_log.newest(self.context.log, self.context.topics)
        last = -1 if newest is None else newest.number
        runner = Runner([self.stage], self.context, self.starts, last_turn=last, only=reachable)
        while runner.read():
            for task, taken in runner.turns():
                self._compare(task, taken)
        if self.again is not None and any(self.unpublished.values()):
            # A worker has gone on during the replay, and by its newer marks those decisions must be there.
            self.committed = self.again(self.stage)
        record_comparison.catch_up(self.published, self.context)
        for task in runner.tasks:
            self._settle(task)
        self._settle_fields()
        self._report_unexplained(reachable)

    @property
    def _dead_letters(self) -> str:
        return self.context.topics.wire(DEAD_LETTERS)

    def _inputs(self) -> list[str]:
        return [self.context.topics.wire(name) for name in self.stage.reads]

    def _reachable(self, partition: int) -> bool:
        """Whether the partition can be verified: from a given start that is still kept, or from offset 0."""
        start = self.starts.get((self.stage.name, partition))
        wanted = (
            {self.context.topics.wire(n): o for n, o in start.positions.items()} if start else dict.fromkeys(self._inputs(), 0)
        )
        gone = {w: b for w, o in wanted.items() if (b := self.context.log.begin(w, partition)) > o}
        ticks = self._lost_ticks(start)
        if ticks:
            self._add(DiscrepancyKind.UNREACHABLE, partition, f"{ticks}: {self._wish(partition)}")
        if gone:
            wish = self._wish(partition)
            for wire, begin in gone.items():
                where = f"partition {partition} of '{wire}' is kept from offset {begin} on, and offset {wanted[wire]} is needed"
                self._add(DiscrepancyKind.UNREACHABLE, partition, f"{where}: {wish}")
        return not gone and not ticks

    def _lost_ticks(self, start: TaskStart | None) -> str:
        """Which ticks are needed and gone."""
        topics = self.context.topics
        # Ticks say where turns end: without them others would be recomputed than were taken.
        begin, end = (find(*clock_log.place(topics)) for find in (self.context.log.begin, self.context.log.end))
        needed = 0 if start is None or start.tick is None else start.tick[0]
        if begin <= needed:
            return ""
        kept = "all ticks are gone" if begin == end else f"the ticks in '{topics.wire(CLOCK)}' are kept from offset {begin} on"
        return f"{kept}, and offset {needed} is needed"

    def _wish(self, partition: int) -> str:
        """What would make a partition verifiable."""
        first = self._first_turn(partition)
        return "there is no whole turn after it" if first is None else f"give the state (a checkpoint) of turn {first} or later"

    def _first_turn(self, partition: int) -> int | None:
        """The first turn that what is kept holds the end of: with its state, all later ones can be verified."""
        log, topics = self.context.log, self.context.topics
        begins = {(name, partition): log.begin(topics.wire(name), partition) for name in self.stage.reads}
        counted = clock_log.first_counted(log, topics)
        if counted.last is not None and all(counted.end(*place) >= begin for place, begin in begins.items()):
            return counted.number
        for tick in clock_log.ticks_from(log, topics, counted):
            if all(counted.end(*place) >= begin for place, begin in begins.items()):
                return tick.number
        return None

    def _compare(self, task: Task, taken: TurnResult) -> None:
        if task.partition in self.inputs:
            self.inputs[task.partition].after_turn(task)
        if self.foreign.observe(task.partition, taken) or taken.turn <= self.moved:
            return
        self.report.turns += 1
        for record in (*taken.dead, *taken.decisions):
            entry = self.published.get(record)
            if entry is None:
                self._not_published(task.partition, taken.turn, record)
                continue
            self._count(entry)
            where = f"'{header(record, 'ce_id')}' of turn {taken.turn} at {entry.place}"
            # Of today's version every byte has to agree; an older one was written in another form.
            if not entry.digest.version:
                if entry.digest.whole != record_comparison.whole_digest(record):
                    self._differs(task.partition, where, entry, record)
            else:
                fields = record_comparison.field_digests(record, self.context.codec)
                differing = self.census.differing(entry.digest, fields, where)
                if differing:
                    self._differs(task.partition, where, entry, record, differing)

    def _count(self, entry: PublishedRecord) -> None:
        if not entry.recomputed:
            entry.recomputed = True
            self.report.decisions += 1
            self.report.older += bool(entry.digest.version)
            self.report.repeats += entry.repeats

    def _not_published(self, partition: int, turn: int, record: NewRecord) -> None:
        if self.published.retention_took(record):
            self.report.forgotten += 1
            return
        fields = record_comparison.field_digests(record, self.context.codec) if record.topic != self._dead_letters else {}
        self.unpublished[partition].append(
            _Unpublished(
                turn,
                record.topic,
                record.partition,
                header(record, "ce_id") or "",
                header(record, "ce_source") or "",
                record_comparison.whole_digest(record),
                fields,
            )
        )

    def _settle(self, task: Task) -> None:
        """Judge what is left over at the end."""
        part = (self.stage.name, task.partition)
        mark = self.committed.get(part)
        live = mark is not None and mark.at_work
        # A mark is written when every decision up to its turn is durable; only later ones of a running worker may be in flight.
        safe = min(mark.turn, task.turn) if mark is not None and live else task.turn
        waiting = 0
        for record in self.unpublished[task.partition]:
            entry = self.published.records[record.topic].get(record.id)
            if entry is not None:
                self._settle_late(task.partition, entry, record)
            elif record.turn <= safe:
                self._add(DiscrepancyKind.MISSING, task.partition, self._missing(record))
            else:
                waiting += 1
        self.report.waiting += waiting
        if mark is not None and mark.turn < task.turn:
            (self.report.live if live else self.report.dead).append(part)
        if task.partition in self.foreign.since:
            self.report.foreign.append(self.foreign.sentence(task.partition))
        else:
            self.report.newest[part] = safe if waiting else task.turn
        self._settle_inputs(task)

    def _missing(self, record: _Unpublished) -> str:
        gap = self.published.gap(record.topic, record.partition, record.source, record.turn)
        return f"'{record.id}' of turn {record.turn} is not in '{record.topic}' partition {record.partition}, {gap}"

    def _settle_inputs(self, task: Task) -> None:
        for name, position in task.positions.items():
            place = self.context.topics.wire(name), task.partition
            self.report.read[place] = max(position, self.report.read.get(place, 0))
        start = self.starts.get((self.stage.name, task.partition))
        compared = self.inputs.get(task.partition)
        if compared is None:
            return
        compared.finish(task, -1 if start is None else start.turn)
        self.report.digested += compared.equal
        for wire, upto in compared.proven.items():
            place = wire, task.partition
            self.report.proven[place] = max(upto, self.report.proven.get(place, 0))
        self.report.undigested += [f"{self.stage.name}, partition {task.partition}: {says}" for says in compared.unproven]
        for says in compared.wrong:
            self._add(DiscrepancyKind.INPUTS, task.partition, says)

    def _settle_late(self, partition: int, entry: PublishedRecord, record: _Unpublished) -> None:
        """One that was published while the inputs were replayed."""
        self._count(entry)
        where = f"'{record.id}' at {entry.place}"
        if not entry.digest.version:
            if entry.digest.whole != record.whole:
                self._add(DiscrepancyKind.DIFFERENT, partition, f"{where} came late and with other bytes")
            return
        differing = self.census.differing(entry.digest, record.fields, where)
        if differing:
            self._add(DiscrepancyKind.DIFFERENT, partition, f"{where} came late and with another {', '.join(differing)}")

    def _differs(self, partition: int, where: str, entry: PublishedRecord, record: NewRecord, fields: Sequence[str] = ()) -> None:
        there = next(iter(self.context.log.poll({(record.topic, entry.place.partition): entry.place.offset}, limit=1)), None)
        if there is None or there.offset != entry.place.offset:
            says = "retention took it before it could be looked at"
        elif fields:
            says = record_comparison.field_difference(there, record, fields, self.context.codec)
        else:
            says = record_comparison.first_difference(there, record)
        self._add(DiscrepancyKind.DIFFERENT, partition, f"{where}: {says}")

    def _settle_fields(self) -> None:
        for says, count in self.census.lacking():
            self._add(DiscrepancyKind.DIFFERENT, 0, says, count)

    def _report_unexplained(self, reachable: Sequence[int]) -> None:
        """Report published records that were not recomputed and are this stage's, or of an unknown source."""
        for topic, key, entry in self.published.all():
            partition = self._publisher(entry)
            if partition is not None and self.foreign.covers(partition, None if topic == self._dead_letters else entry.at):
                continue
            if entry.others and (partition is not None or topic != self._dead_letters):
                says = f"'{key}' at {entry.place} and, with other bytes, at {entry.others}"
                self._add(DiscrepancyKind.TWO_CONTENTS, partition or 0, says)
            if entry.recomputed or entry.late or self._not_asked(topic, partition, entry, reachable):
                continue
            says = f"'{key}' at {entry.place} was published by '{entry.source}', but no turn gives it"
            self._add(DiscrepancyKind.EXTRA, partition or 0, says)

    def _publisher(self, entry: PublishedRecord) -> int | None:
        """The partition of this stage that published it; None for any other source."""
        try:
            task = TaskSource.parse(entry.source)
        except ValueError:
            return None
        mine = task.stage == self.stage.name and task.partition < self.context.topics.partitions
        return task.partition if mine else None

    def _not_asked(self, topic: str, partition: int | None, entry: PublishedRecord, reachable: Sequence[int]) -> bool:
        """Whether a record that was not recomputed is expected: another stage's dead letter, or of a turn before the start."""
        if partition is None:
            return topic == self._dead_letters
        start = self.starts.get((self.stage.name, partition))
        earlier = start is not None and entry.at <= start.turn
        return partition not in reachable or earlier or 0 <= entry.at <= self.moved

    def _add(self, kind: DiscrepancyKind, partition: int, says: str, count: int = 1) -> None:
        self.report.add(Discrepancy(kind, self.stage.name, partition, says), count)
