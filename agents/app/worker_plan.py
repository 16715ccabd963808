"""What one worker hosts, and how it paces its checkpoints: data, and how the settings become it."""

from dataclasses import dataclass, field

from agents.app import supervision
from agents.engine.stage import Stage
from agents.policies import policy_limits
from agents.policies.policy_limits import PolicyWatch
from agents.run import pipeline
from agents.settings import loading, log_factory
from agents.settings.all_settings import Settings
from schemas.units import Seconds
from streams.errors import BadInput
from streams.log.kafka_connection import KafkaConnection
from streams.topics import Topics, changelog_topic


@dataclass(frozen=True, slots=True)
class Pacing:
    """When checkpoints are due. A checkpoint costs bytes, not seconds, so the bytes of one decide when the next is due.

    `rate` is a budget in bytes a second, averaged over a whole round of partitions. `least` and `most` bound the interval.
    A partition with more than `samples` rows of usage since its last checkpoint is in the next round; the others wait for a
    quiet one, of which there is one in `quiet` at least. A scrape changes nearly every row, and so writes the whole state anew.
    """

    least: Seconds = Seconds(1.0)
    most: Seconds = Seconds(30.0)
    rate: int = 12_000_000
    samples: int = 100_000
    quiet: int = 240

    def interval(self, written: int) -> Seconds:
        """How long after the start of a round that wrote this many bytes the next round starts."""
        return Seconds(min(max(self.least, written / self.rate), self.most))


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """The stages of one worker and the log they live on. All workers of one `name` share the partitions.

    `buffer` bounds the bytes of all inputs together that are ahead of what turns want. `metrics` is host and port of metrics
    and health, port 0 for none. With an event-time lag above `behind` the worker reports that it is not ready. After `session`
    without a heartbeat its partitions are given to others.
    """

    where: KafkaConnection
    topics: Topics
    stages: tuple[Stage, ...]
    name: str = "ullage"
    pacing: Pacing = field(default_factory=Pacing)
    buffer: int = 64 << 20
    metrics: tuple[str, int] = ("127.0.0.1", 0)
    behind: Seconds = Seconds(10.0)
    session: Seconds = Seconds(6.0)

    def changelog(self, stage: Stage) -> str:
        """The topic that carries a stage's checkpoints. Faust derives the same name from a table called `<stage>-state`."""
        return changelog_topic(self.name, stage.name)

    def inputs(self) -> tuple[str, ...]:
        """Wire names of all topics that some stage reads, each once."""
        return tuple(dict.fromkeys(self.topics.wire(name) for stage in self.stages for name in stage.reads))

    def readers(self, name: str) -> int:
        """How many stages read the topic with this short name."""
        return sum(name in stage.reads for stage in self.stages)


def from_settings(settings: Settings | None = None) -> WorkerPlan:
    """The plan that these settings ask for; without any, those of the settings file and the environment.

    Raises BadInput for a log that is not Kafka: only Kafka can be shared among workers.
    """
    chosen = loading.load().settings if settings is None else settings
    if chosen.log.kind != "kafka":
        raise BadInput(
            f"log.kind is '{chosen.log.kind}', but a worker needs 'kafka'; `ullage demo --log memory` and `backtest` need none"
        )
    worker = chosen.worker
    watch = policy_limits.IN_FORCE.set(PolicyWatch(Seconds(worker.policy_seconds), _end))
    try:
        stages = pipeline.stages(chosen)
    finally:
        policy_limits.IN_FORCE.reset(watch)
    return WorkerPlan(
        where=log_factory.connection(chosen),
        topics=log_factory.topics(chosen),
        stages=stages,
        name=worker.name,
        pacing=Pacing(
            Seconds(worker.checkpoint_least),
            Seconds(worker.checkpoint_most),
            worker.checkpoint_rate,
            worker.checkpoint_samples,
        ),
        buffer=worker.buffer,
        metrics=(chosen.metrics.host, chosen.metrics.port),
        behind=chosen.ready_within,
        session=Seconds(worker.session_seconds),
    )


def _end(late: str) -> None:
    """A running policy cannot be interrupted, so the process ends; another worker would end in the same way."""
    supervision.end(
        BadInput(f"{late} (worker.policy_seconds): try it with `ullage policy test`, or leave it out"), doing="asking a policy"
    )
