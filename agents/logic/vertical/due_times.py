"""Which workloads a turn looks at: due times spread over the interval, in event time, from nothing but turn numbers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import Indices


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """From the turn before to this one, in milliseconds."""

    before: int
    now: int

    def crosses(self, spread: Indices, period: int) -> NDArray[np.bool_]:
        """For each element: does a due time of its own lie in (before, now]? Due times are `period` apart."""
        slot = spread % period
        return (self.now - slot) // period > (self.before - slot) // period

    def last_due(self, spread: Indices, period: int) -> Indices:
        """The due time of each element at or before `before`."""
        slot = spread % period
        return (self.before - slot) // period * period + slot

    def crosses_one(self, period: int) -> bool:
        """The same for a due time at whole periods."""
        return self.now // period > self.before // period
