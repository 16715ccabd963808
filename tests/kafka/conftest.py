"""The tests that run on a real Kafka: one broker for the session, topics of its own for each test."""

from tests.support.kafka_fixtures import broker, embedded, prefix, topics_made

__all__ = ["broker", "embedded", "prefix", "topics_made"]
