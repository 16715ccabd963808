"""Facts about load: the metrics that workloads are scaled by, now and in the past."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b

from schemas.names import Workload
from schemas.units import Seconds

MOST_ROWS = 10_000
"""Rows of one scrape, and values of one stretch of history."""


def series_id(identifier: str, query: str) -> str:
    """The series that a query gives for a metric: another query is another series. `resource.cpu#1f0c2ad9e3b4`."""
    # The query itself may be thousands of characters, and stands in every row of a scrape.
    return f"{identifier}#{blake2b(query.encode(), digest_size=6).hexdigest()}"


@dataclass(frozen=True, slots=True)
class LoadScraped:
    """One reading of the load of many workloads, as columns of equal length.

    Row i says that the series `series[i]` of workload `workloads[i]` had the value `values[i]` at `at`, or `ages[i]` seconds
    before it where there are ages. What could not be read has no row.
    """

    at: datetime
    cluster: str
    workloads: tuple[str, ...]
    series: tuple[str, ...]
    values: tuple[float, ...]
    ages: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadHistoryRead:
    """A stretch of one series as a metrics store remembers it: values at `start`, `start + step` and so on, null for none."""

    at: datetime
    workload: Workload
    series: str
    start: datetime
    step: Seconds
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class LoadQueryFailed:
    """The query of a series has no usable answer; `reason` says why. It holds until the next row of the series."""

    at: datetime
    workload: Workload
    series: str
    reason: str
