"""A worker process for tests: the product's worker, with faults that the product has no switch for.

    python -m tests.torture.faulty_worker '{"brokers": ..., "prefix": ..., "partitions": 4, "name": ..., "stages": "sums"}'

`tear`: a file by which the process is told to die in the middle of a checkpoint. `skip`: chance that a message is lost
between Faust and the host. `mutants`: what else is wrong with it (see `mutant_workers`); `once`: a file that one of them needs.
"""

import json
import os
import random
import sys
from pathlib import Path
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


def stages(which: str, partitions: int = 1) -> tuple[Stage, ...]:
    if which == "sums":
        from tests.torture import sums_stage

        return (sums_stage.STAGE,)
    if which == "nodes":
        from tests.torture import fast_node_settings

        return fast_node_settings.STAGES
    if which == "replicas":
        from tests.torture import fast_replica_settings

        return fast_replica_settings.STAGES
    from tests.torture import fast_pipeline_settings

    return fast_pipeline_settings.stages(partitions)


def obey(order: Path) -> None:
    """Die if there is an order to, a file that says how many more writes there are; else count this one."""
    if not order.is_file():
        return
    left = int(order.read_text())
    if left == 0:
        order.unlink()
        os.write(2, b"torn on purpose\n")
        os._exit(9)
    order.write_text(str(left - 1))


def tearing(order: Path) -> type[ChangelogProducer]:
    class Tearing(ChangelogProducer):
        """Dies before a chunk or a mark, when it is ordered to."""

        async def write(self, topic: str, partition: int, record: tuple[bytes, bytes | None]) -> int:
            obey(order)
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
    mutant_workers.put_on(told.get("mutants", ()), Path(told.get("once", "")))
    if told.get("skip"):
        skipping(told["skip"])
    plan = WorkerPlan(
        where=KafkaConnection(told["brokers"]),
        topics=Topics(told["prefix"], told["partitions"]),
        stages=stages(told.get("stages", "sums"), told["partitions"]),
        name=told["name"],
        pacing=Pacing(least=Seconds(told.get("least", 1.0)), rate=told.get("rate", 12_000_000), samples=0, quiet=30),
        buffer=told.get("buffer", 32 << 20),
    )
    return worker.run(plan, changelog=tearing(Path(told["tear"])) if told.get("tear") else ChangelogProducer)


if __name__ == "__main__":
    sys.exit(main())
