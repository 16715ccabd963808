"""Usage of pods that no source has published yet: kept for a few scrapes, because a new pod's fact may come a moment later.

The number of rows and the number of attempts are bounded. Rows that are given up are returned, so that they can be counted and
named.
"""

from collections import deque
from dataclasses import dataclass, field

from streams.sources.usage.readings import Readings

MOST_LOOKS = 5
MOST_ROWS = 200_000
"""Two scrapes of a large cluster, some 60 MB."""


@dataclass(slots=True)
class PendingRows:
    """Batches of rows with the number of scrapes that looked for their pods in vain, oldest first."""

    batches: deque[tuple[int, Readings]] = field(default_factory=deque)

    def __len__(self) -> int:
        """How many rows are kept."""
        return sum(len(batch) for _, batch in self.batches)

    def drain(self) -> list[tuple[int, Readings]]:
        """Every batch. The caller keeps again what is still unknown."""
        batches = list(self.batches)
        self.batches.clear()
        return batches

    def keep(self, readings: Readings, *, looks: int) -> list[Readings]:
        """Keep rows after this many looks. Returns the rows that are given up instead."""
        if not len(readings):
            return []
        if looks >= MOST_LOOKS:
            return [readings]
        self.batches.append((looks, readings))
        given_up = []
        while len(self) > MOST_ROWS:
            given_up.append(self.batches.popleft()[1])
        return given_up
