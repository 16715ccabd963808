"""Which decisions have an outcome already, as far back as it is worth knowing.

The log keeps decisions for a year, and a worker that recovers publishes some again. Nothing older than `REACH` can come back that
way, because no input is kept for longer with certainty. So what was decided before that is over: it is neither remembered nor
answered. Memory and the time to start are therefore bounded by what happens in one reach. Reads nothing itself.
"""

from collections import OrderedDict
from datetime import datetime, timedelta

from schemas.outcomes import ActionFinished
from streams.topics import REACH_MS

REACH = timedelta(milliseconds=REACH_MS)


class Answered:
    """The ids of decisions that have an outcome, complete for decisions taken at or after `since`."""

    def __init__(self, now: datetime) -> None:
        self.since = now - REACH
        self._ids: OrderedDict[str, datetime] = OrderedDict()

    def add(self, outcome: ActionFinished) -> None:
        """This decision has an outcome."""
        self._ids.setdefault(outcome.decision, outcome.at)

    def __contains__(self, decision: str) -> bool:
        """Whether a decision taken at or after `since` has an outcome."""
        return decision in self._ids

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._ids)

    def forget(self, now: datetime) -> None:
        """Let go of what is out of reach now. An outcome is never older than its decision."""
        self.since = max(self.since, now - REACH)
        while self._ids and next(iter(self._ids.values())) < self.since:
            self._ids.popitem(last=False)
