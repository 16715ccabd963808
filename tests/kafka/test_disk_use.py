"""What the log takes on the brokers' disks, as `ullage doctor` says it."""

import random
from collections.abc import Callable

import pytest

from agents.commands.health import doctor
from agents.settings import loading
from streams.admin import topic_admin
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.topics import Topics


def test_what_the_topics_keep_and_a_disk_with_little_room_are_said(
    broker: str, topics_made: Callable[..., Topics], monkeypatch: pytest.MonkeyPatch
) -> None:
    topics, where = topics_made(partitions=2), KafkaConnection(broker)
    noise = random.Random(1).randbytes(600_000)
    with KafkaLog(where) as log:
        log.append([NewRecord(topics.wire("outcomes"), partition, b"k", noise) for partition in range(2)])
    use = topic_admin.disk_use(where, {topics.wire("outcomes"), topics.wire("pod-changes")})
    assert 1_200_000 <= use.kept < 1_210_000
    assert use.room is not None
    assert 0 < use.room < 1
    assert topic_admin.disk_use(where, {topics.wire("pod-changes")}).kept == 0

    flags = {"log.brokers": broker, "topics.prefix": topics.prefix, "topics.partitions": "2"}
    settings = loading.load(flags=flags).settings
    monkeypatch.setattr(doctor, "_ROOM_LEFT", 0.0)
    (check,) = (check for check in doctor.the_log(settings) if check.name == "volume")
    assert check.level == "ok"
    assert check.finding.startswith("0.00 GB of ours")
    monkeypatch.setattr(doctor, "_ROOM_LEFT", 1.0)
    (check,) = (check for check in doctor.the_log(settings) if check.name == "volume")
    assert check.level == "warn"
    assert "free" in check.finding
