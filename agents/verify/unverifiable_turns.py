"""Turns that were decided by rules that this program does not have: those of another version of a stage's program.

From the first such turn on nothing of that stage is compared in that partition, and the report says so. Other stages are compared
as usual.
"""

from dataclasses import dataclass, field

from agents.engine.stage import Stage
from agents.run.partition_task import TurnResult
from schemas.policies.rules import StageRulesChanged
from schemas.times import from_ms


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
