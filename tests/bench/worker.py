"""The product's worker, which also notes on stdout when it opened, took turns and wrote checkpoints, and its CPU time.

python -m tests.bench.worker '{"brokers": ..., "prefix": ..., "partitions": 4, "turns": false, "profile": null}'
"""

import atexit
import json
import sys
import threading
import time
from collections import deque
from typing import Any

import orjson

from agents.app import WorkerPlan, worker
from agents.app.owned_partition import OwnedPartition
from agents.app.worker_observer import WorkerObserver
from agents.app.worker_plan import Pacing
from agents.run import pipeline, python_gc
from agents.settings.all_settings import Settings
from streams.log.kafka_connection import KafkaConnection
from streams.topics import Topics

_NOTED: deque[dict[str, Any]] = deque()


def note(event: str, owned: OwnedPartition, **more: Any) -> None:
    task = owned.task
    line = {"event": event, "stage": task.stage.name, "partition": task.partition, "turn": task.turn}
    _NOTED.append({**line, "at": time.time(), "cpu": time.process_time(), **more})


def write_notes() -> None:
    """Write what was noted since the last time.

    Writing each note at once took a twentieth of the CPU of a worker that catches up, which no user's worker spends.
    """
    lines = [orjson.dumps(_NOTED.popleft()) + b"\n" for _ in range(len(_NOTED))]
    sys.stdout.buffer.write(b"".join(lines))
    sys.stdout.buffer.flush()


def keep_writing() -> None:
    """Write notes four times a second."""
    while True:
        time.sleep(0.25)
        write_notes()


def noting(turns: bool) -> None:
    opened, turn, checkpoint = WorkerObserver.opened, WorkerObserver.turn, WorkerObserver.checkpoint

    def note_opened(self: WorkerObserver, owned: OwnedPartition) -> None:
        note("opened", owned)
        opened(self, owned)

    def note_turn(self: WorkerObserver, owned: OwnedPartition, taken: Any, seconds: float) -> None:
        if turns:
            note("turn", owned, seconds=seconds, eventful=owned.urgent(0))
        turn(self, owned, taken, seconds)

    def note_checkpoint(self: WorkerObserver, owned: OwnedPartition, size: int, seconds: float) -> None:
        note("checkpoint", owned, size=size, seconds=seconds)
        checkpoint(self, owned, size, seconds)

    WorkerObserver.opened, WorkerObserver.turn, WorkerObserver.checkpoint = note_opened, note_turn, note_checkpoint  # type: ignore[method-assign]


def main() -> int:
    python_gc.relax()  # as the command line does
    told = json.loads(sys.argv[1])
    noting(told.get("turns", False))
    threading.Thread(target=keep_writing, daemon=True).start()
    atexit.register(write_notes)
    where, topics = KafkaConnection(told["brokers"]), Topics(told["prefix"], told["partitions"])
    settings = Settings(topics={"partitions": topics.partitions})  # type: ignore[arg-type]  # pydantic makes the part
    plan = WorkerPlan(where, topics, pipeline.stages(settings), name=told["prefix"], pacing=Pacing(**told.get("pacing", {})))
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
