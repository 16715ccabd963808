"""Runs the stages in a simulated world, in virtual time and in one process: no broker, no threads, no waiting.

Each round advances the world to the next tick, appends the tick to every input, takes all turns and lets the consumers act;
then the caller may look. The world, its sources and the consumers are functions, the same ones that a live run starts as
processes. Consumers carry a decision out in the round in which it was taken, and the stages read its outcome in the next round.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from agents import rules_in_log
from agents.engine.stage import Stage
from agents.partition_task import TurnResult
from agents.stage_runner import Runner
from agents.stage_topics import ticked_topics
from schemas import times
from streams.log_context import LogContext
from streams.sources import clock


@dataclass(frozen=True, slots=True)
class SimulatedWorld:
    """Everything outside the log. `advance` moves it to a time and appends the facts; `consumers` carry decisions out."""

    advance: Callable[[datetime], object]
    consumers: Sequence[Callable[[], object]] = ()


@dataclass(frozen=True, slots=True)
class TickGrid:
    """When the first tick is, and how far the ticks are apart, in milliseconds of simulated time."""

    start_ms: int
    period_ms: int = 60_000

    def at(self, number: int) -> int:
        """The tick of the round `number`, counted from 1."""
        return (self.start_ms // self.period_ms + number) * self.period_ms


@dataclass(frozen=True, slots=True)
class SimulatedRound:
    """One tick of a simulation: its time, and the results of its turns."""

    at: datetime
    taken: Sequence[TurnResult] = field(default_factory=tuple)

    @property
    def decisions(self) -> int:
        """How many decisions were appended."""
        return sum(len(taken.decisions) for taken in self.taken)


def simulate(context: LogContext, stages: Sequence[Stage], world: SimulatedWorld, grid: TickGrid) -> Iterator[SimulatedRound]:
    """Rounds without end; the caller stops when it wants, and may look at world and log between two rounds."""
    rules_in_log.publish(context, stages, times.from_ms(grid.start_ms))
    runner = Runner(stages, context)
    number = 0
    while True:
        number += 1
        tick = grid.at(number)
        at = times.from_ms(tick)
        world.advance(at)
        context.log.append(clock.ticks(context.topics, ticked_topics(), tick))
        taken = runner.run()
        for act in world.consumers:
            act()
        yield SimulatedRound(at, taken)
