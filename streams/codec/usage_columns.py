"""The bytes of MetricsScraped, the hot path: a thousand rows in one record, the same names in record after record.

The three name columns stand together in one object, so that a reader recognises them by their bytes and does not parse them
again: equal names come back as the same tuples. A cluster's containers change seldom and are scraped often, so both directions
cache the columns that they met lately; the caches are bounded and never change the result. Numbers come back as float64 arrays,
null as NaN. Columns of unequal length are refused.
"""

import re
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from sys import intern
from typing import Any

import msgspec
import orjson

from schemas import plain_json
from schemas.facts.usage import MetricsScraped
from schemas.units import Seconds
from streams import typed_json
from streams.errors import BadRecord

ROWS = 10_000  # in one record; a row takes 100 to 250 bytes, and a worker fetches 4 MiB at a time

NameColumns = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""Workload keys, pod names and container names, row by row."""

KEEP_BYTES = 32 << 20
_HEAD, _VARIANTS = 256, 4
"""Columns that begin with the same so many bytes are kept together, and of these so many."""
_OPTIONAL = ("ages", "cores_max", "memory_max")
_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_UTC_Z


class _Scrape(msgspec.Struct):
    at: datetime
    cluster: str
    names: msgspec.Raw
    cores: Sequence[float | None]
    memory: Sequence[float | None]
    window: float = 60.0
    ages: list[float] = []
    history: bool = False
    cores_max: Sequence[float | None] = []
    memory_max: Sequence[float | None] = []


class _Full(_Scrape):
    """A scrape without absent numbers, which takes half the time to read."""

    cores: list[float]
    memory: list[float]
    cores_max: list[float] = []
    memory_max: list[float] = []


_read_scrape, _read_full = typed_json.decoder(_Scrape).decode, typed_json.decoder(_Full).decode
_AS_WRITTEN = re.compile(rb'\{"at":"[^"\\]{1,64}","cluster":"[^"\\]{0,256}","window":[0-9.]{1,32},"names":')
"""How we begin a scrape: what follows is the value of `names`, and nothing but `names`."""


def _scrape(value: bytes) -> _Scrape:
    try:
        return _read_full(value)
    except msgspec.ValidationError:
        return _read_scrape(value)


class ScrapeCodec:
    """Encodes and decodes scrapes, and caches recent name columns."""

    def __init__(self) -> None:
        self._read, self._written = NameColumnReader(), NameColumnWriter()
        self._word = f'"{secrets.token_hex(16)}"'.encode()  # nobody can guess it, and so write it into a record

    def encode(self, scrape: MetricsScraped) -> bytes:
        """`{"at":…,"cluster":…,"window":…,"names":{"workloads":[…],"pods":[…],"containers":[…]},"cores":[…],"memory":[…]}`.

        `ages`, `history`, `cores_max` and `memory_max` are written where they say something.
        """
        import numpy as np  # with the first scrape, because many commands never meet one

        body: dict[str, object] = {
            "at": scrape.at,
            "cluster": scrape.cluster,
            "window": scrape.window,
            "names": self._written.encode((scrape.workloads, scrape.pods, scrape.containers)),
            "cores": np.ascontiguousarray(scrape.cores, dtype=np.float64),
            "memory": np.ascontiguousarray(scrape.memory, dtype=np.float64),
        }
        for name in _OPTIONAL:
            column = getattr(scrape, name)
            if len(column):
                body[name] = np.ascontiguousarray(column, dtype=np.float64)
        if scrape.history:
            body["history"] = True
        return plain_json.fitted(orjson.dumps(body, option=_OPTIONS))

    def decode(self, value: bytes) -> MetricsScraped:
        """Inverse of `encode`. Raises msgspec's errors for a wrong shape, BadRecord for columns of unequal length."""
        body, names = self._known_names(value) or self._any_names(value)
        _refuse_unequal(names, body)
        return MetricsScraped(
            body.at,
            body.cluster,
            *names,
            cores=_array(body.cores),
            memory=_array(body.memory),
            window=Seconds(body.window),
            ages=_array(body.ages) if body.ages else (),
            history=body.history,
            cores_max=_array(body.cores_max) if body.cores_max else (),
            memory_max=_array(body.memory_max) if body.memory_max else (),
        )

    def _known_names(self, value: bytes) -> tuple[_Scrape, NameColumns] | None:
        """Read a scrape in our own format whose names are cached, without parsing them; None for any other.

        The rest is parsed with an unguessable word in place of the names, so a record that has `names` twice, in any spelling, is
        not read this way.
        """
        begin = _AS_WRITTEN.match(value)
        cached = self._read.begins(value, begin.end()) if begin else None
        if begin is None or cached is None:
            return None
        raw, names = cached
        try:
            body = _scrape(b"".join((value[: begin.end()], self._word, value[begin.end() + len(raw) :])))
        except msgspec.MsgspecError:
            return None  # reading all of it names the place of the fault
        return (body, names) if bytes(body.names) == self._word else None

    def _any_names(self, value: bytes) -> tuple[_Scrape, NameColumns]:
        body = _scrape(value)
        return body, self._read.decode(bytes(body.names))


