"""Usage of pods that no source has told of yet: kept for a few scrapes, because the word of a new pod may come a moment later.

Bounded in rows and in looks; what is let go is given back, so that it can be counted and named.
"""

from collections import deque
from dataclasses import dataclass, field

from streams.sources.usage.readings import Readings

LOOKS = 5
MOST = 200_000
"""Rows: two scrapes of a large cluster, some 60 MB."""


@dataclass(slots=True)
class Held:
    """Batches with the number of scrapes that looked at them in vain, oldest first."""

    batches: deque[tuple[int, Readings]] = field(default_factory=deque)

    def __len__(self) -> int:
        """How many rows are kept."""
        return sum(len(batch) for _, batch in self.batches)

    def take(self) -> list[tuple[int, Readings]]:
        """All batches; what is still not known is to be kept again."""
        batches = list(self.batches)
        self.batches.clear()
        return batches

    def keep(self, readings: Readings, *, looks: int) -> list[Readings]:
        """Keep rows; gives what is let go instead."""
        if not len(readings):
            return []
        if looks >= LOOKS:
            return [readings]
        self.batches.append((looks, readings))
        gone = []
        while len(self) > MOST:
            gone.append(self.batches.popleft()[1])
        return gone
