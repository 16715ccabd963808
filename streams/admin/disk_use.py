"""What topics take on the disks of the brokers, and how much room these have left, as the brokers say."""

from collections.abc import Collection
from dataclasses import dataclass

from streams.admin import topic_admin
from streams.log.kafka_connection import KafkaConnection


@dataclass(frozen=True, slots=True)
class DiskUse:
    """Bytes that are kept of the topics, copies included; and what share of the fullest disk is free, if the brokers say."""

    kept: int
    room: float | None


def ask(where: KafkaConnection, topics: Collection[str]) -> DiskUse:
    """What these topics take. Raises LogUnavailable, also without the right to Describe the cluster."""
    with topic_admin.connect(where, right="Describe on the cluster") as client:
        folders = [folder for node in client.describe_log_dirs() for folder in node["log_dirs"]]
    kept = sum(
        partition["partition_size"]
        for folder in folders
        for topic in folder["topics"]
        if topic["name"] in topics
        for partition in topic["partitions"]
    )
    rooms = [folder["usable_bytes"] / folder["total_bytes"] for folder in folders if folder.get("total_bytes", 0) > 0]
    return DiskUse(kept, min(rooms, default=None))
