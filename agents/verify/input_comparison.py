"""Whether the inputs are as a worker read them: compares digests of a replay with those in the worker's newest mark.

Decisions alone do not show that. A sample can be changed in or removed from the log without changing any recommendation, and the
replay still agrees with what was published. The digests cover what was read after the turn from which the worker keeps them up to
the mark; what came later, or was read before by a version without digests, is covered by decisions alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from agents.engine.checkpoint_selection import CheckpointMark
from agents.engine.input_digest import InputDigests
from agents.run.partition_task import Task
from agents.verify.committed_turns import CommittedTurn
from streams.clock_rules import FILL
from streams.log_context import LogContext

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
