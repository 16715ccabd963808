"""Recomputes turns from the log and compares what they give with what was published, byte for byte.

The published side is read first, into one digest for each decision; then the inputs are replayed, and what was published
meanwhile is read. So whatever was published at first has its inputs in the part that is replayed, and memory holds digests and
one stretch of the log, never the values. Turns that a worker may still have in flight are counted as waiting, not as missing:
those not below the newest turn with something published, unless `committed` says better. Where nothing at all is published, all
is missing. It refuses to guess a state: where retention took the beginning, a partition is verified from a given start or not at
all. Compaction of an output beyond its lag looks like missing decisions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from agents.engine.aligner import Aligner
from agents.engine.stage import Stage
from agents.engine.turn import EPOCH
from agents.runner import Runner, Start
from agents.task import Task, TurnResult
from agents.verify import published_digests
from agents.verify.published_digests import Entry, Published
from streams.codec.event_codec import header, tick_number
from streams.log.port import NewRecord
from streams.log_context import LogContext

DEAD_LETTERS = "dead-letters"
SHOWN = 100
"""Findings that are kept with their text; the rest is only counted."""

Part = tuple[str, int]
"""Stage and partition."""


class What(StrEnum):
    """What can be wrong."""

    MISSING = "missing"
    DIFFERENT = "different"
    EXTRA = "extra"
    TWO_CONTENTS = "two contents under one id"
    UNREACHABLE = "cannot be verified"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, as a sentence that names the place."""

    what: What
    stage: str
    partition: int
    says: str


