"""A Kafka that anybody may write is said to be open before anything is allowed on its word. Brokers with rights: tests/kafka."""

import pytest

from streams.admin import kafka_users
from streams.log.kafka_connection import KafkaConnection


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_without_a_login_it_is_open(protocol: str) -> None:
    why = kafka_users.why_open(KafkaConnection("127.0.0.1:1,kafka.shop:9092", protocol))
    assert why is not None
    assert "kafka.shop:9092" in why
    assert "without a login" in why


@pytest.mark.parametrize("broker", ["127.0.0.1:9092", "localhost:9092", "[::1]:9092", "127.8.0.1"])
def test_a_broker_of_this_machine_alone_is_not(broker: str) -> None:
    assert kafka_users.why_open(KafkaConnection(broker)) is None


def test_a_name_that_only_looks_like_this_machine_is_asked() -> None:
    assert kafka_users.why_open(KafkaConnection("localhost.example:9092")) is not None
