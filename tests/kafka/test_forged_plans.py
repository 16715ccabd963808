"""On a Kafka with access rules: what somebody makes happen who may write the plans' topic and no other."""

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from schemas.policies.control import ControlChanged, Mode
from streams.codec.dead_letters import FORGED
from streams.codec.event_codec import Codec
from streams.codec.plan_attestations import PLAN_TOPICS, TOPIC
from streams.consumers.evictor import evictor
from streams.consumers.executing import plan_evidence
from streams.errors import LogUnavailable
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.topics import Topics
from tests.support import ticks
from tests.support.attested_plans import with_attestations
from tests.support.consumer_scene import START, CountingClient, eviction_of
from tests.support.documented_rights import PREFIX, documented_rights, wire
from tests.support.secured_kafka import Grant, SecuredKafka, secured_kafka
from tests.support.simulated_shop import demo_cluster

TOPICS = Topics(PREFIX, 1)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    rights = documented_rights()
    with secured_kafka(tmp_path_factory.mktemp("secured"), ("worker", "evictor", "mallory")) as kafka:
        kafka.make_topics(TOPICS.specs(1))
        mallory = [Grant("Write", "topic", wire("pod-updates"))]
        kafka.allow({"worker": rights["worker"], "evictor": rights["evictor"], "mallory": mallory})
        yield kafka


def test_only_the_worker_may_write_plans_and_what_attests_to_them() -> None:
    for name in (*PLAN_TOPICS, TOPIC):
        grant = Grant("Write", "topic", wire(name))
        assert {user for user, grants in documented_rights().items() if grant in grants} == {"worker"}


def test_who_may_write_plans_alone_evicts_nothing(kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_evidence, "PATIENCE", 1.0)
    cluster, codec = demo_cluster(3, start=START + timedelta(hours=1, minutes=50)), Codec(TOPICS)
    cluster.advance(START + timedelta(hours=2))
    client = CountingClient(cluster)
    honest, other = client.pods()[:2]
    plan = codec.encode(eviction_of(honest), topic="pod-updates", key="demo", partition=0, source="/ullage/updater/0")
    forged = replace(
        eviction_of(honest), workload=other.workload, pod=other.pod, expect={c.name: c.requests for c in other.containers}
    )
    copy = codec.encode(forged, topic="pod-updates", key="demo", partition=0, source="/ullage/updater/0")
    vouching = with_attestations([copy], TOPICS)[:1]
    with (
        KafkaLog(kafka.connection()) as admin,
        KafkaLog(kafka.connection("worker")) as worker,
        KafkaLog(kafka.connection("mallory")) as mallory,
        KafkaLog(kafka.connection("evictor")) as log,
    ):
        apply = ControlChanged(START, "demo", Mode.APPLY)
        admin.append([codec.encode(apply, topic="control", key="demo", partition=0, source="/test")])
        ticks.append(admin, TOPICS, int(cluster.now.timestamp() * 1000))
        mallory.append([copy])
        with pytest.raises(LogUnavailable) as refused:
            mallory.append(vouching)
        worker.append(with_attestations([plan], TOPICS))
        consumer = evictor(LogContext.of(log, TOPICS, "demo"), client)
        deadline = time.monotonic() + 60
        while not admin.end(wire("dead-letters"), 0) and time.monotonic() < deadline:
            consumer.poll_once()
            time.sleep(0.2)
        (letter,) = admin.poll({(wire("dead-letters"), 0): 0})
        assert admin.end(wire("outcomes"), 0) == 1
    assert client.acts == [f"evict {honest.pod.name}"]
    assert FORGED in letter.headers
    assert re.search(rf"user 'mallory' lacks the right \w+ on topic '{wire(TOPIC)}'", str(refused.value))
