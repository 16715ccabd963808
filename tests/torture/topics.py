"""Makes all topics under a prefix."""

from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from streams.topics import TOPICS, Topics


def make(brokers: str, topics: Topics) -> None:
    admin = KafkaAdminClient(bootstrap_servers=brokers)
    try:
        admin.create_topics(
            [
                NewTopic(
                    topics.wire(t.name), num_partitions=topics.partitions, replication_factor=1, topic_configs=dict(t.configs())
                )
                for t in TOPICS
            ]
        )
    finally:
        admin.close()
