"""Records that are valid JSON of an event's shape and hold anything at all in one or more of their leaves."""

import copy
import random
from collections.abc import Callable
from typing import Any

import orjson
from hypothesis import strategies as st

from schemas.catalogue import CATALOGUE, Event
from streams.codec.event_codec import Codec
from streams.log.log_port import NewRecord
from streams.topics import Topics
from tests.support import examples

NUMBERS = (
    0,
    -1,
    1,
    2**31,
    2**53,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    1e16,
    1e17,
    1e300,
    1e308,
    -1e308,
    5e-324,
    -0.0,
    0.1,
    62135596801,
)
TIMES = (
    "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "2199-12-31T23:59:59Z", "9999-12-31T23:59:59.999999Z",
    "2026-01-02T03:04:05+14:00", "0001-01-01T00:00:00+23:59", "2026-01-02T03:04:05",
)  # fmt: skip
TEXTS = (
    "",
    "/",
    "a/b/c/d",
    "a/b/c/d/e",
    "*",
    "\x00",
    "\x1b[2J",
    "x" * 5_000,
    "🙂" * 300,
    "updater/0/1/resize/x",
    "v3",
    "1e99999999",
)
MEMBERS = ("Auto", "Off", "In", "Exists", "InPlace", "Recreate", "apply", "done", "evict", "resize", "Running", "cpu", "memory")
VALUES: tuple[Any, ...] = (*NUMBERS, *TIMES, *TEXTS, *MEMBERS, None, True, False, [], {}, [[]], {"a": 1}, ["x"] * 1_200, {"0": 0})


_GOOD, _SPOILED = 0.4, 0.9
"""Of the records of `Poison.anything`, so many are good, and so many good or of the right shape."""


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(each for key, below in inner for each in _paths(below, (*path, key)))]


def _replaced(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    holder = body
    for key in path[:-1]:
        holder = holder[key]
    if isinstance(holder, dict) and not isinstance(path[-1], str):
        raise TypeError("a list stood here when the path was made, and JSON has no other keys than texts")
    holder[path[-1]] = value
    return body


class Poison:
    """Makes poisoned records for one set of topics."""

    def __init__(self, topics: Topics) -> None:
        self.topics, self._codec = topics, Codec(topics)
        self._good = [(event, topic, orjson.loads(self.good(event, topic).value or b"")) for event, topic in self._places()]

    @staticmethod
    def _places() -> list[tuple[Event, str]]:
        return [(event, topic) for event in examples.EVENTS for topic in CATALOGUE.of(type(event)).topics]

    def good(self, event: Event, topic: str, partition: int = 0) -> NewRecord:
        return self._codec.encode(event, topic=topic, key="prod", partition=partition, source="/test")

    def records(self, *names: str) -> st.SearchStrategy[NewRecord]:
        """Records for these topics (short names), most of them spoiled in one to three places."""
        chosen = [entry for entry in self._good if entry[1] in names]
        return st.sampled_from(chosen).flatmap(self._spoiled)

    def _spoiled(self, entry: tuple[Event, str, Any]) -> st.SearchStrategy[NewRecord]:
        event, topic, body = entry
        good = self.good(event, topic)
        changes = st.lists(st.tuples(st.sampled_from(_paths(body)), st.sampled_from(VALUES)), max_size=3)
        return changes.map(lambda all_: NewRecord(good.topic, 0, good.key, self.spoil(body, all_), good.headers))

    def anything(self, chance: random.Random, *names: str) -> Callable[[], NewRecord]:
        """A source of records for these topics, for a fuzz without Hypothesis: two in five are good, one in ten is no JSON."""
        bodies = [(self.good(event, topic), body, _paths(body)) for event, topic, body in self._good if topic in names]

        def record() -> NewRecord:
            good, body, paths = chance.choice(bodies)
            kind = chance.random()
            if kind < _GOOD:
                return good
            if kind < _SPOILED:
                changes = [(chance.choice(paths), chance.choice(VALUES)) for _ in range(chance.randint(1, 3))]
                return NewRecord(good.topic, 0, good.key, self.spoil(body, changes), good.headers)
            value = chance.choice([b"", b"{", b"[" * 2_000, b"null", chance.randbytes(40), None])
            odd_types = (("ce_type", b"\xff"),), (("ce_type", b"ullage.nobody.v1"), ("cause", b"x"))
            return NewRecord(good.topic, 0, good.key or b"k", value, chance.choice([good.headers, (), *odd_types]))

        return record

    @staticmethod
    def spoil(body: Any, changes: list[tuple[tuple[Any, ...], Any]]) -> bytes:
        """The bytes of a body with these changes, as far as their paths are still there."""
        found = copy.deepcopy(body)
        for path, value in changes:
            try:
                found = _replaced(found, path, copy.deepcopy(value))
            except (KeyError, IndexError, TypeError):
                continue
        return orjson.dumps(found)
