"""What one worker is to host, and how it paces its checkpoints. Data only."""

from dataclasses import dataclass, field

from agents.engine.stage import Stage
from schemas.units import Seconds
from streams.log.connection import Connection
from streams.topics import Topics, state_topic


@dataclass(frozen=True, slots=True)
class Pacing:
    """When checkpoints are due. Bytes, not seconds, are what they cost, so the bytes of one say when the next is due.

    `rate` is a budget in bytes a second, averaged over a whole round of partitions; `least` and `most` bound the interval.
    """

    least: Seconds = Seconds(1.0)
    most: Seconds = Seconds(30.0)
    rate: int = 12_000_000

    def interval(self, written: int) -> Seconds:
        """How long after the start of a round that wrote so many bytes the next one starts."""
        return Seconds(min(max(self.least, written / self.rate), self.most))


@dataclass(frozen=True, slots=True)
class Plan:
    """The stages of one worker and the log they live on. All workers of one `name` share the partitions.

    `buffer` bounds, in bytes, what is held of one input that is ahead of the others. `metrics` is host and port of metrics and
    health, port 0 for none; `behind` is the event-time lag above which the worker says that it is not ready.
    """

    where: Connection
    topics: Topics
    stages: tuple[Stage, ...]
    name: str = "ullage"
    pacing: Pacing = field(default_factory=Pacing)
    buffer: int = 32 << 20
    metrics: tuple[str, int] = ("127.0.0.1", 0)
    behind: Seconds = Seconds(10.0)

    def changelog(self, stage: Stage) -> str:
        """The topic that carries a stage's checkpoints; the name is what Faust makes of a table called `<stage>-state`."""
        return state_topic(self.name, stage.name)

    def inputs(self) -> tuple[str, ...]:
        """Wire names of all topics that some stage reads, each once."""
        return tuple(dict.fromkeys(self.topics.wire(name) for stage in self.stages for name in stage.reads))

    def readers(self, name: str) -> int:
        """How many stages read the topic with this short name."""
        return sum(name in stage.reads for stage in self.stages)
