"""Bytes of somebody else in the clock's topic: honest ticks go on, and only what cannot be told from a tick makes turns wait."""

from collections.abc import Callable, Mapping

import orjson
import pytest

from streams import clock_log
from streams.clock_rules import MOST_AHEAD, MOST_ENDS, PROBE, TICK, Counted
from streams.log.log_port import MAX_RECORD_BYTES, NewRecord
from streams.sources.clock import Clock
from streams.topics import CLOCK, TOPICS, Topics
from tests.support.lossy_log import LossyLog

PAPERS = Topics(partitions=1)
WIRE, CONTROL = PAPERS.wire(CLOCK), PAPERS.wire("control")
START = 1_767_225_600_000


class Site:
    """A clock at work beside somebody who may write its topic."""

    def __init__(self) -> None:
        self.time = START
        self.log = LossyLog(now=lambda: self.time)
        for topic in TOPICS:
            self.log.create(PAPERS.wire(topic.name), 1)
        self.log.append([NewRecord(CONTROL, 0, b"k", b"v")] * 5)
        self.clock = Clock(self.log, PAPERS, now=lambda: self.time)
        self.clock.step()

    def run(self, seconds: float) -> list[int]:
        """The numbers of all ticks that count after this time, in seconds since the start."""
        for _ in range(int(2 * seconds)):
            self.time += 500
            self.clock.step()
        return [tick.number - START for tick in clock_log.ticks_from(self.log, PAPERS, Counted())]

    @property
    def place(self) -> tuple[int, str]:
        """Of the last tick that counts."""
        *_, last = clock_log.ticks_from(self.log, PAPERS, Counted())
        return last.place


def tick(site: Site, **said: object) -> bytes:
    """A tick that would count, but for what is said of it."""
    body = {"at": site.time + 1, "name": "evil", "after": site.place, "full": False, "ends": {}}
    return orjson.dumps(body | said)


HOSTILE: Mapping[str, Callable[[Site], bytes]] = {
    "no JSON": lambda _: b"\xff{",
    "as large as a record can be": lambda _: b'{"at":1,"name":"' + b"x" * (MAX_RECORD_BYTES - 1_000),
    "deep": lambda _: b"[" * 1_000_000,
    "more partitions than anybody has": lambda s: tick(s, ends={"facts": {str(p): 1 for p in range(MOST_ENDS + 1)}}),
    "an end below the one in force": lambda s: tick(s, ends={"control": {"0": 4}}),
    "an end that no number of Kafka's can be": lambda s: tick(s, ends={"control": {"0": 1 << 63}}),
    "an end below nothing": lambda s: tick(s, ends={"control": {"0": -1}}),
    "a time in the future": lambda s: tick(s, at=s.time + MOST_AHEAD + 1),
    "a time that no calendar has": lambda s: tick(s, at=1 << 62),
    "after a tick that never was": lambda s: tick(s, after=[0, "x"]),
    "the first one once more, with other ends": lambda s: tick(s, after=None, full=True, ends={"control": {"0": 9}}),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_tick_stops_none(kind: str) -> None:
    site = Site()
    site.run(1)
    site.log.append([NewRecord(WIRE, 0, TICK, HOSTILE[kind](site)), NewRecord(WIRE, 0, PROBE, HOSTILE[kind](site))] * 2)
    assert site.run(2) == [500 * n for n in range(7)]
    other = Clock(site.log, PAPERS, now=lambda: site.time)
    site.time += 500
    assert other.step() == START + 3_500, "one that starts then reads the topic, too"


def test_a_tick_of_somebody_else_a_little_ahead_makes_time_wait_so_long() -> None:
    site = Site()
    site.log.append([NewRecord(WIRE, 0, TICK, tick(site, at=site.time + 5_000))])
    assert site.run(4) == [0, 5_000]
    assert site.run(2) == [0, 5_000, 5_500, 6_000]


def test_an_end_beyond_the_log_counts_and_is_filled_up() -> None:
    """Whether it counts must not depend on where the log ends now; so turns wait, for ten seconds and not for ever."""
    site = Site()
    site.log.append([NewRecord(WIRE, 0, TICK, tick(site, ends={"control": {"0": 50}}))])
    site.run(9)
    assert site.log.end(CONTROL, 0) == 5
    site.run(3)
    assert site.log.end(CONTROL, 0) == 50
