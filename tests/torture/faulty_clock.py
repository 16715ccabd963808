"""A bad clock: ticks of simulated time in the past, some lost, doubled, late, after later ones, or with old ends.

    python -m tests.torture.faulty_clock '{"brokers":..., "prefix":..., "partitions":4, ...}'

Simulated milliseconds run `speed` times as fast as real ones, from `BACK` before real time `epoch` on, so that clocks agree.
"""

import json
import random
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from schemas.names import Place
from streams.clock_rules import MOST_AHEAD, ClockRecord
from streams.errors import LogUnavailable
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.sources.clock import TickWriter
from streams.topics import Topics

BACK = 30 * 86_400.0
"""Seconds; a tick that is far ahead of real time would be nothing."""
FAULTS = {"lost": 0.03, "doubled": 0.04, "late": 0.04, "after later ones": 0.04, "forged": 0.04}
"""How likely each is for a tick, where a clock is told `"faults": 1.0`."""


def event_time(real: float, epoch: float, speed: float) -> float:
    """Seconds of event time at a real time."""
    return epoch - BACK + (real - epoch) * speed


def now(epoch: float, speed: float) -> int:
    return int(event_time(time.time(), epoch, speed) * 1000)


class FaultyLog(KafkaLog):
    """What a clock appends is lost here, doubled, held back until it is late, or appended again after later ones."""

    def __init__(self, where: KafkaConnection, chance: random.Random, *, faults: float, period: float) -> None:
        """`period`: seconds of real time between two ticks."""
        super().__init__(where)
        self._chance, self._faults, self._period = chance, faults, period
        self._kept: list[NewRecord] = []

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        """One record of a clock, which asked for the ends before it."""
        (record,) = records
        fault = self._fault()
        if fault == "late":  # as one that was frozen between asking for ends and appending
            time.sleep(self._period * self._chance.uniform(0.5, 3.0))
        if fault == "lost":
            return [Place(record.topic, record.partition, self.end(record.topic, record.partition))]
        places = super().append([record] * (2 if fault == "doubled" else 1))
        kept, self._kept = self._kept, [record] if fault == "after later ones" else []
        if kept:
            super().append(kept)
        if fault == "forged":
            super().append([forged(record, places[0], self._chance)])
        return places[:1]

    def _fault(self) -> str:
        """What goes wrong with a tick; mostly nothing."""
        shares = [self._faults * share for share in FAULTS.values()]
        return self._chance.choices(["", *FAULTS], [1.0 - sum(shares), *shares])[0]


def forged(record: NewRecord, place: Place, chance: random.Random) -> NewRecord:
    """A record that does not count after this one.

    It is no later, or far in the future, or comes after another record than the last, or takes an end back.
    """
    tick = ClockRecord.decode(record)
    assert tick is not None
    right, ahead = (place.offset, tick.name), int(time.time() * 1000) + 2 * MOST_AHEAD
    later, back = {at: end + 1 for at, end in tick.ends.items()}, {at: end - 1 for at, end in tick.ends.items() if end}
    wrongs = [
        replace(tick, after=right, ends=later),
        replace(tick, number=ahead, after=right, ends=later),
        replace(tick, number=tick.number + 1, ends=later),
        replace(tick, number=tick.number + 1, after=(place.offset, "nobody"), ends=later),
        *([replace(tick, number=tick.number + 1, after=right, ends=back)] if back else []),
    ]
    return chance.choice(wrongs).encode(record.topic)


def main(told: dict) -> None:
    topics = Topics(told["prefix"], told["partitions"])
    period = told["period"]
    real = period / told["speed"] / 1000
    where = KafkaConnection(told["brokers"])
    with FaultyLog(where, random.Random(told["seed"]), faults=told["faults"], period=real) as log:
        clock, last = TickWriter(log, topics), 0
        while True:
            number = now(told["epoch"], told["speed"]) // period * period
            if number <= last:
                time.sleep(real / 4)
                continue
            last = number
            try:
                clock.write(number)
            except LogUnavailable:
                time.sleep(0.5)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
