"""Real loads for backtests of forecasts, from the traces outside the repository, as even bins; NaN where nothing was seen."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

TRACES = Path(os.environ.get("ULLAGE_SHARED", Path(__file__).parents[3] / "shared")) / "traces"

Floats = NDArray[np.float64]
STEP = 300


@dataclass(frozen=True)
class LoadTrace:
    """One series: where it is from, its name, and values at `start`, `start + step` ... (seconds)."""

    group: str
    name: str
    start: int
    step: int
    values: Floats


_FILES = (
    ("web-request-rates", "worldcup98_1min.parquet", "'worldcup98'", "timestamp_s", "requests", "not missing"),
    ("web-request-rates", "nasa95_1min.parquet", "'nasa95'", "timestamp_s", "requests", "not missing"),
    ("web-request-rates", "tweets2021_1s.parquet", "'tweets2021'", "second", "events", "not missing"),
    ("crane-dsp-series", "series.parquet", "series_id", "timestamp_s", "value", "true"),
    ("azure-v1-vm-cpu", "cpu.parquet", "vm_id", "timestamp_s", "cpu_avg_pct", "true"),
    ("nab-cloudwatch", "series.parquet", "series_id", "timestamp_s", "value", "true"),
    ("cloud-cluster-capacity", "pools_1min.parquet", "pool_id", "timestamp_s", "cpu_cores", "true"),
)
"""Trace, file, and in the words of SQL: the series' name, time and value, and which rows count."""
GROUPS = tuple(dict.fromkeys(file[0] for file in _FILES))
_BUSY = f"container_id in (select container_id from '{TRACES}/bitbrains-rnd/containers.parquet' where cpu_p50 > 0.05)"  # noqa: S608
_UNTUNED = (
    ("datacenter-aggregates", "alibaba2018_30s.parquet", "'alibaba2018'", "timestamp_s", "cpu_util_percent", "true"),
    ("datacenter-aggregates", "google2019_5min.parquet", "'google2019'", "timestamp_s", "cpu_util_percent", "true"),
    ("datacenter-aggregates", "azure2019_5min.parquet", "'azure2019'", "timestamp_s", "cpu_usage", "true"),
    ("google2019-borg", "usage.parquet", "container_id", "timestamp_s", "cpu_cores", "true"),
    ("google2011-jobs", "usage.parquet", "container_id", "timestamp_s", "cpu_cores", "true"),
    ("bitbrains-rnd", "usage.parquet", "container_id", "timestamp_s", "cpu_cores", _BUSY),
)
"""The same of loads that no rule of ours was chosen by: what is best on `GROUPS` may be so because it was chosen there."""
UNTUNED = tuple(dict.fromkeys(file[0] for file in _UNTUNED))


def read(groups: tuple[str, ...] = GROUPS) -> list[LoadTrace]:
    """All series of some traces, in bins of five minutes (half an hour for the taxis, which are counted so)."""
    found = []
    for group, file, name, at, value, kept in (*_FILES, *_UNTUNED):
        if group in groups:
            sql = (
                f"select {name} s, cast({at} as bigint) t, cast({value} as double) v from '{TRACES / group / file}' where {kept}"  # noqa: S608  # words from above
            )
            columns = duckdb.connect().execute(sql).fetchnumpy()
            found += _series(group, columns)
    return found


def _series(group: str, columns: Any) -> list[LoadTrace]:  # numpy's masked columns
    names, which = np.unique(np.asarray(columns["s"]).astype(str), return_inverse=True)
    times = np.asarray(columns["t"], np.int64)
    values = np.ma.filled(np.ma.asarray(columns["v"]).astype(np.float64), np.nan)
    return [
        _binned(group, name, times[which == place], values[which == place], 1800 if name == "nyc_taxi" else STEP)
        for place, name in enumerate(names.tolist())
    ]


def _binned(group: str, name: str, times: NDArray[np.int64], values: Floats, step: int) -> LoadTrace:
    good = np.isfinite(values)
    times, values = times[good], values[good]
    start = int(times.min()) // step * step
    places = (times - start) // step
    length = int(places.max()) + 1
    sums, counts = np.bincount(places, values, length), np.bincount(places, minlength=length)
    return LoadTrace(group, name, start, step, np.where(counts > 0, sums / np.maximum(counts, 1), np.nan))
