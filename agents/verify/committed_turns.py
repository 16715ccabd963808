"""How far workers got, and what they had read by then, according to their newest good checkpoints in the changelogs.

A mark is written when every decision up to its turn is durable. So a decision that is missing at the very end is found, too, and
one that a running worker still has in flight does not count as missing. A log without changelogs says nothing about either.

A broker says who is in the workers' group, and which partitions each holds. Without a broker no worker is running. But a copy of
a log notes on which partitions workers were running when it was made. Such a copy keeps the places, so that it can be verified
like the original.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

from agents.engine import checkpoint_selection
from agents.engine.checkpoint_selection import CheckpointMark
from agents.engine.input_digest import InputDigests
from agents.engine.stage import Stage
from agents.run.newest_checkpoint import newest_checkpoint, objection
from agents.run.partition_task import Task
from agents.verify.verification_report import Part
from streams.clock_rules import FILL
from streams.errors import BadInput
from streams.incidents.incident_copy import IncidentLog
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.log_range import RecordImporter, copy_range, has_topic
from streams.topics import TOPICS, changelog_topic

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
    # A copy made before, of a log at work, must not go on to say that workers run.
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


_VERSION = 8
"""Bytes of a chunk that say its version; the rest is not kept."""


@dataclass(frozen=True, slots=True)
class CommittedTurn:
    """The turn up to which everything is published, the input offsets after it, and digests of the inputs if the mark has any.

    `at_work`: a worker is running on the partition, so later decisions may be in flight.
    """

    turn: int
    positions: Mapping[str, int]
    inputs: InputDigests | None
    at_work: bool = False
    earlier: tuple[CheckpointMark, ...] = ()
    """The marks before this one that the changelog still has: by their digests a damaged input is found between two of them."""
    refused: tuple[str, ...] = ()
    """A sentence for each newer mark that the inputs contradict. It was written when they were as its worker had read them."""


def committed(context: LogContext, worker: str, stages: Sequence[Stage]) -> dict[tuple[str, int], CommittedTurn]:
    """By stage and partition, how far the workers of this name have published everything; -1 at work without a mark yet."""
    live = at_work(context, worker, stages)
    committed_turns = {part: CommittedTurn(-1, {}, None, at_work=True) for part in live}
    for stage in stages:
        topic = changelog_topic(worker, stage.name)
        for partition in range(context.log.partitions(topic) if has_topic(context.log, topic) else 0):
            part = stage.name, partition
            contents = newest_checkpoint(context, stage, partition, worker, keep=_short)
            state, marks = contents.found, _marks(context, topic, partition)
            says = tuple(_damage(context, stage, partition, marks, refusal) for refusal in contents.refused)
            if state is not None:
                mark = state.mark
                before = tuple(earlier for earlier in marks if earlier.turn < mark.turn)
                committed_turns[part] = CommittedTurn(mark.turn, mark.positions, mark.inputs, part in live, before, says)
            elif says:
                committed_turns[part] = CommittedTurn(-1, {}, None, part in live, (), says)
    return committed_turns


def _marks(context: LogContext, topic: str, partition: int) -> list[CheckpointMark]:
    """Every mark that the changelog still has, by turn. Compaction leaves the last two of a family."""
    by_turn: dict[int, CheckpointMark] = {}
    position = context.log.begin(topic, partition)
    while records := context.log.poll({(topic, partition): position}):
        position = records[-1].offset + 1
        for record in records:
            if record.key is not None and record.value is not None and checkpoint_selection.is_mark(record.key):
                with suppress(ValueError):
                    mark = CheckpointMark.decode(record.value)
                    by_turn[mark.turn] = mark
    return [by_turn[turn] for turn in sorted(by_turn)]


def _damage(
    context: LogContext, stage: Stage, partition: int, marks: Sequence[CheckpointMark], refused: tuple[CheckpointMark, str]
) -> str:
    """Between which two marks the inputs stop being those that were read."""
    newest, why = refused
    # A mark that the inputs do not contradict stands before the damage.
    good = {mark.turn: not objection(context, stage, partition, mark) for mark in marks}
    # The changelog has few of them, so the stretch between two is as near as it can be told.
    first = next((mark for mark in marks if not good[mark.turn]), newest)
    last = max((mark for mark in marks if mark.turn < first.turn), key=lambda mark: mark.turn, default=None)
    begins = {} if last is None else last.positions
    stretch = ", ".join(
        f"'{context.topics.wire(name)}' from offset {begins.get(name, 0)} to {end}"
        for name, end in first.positions.items()
        if name in stage.reads and not _is_there(context, name, partition, end)
    )
    return f"the mark of turn {newest.turn} is refused: {why}. Damaged is {stretch or 'the clock, or an input before it'}"


def _is_there(context: LogContext, name: str, partition: int, end: int) -> bool:
    """Whether an input alone does not contradict a mark."""
    wire = context.topics.wire(name)
    return has_topic(context.log, wire) and end <= context.log.end(wire, partition)


def _short(key: bytes, value: bytes | None) -> bytes | None:
    """Keep only the version of a chunk."""
    # A mark's turn stays valid even if a chunk is damaged, and chunks are large.
    return value if value is None or checkpoint_selection.is_mark(key) else value[:_VERSION]


# Whether the inputs are as a worker read them: compares digests of a replay with those in the worker's newest mark.
# Decisions alone do not show that. A sample can be changed in or removed from the log without changing any recommendation, and
# the replay still agrees with what was published. The digests cover what was read after the turn from which the worker keeps them
# up to the mark; what came later, or was read before by a version without digests, is covered by decisions alone.

_AT_ONCE = 5_000


@dataclass(slots=True)
class InputComparison:
    """One partition of one stage. `wrong` and `unproven` hold sentences; `equal` counts inputs."""

    context: LogContext
    mark: CommittedTurn
    equal: int = 0
    wrong: list[str] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)
    proven: dict[str, int] = field(default_factory=dict)
    """By topic (wire name), the offset up to which it is as the worker read it, from its beginning on."""
    _equal_upto: dict[str, int] = field(default_factory=dict)
    _wrong_by: dict[str, int] = field(default_factory=dict)
    """By input, where the first mark stands that it does not agree with."""
    _done: bool = False
    _earlier: dict[int, list[CheckpointMark]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look earlier marks up by their turn."""
        for earlier in self.mark.earlier:
            self._earlier.setdefault(earlier.turn, []).append(earlier)

    def after_turn(self, task: Task) -> None:
        """Compare a task that has just taken a turn."""
        since = None if self.mark.inputs is None else self.mark.inputs.since
        if task.turn == since:
            # The worker's chain begins after this turn, so ours has to begin there, too.
            task.inputs = InputDigests.begin(task.stage.reads, since=task.turn)
        for earlier in self._earlier.get(task.turn, ()):
            self._narrow(task, earlier)
        if task.turn == self.mark.turn:
            self._done = True
            self._compare(task)

    def _narrow(self, task: Task, earlier: CheckpointMark) -> None:
        """Compare with an earlier mark."""
        # Earlier marks tell between which two of them a damage lies.
        if earlier.inputs is None or earlier.inputs.since != task.inputs.since:
            return
        for name in task.stage.reads:
            upto = earlier.positions.get(name, 0)
            if earlier.inputs.chains.get(name) != task.inputs.chains[name] or upto != task.positions[name]:
                self._wrong_by.setdefault(name, upto)
            elif name not in self._wrong_by:
                self._equal_upto[name] = upto

    def finish(self, task: Task, start: int) -> None:
        """Everything was replayed; `start` is the turn after which that began."""
        if self._done or self.mark.turn <= start:
            return
        self.wrong.append(f"a worker took turn {self.mark.turn}, which the clock does not give in partition {task.partition}")

    def _compare(self, task: Task) -> None:
        marked = self.mark.inputs
        if marked is None or marked.since != task.inputs.since:
            self.unproven.append("the worker's mark carries no digest of what it read since then")
            return
        for name in task.stage.reads:
            wire, place = self.context.topics.wire(name), f"'{self.context.topics.wire(name)}' partition {task.partition}"
            upto = self.mark.positions.get(name, 0)
            if marked.chains.get(name) == task.inputs.chains[name] and upto == task.positions[name]:
                self.equal += 1
                # Only a chain from the first turn on proves all that is before its end.
                if marked.since < 0:
                    self.proven[wire] = upto
            elif self._compacted(wire, task.partition, upto):
                self.unproven.append(f"compaction took records of {place}, so its digest proves nothing")
            else:
                stretch = f"{place} from offset {self._equal_upto.get(name, 0)} to {self._wrong_by.get(name, upto)}"
                self.wrong.append(f"{stretch} is not what the worker had read by turn {self.mark.turn}")

    def _compacted(self, wire: str, partition: int, upto: int) -> bool:
        """Whether a topic that is compacted lacks records before this offset."""
        # Only compaction takes a record out of the middle; retention takes whole beginnings.
        if "compact" not in self.context.topics.topic(wire).cleanup:
            return False
        # A filler stands for a record that the broker lost, so it counts as one that is not there.
        return sum(1 for _ in self._offsets(wire, partition, upto)) < upto

    def _offsets(self, wire: str, partition: int, upto: int) -> Iterator[int]:
        position = self.context.log.begin(wire, partition)
        while position < upto and (records := self.context.log.poll({(wire, partition): position}, limit=_AT_ONCE)):
            yield from (r.offset for r in records if r.offset < upto and r.key != FILL)
            position = records[-1].offset + 1


def export(context: LogContext, to: RecordImporter, *, stages: Sequence[Stage], worker: str) -> Mapping[str, int]:
    """Copy everything that `to` does not have yet; returns how many records of each topic were copied.

    `worker` is the name of the worker group, whose changelogs are copied if there are any. Topics that an older version did not
    have are left out.
    """
    wires = copied_topics(context, stages, worker)
    parts = at_work(context, worker, stages)
    copied = copy_range(context.log, to, wires)
    note_in_copy(to, parts, {wire: context.log.partitions(wire) for wire in wires})
    return copied


def copied_topics(context: LogContext, stages: Sequence[Stage], worker: str) -> list[str]:
    """The topics (wire names) of a whole copy that the log has, in the order in which their ends must be read."""
    changelogs = [changelog_topic(worker, stage.name) for stage in stages]
    written = [context.topics.wire(name) for stage in reversed(stages) for name in ("dead-letters", *stage.writes)]
    rest = [context.topics.wire(topic.name) for topic in TOPICS]
    # Changelogs first, then what the last stage wrote, then the one before, and inputs last. So every mark finds its decisions,
    # and every decision its inputs.
    return [wire for wire in dict.fromkeys((*changelogs, *written, *rest)) if has_topic(context.log, wire)]
