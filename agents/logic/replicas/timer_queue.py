"""A queue of what is due when: a heap that is rebuilt from a state's tables, so it is not part of the state."""

import heapq
from collections.abc import Iterable
from zlib import crc32


class TimerQueue:
    """Keys with the turn in which each is due. Setting a key again replaces its turn."""

    def __init__(self, known: Iterable[tuple[str, int]] = ()) -> None:
        self._due = dict(known)
        self._heap = [(turn, key) for key, turn in self._due.items()]
        heapq.heapify(self._heap)

    def put(self, key: str, turn: int) -> None:
        """Make a key due in this turn."""
        if self._due.get(key) != turn:
            self._due[key] = turn
            heapq.heappush(self._heap, (turn, key))

    def remove(self, key: str) -> None:
        """Make a key never due."""
        self._due.pop(key, None)

    def take(self, turn: int, most: int) -> list[str]:
        """Take out at most `most` keys that are due by now, the longest due first, then by name."""
        keys: list[str] = []
        while self._heap and self._heap[0][0] <= turn and len(keys) < most:
            due, key = heapq.heappop(self._heap)
            # An entry that was put again or removed stays in the heap, and is skipped when it comes to the top.
            if self._due.get(key) == due:
                del self._due[key]
                keys.append(key)
        return keys


def next_round(key: str, turn: int, interval: int) -> int:
    """The next turn of a key whose turns are `interval` milliseconds apart."""
    # Names spread the keys over the interval, so that no turn has to do the work of all. crc32, because Python's own hash of a
    # text differs from process to process.
    offset = crc32(key.encode()) % interval
    return ((turn - offset) // interval + 1) * interval + offset
