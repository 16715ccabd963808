"""Records that are valid JSON of an event's shape and hold anything at all in one or more of their leaves."""

import copy
import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import orjson
from hypothesis import strategies as st

from agents.logic.vertical.vertical_settings import NAME, PROGRAM
from schemas.catalogue import CATALOGUE, Event
from schemas.policies.control import StageRulesChanged, rules_version
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import (
    AlgorithmOptions,
    CronTrigger,
    HistogramOptions,
    MetricSpec,
    MetricTarget,
    PercentileOptions,
    PredictionOptions,
)
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
QUANTITIES = (
    "1e1.5", "cart", "1e99999999999999999999", " ", "-", "-1", "0", "\u0661\u0662", "1e60", "1e-60", "9" * 64, "1" * 300,
)  # fmt: skip
NUMERALS = ("NaN", "-Inf", "1e308", "1e-320", "1e-17", "0x1p99999", "1_0", "\u00b2", "1" * 4_000)
DURATIONS = ("-1h", "1ns", "292y", "2562047h", "7d", "1" * 4_000 + "x")
SCHEDULES = (
    "0 0 30 2 *", "0 0 29 2 1", "* * * * \u00b2", "*/0 * * * *", "@every 1ns", "@every " + "1" * 4_000, "TZ=../x * * * * *",
)  # fmt: skip
ZONES = ("../etc/passwd", "Europe", "America/Havana")
PATTERNS = ("(", "(a+)+$", "{", 'a="', "0% @ * * * * * for 1m")
PARSED = (*TEXTS, *QUANTITIES, *NUMERALS, *DURATIONS, *SCHEDULES, *ZONES, *PATTERNS)
"""Texts that a stage reads as something, and cannot, or should not."""
MEMBERS = ("Auto", "Off", "In", "Exists", "InPlace", "Recreate", "apply", "done", "evict", "resize", "Running", "cpu", "memory")
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"a": 1}, ["x"] * 1_200, {"0": 0})
VALUES: tuple[Any, ...] = (*NUMBERS, *TIMES, *PARSED, *MEMBERS, *OTHERS)

GROWING = AlgorithmOptions(
    "percentile",
    percentile=PercentileOptions(
        history_length="24h",
        sample_interval="1m",
        percentile="0.95",
        margin_fraction="0.15",
        target_utilization="0.8",
        min_sample_weight="1e-5",
        histogram=HistogramOptions("100", "1e-10", "24h", first_bucket_size="0.1", bucket_size_growth_ratio="0.05"),
    ),
)
SCALED = EhpaChanged(
    examples.AT,
    "prod",
    "shop",
    "cart-percentile",
    examples.AT - timedelta(days=40),
    examples.CART_REF,
    max_replicas=10,
    min_replicas=2,
    metrics=(examples.CPU_METRIC, MetricSpec("External", "queue", MetricTarget("Value", value="10"))),
    crons=(CronTrigger("morning", "0 8 * * *", "0 10 * * *", 6, "Europe/Berlin"),),
    behavior=examples.BEHAVIOR,
    prediction=PredictionOptions(3600, GROWING),
    uid="u-percentile",
    generation=1,
)
"""What scales the target of the examples: older than theirs, with every option that is read when a forecast is made."""
PRESENT_RULES = StageRulesChanged(examples.AT, NAME, PROGRAM, examples.RULES, rules_version(NAME, PROGRAM, examples.RULES))
"""Rules that the program of today may decide by: a worker ends, as it must, where others are in force."""
PROGRAM_OF = ("program",)
"""Where an event of rules names its program."""
EVENTS: tuple[Event, ...] = (
    *(each for each in examples.EVENTS if not isinstance(each, StageRulesChanged)),
    PRESENT_RULES,
    SCALED,
)

_GOOD, _SPOILED = 0.4, 0.9
"""Of the records of `Poison.anything`, so many are good, and so many good or of the right shape."""


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(each for key, below in inner for each in _paths(below, (*path, key)))]


def _at(body: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        body = body[key]
    return body


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
        return [(event, topic) for event in EVENTS for topic in CATALOGUE.of(type(event)).topics]

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

    def each_text(self, *names: str, kinds: tuple[type[Event], ...] = ()) -> Iterator[NewRecord]:
        """For every text of every event of these topics (and kinds), each of `PARSED` in its place."""
        for event, topic, body in self._good:
            if topic in names and (not kinds or isinstance(event, kinds)):
                good = self.good(event, topic)
                for path in _paths(body):
                    if isinstance(_at(body, path), str):
                        for value in PARSED:
                            yield NewRecord(good.topic, 0, good.key, self.spoil(body, [(path, value)]), good.headers)

    def anything(self, chance: random.Random, *names: str) -> Callable[[], NewRecord]:
        """A source of records for these topics, for a fuzz without Hypothesis: two in five are good, one in ten is no JSON.

        None gives well-formed rules of another program: a worker ends, as it must, at a turn that they decide.
        """
        bodies = [
            (
                self.good(event, topic),
                body,
                [p for p in _paths(body) if not (isinstance(event, StageRulesChanged) and p == PROGRAM_OF)],
            )
            for event, topic, body in self._good
            if topic in names
        ]

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