def _refuse_unequal(names: NameColumns, body: _Scrape) -> None:
    workloads, pods, containers = (len(column) for column in names)
    cores, memory = len(body.cores), len(body.memory)
    if not workloads == pods == containers == cores == memory:
        rows = f"{workloads} workloads, {pods} pods, {containers} containers, {cores} cores, {memory} memory"
        raise BadRecord(f"the columns are of unequal length: {rows}")
    for name in _OPTIONAL:
        column = getattr(body, name)
        if column and len(column) != cores:
            raise BadRecord(f"the columns are of unequal length: {cores} cores, {len(column)} {name}")


def _array(numbers: Sequence[float | None]) -> Any:
    """A float64 array, which is a Sequence in all but name."""
    import numpy as np

    try:  # a fifth faster than `array`, but it knows no None
        return np.fromiter(numbers, dtype=np.float64, count=len(numbers))
    except TypeError:
        return np.array(numbers, dtype=np.float64)


class _Columns(msgspec.Struct):
    workloads: tuple[str, ...]
    pods: tuple[str, ...]
    containers: tuple[str, ...]


class _Within(msgspec.Struct):
    """Mirrors the record, so that errors have the record's paths."""

    names: _Columns


_read_within = typed_json.decoder(_Within).decode


class NameColumnReader:
    """Bytes to tuples. Forgets the least recently read columns when all together have more than `keep` bytes."""

    def __init__(self, keep: int = KEEP_BYTES) -> None:
        self._keep, self._size = keep, 0
        self._known: OrderedDict[bytes, list[tuple[bytes, NameColumns]]] = OrderedDict()

    def decode(self, raw: bytes) -> NameColumns:
        """The columns in `raw`."""
        cached = self.begins(raw, 0)
        if cached is not None and len(cached[0]) == len(raw):
            return cached[1]
        columns = _read_within(b'{"names":' + raw + b"}").names
        names = (_shared(columns.workloads), _shared(columns.pods), _shared(columns.containers))
        self._remember(raw, names)
        return names

    def begins(self, value: bytes, at: int) -> tuple[bytes, NameColumns] | None:
        """Known columns that stand in `value` at this place, in bytes and as tuples."""
        head = value[at : at + _HEAD]
        for columns in self._known.get(head, ()):
            if value.startswith(columns[0], at):
                self._known.move_to_end(head)
                return columns
        return None

    def _remember(self, raw: bytes, names: NameColumns) -> None:
        variants = self._known.setdefault(raw[:_HEAD], [])
        variants.insert(0, (raw, names))
        self._known.move_to_end(raw[:_HEAD])
        self._size += len(raw)
        if len(variants) > _VARIANTS:
            self._size -= len(variants.pop()[0])
        while self._size > self._keep:
            _, gone = self._known.popitem(last=False)
            self._size -= sum(len(old) for old, _ in gone)


class NameColumnWriter:
    """Tuples to JSON, recognised by identity: a source that keeps its tuples pays for them once."""

    def __init__(self, keep: int = KEEP_BYTES) -> None:
        self._keep, self._size = keep, 0
        self._known: OrderedDict[tuple[int, int, int], tuple[NameColumns, bytes]] = OrderedDict()

    def encode(self, names: NameColumns) -> orjson.Fragment:
        """The object with the three columns."""
        key = (id(names[0]), id(names[1]), id(names[2]))
        cached = self._known.get(key)
        if cached is not None:
            self._known.move_to_end(key)
            return orjson.Fragment(cached[1])
        data = plain_json.fitted(orjson.dumps({"workloads": names[0], "pods": names[1], "containers": names[2]}))
        self._known[key] = (names, data)  # with the tuples, so that no other object gets their identity
        self._size += len(data)
        while self._size > self._keep:
            _, (_, old) = self._known.popitem(last=False)
            self._size -= len(old)
        return orjson.Fragment(data)


def _shared(column: tuple[str, ...]) -> tuple[str, ...]:
    """Equal names are one string, also across scrapes whose columns differ in a few rows."""
    return tuple(map(intern, column))
