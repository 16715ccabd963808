"""Stages on events in memory take the same turns, decide the same and end in the same state as on a log, bit for bit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.backtest.event_runner import EventRunner, RoutedEvent
from agents.engine.stage import Stage
from agents.run.pipeline import stages
from agents.run.stage_runner import Runner
from agents.run.stage_topics import input_topics
from agents.settings.all_settings import Settings
from schemas.catalogue import Event
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.names import Amounts, PodName, Workload
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import ContainerPolicy, UpdateMode, VerticalPolicyChanged
from schemas.units import Bytes, Cores
from streams.codec.event_codec import Codec
from streams.log.log_port import NewRecord
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS, Topics
from tests.support import ticks
from tests.support.cluster_events import MINUTE, START, when

GIB = 2**30
WORKLOADS = tuple(Workload("demo", "web", "Deployment", name) for name in ("api", "cart", "till"))
Frame = tuple[int, list[RoutedEvent]]
workloads = st.sampled_from(WORKLOADS)
pods = st.integers(0, 1)


def pipeline(topics: Topics) -> tuple[Stage, ...]:
    return stages(Settings(topics={"partitions": topics.partitions}))


def pod_name(workload: Workload, pod: int) -> PodName:
    return PodName(workload.namespace, f"{workload.name}-{pod}", f"uid-{workload.name}-{pod}")


def scraped(at: int, rows: Sequence[tuple[Workload, int, float, float]]) -> MetricsScraped:
    kept = {(workload, pod): (cores, memory) for workload, pod, cores, memory in rows}
    return MetricsScraped(
        when(at),
        "demo",
        tuple(workload.key for workload, _ in kept),
        tuple(pod_name(workload, pod).name for workload, pod in kept),
        ("app",) * len(kept),
        np.array([cores for cores, _ in kept.values()]),
        np.array([memory for _, memory in kept.values()]),
    )


def event(at: int, what: tuple[str, Any]) -> list[tuple[Event, str, str]]:
    """The event with the topics and keys it goes to."""
    kind, value = what
    match kind:
        case "scrape":
            return [(scraped(at, value), "pod-metrics", "")]
        case "pod" | "gone":
            workload, pod, cores = value
            name, amounts = pod_name(workload, pod), Amounts(Cores(cores), Bytes(GIB))
            seen = (ContainerSeen("app", amounts, amounts),)
            changed = PodChanged(when(at), workload, name, PodPhase.RUNNING, when(START), seen, started=when(START))
            fact = changed if kind == "pod" else PodDeleted(when(at), workload, name)
            return [(fact, "pod-changes", workload.key), (fact, "pod-changes-by-cluster", workload.cluster)]
        case "kill":
            workload, pod, restarts = value
            killed = ContainerOOMKilled(when(at), workload, pod_name(workload, pod), "app", restarts, Bytes(GIB), None)
            return [(killed, "oom-events", workload.key)]
        case _:
            entry = ContainerPolicy(min_allowed=Amounts(Cores(value), None))
            policy = VerticalPolicyChanged(when(at), "demo/*", str(value), UpdateMode.RECREATE, (entry,))
            return [(policy, "rules", ""), (ControlChanged(when(at), "demo", Mode.APPLY), "control", "")]


rows = st.lists(st.tuples(workloads, pods, st.floats(0.0, 4.0), st.floats(1e6, 4e9)), min_size=1, max_size=4)
happenings = st.one_of(
    st.tuples(st.just("scrape"), rows),
    st.tuples(st.just("scrape"), rows),
    st.tuples(st.sampled_from(["pod", "gone"]), st.tuples(workloads, pods, st.sampled_from([0.1, 2.0]))),
    st.tuples(st.just("kill"), st.tuples(workloads, pods, st.integers(0, 3))),
    st.tuples(st.just("policy"), st.sampled_from([0.05, 0.5, -1.0])),  # an amount below zero is refused
)


def routed(found: tuple[Event, str, str], topics: Topics) -> list[RoutedEvent]:
    """A broadcast goes to every partition, a scrape to those that its rows belong to."""
    fact, topic, key = found
    if isinstance(fact, MetricsScraped):
        partitions = sorted({topics.partition_of(workload) for workload in fact.workloads})
        return [RoutedEvent(_part(fact, topics, p), topic, p) for p in partitions]
    if topic in ("rules", "policies", "control"):
        return [RoutedEvent(fact, topic, p) for p in range(topics.partitions)]
    return [RoutedEvent(fact, topic, topics.partition_of(key))]


def _part(fact: MetricsScraped, topics: Topics, partition: int) -> MetricsScraped:
    rows = [i for i, workload in enumerate(fact.workloads) if topics.partition_of(workload) == partition]
    columns = [tuple(column[i] for i in rows) for column in (fact.workloads, fact.pods, fact.containers)]
    return MetricsScraped(fact.at, fact.cluster, *columns, np.asarray(fact.cores)[rows], np.asarray(fact.memory)[rows])


def comparable(record: NewRecord) -> tuple[Any, ...]:
    return (record.topic, record.partition, record.key, record.value, dict(record.headers).get("cause"))


def over_log(frames: Sequence[Frame], topics: Topics) -> tuple[list[Any], dict[str, bytes]]:
    """Decisions and state of the stages on a log in memory, as bytes went through it."""
    log, codec = MemoryLog(), Codec(topics)
    for topic in TOPICS:
        log.create(topics.wire(topic.name), topics.partitions)
    runner = Runner(pipeline(topics), LogContext(log, topics, codec))
    decided = []
    for number, events in frames:
        log.append(
            codec.encode(e.event, topic=e.topic, key="k", partition=e.partition, source="/test") for e in events if e.event
        )
        ticks.append(log, topics, number)
        decided += [comparable(record) for result in runner.run() for record in result.decisions]
    return decided, {
        f"{task.stage.name}/{task.partition}/{chunk}": task.state.dump(chunk)
        for task in runner.tasks
        for chunk in task.state.chunks()
    }


def on_events(frames: Sequence[Frame], topics: Topics) -> tuple[list[Any], dict[str, bytes]]:
    """The same without bytes; decisions are encoded afterwards, to be compared."""
    runner, codec = EventRunner(pipeline(topics), topics, input_topics()), Codec(topics)
    decided = []
    for number, events in frames:
        for turn in runner.turn(number, events):
            for d in turn.decided:
                to = topics.partition_of(d.key)
                record = codec.encode(d.event, topic=d.topic, key=d.key, partition=to, source="/test", cause=d.cause)
                decided.append(comparable(record))
    return decided, {
        f"{stage}/{partition}/{chunk}": state.dump(chunk) for stage, partition, state in runner.states for chunk in state.chunks()
    }


@settings(max_examples=30)
@given(st.lists(st.lists(happenings, max_size=3), min_size=2, max_size=12), st.sampled_from([1, 3]))
def test_stages_on_events_decide_and_remember_what_they_do_on_a_log(turns: list[Any], partitions: int) -> None:
    topics = Topics(partitions=partitions)
    frames = []
    for minute, happened in enumerate(turns, start=1):
        at = START + minute * MINUTE
        found = [each for what in happened for each in event(at, what)]
        frames.append((at, [r for each in found for r in routed(each, topics)]))
    assert on_events(frames, topics) == over_log(frames, topics)


def test_a_record_that_cannot_be_read_is_a_dead_letter_of_each_stage_that_reads_it() -> None:
    topics = Topics(partitions=1)
    runner = EventRunner(pipeline(topics), topics, input_topics())
    found = runner.turn(START, [RoutedEvent(None, "policies", 0), RoutedEvent(None, "pod-metrics", 0)])
    assert [turn.dead_letters for turn in found] == [
        len({"policies", "pod-metrics"} & set(stage.reads)) for stage in pipeline(topics)
    ]
