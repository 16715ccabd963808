"""Faults of this program's own, at the places that go on after one: logged with their traceback, counted, and ended by a bound.

An exception of ours says nothing about the cluster, so it never becomes an outcome by itself. After a few in a row the caller
ends, and with it the process, because what fails each time is of no use to anybody, and a process that looks healthy hides it.
"""

from collections import Counter
from collections.abc import Sequence

import structlog

from schemas.units import Seconds
from streams.errors import UllageError

MOST_IN_A_ROW = 5
"""Faults in a row after which a consumer ends."""
PAUSE = Seconds(10.0)
"""Seconds until what failed by a fault of ours is tried again."""
TOTALS: Counter[str] = Counter()
"""How many there were since the start of the process, by place."""
_log = structlog.get_logger(__name__)


class TooManyFaultsError(UllageError):
    """There were so many faults in a row that it makes no sense to go on."""


class OwnFaults:
    """The faults of one place, such as a consumer. `where` names it. Any thread may call."""

    def __init__(self, where: str, most: int = MOST_IN_A_ROW) -> None:
        self._where, self._most = where, most
        self._in_a_row, self._newest = 0, ""

    def happened(self, doing: str, fault: BaseException) -> str:
        """There was one while doing this; the sentence about it."""
        self._newest = f"a fault of Ullage's own while {doing}: {type(fault).__name__}: {fault}"[:1000]
        self._in_a_row += 1
        TOTALS[self._where] += 1
        _log.error("a fault of our own", where=self._where, doing=doing, in_a_row=self._in_a_row, exc_info=fault)
        return self._newest

    def none(self) -> None:
        """Something went well."""
        self._in_a_row = 0

    @property
    def too_many(self) -> bool:
        """Whether there were so many in a row that it makes no sense to go on."""
        return self._in_a_row >= self._most

    def check(self) -> None:
        """Raise TooManyFaultsError if there were."""
        if self.too_many:
            raise TooManyFaultsError(f"{self._in_a_row} faults in a row, so the {self._where} ends; the newest: {self._newest}")

    def reasons(self) -> Sequence[str]:
        """Why not ready: the newest fault, until something goes well."""
        return [f"{self._in_a_row} in a row, the newest: {self._newest}"] if self._in_a_row else []
