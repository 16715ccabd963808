"""Runs the stages in a simulated world, in virtual time and in one process: no broker, no threads, no waiting.

Each round advances the world to the next tick, appends the tick, takes all turns and lets the consumers act;
then the caller may look. While containers are killed for lack of memory, a round has several ticks.

The world, its sources and the consumers are functions, the same ones that a live run starts as processes. Consumers carry a
decision out in the round in which it was taken, and the stages read its outcome in the next round.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from agents.engine.stage import Stage
from agents.run import rules_in_log
from agents.run.partition_task import Task, TurnResult
from agents.run.stage_runner import Runner
from schemas import times
from streams.log_context import LogContext
from streams.sources.clock import TickWriter, numbered

STEP_MS = 15_000
"""Milliseconds between two ticks while containers are killed: a step of the simulated kubelet."""


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
    """One tick of a simulation: its time, the results of its turns, and the tasks that took them."""

    at: datetime
    taken: Sequence[TurnResult] = field(default_factory=tuple)
    tasks: Sequence[Task] = field(default_factory=tuple)

    @property
    def decisions(self) -> int:
        """How many decisions were appended."""
        return sum(len(taken.decisions) for taken in self.taken)


def simulate(context: LogContext, stages: Sequence[Stage], world: SimulatedWorld, grid: TickGrid) -> Iterator[SimulatedRound]:
    """Rounds without end; the caller stops when it wants, and may look at world and log between two rounds."""
    rules_in_log.publish(context, stages, times.from_ms(grid.start_ms))
    clock = TickWriter(context.log, context.topics, draw=numbered)
    driver = _Driver(context, Runner(stages, context), world, clock)
    number, at = 0, grid.at(0)
    while True:
        number += 1
        taken: list[TurnResult] = []
        while at < grid.at(number):
            # Live ticks come each half second, and a container that dies at each start dies several times in a minute.
            at = min(at + STEP_MS, grid.at(number)) if driver.killing(at - grid.period_ms) else grid.at(number)
            taken += driver.move(at)
        yield SimulatedRound(times.from_ms(at), taken, driver.runner.tasks)


@dataclass(slots=True)
class _Driver:
    """Moves the world and takes turns. `killed` is the last tick to which the world moved with an OOM kill."""

    context: LogContext
    runner: Runner
    world: SimulatedWorld
    clock: TickWriter
    killed: int = -1

    def killing(self, since: int) -> bool:
        """Whether a container was killed for lack of memory after this tick."""
        return self.killed > since

    def move(self, tick: int) -> list[TurnResult]:
        """Move the world to a tick and act on it; after a kill once more a moment later."""
        before = self._kills()
        self.world.advance(times.from_ms(tick))
        killed = self._kills() > before
        taken = self._turns(tick)
        if killed:
            self.killed = tick
            # What the recommender makes of a kill the updater reads a turn later. Live that is half a second, and the kubelet has
            # not started the container again.
            taken += self._turns(tick + 1)
        return taken

    def _turns(self, tick: int) -> list[TurnResult]:
        self.clock.write(tick)
        taken = self.runner.run()
        for act in self.world.consumers:
            act()
        return taken

    def _kills(self) -> int:
        """How many records of kills there are."""
        topic, log = self.context.topics.wire("oom-events"), self.context.log
        return sum(log.end(topic, partition) for partition in range(self.context.topics.partitions))
