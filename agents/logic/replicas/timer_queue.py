"""What is due when, in order: a heap that is rebuilt from a state's tables and so is no part of the state."""

import heapq
from collections.abc import Iterable
from zlib import crc32


class TimerQueue:
    """Keys with the turn in which each is due. Setting a key anew replaces what was said of it."""

    def __init__(self, known: Iterable[tuple[str, int]] = ()) -> None:
        self._due = dict(known)
        self._heap = [(turn, key) for key, turn in self._due.items()]
        heapq.heapify(self._heap)

    def put(self, key: str, turn: int) -> None:
        """The key is due in this turn."""
        if self._due.get(key) != turn:
            self._due[key] = turn
            heapq.heappush(self._heap, (turn, key))

    def remove(self, key: str) -> None:
        """The key is never due."""
        self._due.pop(key, None)

    def take(self, turn: int, most: int) -> list[str]:
        """At most so many keys that are due by now, the longest due first, then by name. They are not due any more."""
        found: list[str] = []
        while self._heap and self._heap[0][0] <= turn and len(found) < most:
            due, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                found.append(key)
        return found


def next_round(key: str, turn: int, interval: int) -> int:
    """The next turn of a key whose turns are `interval` milliseconds apart; keys are spread over the interval by their names."""
    offset = crc32(key.encode()) % interval
    return ((turn - offset) // interval + 1) * interval + offset
