"""A table of plain objects in buckets: a change makes one small chunk dirty, not the whole table.

A key's bucket follows from a hash of its text with a key that tenants do not know, so nobody can choose names that all fall into
one bucket, and equal tables of one log dump equal chunks whatever their history. A key stays in the bucket where it was put. It
refuses nothing and orders nothing but its dumps: a reader that needs an order sorts the keys.
"""

import types
from collections.abc import Callable, Collection, Iterable, Iterator
from hashlib import blake2b
from itertools import chain
from sys import intern
from typing import Generic, TypeVar

import msgspec

from agents.engine.tables.shared_values import sharer

V = TypeVar("V")


class ObjectTable(Generic[V]):
    """Text keys to frozen objects of one kind. `buckets` bounds the size of a chunk and must not change once used.

    With `shares`, for a table of many values that are alike, their equal parts are one object in memory: values of the classes
    that it names, texts and defaults. `come_shared`: what is put in is shared as it comes, so only what is loaded is looked at.
    """

    __slots__ = ("_bucket_of", "_buckets", "_come_shared", "_decode", "_dirty", "_hash_key", "_share", "_used", "name")

    def __init__(
        self, name: str, kind: type[V], buckets: int, *, shares: Collection[type] | None = None, come_shared: bool = False
    ) -> None:
        self.name, self._come_shared = name, come_shared
        self._share = None if shares is None else sharer(kind, frozenset(shares))
        # The values are in their buckets alone: one more dictionary of all would take 50 to 100 bytes of a key.
        self._buckets: list[dict[str, V]] = [{} for _ in range(buckets)]
        self._bucket_of: dict[str, int] = {}
        self._hash_key = b""
        of = types.GenericAlias(dict, (str, kind))
        self._decode: Callable[[bytes], dict[str, V]] = msgspec.json.Decoder(of).decode  # noqa: TID251  # a stage has one thread
        self._dirty: set[int] = set()
        self._used: set[int] = set()

    def scatter_by(self, hash_key: bytes) -> None:
        """Choose the buckets of new names by this key from now on; it has at most 64 bytes."""
        self._hash_key = hash_key

    def get(self, key: str) -> V | None:
        """What `key` holds, or None."""
        bucket = self._bucket_of.get(key)
        return None if bucket is None else self._buckets[bucket][key]

    def upsert(self, key: str, value: V) -> None:
        """Let `key` hold `value`."""
        bucket = self._bucket_of.get(key)
        if bucket is None:
            # Several tables and stages of a process have the same keys.
            key = intern(key)
            bucket = self._bucket_of[key] = self._choose(key)
        if self._share is not None and not self._come_shared:
            self._share.share(value)
        self._buckets[bucket][key] = value
        self._touch(bucket)

    def remove(self, key: str) -> V | None:
        """Forget `key`; what it held, or None."""
        bucket = self._bucket_of.pop(key, None)
        if bucket is None:
            return None
        self._touch(bucket)
        return self._buckets[bucket].pop(key)

    def __iter__(self) -> Iterator[str]:
        """All keys, in no order that may matter."""
        return iter(self._bucket_of)

    def items(self) -> Iterator[tuple[str, V]]:
        """All keys and values, in no order that may matter."""
        return chain.from_iterable(self._buckets[bucket].items() for bucket in sorted(self._used))

    def values(self) -> Iterator[V]:
        """All values, in no order that may matter."""
        return chain.from_iterable(self._buckets[bucket].values() for bucket in sorted(self._used))

    def __len__(self) -> int:
        return len(self._bucket_of)

    def __contains__(self, key: str) -> bool:
        return key in self._bucket_of

    def chunks(self) -> Iterable[str]:
        """Names of the buckets that were ever used."""
        # A bucket that became empty is dumped as such, or a restart would find what it held before.
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
        return msgspec.json.encode(dict(sorted(self._buckets[_number(chunk)].items())))

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped bucket in its place."""
        bucket = _number(chunk)
        loaded = {intern(key): value for key, value in self._decode(data).items()}
        if self._share is not None:
            for value in loaded.values():
                self._share.share(value)
        for key in self._buckets[bucket]:
            del self._bucket_of[key]
        for key in loaded.keys() & self._bucket_of.keys():  # of a table that was filled by another hash key
            del self._buckets[self._bucket_of[key]][key]
        self._buckets[bucket] = loaded
        self._bucket_of.update(dict.fromkeys(loaded, bucket))
        self._used.add(bucket)

    def _touch(self, bucket: int) -> None:
        self._dirty.add(bucket)
        self._used.add(bucket)

    def _choose(self, key: str) -> int:
        # Python's hash of a text differs from process to process, and chunks must not.
        digest = blake2b(key.encode(), digest_size=8, key=self._hash_key).digest()
        return int.from_bytes(digest) % len(self._buckets)

    def _name(self, bucket: int) -> str:
        return f"{self.name}/{bucket:03d}"


def _number(chunk: str) -> int:
    return int(chunk.rsplit("/", 1)[1])
