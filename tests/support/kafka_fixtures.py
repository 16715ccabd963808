"""Fixtures of tests that need a real Kafka: one broker for the session, topics of its own for each test.

A conftest imports the four by name; pytest finds them there.
"""

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from streams.broker import Broker, BrokerSettings, JarsUnavailable
from streams.topics import Topics
from tests.torture import kafka_topics

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def embedded() -> Iterator[Broker]:
    """The session's broker itself, for tests that look at its process."""
    broker = Broker(BrokerSettings(heap_mb=256, quick=True))
    try:
        broker.start()
    except JarsUnavailable as error:
        pytest.skip(str(error))
    yield broker
    broker.close()


@pytest.fixture(scope="session")
def broker(embedded: Broker) -> str:
    """The bootstrap servers of the session's broker."""
    return embedded.bootstrap


@pytest.fixture
def prefix() -> str:
    """A topic prefix nobody else uses."""
    return f"t{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def topics_made(broker: str, prefix: str) -> Callable[..., Topics]:
    """Makes our topics under the test's prefix: `topics_made(partitions=2)` gives the Topics."""

    def make(*, partitions: int = 2) -> Topics:
        topics = Topics(prefix, partitions)
        kafka_topics.create(broker, topics)
        return topics

    return make
