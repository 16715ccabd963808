"""The product's worker, which also notes on stdout when it opened, took turns and wrote checkpoints, and its CPU time.

python -m tests.bench.worker '{"brokers": ..., "prefix": ..., "partitions": 4, "turns": false, "profile": null}'
"""

import json
import sys
import time
from typing import Any

from agents import pipeline, python_gc
from agents.app import WorkerPlan, worker
from agents.app.owned_partition import OwnedPartition
from agents.app.worker_observer import WorkerObserver
from agents.settings.all_settings import Settings
from streams.log.kafka_connection import KafkaConnection
from streams.topics import Topics


def note(event: str, owned: OwnedPartition, **more: Any) -> None:
    task = owned.task
    line = {"event": event, "stage": task.stage.name, "partition": task.partition, "turn": task.turn}
    sys.stdout.write(json.dumps({**line, "at": time.time(), "cpu": time.process_time(), **more}) + "\n")
    sys.stdout.flush()


def noting(turns: bool) -> None:
    opened, turn, checkpoint = WorkerObserver.opened, WorkerObserver.turn, WorkerObserver.checkpoint

    def note_opened(self: WorkerObserver, owned: OwnedPartition) -> None:
        note("opened", owned)
        opened(self, owned)

    def note_turn(self: WorkerObserver, owned: OwnedPartition, taken: Any, seconds: float) -> None:
        if turns:
            note("turn", owned, seconds=seconds, eventful=owned.urgent)
        turn(self, owned, taken, seconds)

    def note_checkpoint(self: WorkerObserver, owned: OwnedPartition, size: int, seconds: float) -> None:
        note("checkpoint", owned, size=size, seconds=seconds)
        checkpoint(self, owned, size, seconds)

    WorkerObserver.opened, WorkerObserver.turn, WorkerObserver.checkpoint = note_opened, note_turn, note_checkpoint  # type: ignore[method-assign]


def main() -> int:
    python_gc.relax()  # as the command line does
    told = json.loads(sys.argv[1])
    noting(told.get("turns", False))
    where, topics = KafkaConnection(told["brokers"]), Topics(told["prefix"], told["partitions"])
    stages = pipeline.stages(Settings())
    plan = WorkerPlan(where, topics, stages, name=told["prefix"])
    if told.get("profile"):
        import cProfile

        profile = cProfile.Profile()
        profile.enable()
        try:
            return worker.run(plan)
        finally:
            profile.disable()
            profile.dump_stats(told["profile"])
    return worker.run(plan)


if __name__ == "__main__":
    sys.exit(main())
