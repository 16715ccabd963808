"""What a metrics store recorded of containers, as matrices of containers and moments, one range of time after the other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from schemas import times
from schemas.units import Seconds
from streams import answer_bounds
from streams.clients.prometheus import Prometheus, Series, TimeRange
from streams.errors import GiveUp, TryAgain, Unreachable
from streams.sources.usage.promql import MetricNames
from streams.sources.usage.readings import ContainerId, Floats

POINTS = 500_000
"""Most samples in one result, as far as we can estimate it: about 15 MB."""
MOMENTS = 10_000
"""Most moments in one result. Servers refuse more than 11,000."""


@dataclass(frozen=True, slots=True)
class UsageMatrix:
    """Cores and bytes, each (containers, moments), NaN where nothing was recorded. Moments are in seconds since the epoch."""

    moments: tuple[float, ...]
    containers: tuple[ContainerId, ...]
    cores: Floats
    memory: Floats


@dataclass(frozen=True, slots=True)
class UsageHistory:
    """The usage of one cluster that one server recorded. CPU is averaged over `step`."""

    server: Prometheus
    names: MetricNames
    step: Seconds

    def matrices(self, first: float, last: float) -> Iterator[UsageMatrix]:
        """From `first` to `last`, in seconds since the epoch and in order. Raises TryAgain and GiveUp."""
        steps = int((last - first) // self.step) + 1
        # Ranges are cut so that no result is large.
        at_once = max(1, min(MOMENTS, POINTS // max(1, self._count(last))))
        for begin in range(0, steps, at_once):
            moments = [first + self.step * i for i in range(begin, min(begin + at_once, steps))]
            yield self._matrix(tuple(moments))

    def _count(self, at: float) -> int:
        """How many containers there are, to know how many moments to ask for at once."""
        result = self.server.query(self.names.count(), times.from_seconds(at))
        return max((answer_bounds.count(answer_bounds.number(series.value[1])) for series in result if series.value), default=0)

    def _matrix(self, moments: tuple[float, ...]) -> UsageMatrix:
        cores = self._numbers(self.names.cpu(self.step), moments)
        memory = self._numbers(self.names.memory(), moments)
        containers = tuple(sorted(cores.keys() | memory.keys()))
        return UsageMatrix(moments, containers, *(_aligned(numbers, containers, moments) for numbers in (cores, memory)))

    def aligned(self, query: str, containers: Sequence[ContainerId], moments: tuple[float, ...]) -> Floats:
        """What a query gives of these containers at these moments (containers, moments), NaN for none. Raises as `matrices`."""
        return _aligned(self._numbers(query, moments), containers, moments)

    def _numbers(self, query: str, moments: tuple[float, ...]) -> dict[ContainerId, Floats]:
        numbers: dict[ContainerId, Floats] = {}
        for series in self._query(query, moments):
            column = numbers.setdefault(self.names.container(series), np.full(len(moments), np.nan))
            for at, text in series.values:
                place = answer_bounds.place(at, moments[0], self.step, len(moments))
                if place is not None:
                    column[place] = answer_bounds.number(text)
        return numbers

    def _query(self, query: str, moments: tuple[float, ...]) -> list[Series]:
        """The result, in halves where the server refuses the whole."""
        try:
            return self.server.query_range(query, TimeRange(moments[0], moments[-1], self.step))
        except Unreachable:
            raise
        except (GiveUp, TryAgain):  # the result may be too large for the server
            if len(moments) == 1:
                raise
        half = len(moments) // 2
        return [*self._query(query, moments[:half]), *self._query(query, moments[half:])]


def _aligned(numbers: Mapping[ContainerId, Floats], containers: Sequence[ContainerId], moments: Sequence[float]) -> Floats:
    none = np.full(len(moments), np.nan)
    return np.array([numbers.get(name, none) for name in containers]).reshape(len(containers), len(moments))
