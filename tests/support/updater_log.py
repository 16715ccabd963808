"""A log in a file that holds what an updater reads, for tests of commands that look at its state: one cluster, turn by turn."""

from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Any

from agents import cli
from agents.run.pipeline import stages
from agents.run.simulate import Runner
from agents.settings.all_settings import Settings, TopicSettings
from schemas.catalogue import CATALOGUE, Event
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.names import Amounts, Workload
from schemas.policies import Policy
from streams.codec.event_codec import Codec
from streams.log.file_log import FileLog
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.topics import TOPICS, Topics
from tests.support import ticks
from tests.support.cluster_events import GIB, when

SHOP = Topics("ullage", 1)
CLUSTER = "demo"


def recommended(number: int, workload: Workload, cpu: float = 0.2) -> RequestsRecommended:
    """Of a container `app`: `cpu` cores and 1 GiB, with narrow bounds."""
    bounds = [Amounts(cpu * share, GIB) for share in (0.9, 1.0, 1.1, 1.0)]  # type: ignore[arg-type]  # units
    return RequestsRecommended(
        f"recommender/0/{number}/requests/{workload.key}", when(number), workload, (ContainerRecommendation("app", *bounds),), {}
    )


class UpdaterLog:
    """The log, and the command line on it."""

    def __init__(self, path: Path, *, without: Collection[str] = ()) -> None:
        """`without` are topics that the log lacks, as one that an older version wrote does."""
        self.path = path
        with FileLog.open_or_create(path) as log:
            for topic in TOPICS:
                if topic.name not in without:
                    log.create(SHOP.wire(topic.name), 1)

    def turn(self, number: int, *events: Event) -> None:
        """Append events, each to the topics that carry it for a whole cluster, then a tick."""
        with FileLog(self.path) as log:
            context = LogContext.of(log, SHOP)
            for event in events:
                if isinstance(event, Policy):
                    OperatorLog(context).publish(event)
                    continue
                [*_, topic] = CATALOGUE.of(type(event)).topics
                log.append([Codec(SHOP).encode(event, topic=topic, key=CLUSTER, partition=0, source="/ullage/source/test")])
            ticks.append(log, SHOP, number)

    def decide(self) -> list[Any]:
        """Let the updater take the turns and append its decisions; the new ones."""
        settings = Settings(topics=TopicSettings(partitions=1))
        with FileLog(self.path) as log:
            context = LogContext.of(log, SHOP)
            before = log.end(SHOP.wire("pod-updates"), 0)
            Runner([each for each in stages(settings) if each.name == "updater"], context).run()
            records = log.poll({(SHOP.wire("pod-updates"), 0): before})
            return [context.codec.decode(record) for record in records]

    def ends(self) -> dict[str, int]:
        """How many records each topic has."""
        with FileLog(self.path) as log:
            return {topic.name: log.end(SHOP.wire(topic.name), 0) for topic in TOPICS}

    def run(self, *words: str) -> int:
        where = ["--set", "log.kind=file", "--set", f"log.path={self.path}", "--set", "topics.partitions=1"]
        return cli.run([*words, *where])


def at(number: int) -> datetime:
    """The time of a turn."""
    return when(number)
