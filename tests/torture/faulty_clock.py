"""A bad clock: ticks of simulated time in the past, some doubled, some old, some lost, in any order of topics.

    python -m tests.torture.faulty_clock '{"brokers":..., "prefix":..., "partitions":4, "topics":[...], ...}'

Simulated milliseconds run `speed` times as fast as real ones, from `BACK` before real time `epoch` on, so that two clocks agree.
"""

import asyncio
import json
import random
import sys
import time

from aiokafka import AIOKafkaProducer

from streams.codec import event_codec
from streams.topics import Topics

BACK = 30 * 86_400.0
"""Seconds; a tick that is far ahead of real time would be nothing."""


def event_time(real: float, epoch: float, speed: float) -> float:
    """Seconds of event time at a real time."""
    return epoch - BACK + (real - epoch) * speed


def now(epoch: float, speed: float) -> int:
    return int(event_time(time.time(), epoch, speed) * 1000)


async def main(told: dict) -> None:
    topics = Topics(told["prefix"], told["partitions"])
    chance = random.Random(told["seed"])
    producer = AIOKafkaProducer(bootstrap_servers=told["brokers"], acks="all", enable_idempotence=True)
    await producer.start()
    last, period = 0, told["period"]
    while True:
        number = now(told["epoch"], told["speed"]) // period * period
        if number <= last:
            await asyncio.sleep(period / told["speed"] / 4000)
            continue
        last = number
        places = [(topics.wire(t), p) for t in told["topics"] for p in range(topics.partitions)]
        chance.shuffle(places)
        sent = []
        for place in places:
            for n in numbers(chance, number, period, told["faults"]):
                r = event_codec.tick(*place, n)
                sent.append(await producer.send(r.topic, key=r.key, value=r.value, partition=r.partition))
        await asyncio.gather(*sent)


def numbers(chance: random.Random, number: int, period: int, faults: float) -> list[int]:
    """What is written instead of one tick."""
    if chance.random() < 0.004 * faults:
        return []
    ticks = [number] * (2 if chance.random() < 0.03 * faults else 1)
    if chance.random() < 0.01 * faults:
        ticks.append(number - period * chance.randrange(1, 5))
    return ticks


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
