"""Users as a file says, on a real broker: rights are given, repeated without a change, and taken away again."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.admin import kafka_users, topic_admin
from streams.errors import BadInput, LogUnavailable
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.topics import Topics
from tests.support.secured_kafka import SecuredKafka, changed, secured_kafka

FACTS, OUTCOMES = (Topics("ullage", 1).wire(name) for name in ("pod-changes", "outcomes"))


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("users"), ["bystander"]) as kafka:
        kafka.make_topics(spec for spec in Topics("ullage", 1).specs(1) if spec.name in {FACTS, OUTCOMES})
        yield kafka


def file(folder: Path, **users: list[dict[str, object]]) -> Path:
    """Users whose passwords are their names, with rights."""
    path = folder / "users.json"
    path.write_text(json.dumps({f"our-{name}": {"password": name, "rights": rights} for name, rights in users.items()}))
    return path


def may(operation: str, *topics: str) -> list[dict[str, object]]:
    return [{"kind": "topic", "names": topics, "operations": [operation]}]


def make(kafka: SecuredKafka, path: Path) -> list[str]:
    """What changed, once the broker knows of it: then nothing is left to change."""
    users = kafka_users.read(path)
    with topic_admin.connect(kafka.connection()) as client:
        changes = kafka_users.apply(client, users, beginning="our-")
        until = time.monotonic() + 60
        while kafka_users.apply(client, users, beginning="our-"):
            assert time.monotonic() < until, "the broker does not take users and rights"
            time.sleep(0.1)
    return changes


def signed_in(kafka: SecuredKafka, name: str) -> KafkaConnection:
    return changed(kafka.connection(), sasl_username=f"our-{name}", sasl_password=name)


def write(kafka: SecuredKafka, name: str, topic: str) -> None:
    with KafkaLog(signed_in(kafka, name)) as log:
        log.append([NewRecord(topic, 0, b"key", b"{}")])


def test_users_have_the_rights_of_the_file_until_it_says_others(kafka: SecuredKafka, tmp_path: Path) -> None:
    first = file(tmp_path, source=may("Write", FACTS), consumer=may("Write", OUTCOMES))
    assert make(kafka, first) == [
        "user 'our-source' may sign in",
        "user 'our-consumer' may sign in",
        f"User:our-source WRITE on topic '{FACTS}': given",
        f"User:our-consumer WRITE on topic '{OUTCOMES}': given",
    ]
    assert make(kafka, first) == []
    write(kafka, "source", FACTS)
    with pytest.raises(LogUnavailable, match="'our-source' lacks the right"):
        write(kafka, "source", OUTCOMES)
    assert make(kafka, file(tmp_path, source=may("Write", OUTCOMES))) == [
        "user 'our-consumer' may no longer sign in",
        f"User:our-source WRITE on topic '{FACTS}': taken away",
        f"User:our-consumer WRITE on topic '{OUTCOMES}': taken away",
        f"User:our-source WRITE on topic '{OUTCOMES}': given",
    ]
    write(kafka, "source", OUTCOMES)
    with pytest.raises(LogUnavailable, match="'our-source' lacks the right"):
        write(kafka, "source", FACTS)
    with pytest.raises(LogUnavailable, match="does not know user 'our-consumer'"):
        write(kafka, "consumer", OUTCOMES)


def test_users_of_others_are_left_alone(kafka: SecuredKafka, tmp_path: Path) -> None:
    make(kafka, file(tmp_path, source=[]))
    with topic_admin.connect(kafka.connection("bystander")) as client:
        assert client.list_topics() == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "says no users"),
        ('{"a": {"password": 1, "rights": []}}', "says no users"),
        ('{"a": {"password": "p", "rights": [{"kind": "topic", "names": ["t"], "operations": ["Rite"]}]}}', "'RITE'"),
        ('{"a": {"password": "p", "rights": [{"kind": "shelf", "names": ["t"], "operations": ["Read"]}]}}', "'SHELF'"),
    ],
)
def test_a_file_that_says_no_users_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "users.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=said):
        kafka_users.read(path)
