"""The bytes of MetricsScraped, the hot path: a thousand rows in one record, the same names in record after record.

The three name columns stand together in one object, so that a reader can know them again by their bytes and skip parsing:
equal names come back as the same tuples. Numbers come back as float64 arrays, null as NaN. Refuses columns of unequal length.
"""

from collections import OrderedDict
from datetime import datetime

import msgspec
import numpy as np
import orjson

from schemas.facts import MetricsScraped
from schemas.units import Seconds
from streams.errors import BadRecord

Names = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_UTC_Z


class _Columns(msgspec.Struct):
    workloads: tuple[str, ...]
    pods: tuple[str, ...]
    containers: tuple[str, ...]


class _Scrape(msgspec.Struct):
    at: datetime
    cluster: str
    names: msgspec.Raw
    cores: msgspec.Raw
    memory: msgspec.Raw
    window: float = 60.0


_read_scrape = msgspec.json.Decoder(_Scrape).decode
_read_columns = msgspec.json.Decoder(_Columns).decode
_read_numbers = msgspec.json.Decoder(list[float]).decode
_read_gaps = msgspec.json.Decoder(list[float | None]).decode


class Scrapes:
    """Reads and writes scrapes; remembers the name columns of the last `keep` different ones."""

    def __init__(self, keep: int = 4096) -> None:
        self._keep = keep
        self._read: OrderedDict[bytes, Names] = OrderedDict()
        self._written: OrderedDict[tuple[int, int, int], tuple[Names, bytes]] = OrderedDict()

    def encode(self, scrape: MetricsScraped) -> bytes:
        """The bytes of a scrape: `{"at","cluster","window","names":{...},"cores","memory"}`."""
        body = {
            "at": scrape.at,
            "cluster": scrape.cluster,
            "window": scrape.window,
            "names": orjson.Fragment(self._names_bytes((scrape.workloads, scrape.pods, scrape.containers))),
            "cores": np.ascontiguousarray(scrape.cores, dtype=np.float64),
            "memory": np.ascontiguousarray(scrape.memory, dtype=np.float64),
        }
        return orjson.dumps(body, option=_OPTIONS)

    def _names_bytes(self, names: Names) -> bytes:
        """By identity: a source that keeps its tuples pays for them once."""
        key = (id(names[0]), id(names[1]), id(names[2]))
        known = self._written.get(key)
        if known is not None:
            self._written.move_to_end(key)
            return known[1]
        data = orjson.dumps(dict(zip(("workloads", "pods", "containers"), names, strict=True)))
        self._written[key] = (names, data)
        if len(self._written) > self._keep:
            self._written.popitem(last=False)
        return data

    def decode(self, value: bytes) -> MetricsScraped:
        """Inverse of `encode`. Raises msgspec's errors for a wrong shape, BadRecord for columns of unequal length."""
        body = _read_scrape(value)
        workloads, pods, containers = self._names(bytes(body.names))
        cores, memory = _numbers(body.cores), _numbers(body.memory)
        lengths = {len(workloads), len(pods), len(containers), len(cores), len(memory)}
        if len(lengths) > 1:
            msg = (
                f"the columns are of unequal length: {len(workloads)} workloads, {len(pods)} pods, {len(containers)} containers, "
            )
            raise BadRecord(f"{msg}{len(cores)} cores, {len(memory)} memory")
        return MetricsScraped(body.at, body.cluster, workloads, pods, containers, cores, memory, Seconds(body.window))  # type: ignore[arg-type]  # float64 arrays

    def _names(self, raw: bytes) -> Names:
        known = self._read.get(raw)
        if known is not None:
            self._read.move_to_end(raw)
            return known
        columns = _read_columns(raw)
        names = (columns.workloads, columns.pods, columns.containers)
        self._read[raw] = names
        if len(self._read) > self._keep:
            self._read.popitem(last=False)
        return names


def _numbers(raw: msgspec.Raw) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    try:
        return np.array(_read_numbers(raw), dtype=np.float64)
    except msgspec.ValidationError:
        return np.array(_read_gaps(raw), dtype=np.float64)
