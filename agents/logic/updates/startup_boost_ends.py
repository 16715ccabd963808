"""When startup boosts end, so that they are ended in that very turn, independent of the updater's interval."""

import heapq
from collections.abc import Callable, Iterable, Sequence

EndsOf = Callable[[str], Sequence[int]]
"""The turns in which the boosts of a pod end, by its uid."""


class BoostEnds:
    """The turns in which boosts end, the first one first. They follow from the state, and are found again after a restart."""

    def __init__(self) -> None:
        self._ends: list[tuple[int, str]] | None = None
        self._seen: set[str] = set()

    def note(self, uid: str) -> None:
        """A fact about a boosted pod has come in this turn."""
        self._seen.add(uid)

    def forget(self) -> None:
        """Policies, or the whole state, have changed."""
        self._ends = None

    def due(self, after: int, now: int, uids: Iterable[str], ends_of: EndsOf) -> set[str]:
        """The pods with a boost that ended after the turn `after`, until `now`, or is only now known to have ended.

        `uids` are all pods; it is called once in each turn.
        """
        if self._ends is None:
            self._ends = [(end, uid) for uid in uids for end in ends_of(uid) if end > after]
            heapq.heapify(self._ends)
        else:
            for uid in self._seen:
                for end in ends_of(uid):
                    heapq.heappush(self._ends, (end, uid))
        # From the state before and the facts of this turn alone, so that a restart in between changes nothing.
        due = {uid for uid in self._seen if any(end <= now for end in ends_of(uid))}
        self._seen.clear()
        while self._ends and self._ends[0][0] <= now:
            _, uid = heapq.heappop(self._ends)
            # The end may have moved since it was entered, as when the pod was not ready for a while.
            if any(after < end <= now for end in ends_of(uid)):
                due.add(uid)
        return due
