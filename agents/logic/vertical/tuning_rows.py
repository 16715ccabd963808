"""The numbers by which containers are judged. Most containers share theirs with many others, so equal lines stand once."""

from collections.abc import Sequence

import numpy as np

from agents.engine.tables.row_table import Floats, Indices

_LEAST = 1024
"""Lines below which nothing is tidied."""


class Lines:
    """Lines of `width` numbers, known by their bits."""

    def __init__(self, width: int) -> None:
        self._lines: Floats = np.zeros((0, width))
        self._places: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, places: Indices) -> Floats:
        return self._lines[places]

    def item(self, place: int, column: int) -> float:
        """One number."""
        return self._lines.item(place, column)

    def crowded(self, users: int) -> bool:
        """Whether so many users cannot want most of what is here."""
        return len(self) > max(_LEAST, 2 * users)

    def place(self, numbers: Sequence[float]) -> int:
        """Where a line stands; put there when new."""
        line = np.array(numbers, np.float64)
        place = self._places.setdefault(line.tobytes(), len(self._places))
        if place == len(self._lines):
            more = np.zeros((max(16, place // 8), self._lines.shape[1]))
            self._lines = np.concatenate([self._lines, more])
        self._lines[place] = line
        return place

    def tidy(self, wanted: Indices) -> Indices:
        """Let lines go that nobody wants; where the wanted ones stand now."""
        kept, places = np.unique(wanted, return_inverse=True)
        self._lines = self._lines[kept]
        self._places = {line.tobytes(): place for place, line in enumerate(self._lines)}
        return np.asarray(places, np.int64)
