"""Which recommendation a new pod may be given."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from agents.processes.simulated_cluster import GoverningModes
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.names import Amounts, Workload
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged, VerticalPolicyRemoved
from schemas.units import Bytes, Cores
from streams.codec.event_codec import Codec
from streams.consumers.pods.new_pod_recommendations import NewPodRecommendations
from streams.errors import LogUnavailable
from streams.log.memory_log import MemoryLog
from streams.log.port import Positions, Record
from streams.topics import TOPICS, Topics

START = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = Topics(partitions=2)
CODEC = Codec(NAMES)
WEB = Workload("demo", "shop", "Deployment", "web")
TARGET = ContainerRecommendation("main", *[Amounts(Cores(0.5), Bytes(1000))] * 4)


class AwayLog(MemoryLog):
    away = False

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        if self.away:
            raise LogUnavailable("the log in this test is away")
        return super().poll(positions, wait=wait, limit=limit)


@pytest.fixture
def log() -> AwayLog:
    log = AwayLog()
    for topic in TOPICS:
        log.create(NAMES.wire(topic.name), NAMES.partitions)
    return log


@pytest.fixture
def view(log: AwayLog) -> NewPodRecommendations:
    return NewPodRecommendations(log, NAMES, CODEC, modes=GoverningModes())


def recommend(log: MemoryLog, turn: int, *containers: ContainerRecommendation) -> RequestsRecommended:
    at = START + timedelta(minutes=turn)
    event = RequestsRecommended(f"recommender/0/{turn}/requests/{WEB.key}", at, WEB, containers, {})
    partition = NAMES.partition_of(WEB.key)
    log.append([CODEC.encode(event, topic="recommendations", key=WEB.key, partition=partition, source="/ullage/recommender/0")])
    return event


def govern(log: MemoryLog, event: VerticalPolicyChanged | VerticalPolicyRemoved) -> None:
    log.append(CODEC.encode_for_all(event, topic="policies", key=event.target, source="/ullage/source/operator"))


def test_a_pod_gets_the_newest_recommendation_only_under_a_policy_that_is_not_off(
    log: AwayLog, view: NewPodRecommendations
) -> None:
    recommend(log, 7, TARGET)
    newest = recommend(log, 8, TARGET)
    view.catch_up()
    assert view.of(WEB) is None
    for mode, answer in ((UpdateMode.INITIAL, newest), (UpdateMode.OFF, None), (UpdateMode.RECREATE, newest)):
        govern(log, VerticalPolicyChanged(START, "demo/*", mode.value, mode))
        view.catch_up()
        assert view.of(WEB) == answer
    govern(log, VerticalPolicyRemoved(START, "demo/*"))
    view.catch_up()
    assert view.of(WEB) is None


def test_a_withdrawn_recommendation_is_given_to_nobody(log: AwayLog, view: NewPodRecommendations) -> None:
    govern(log, VerticalPolicyChanged(START, "demo/*", "1", UpdateMode.INITIAL))
    recommend(log, 7, TARGET)
    recommend(log, 8)
    view.catch_up()
    assert view.of(WEB) is None


def test_while_the_log_is_away_the_answers_stay(log: AwayLog, view: NewPodRecommendations) -> None:
    govern(log, VerticalPolicyChanged(START, "demo/*", "1", UpdateMode.INITIAL))
    newest = recommend(log, 7, TARGET)
    view.catch_up()
    log.away = True
    view.catch_up()
    assert view.of(WEB) == newest
