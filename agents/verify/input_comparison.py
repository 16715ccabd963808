"""Whether the inputs are as a worker read them: compares digests of a replay with those in the worker's newest mark.

Decisions alone do not show that. A sample can be changed in or removed from the log without changing any recommendation, and the
replay still agrees with what was published. The digests cover what was read after the turn from which the worker keeps them up to
the mark; what came later, or was read before by a version without digests, is covered by decisions alone. If compaction has
removed records of an input, its digest proves nothing any more, which is reported.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from agents.engine.input_digest import InputDigests
from agents.partition_task import Task
from agents.verify.committed_turns import CommittedTurn
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
    _done: bool = False

    def after_turn(self, task: Task) -> None:
        """Compare a task that has just taken a turn."""
        since = None if self.mark.inputs is None else self.mark.inputs.since
        if task.turn == since:
            task.inputs = InputDigests.begin(task.stage.reads, since=task.turn)
        if task.turn == self.mark.turn:
            self._done = True
            self._compare(task)

    def finish(self, task: Task, start: int) -> None:
        """Everything was replayed; `start` is the turn after which that began."""
        if self._done or self.mark.turn <= start:
            return
        self.wrong.append(f"a worker took turn {self.mark.turn}, which the ticks of partition {task.partition} do not give")

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
            elif self._compacted(wire, task.partition, upto):
                self.unproven.append(f"compaction took records of {place}, so its digest proves nothing")
            else:
                self.wrong.append(f"{place} before offset {upto} is not what the worker had read by turn {self.mark.turn}")

    def _compacted(self, wire: str, partition: int, upto: int) -> bool:
        """Whether a topic that is compacted lacks records before this offset."""
        if "compact" not in self.context.topics.topic(wire).cleanup:
            return False
        return sum(1 for _ in self._offsets(wire, partition, upto)) < upto

    def _offsets(self, wire: str, partition: int, upto: int) -> Iterator[int]:
        position = self.context.log.begin(wire, partition)
        while position < upto and (records := self.context.log.poll({(wire, partition): position}, limit=_AT_ONCE)):
            yield from (r.offset for r in records if r.offset < upto)
            position = records[-1].offset + 1
