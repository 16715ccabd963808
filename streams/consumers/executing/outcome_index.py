"""Which decisions have an outcome already, for as long as that matters.

A decision older than `REACH` is over: the index neither remembers nor answers for it, so the memory and the time to start are
bounded by what happens within one reach.
"""

from collections import OrderedDict
from datetime import datetime, timedelta

from schemas.outcomes import ActionFinished
from streams.topics import REACH_MS

# A worker that recovers publishes decisions again, but only what it can recompute from its inputs, which are kept for so long.
REACH = timedelta(milliseconds=REACH_MS)


class OutcomeIndex:
    """The ids of decisions that have an outcome, complete for decisions taken at or after `since`."""

    def __init__(self, now: datetime) -> None:
        self.since = now - REACH
        self._ids: OrderedDict[str, datetime] = OrderedDict()

    def apply(self, outcome: ActionFinished) -> None:
        """Remember that the outcome's decision has one."""
        self._ids.setdefault(outcome.decision, outcome.at)

    def __contains__(self, decision: str) -> bool:
        """Whether a decision that was taken at or after `since` has an outcome, by its id."""
        return decision in self._ids

    def __len__(self) -> int:
        """How many decisions are remembered."""
        return len(self._ids)

    def expire(self, now: datetime) -> None:
        """Forget what is out of reach at `now`."""
        self.since = max(self.since, now - REACH)
        # An outcome is never older than its decision, so what goes here belongs to a decision that is out of reach, too.
        while self._ids and next(iter(self._ids.values())) < self.since:
            self._ids.popitem(last=False)
