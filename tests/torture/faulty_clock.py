"""A bad clock: ticks of simulated time in the past, some doubled, some old, some lost, some after a record that is not the last.

    python -m tests.torture.faulty_clock '{"brokers":..., "prefix":..., "partitions":4, ...}'

Simulated milliseconds run `speed` times as fast as real ones, from `BACK` before real time `epoch` on, so that two clocks agree.
"""

import json
import random
import sys
import time

from streams import clock_log
from streams.clock_rules import ClockRecord
from streams.errors import LogUnavailable
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.sources.clock import TickWriter
from streams.topics import CLOCK, Topics

BACK = 30 * 86_400.0
"""Seconds; a tick that is far ahead of real time would be nothing."""


def event_time(real: float, epoch: float, speed: float) -> float:
    """Seconds of event time at a real time."""
    return epoch - BACK + (real - epoch) * speed


def now(epoch: float, speed: float) -> int:
    return int(event_time(time.time(), epoch, speed) * 1000)


def main(told: dict) -> None:
    topics = Topics(told["prefix"], told["partitions"])
    chance, faults = random.Random(told["seed"]), told["faults"]
    with KafkaLog(KafkaConnection(told["brokers"])) as log:
        clock, last, period = TickWriter(log, topics), 0, told["period"]
        while True:
            number = now(told["epoch"], told["speed"]) // period * period
            if number <= last:
                time.sleep(period / told["speed"] / 4000)
                continue
            last = number
            try:
                if chance.random() >= 0.004 * faults:
                    clock.write(number)
                if chance.random() < 0.04 * faults:
                    harm(log, topics, chance, number)
            except LogUnavailable:
                time.sleep(0.5)


def harm(log: KafkaLog, topics: Topics, chance: random.Random, number: int) -> None:
    """Append a record that does not count: the last one again, or one with old ends after some record or other."""
    newest = clock_log.newest(log, topics)
    if newest is not None:
        after = chance.choice([newest.place, (newest.offset - 1, newest.name), None])
        ends = {place: max(0, end - 3) for place, end in newest.moved.items()}
        said = ClockRecord(number + chance.randrange(-2, 2), newest.name, after, {("rules", 0): 0, **ends})
        log.append([said.encode(topics.wire(CLOCK))])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
