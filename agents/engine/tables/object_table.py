"""A table of plain objects in buckets: a change makes one small chunk dirty, not the whole table.

A key's bucket follows from a stable hash of its text, so equal tables dump equal chunks whatever their history. It refuses
nothing and orders nothing but its dumps: a reader that needs an order sorts the keys.
"""

import types
import zlib
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

V = TypeVar("V")


class ObjectTable(Generic[V]):
    """Text keys to frozen objects of one kind. `buckets` bounds the size of a chunk and must not change once used."""

    __slots__ = ("_buckets", "_decoder", "_dirty", "_used", "_values", "name")

    def __init__(self, name: str, kind: type[V], buckets: int) -> None:
        self.name = name
        self._values: dict[str, V] = {}
        self._buckets: list[set[str]] = [set() for _ in range(buckets)]
        self._decoder: msgspec.json.Decoder[dict[str, V]] = msgspec.json.Decoder(types.GenericAlias(dict, (str, kind)))
        self._dirty: set[int] = set()
        self._used: set[int] = set()

    def get(self, key: str) -> V | None:
        """What `key` holds, or None."""
        return self._values.get(key)

    def upsert(self, key: str, value: V) -> None:
        """Let `key` hold `value`."""
        bucket = self._bucket(key)
        self._values[key] = value
        self._buckets[bucket].add(key)
        self._touch(bucket)

    def remove(self, key: str) -> V | None:
        """Forget `key`; what it held, or None."""
        value = self._values.pop(key, None)
        if value is not None:
            bucket = self._bucket(key)
            self._buckets[bucket].discard(key)
            self._touch(bucket)
        return value

    def __iter__(self) -> Iterator[str]:
        """All keys, in no order that may matter."""
        return iter(self._values)

    def items(self) -> Iterator[tuple[str, V]]:
        """All keys and values, in no order that may matter."""
        return iter(self._values.items())

    def values(self) -> Iterator[V]:
        """All values, in no order that may matter."""
        return iter(self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def chunks(self) -> Iterable[str]:
        """Names of the buckets that were ever used."""
        return [self._name(bucket) for bucket in sorted(self._used)]

    def take_dirty(self) -> set[str]:
        """Names of the buckets changed since the last call."""
        dirty, self._dirty = self._dirty, set()
        return {self._name(bucket) for bucket in dirty}

    def touch_all(self) -> None:
        """Every bucket that was ever used counts as changed."""
        self._dirty |= self._used

    def dump(self, chunk: str) -> bytes:
        """One bucket as JSON, keys sorted."""
        return msgspec.json.encode({key: self._values[key] for key in sorted(self._buckets[_number(chunk)])})

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped bucket in its place."""
        number, values = _number(chunk), self._decoder.decode(data)
        for gone in self._buckets[number] - values.keys():
            del self._values[gone]
        self._values.update(values)
        self._buckets[number] = set(values)
        self._used.add(number)

    def _touch(self, bucket: int) -> None:
        self._dirty.add(bucket)
        self._used.add(bucket)

    def _bucket(self, key: str) -> int:
        return zlib.crc32(key.encode()) % len(self._buckets)

    def _name(self, bucket: int) -> str:
        return f"{self.name}/{bucket:03d}"


def _number(chunk: str) -> int:
    return int(chunk.rsplit("/", 1)[1])
