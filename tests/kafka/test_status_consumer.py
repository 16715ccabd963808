"""The status consumer on a real Kafka: it reads to the end before it writes, begins where it must, and writes nothing twice."""

from collections.abc import Callable, Iterator

import pytest
from tests.support.status_desk import HOUR, START, StatusDesk, pod, said, vpa

from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.topics import Topics
from tests.support.vpa_server import VpaServer


class KafkaDesk(StatusDesk):
    """The topics are there already."""

    def make_topics(self) -> None:
        """Nothing to make."""


@pytest.fixture
def server() -> Iterator[VpaServer]:
    with VpaServer() as server:
        yield server


@pytest.fixture
def desk(broker: str, topics_made: Callable[..., Topics], server: VpaServer) -> Iterator[StatusDesk]:
    topics = topics_made(partitions=2)
    with KafkaLog(KafkaConnection(broker)) as log:
        yield KafkaDesk(server.url, topics=topics, log=log)


def test_of_many_recommendations_the_newest_is_written_once_and_a_successor_writes_nothing(
    desk: StatusDesk, server: VpaServer
) -> None:
    names = [f"n{number}" for number in range(40)]
    desk.say(*(vpa(name, target=name) for name in names))
    for hour in range(6):
        desk.say(*(said(name, turn=START + hour * HOUR, cpu=100 + hour) for name in names), pod("p", "n0"))
        desk.tick(START + hour * HOUR)
    for name in names:
        server.make(f"web/{name}")
    assert desk.consumer().poll_once() == 40
    targets = {server.status(f"web/{name}")["recommendation"]["containerRecommendations"][0]["target"]["cpu"] for name in names}
    assert targets == {"105m"}
    assert len(server.writes()) == 40
    assert desk.consumer().poll_once() == 0
    assert len(server.writes()) == 40
    assert len(desk.outcomes()) == 40


def test_a_log_that_is_only_ticks_makes_no_status(desk: StatusDesk, server: VpaServer) -> None:
    desk.tick()
    assert desk.consumer().poll_once() == 0
    assert server.requests == []
