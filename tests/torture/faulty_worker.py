"""A worker process for tests: the product's worker, with faults that the product has no switch for.

    python -m tests.torture.faulty_worker '{"brokers": ..., "prefix": ..., "partitions": 4, "name": ..., "stages": "sums"}'

`tear`: chance that a checkpoint writes only some of its chunks and the process dies. `skip`: chance that a message is lost
between Faust and the host. `mutant`: what else is wrong with it (see `mutant_workers`).
"""

import json
import os
import random
import sys
from typing import Any

from agents.app import Pacing, WorkerPlan, worker
from agents.app.checkpoint_writer import ChangelogProducer
from agents.app.stage_host import StageHost
from agents.engine.stage import Stage
from schemas.units import Seconds
from streams.log.kafka_connection import KafkaConnection
from streams.topics import Topics
from tests.torture import mutant_workers

chance = random.Random()


def stages(which: str) -> tuple[Stage, ...]:
    if which == "sums":
        from tests.torture import sums_stage

        return (sums_stage.STAGE,)
    from tests.torture import lively_stages

    return lively_stages.STAGES


def tearing(tear: float) -> type[ChangelogProducer]:
    class Tearing(ChangelogProducer):
        """Dies before a chunk or a mark, now and then."""

        async def write(self, topic: str, partition: int, record: tuple[bytes, bytes | None]) -> int:
            if chance.random() < tear:
                os.write(2, b"torn on purpose\n")
                os._exit(9)
            return await super().write(topic, partition, record)

    return Tearing


def skipping(skip: float) -> None:
    handle = StageHost.handle

    async def sometimes(self: StageHost, message: Any) -> None:
        if chance.random() >= skip:
            await handle(self, message)

    StageHost.handle = sometimes  # type: ignore[method-assign]  # the fault itself


def main() -> int:
    told = json.loads(sys.argv[1])
    mutant_workers.put_on(told.get("mutant", ""))
    if told.get("skip"):
        skipping(told["skip"])
    plan = WorkerPlan(
        where=KafkaConnection(told["brokers"]),
        topics=Topics(told["prefix"], told["partitions"]),
        stages=stages(told.get("stages", "sums")),
        name=told["name"],
        pacing=Pacing(least=Seconds(told.get("least", 1.0)), rate=told.get("rate", 12_000_000)),
        buffer=told.get("buffer", 32 << 20),
    )
    return worker.run(plan, changelog=tearing(told.get("tear", 0.0)))


if __name__ == "__main__":
    sys.exit(main())
