"""`ullage checkpoints` exports what a real worker wrote to its changelog on Kafka."""

import json
from collections.abc import Callable
from pathlib import Path

from schemas.catalogue import Event
from streams.codec.event_codec import Codec
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import Log
from streams.topics import Topics, changelog_topic
from tests.support import ticks
from tests.support.cluster_events import API, MINUTE, START, pod, scrape, vpa
from tests.support.commands import Commands


def tell(log: Log, topics: Topics) -> None:
    """A VPA, its pod, and ten minutes of usage, with a tick after each."""
    codec, home = Codec(topics), topics.partition_of(API.key)

    def say(event: Event, topic: str, key: str, partition: int) -> None:
        log.append([codec.encode(event, topic=topic, key=key, partition=partition, source="/test")])

    for partition in range(topics.partitions):
        say(vpa(), "policies", vpa().key, partition)
    say(pod("p", START, labels={"app": "api"}), "pod-changes", API.key, home)
    for minute in range(1, 11):
        at = START + minute * MINUTE
        say(scrape(at, [(API.key, "p", "app", 0.1, 5e8)]), "pod-metrics", API.key, home)
        ticks.append(log, topics, at)


def test_the_state_of_a_worker_is_exported(broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> None:
    topics = topics_made(partitions=2)
    commands = Commands(broker, topics, tmp_path)
    home = topics.partition_of(API.key)
    try:
        with KafkaLog(KafkaConnection(broker)) as log:
            tell(log, topics)
            commands.start("worker", "worker")
            place = topics.wire("recommendations"), home
            commands.wait(lambda: log.end(*place) > log.begin(*place), 60.0, "a recommendation")
            written = changelog_topic(topics.prefix, "recommender"), home
            commands.wait(lambda: any(b"/mark/" in (r.key or b"") for r in log.poll({written: 0})), 60.0, "a mark")
        commands.running["worker"].terminate()
        assert commands.running["worker"].wait(60.0) in (0, 143)
        commands.start("export", "checkpoints", "export", "--to", "kept.json")
        assert commands.running["export"].wait(60.0) == 0, commands.said("export")
    finally:
        commands.close()
    (made,) = json.loads((tmp_path / "kept.json").read_text())["items"]
    assert made["metadata"] == {"name": "api-app", "namespace": "web"}
    assert made["status"]["totalSamplesCount"] == 10
    assert made["status"]["cpuHistogram"]["bucketWeights"] == {"8": 10000}
