"""Node labels as columns: a number for each row and key, so that a requirement is evaluated once for each value."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from agents.logic.nodes.scheduling.scheduling_selectors import LabelRequirement

Mask = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]

ABSENT = -1


def grown(array: npt.NDArray[np.generic], rows: int) -> npt.NDArray[np.generic]:
    """The same array with room for at least so many rows; new ones are zero."""
    if rows <= array.shape[0]:
        return array
    # Twice as large, so that nodes that come one by one are not copied each time.
    larger = np.zeros((max(rows, 2 * array.shape[0]), *array.shape[1:]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


class Column:
    """The values of one label key: `ids[row]` is an index into `values`, or ABSENT."""

    __slots__ = ("_index", "_known", "ids", "values")

    def __init__(self) -> None:
        self.ids: Ids = np.zeros(64, np.int32)
        self.values: list[str] = []
        self._index: dict[str, int] = {}
        self._known: dict[LabelRequirement, list[bool]] = {}

    def extend(self, row: int, values: Iterable[str | None]) -> None:
        """The values of the rows from `row` on."""
        ids = [ABSENT if value is None else self.number(value) for value in values]
        self.ids = grown(self.ids, row + len(ids))  # type: ignore[assignment]  # grown keeps the dtype
        self.ids[row : row + len(ids)] = ids

    def number(self, value: str) -> int:
        """The index of a value; added if new."""
        index = self._index.get(value)
        if index is None:
            index = self._index[value] = len(self.values)
            self.values.append(value)
        return index

    def meets(self, requirement: LabelRequirement, rows: slice) -> Mask:
        """Which of the rows meet a requirement."""
        # A verdict for each value and not for each node, because many nodes share few values.
        verdicts = self._known.setdefault(requirement, [requirement.accepts(None)])
        verdicts.extend(requirement.accepts(value) for value in self.values[len(verdicts) - 1 :])
        result: Mask = np.array(verdicts, np.bool_)[self.ids[rows] + 1]
        return result


class LabelTable:
    """The labels of all nodes. A key costs nothing until a rule asks for it."""

    __slots__ = ("_columns", "_rows")

    def __init__(self) -> None:
        self._rows: list[dict[str, str]] = []
        self._columns: dict[str, Column] = {}

    def add_all(self, rows: list[dict[str, str]]) -> None:
        """The labels of further nodes."""
        for key, column in self._columns.items():
            column.extend(len(self._rows), (labels.get(key) for labels in rows))
        self._rows += rows

    def cut(self, rows: int) -> None:
        """Forget all rows from `rows` on."""
        del self._rows[rows:]

    def column(self, key: str) -> Column:
        """The column of a key."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = Column()
            column.extend(0, (labels.get(key) for labels in self._rows))
        return column

    def meets(self, demands: Sequence[LabelRequirement], rows: slice) -> Mask:
        """Which of the rows meet all of the demands."""
        result = np.ones(len(range(*rows.indices(len(self._rows)))), np.bool_)
        for demand in demands:
            result &= self.column(demand.key).meets(demand, rows)
        return result

    def of(self, row: int) -> dict[str, str]:
        """The labels of one node."""
        return self._rows[row]
