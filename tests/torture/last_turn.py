"""The end of a torture with one stage and one worker, which takes up to the last turn; then all is recomputed from the log."""

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

from agents.engine import checkpoint_selection
from agents.engine.stage import Stage
from streams.broker import Broker
from streams.log.kafka_log import KafkaLog
from streams.topics import Topics
from tests.support import ticks
from tests.torture import kafka_topics, recomputation
from tests.torture.generated_load import Clock
from tests.torture.processes import Process
from tests.torture.recomputation import Report


class EndingRun(Protocol):
    """A run whose clock and worker have ended, on one partition; `operator` appends its last ticks."""

    broker: Broker
    topics: Topics
    stages: Sequence[Stage]
    clock: Clock
    operator: KafkaLog
    worker: Process

    async def rest(self, seconds: float) -> None:
        """Let it work."""


async def recomputed(run: EndingRun, name: str, period: int) -> Report:
    """Every decision of the stage, again from the log, once the worker, of group `name`, has taken the last turn.

    `period`: milliseconds of event time between two ticks. Call it soon after the clock ended: a tick that is far ahead is none.
    """
    last = (run.clock() // period + 2) * period
    await asyncio.to_thread(_tick, run, (last - period, last))
    run.worker.start()
    end = time.monotonic() + 60.0
    while time.monotonic() < end and await _marked(run, name) != last:
        await run.rest(0.5)
    run.worker.stop(20)
    return await recomputation.recompute(run.broker.bootstrap, run.topics, run.stages, name)


def _tick(run: EndingRun, numbers: Sequence[int]) -> None:
    for number in numbers:
        ticks.append(run.operator, run.topics, number)


async def _marked(run: EndingRun, name: str) -> int | None:
    (records,) = await kafka_topics.whole(run.broker.bootstrap, f"{name}-{run.stages[0].name}-state-changelog", 1)
    found = checkpoint_selection.read({r.key: r.value for r in records if r.key is not None}).found
    return None if found is None else found.mark.turn
