"""The main job on real input, as a user runs it: a trace into Kafka, two workers, one of them killed midway.

What they recommend is what the stages decide on the same trace in memory, every amount of every container at every turn.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from agents.backtest.event_runner import EventRunner, RoutedEvent
from agents.run.pipeline import stages
from agents.run.stage_topics import input_topics
from agents.settings.all_settings import Settings
from agents.verify.committed_turns import committed
from schemas import times
from schemas.decisions.recommendations import RequestsRecommended
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.sources.traces import Trace, TraceMoments
from streams.topics import Topics
from tests.support.commands import Commands
from tests.support.real_traces import trace

CLUSTER = "trace"
Decisions = dict[tuple[str, datetime], object]
"""What was recommended, by workload and turn, without what depends on the log that it stands in: ids, places, cited rules."""


@pytest.fixture
def site(broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> Iterator[Commands]:
    site = Commands(broker, topics_made(partitions=2), tmp_path, {"CLUSTER__NAME": CLUSTER})
    yield site
    site.close()


def expected(folder: Path) -> tuple[Decisions, int]:
    """What the stages recommend on the trace in memory, all workloads in one partition, and the last turn."""
    found: Decisions = {}
    alone = Topics("memory", 1)
    runner, events, last = EventRunner(stages(Settings(topics={"partitions": 1})), alone, input_topics()), [], -1
    with Trace(folder) as trace:
        for moment in TraceMoments(trace, alone, CLUSTER):
            events += [RoutedEvent(routed.fact, routed.topic, routed.partition) for routed in moment.facts]
            if moment.ends:
                last = times.nearest_ms(moment.at)
                for turn in runner.turn(last, events):
                    _collect(found, (decided.event for decided in turn.decided if decided.topic == "recommendations"))
                events = []
    return found, last


def published(log: KafkaLog, topics: Topics) -> Decisions:
    """What stands in Kafka. A decision that was published again is the same."""
    found: Decisions = {}
    codec = Codec(topics)
    for partition in range(topics.partitions):
        place = (topics.wire("recommendations"), partition)
        position, end = log.begin(*place), log.end(*place)
        while position < end:
            records = log.poll({place: position}, wait=5.0)
            _collect(found, (codec.decode(record) for record in records if not is_of_a_clock(record)))
            position = records[-1].offset + 1
    return found


def _collect(found: Decisions, events: Iterator[object]) -> None:
    for event in events:
        assert isinstance(event, RequestsRecommended)
        what = (event.containers, event.pods, event.last_oom and event.last_oom.at, event.oom_source)
        assert found.setdefault((event.workload.key, event.at), what) == what


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_what_two_workers_recommend_on_a_trace_is_what_the_stages_do_in_memory_even_when_one_is_killed_midway(
    site: Commands,
) -> None:
    file = trace("google2019-borg", 12, site.folder)
    listed = stages(Settings())
    wanted, last = expected(file)

    def level() -> bool:
        marks = committed(LogContext.of(log, site.topics), site.topics.prefix, listed).items()
        turns = [mark.turn for (stage, _), mark in marks if stage == "recommender"]
        return turns == [last] * site.topics.partitions

    with KafkaLog(KafkaConnection(site.broker)) as log:
        site.start("source", "source", "traces", str(file), "--speed", "0")
        site.start("one", "worker")
        site.start("two", "worker")
        places = [(site.topics.wire("recommendations"), p) for p in range(site.topics.partitions)]
        site.wait(lambda: sum(log.end(*place) for place in places) > len(wanted) // 4, 120, "a quarter is recommended")
        assert sum(log.end(*place) for place in places) < len(wanted), "it was over before the worker could be killed"
        site.kill("one")
        site.start("one again", "worker")
        site.wait(level, 1200, "all turns are taken and marked")
        found = published(log, site.topics)
    assert found.keys() == wanted.keys()
    assert found == wanted
