"""The status consumer on a real Kafka: it reads to the end before it writes, begins where it must, and writes nothing twice."""

from collections.abc import Callable, Iterator

import pytest

from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.topics import Topics
from tests.support.status_scene import HOUR, START, StatusScene, pod, said, vpa
from tests.support.vpa_server import VpaServer


class KafkaScene(StatusScene):
    """The topics are there already."""

    def make_topics(self) -> None:
        """Nothing to make."""


@pytest.fixture
def server() -> Iterator[VpaServer]:
    with VpaServer() as server:
        yield server


@pytest.fixture
def scene(broker: str, topics_made: Callable[..., Topics], server: VpaServer) -> Iterator[StatusScene]:
    topics = topics_made(partitions=2)
    with KafkaLog(KafkaConnection(broker)) as log:
        yield KafkaScene(server.url, topics=topics, log=log)


def test_of_many_recommendations_the_newest_is_written_once_and_a_successor_writes_nothing(
    scene: StatusScene, server: VpaServer
) -> None:
    names = [f"n{number}" for number in range(40)]
    scene.say(*(vpa(name, target=name) for name in names))
    for hour in range(6):
        scene.say(*(said(name, turn=START + hour * HOUR, cpu=100 + hour) for name in names), pod("p", "n0"))
        scene.tick(START + hour * HOUR)
    for name in names:
        server.make(f"web/{name}")
    assert scene.consumer().poll_once() == 40
    targets = {server.status(f"web/{name}")["recommendation"]["containerRecommendations"][0]["target"]["cpu"] for name in names}
    assert targets == {"105m"}
    assert len(server.writes()) == 40
    assert scene.consumer().poll_once() == 0
    assert len(server.writes()) == 40
    assert len(scene.outcomes()) == 40


def test_a_log_that_is_only_ticks_makes_no_status(scene: StatusScene, server: VpaServer) -> None:
    scene.tick()
    assert scene.consumer().poll_once() == 0
    assert server.requests == []
