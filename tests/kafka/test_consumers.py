"""Source, simulated cluster over HTTP and consumers on a real Kafka: facts get in, plans are carried out, a pause holds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from kafka import KafkaAdminClient, TopicPartition

from schemas.decisions.pod_updates import EvictionPlanned
from schemas.facts.pods import PodChanged
from schemas.outcomes import ActionFinished, Result
from schemas.policies.control import ControlChanged, Mode
from streams.clients.cluster_port import Pod
from streams.clients.kube.cluster_client import KubernetesClient, connect
from streams.codec.event_codec import Codec
from streams.consumers.evictor import evictor
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.log_range import Cursor
from streams.simulated.api_server import SimulatedServer
from streams.simulated.cluster import SimulatedCluster
from streams.sources.simulated_cluster_poller import SimulatedClusterPoller
from streams.topics import Topics
from tests.support import ticks
from tests.support.attested_plans import with_attestations
from tests.support.simulated_shop import demo_cluster

START = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass
class Stage:
    """All that stands between a cluster and Kafka."""

    broker: str
    log: KafkaLog
    context: LogContext
    cluster: SimulatedCluster
    client: KubernetesClient

    def say(self, *, paused: bool) -> None:
        """From another connection, as an operator would."""
        event = ControlChanged(START, "demo", Mode.APPLY, paused=paused)
        home = self.context.topics.partition_of("demo")
        with KafkaLog(KafkaConnection(self.broker)) as other:
            other.append([self.context.codec.encode(event, topic="control", key="demo", partition=home, source="/test")])

    def plan(self, pod: Pod) -> None:
        expect = {c.name: c.requests for c in pod.containers}
        at = self.cluster.now
        planned = EvictionPlanned(
            f"updater/0/1/evict/{pod.pod.name}", at, at + timedelta(minutes=5), pod.workload, pod.pod, expect, {}
        )
        home = self.context.topics.partition_of("demo")
        record = self.context.codec.encode(planned, topic="pod-updates", key="demo", partition=home, source="/test")
        self.log.append(with_attestations([record], self.context.topics))

    def read(self, topic: str) -> list[object]:
        reading = Cursor(self.log, [(self.context.topics.wire(topic), p) for p in range(self.context.topics.partitions)])
        return [self.context.codec.decode(record) for record in reading.catch_up()]


@pytest.fixture
def stage(broker: str, topics_made: Callable[..., Topics]) -> Iterator[Stage]:
    topics, cluster = topics_made(partitions=2), demo_cluster(3, start=START)
    cluster.advance(START + timedelta(minutes=2))
    with KafkaLog(KafkaConnection(broker)) as log, SimulatedServer(cluster) as server:
        client = connect("demo", server.url)
        stage = Stage(broker, log, LogContext(log, topics, Codec(topics), "demo"), cluster, client)
        stage.say(paused=False)
        ticks.append(log, topics, int(cluster.now.timestamp() * 1000))
        yield stage
        client.close()


def test_facts_get_into_kafka_and_a_plan_is_carried_out_once(stage: Stage) -> None:
    SimulatedClusterPoller(
        stage.client, LogContext(stage.log, stage.context.topics, stage.context.codec, stage.context.cluster)
    ).scrape(stage.cluster.now)
    seen = [event for event in stage.read("pod-changes-by-cluster") if isinstance(event, PodChanged)]
    assert [event.pod for event in seen] == [pod.pod for pod in stage.cluster.pods()]
    stage.plan(stage.cluster.pods()[0])
    first, second = evictor(stage.context, stage.client), evictor(stage.context, stage.client)
    assert (first.poll_once(), second.poll_once(), first.poll_once()) == (1, 0, 0)
    assert [o.result for o in stage.read("outcomes") if isinstance(o, ActionFinished)] == [Result.DONE]
    assert len(stage.cluster.pods()) == 35


def test_a_pause_published_a_moment_ago_holds(stage: Stage) -> None:
    consumer = evictor(stage.context, stage.client)
    consumer.poll_once()
    stage.plan(stage.cluster.pods()[0])
    stage.say(paused=True)
    assert consumer.poll_once() == 1
    assert [o.reason for o in stage.read("outcomes") if isinstance(o, ActionFinished)] == ["cluster 'demo' is paused"]
    assert len(stage.cluster.pods()) == 36


def test_what_retention_took_does_not_hold_up_a_reader(stage: Stage, broker: str) -> None:
    topic, home = stage.context.topics.wire("pod-updates"), stage.context.topics.partition_of("demo")
    early = evictor(stage.context, stage.client)
    early.poll_once()
    stage.plan(stage.cluster.pods()[0])
    stage.plan(stage.cluster.pods()[1])
    admin = KafkaAdminClient(bootstrap_servers=broker)
    admin.delete_records({TopicPartition(topic, home): 2})
    admin.close()
    assert (stage.log.begin(topic, home), stage.log.end(topic, home)) == (2, 2)
    assert early.poll_once() == 0
    assert evictor(stage.context, stage.client).poll_once() == 0
    stage.plan(stage.cluster.pods()[2])
    assert early.poll_once() == 1
    assert len(stage.cluster.pods()) == 35
