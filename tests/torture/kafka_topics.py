"""Creates the topics of a test and reads whole topics back, without the product's own adapters."""

from aiokafka import AIOKafkaConsumer, TopicPartition
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from schemas.units import Seconds
from streams.log.leader_questions import LeaderQuestions
from streams.log.log_port import Record
from streams.topics import TOPICS, Topics

MOST = 60.0
"""Seconds until a broker knows of the topics that its controller has made."""


def create(brokers: str, topics: Topics) -> None:
    """Create all topics under a prefix. Waits until the broker knows them: a busy one learns of them after its controller."""
    admin = KafkaAdminClient(bootstrap_servers=brokers)
    try:
        admin.create_topics(
            [
                NewTopic(
                    topics.wire(t.name),
                    num_partitions=topics.count(t.name),
                    replication_factor=1,
                    topic_configs=dict(t.configs()),
                )
                for t in TOPICS
            ]
        )
        places = [(topics.wire(topic.name), partition) for topic in TOPICS for partition in range(topics.count(topic.name))]
        LeaderQuestions(admin).await_leaders(places, Seconds(MOST))
    finally:
        admin.close()


async def whole(brokers: str, topic: str, partitions: int) -> list[list[Record]]:
    """All records of each partition, in the order of their offsets."""
    consumer = AIOKafkaConsumer(bootstrap_servers=brokers, auto_offset_reset="earliest", max_partition_fetch_bytes=8 << 20)
    await consumer.start()
    try:
        tps = [TopicPartition(topic, p) for p in range(partitions)]
        consumer.assign(tps)
        ends = await consumer.end_offsets(tps)
        await consumer.seek_to_beginning(*tps)
        read: list[list[Record]] = [[] for _ in tps]
        left = [tp for tp in tps if ends[tp]]
        while left := [tp for tp in left if await consumer.position(tp) < ends[tp]]:
            for tp, records in (await consumer.getmany(*left, timeout_ms=500)).items():
                read[tp.partition] += [
                    Record(tp.topic, tp.partition, r.offset, r.key, r.value, tuple(r.headers), r.timestamp) for r in records
                ]
        return read
    finally:
        await consumer.stop()
