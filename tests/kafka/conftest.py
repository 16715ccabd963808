"""The tests that run on a real Kafka: one broker for the session, topics of its own for each test."""

import pytest

from tests.support.kafka_fixtures import broker, embedded, prefix, topics_made

__all__ = ["broker", "embedded", "prefix", "topics_made"]

LONGEST = ("test_more_partitions.py", "test_compose_services.py")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take minutes: at the end, one of them would keep all workers but one waiting."""
    items.sort(key=lambda item: item.path.name not in LONGEST)
