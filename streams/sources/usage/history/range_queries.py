"""What a metrics store remembers of containers, a stretch of time at a time, as a table of containers and moments.

The stretch is cut so that no answer is large; a server that finds one too large nevertheless is asked for halves of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from schemas import times
from schemas.units import Seconds
from streams.clients.prometheus import Prometheus, Series, Stretch
from streams.errors import GiveUp, TryAgain, Unreachable
from streams.sources.usage.promql import Container, Words
from streams.sources.usage.readings import Floats

POINTS = 500_000
"""Samples of one answer at most, as far as can be known before: about 15 MB."""
MOMENTS = 10_000
"""Servers refuse more than 11,000 moments of one series."""


@dataclass(frozen=True, slots=True)
class Table:
    """Cores and bytes, a row for each container and a column for each moment; NaN where nothing was remembered."""

    moments: tuple[float, ...]
    containers: tuple[Container, ...]
    cores: Floats
    memory: Floats


@dataclass(frozen=True, slots=True)
class Remembered:
    """One server's memory of one cluster; CPU is averaged over `step`."""

    server: Prometheus
    words: Words
    step: Seconds

    def tables(self, first: float, last: float) -> Iterator[Table]:
        """From `first` to `last`, in order. Raises TryAgain and GiveUp."""
        steps = int((last - first) // self.step) + 1
        at_once = max(1, min(MOMENTS, POINTS // max(1, self._count(last))))
        for begin in range(0, steps, at_once):
            moments = [first + self.step * i for i in range(begin, min(begin + at_once, steps))]
            yield self._table(tuple(moments))

    def _count(self, at: float) -> int:
        """How many containers there are, to know what can be asked for at once."""
        answer = self.server.instant(self.words.count(), times.from_seconds(at))
        return max((int(float(series.value[1])) for series in answer if series.value is not None), default=0)

    def _table(self, moments: tuple[float, ...]) -> Table:
        cores = self._numbers(self.words.cpu(self.step), moments)
        memory = self._numbers(self.words.memory(), moments)
        containers = tuple(sorted(cores.keys() | memory.keys()))
        none = np.full(len(moments), np.nan)
        shape = len(containers), len(moments)
        columns = [np.array([found.get(name, none) for name in containers]).reshape(shape) for found in (cores, memory)]
        return Table(moments, containers, *columns)

    def _numbers(self, query: str, moments: tuple[float, ...]) -> dict[Container, Floats]:
        found: dict[Container, Floats] = {}
        for series in self._over(query, moments):
            column = found.setdefault(self.words.container(series), np.full(len(moments), np.nan))
            places = [round((at - moments[0]) / self.step) for at, _ in series.values]
            column[places] = [float(number) for _, number in series.values]
        return found

    def _over(self, query: str, moments: tuple[float, ...]) -> list[Series]:
        """The answer, in halves where the whole is refused."""
        try:
            return self.server.over(query, Stretch(moments[0], moments[-1], self.step))
        except Unreachable:
            raise
        except (GiveUp, TryAgain):
            if len(moments) == 1:
                raise
        half = len(moments) // 2
        return [*self._over(query, moments[:half]), *self._over(query, moments[half:])]
