"""The name columns of scrapes, parsed and written once for as long as they stay the same.

A cluster's containers change seldom and are scraped often. Both memories are bounded and only save time: what they give equals
what parsing or writing would give.
"""

from collections import OrderedDict
from sys import intern

import msgspec
import orjson

Names = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""Workload keys, pod names and container names, row by row."""

KEEP_BYTES = 32 << 20
_SAMPLES = 64


class _Columns(msgspec.Struct):
    workloads: tuple[str, ...]
    pods: tuple[str, ...]
    containers: tuple[str, ...]


class _Within(msgspec.Struct):
    """As in the record, so that errors have the record's paths."""

    names: _Columns


_read_within = msgspec.json.Decoder(_Within).decode


class ReadNames:
    """Bytes to tuples. The least recently read go when all together are above `keep` bytes."""

    def __init__(self, keep: int = KEEP_BYTES) -> None:
        self._keep, self._size = keep, 0
        self._known: OrderedDict[bytes, tuple[bytes, Names]] = OrderedDict()

    def decode(self, raw: bytes) -> Names:
        """The columns in `raw`. A few sampled bytes find the candidate, as hashing all of them costs six times a comparison."""
        mark = len(raw).to_bytes(4, "little") + raw[:: len(raw) // _SAMPLES + 1]
        known = self._known.get(mark)
        if known is not None and known[0] == raw:
            self._known.move_to_end(mark)
            return known[1]
        columns = _read_within(b'{"names":' + raw + b"}").names
        names = (_shared(columns.workloads), _shared(columns.pods), _shared(columns.containers))
        self._remember(mark, raw, names)
        return names

    def _remember(self, mark: bytes, raw: bytes, names: Names) -> None:
        gone = self._known.pop(mark, None)
        self._known[mark] = (raw, names)
        self._size += len(raw) - (len(gone[0]) if gone else 0)
        while self._size > self._keep:
            _, (old, _) = self._known.popitem(last=False)
            self._size -= len(old)


class WrittenNames:
    """Tuples to JSON, known by identity: a source that keeps its tuples pays for them once."""

    def __init__(self, keep: int = KEEP_BYTES) -> None:
        self._keep, self._size = keep, 0
        self._known: OrderedDict[tuple[int, int, int], tuple[Names, bytes]] = OrderedDict()

    def encode(self, names: Names) -> orjson.Fragment:
        """The object with the three columns. The tuples are held, so that no other object can take their identity."""
        key = (id(names[0]), id(names[1]), id(names[2]))
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return orjson.Fragment(known[1])
        data = orjson.dumps({"workloads": names[0], "pods": names[1], "containers": names[2]})
        self._known[key] = (names, data)
        self._size += len(data)
        while self._size > self._keep:
            _, (_, old) = self._known.popitem(last=False)
            self._size -= len(old)
        return orjson.Fragment(data)


def _shared(column: tuple[str, ...]) -> tuple[str, ...]:
    """Equal names are one string, also across scrapes whose columns differ in a few rows."""
    return tuple(map(intern, column))