@dataclass(slots=True)
class Verified:
    """What was compared and what was found. `newest`: the last turn of each partition that was compared in full."""

    turns: int = 0
    decisions: int = 0
    repeats: int = 0
    waiting: int = 0
    forgotten: int = 0
    newest: dict[Part, int] = field(default_factory=dict)
    counts: dict[What, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Every recomputed decision was published with these bytes, nothing else was, and nothing was out of reach."""
        return not self.counts

    def add(self, finding: Finding) -> None:
        """Count it, and keep it while there is room."""
        self.counts[finding.what] = self.counts.get(finding.what, 0) + 1
        if len(self.findings) < SHOWN:
            self.findings.append(finding)


def verify(
    context: LogContext,
    stages: Sequence[Stage],
    *,
    starts: Mapping[Part, Start] | None = None,
    committed: Mapping[Part, int] | None = None,
) -> Verified:
    """Verify every partition of every stage.

    `starts`: where to begin instead of at the first offset. `committed`: the turn up to which a worker says that all is
    published (its checkpoint's); without it the newest turn that has anything published is taken, and not trusted itself.
    """
    verified = Verified()
    for stage in stages:
        _Check(context, stage, verified, starts or {}, committed or {}).run()
    return verified


@dataclass(frozen=True, slots=True)
class _Absent:
    """A recomputed record that was not found among the published."""

    turn: int
    topic: str
    id: str
    digest: bytes


@dataclass(slots=True)
class _Check:
    """The check of one stage."""

    context: LogContext
    stage: Stage
    verified: Verified
    starts: Mapping[Part, Start]
    committed: Mapping[Part, int]
    published: Published = field(init=False)
    absent: dict[int, list[_Absent]] = field(default_factory=dict)
    """For each partition the recomputed records that are not published, while they may be in flight."""
    seen: dict[int, int] = field(default_factory=dict)
    """For each partition the newest turn of which something is published."""

    def run(self) -> None:
        """Read what was published, replay, compare, and look at what is left over."""
        self.published = published_digests.read(self.context, (*self.stage.writes, DEAD_LETTERS))
        reachable = [p for p in range(self.context.topics.partitions) if self._reachable(p)]
        self.absent, self.seen = {p: [] for p in reachable}, {}
        ends = {(wire, p): self.context.log.end(wire, p) for wire in self._inputs() for p in reachable}
        runner = Runner([self.stage], self.context, self.starts, until=ends, only=reachable)
        while runner.read():
            for task, taken in runner.turns():
                self._compare(task, taken)
        published_digests.catch_up(self.published, self.context)
        for task in runner.tasks:
            self._settle(task)
        self._left_over(reachable)

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
        if gone:
            first = self._first_turn(partition)
            wish = (
                "there is no whole turn after it" if first is None else f"give the state (a checkpoint) of turn {first} or later"
            )
            for wire, begin in gone.items():
                where = f"partition {partition} of '{wire}' is kept from offset {begin} on, and offset {wanted[wire]} is needed"
                self._found(What.UNREACHABLE, partition, f"{where}: {wish}")
        return not gone

    def _first_turn(self, partition: int) -> int | None:
        """The first turn that what is kept holds the end of: with its state, all later ones can be verified."""
        wires = self._inputs()
        aligner: Aligner[None] = Aligner({wire: self.context.log.begin(wire, partition) for wire in wires})
        while (cut := aligner.next_turn()) is None:
            records = self.context.log.poll({(wire, partition): aligner.inputs[wire].next for wire in aligner.waits_for()})
            if not records:
                return None
            for record in records:
                number = tick_number(record)
                if number is None:
                    aligner.inputs[record.topic].next = record.offset + 1
                else:
                    aligner.inputs[record.topic].tick(record.offset, number)
        return cut.number

    def _compare(self, task: Task, taken: TurnResult) -> None:
        self.verified.turns += 1
        for record in (*taken.dead, *taken.decisions):
            entry = self.published.get(record)
            if entry is None:
                self._lost(task.partition, taken.turn, record)
                continue
            self.seen[task.partition] = max(taken.turn, self.seen.get(task.partition, -1))
            if not entry.met:
                entry.met = True
                self.verified.decisions += 1
                self.verified.repeats += entry.repeats
            if entry.digest != published_digests.digest(record):
                self._differs(task.partition, taken.turn, entry, record)

    def _lost(self, partition: int, turn: int, record: NewRecord) -> None:
        if self.published.forgot(record):
            self.verified.forgotten += 1
        else:
            self.absent[partition].append(
                _Absent(turn, record.topic, header(record, "ce_id") or "", published_digests.digest(record))
            )

    def _settle(self, task: Task) -> None:
        """At the end: what follows the newest published turn may be in flight, unless nothing is published at all."""
        part = (self.stage.name, task.partition)
        newest = self.committed.get(part, self.seen.get(task.partition, -1))
        safe = newest if part in self.committed else newest - 1
        for lost in self.absent[task.partition]:
            entry = self.published.entries[lost.topic].get(lost.id)
            if entry is not None:
                entry.met = True
                self.verified.decisions += 1
                if entry.digest != lost.digest:
                    self._found(What.DIFFERENT, task.partition, f"'{lost.id}' at {entry.place} came late and with other bytes")
            elif newest < 0 or lost.turn <= safe:
                self._found(What.MISSING, task.partition, f"'{lost.id}' of turn {lost.turn} is not in '{lost.topic}'")
            else:
                self.verified.waiting += 1
        self.verified.newest[part] = min(newest, task.turn)

    def _differs(self, partition: int, turn: int, entry: Entry, record: NewRecord) -> None:
        (there,) = self.context.log.poll({(record.topic, entry.place.partition): entry.place.offset}, limit=1)
        says = f"'{header(record, 'ce_id')}' of turn {turn} at {entry.place}: {published_digests.first_difference(there, record)}"
        self._found(What.DIFFERENT, partition, says)

    def _left_over(self, reachable: Sequence[int]) -> None:
        """What nobody recomputed: ours, or from nobody we know."""
        for topic, key, entry in self.published.all():
            partition = self._whose(entry)
            if entry.others and (partition is not None or topic != self._dead_letters):
                says = f"'{key}' at {entry.place} and, with other bytes, at {entry.others}"
                self._found(What.TWO_CONTENTS, partition or 0, says)
            if entry.met or entry.late or self._not_asked(topic, partition, entry, reachable):
                continue
            says = f"'{key}' at {entry.place} was published by '{entry.source}', but no turn gives it"
            self._found(What.EXTRA, partition or 0, says)

    def _whose(self, entry: Entry) -> int | None:
        """The partition of this stage that published it; None for any other source."""
        head, _, partition = entry.source.rpartition("/")
        mine = head == f"/ullage/{self.stage.name}" and partition.isdecimal()
        return int(partition) if mine and int(partition) < self.context.topics.partitions else None

    def _not_asked(self, topic: str, partition: int | None, entry: Entry, reachable: Sequence[int]) -> bool:
        """Whether something that no turn gave is none of our business: others' dead letters, turns before the start."""
        if partition is None:
            return topic == self._dead_letters
        start = self.starts.get((self.stage.name, partition))
        return partition not in reachable or (start is not None and entry.at <= start.turn)

    def _found(self, what: What, partition: int, says: str) -> None:
        self.verified.add(Finding(what, self.stage.name, partition, says))


def lines(verified: Verified) -> Iterator[str]:
    """The report as plain text: what was compared, how far, and each finding."""
    yield f"{verified.turns} turns and {verified.decisions} decisions compared, {verified.repeats} repeats with equal bytes"
    for (stage, partition), turn in sorted(verified.newest.items()):
        upto = (
            f"up to turn {turn} ({EPOCH + timedelta(milliseconds=turn):%Y-%m-%d %H:%M:%S})" if turn >= 0 else "nothing published"
        )
        yield f"{stage}, partition {partition}: {upto}"
    if verified.waiting:
        yield f"{verified.waiting} decisions are not published yet: a worker may have them in flight"
    if verified.forgotten:
        yield f"{verified.forgotten} decisions were published before the first offset that their topic keeps"
    for finding in verified.findings:
        yield f"{finding.what}: {finding.stage}, partition {finding.partition}: {finding.says}"
    for what, count in verified.counts.items():
        yield f"{what}: {count} in all"
    yield "every decision is as published" if verified.ok else "NOT as published"
