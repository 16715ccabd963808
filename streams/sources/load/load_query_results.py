"""Queries a Prometheus server for one load: a number for now, or a stretch of the past.

A load is one series. A query that gives several, or an answer beyond a bound, is refused with a sentence that names the bound and
what the query returned; nothing of such an answer is used. NaN, infinite and absurd numbers count as absent.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from schemas import bounds
from schemas.facts.replica_scaling import MOST_ROWS
from schemas.units import Seconds
from streams import answer_bounds
from streams.clients.prometheus import Prometheus, Series, TimeRange
from streams.errors import GiveUp

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class LoadHistory:
    """Values at `start`, `start + step` ... (seconds since the epoch); None where nothing is known."""

    start: float
    step: Seconds
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class LoadQueries:
    """Asks one server. `step` is the distance of the values of a history, in seconds."""

    server: Prometheus
    step: Seconds = Seconds(60.0)

    def look(self, at: datetime) -> None:
        """Make a trivial query, to see whether the server answers. Raises TryAgain and GiveUp."""
        self.server.query("vector(1)", at)

    def now(self, query: str, at: datetime) -> float:
        """The load at a moment. Raises TryAgain, and GiveUp for an answer that is no load."""
        series = _one(query, self.server.query(query, at))
        number = None if series is None or series.value is None else _number(series.value[1])
        if number is None:
            value = "nothing" if series is None or series.value is None else f"'{series.value[1]}'"
            raise GiveUp(doing="reading a load from", to=query[:200], answer=f"it gives {value} now, and no number")
        return number

    def history(self, query: str, *, since: float, until: float) -> Iterator[LoadHistory]:
        """The load from `since` to `until` (seconds since the epoch), in parts that a record holds; without empty parts."""
        first, last = math.ceil(since / self.step), math.floor(until / self.step)
        # Whole multiples of the step, so that the values of two histories lie on the same grid.
        for begin in range(first, last + 1, MOST_ROWS):
            over = TimeRange(begin * self.step, min(begin + MOST_ROWS - 1, last) * self.step, self.step)
            series = _one(query, self.server.query_range(query, over))
            if series is not None and series.values:
                yield self._part(over, series)

    def _part(self, over: TimeRange, series: Series) -> LoadHistory:
        """From the first known value to the last one."""
        values: list[float | None] = [None] * (round((over.last - over.first) / self.step) + 1)
        places = []
        for at, text in series.values:
            place = answer_bounds.place(at, over.first, self.step, len(values))
            if place is not None:
                values[place] = _number(text)
                places.append(place)
        low, high = min(places, default=0), max(places, default=0)
        return LoadHistory(over.first + low * self.step, self.step, tuple(values[low : high + 1]))


def _one(query: str, answer_series: Sequence[Series]) -> Series | None:
    """The only series of an answer; None for an empty answer. Raises GiveUp for several."""
    if len(answer_series) > 1:
        named = ", ".join(_label_text(series) for series in answer_series[:_SHOWN])
        answer = f"it gives {len(answer_series):,} series ({named} ...); a load is one series, so add them up, as with sum()"
        raise GiveUp(doing="reading a load from", to=query[:200], answer=answer)
    return answer_series[0] if answer_series else None


def _label_text(series: Series) -> str:
    return "{" + ",".join(f'{key}="{value}"' for key, value in sorted(series.metric.items()))[:100] + "}"


def _number(text: str) -> float | None:
    value = answer_bounds.number(text)
    return value if abs(value) <= bounds.MOST_NUMBER else None  # what is no number is less than nothing
