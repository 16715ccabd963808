"""New pods of the simulated cluster go through the webhook's own code."""

from datetime import UTC, datetime, timedelta

import pytest

from agents.processes.simulated_cluster import Shop, open_shop
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.names import Amounts, Workload
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import VerticalPolicyChanged
from schemas.units import Bytes, Cores
from streams.clients.cluster_port import Pod
from streams.codec.event_codec import Codec
from streams.log.memory_log import MemoryLog
from streams.simulated.demo_shop import ShopSettings
from streams.topics import TOPICS, Topics
from tests.support import ticks

START = datetime(2026, 3, 1, tzinfo=UTC)
MIB = 1 << 20
NAMES = Topics(partitions=2)
CODEC = Codec(NAMES)
WEB = Workload("demo", "shop", "Deployment", "web")
TARGET = Amounts(Cores(0.5), Bytes(256 * MIB))


class Door:
    """The shop, with a recommendation for one of the two containers of `web`."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        for topic in TOPICS:
            self.log.create(NAMES.wire(topic.name), NAMES.partitions)
        ticks.append(self.log, NAMES, int(START.timestamp() * 1000))
        policy = VerticalPolicyChanged(START, "demo/*", "1")
        self.log.append(CODEC.encode_for_all(policy, topic="rules", key="demo/*", source="/test"))
        each = (ContainerRecommendation(name, TARGET, TARGET, TARGET, TARGET) for name in ("web", "no-such-container"))
        event = RequestsRecommended(f"recommender/0/7/requests/{WEB.key}", START, WEB, tuple(each), {})
        partition = NAMES.partition_of(WEB.key)
        self.log.append([CODEC.encode(event, topic="recommendations", key=WEB.key, partition=partition, source="/test")])
        self.shop: Shop = open_shop(ShopSettings("demo", 3, START), self.log, NAMES)

    def control(self, mode: Mode, *, paused: bool = False) -> None:
        event = ControlChanged(START, "demo", mode, paused=paused)
        self.log.append(CODEC.encode_for_all(event, topic="control", key="demo", source="/test"))
        self.shop.after()

    def pod(self, name: str = "web") -> Pod:
        return next(pod for pod in self.shop.cluster.pods() if pod.workload.name == name)

    def outcomes(self) -> list[ActionFinished]:
        self.shop.after()
        records = [r for p in range(2) for r in self.log.poll({(NAMES.wire("outcomes"), p): 0})]
        return [event for event in map(CODEC.decode, records) if isinstance(event, ActionFinished)]


@pytest.fixture
def door() -> Door:
    return Door()


def test_new_pods_start_with_the_target_and_limits_keep_their_ratio(door: Door) -> None:
    door.control(Mode.APPLY)
    door.shop.cluster.advance(START + timedelta(minutes=1))
    web, proxy = door.pod().containers
    # the template asks 2 cores and 2,048 MiB with limits of 4 cores and 4,096 MiB: limits are twice the requests
    assert (web.requests, web.limits) == (TARGET, Amounts(Cores(1.0), Bytes(512 * MIB)))
    assert proxy.requests == Amounts(Cores(0.1), Bytes(128 * MIB))
    (cart,) = door.pod("cart").containers
    assert cart.requests == Amounts(Cores(0.1), Bytes(160 * MIB))


def test_each_patched_pod_is_said_to_be_done_once_it_was_seen(door: Door) -> None:
    door.control(Mode.APPLY)
    seen_at = START + timedelta(minutes=1)
    door.shop.cluster.advance(seen_at)
    (offered,) = door.outcomes()  # pods that are alike share an offer
    assert (offered.at, offered.action, offered.result) == (START, Action.PATCH, Result.OFFERED)
    door.shop.scrape(seen_at)
    outcomes = [outcome for outcome in door.outcomes() if outcome != offered]
    pods = [pod for pod in door.shop.cluster.pods() if pod.workload == WEB]
    assert {o.id for o in outcomes} == {f"recommender/0/7/requests/{WEB.key}/patch/{pod.pod.uid}" for pod in pods}
    assert {(o.subject.uid, o.at) for o in outcomes} == {(pod.pod.uid, pod.created) for pod in pods}
    assert {(o.action, o.result) for o in outcomes} == {(Action.PATCH, Result.DONE)}
    assert {o.subject.uid for o in outcomes} == {pod.pod.uid for pod in pods}
    assert len(outcomes) == len(pods) == 8


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.PLAN])
def test_below_apply_nobody_is_patched(door: Door, mode: Mode) -> None:
    door.control(mode)
    door.shop.cluster.advance(START + timedelta(minutes=1))
    assert door.pod().containers[0].requests == Amounts(Cores(2.0), Bytes(2048 * MIB))
    assert {outcome.result for outcome in door.outcomes()} == {Result.REFUSED}


def test_a_pause_holds_from_the_next_pod_on(door: Door) -> None:
    door.control(Mode.APPLY)
    door.shop.cluster.advance(START + timedelta(minutes=1))
    old = door.pod()
    door.control(Mode.APPLY, paused=True)
    door.shop.cluster.evict(old.pod)
    door.shop.cluster.advance(START + timedelta(minutes=2))
    new = [pod for pod in door.shop.cluster.pods() if pod.workload == WEB and pod.created > old.created]
    assert [pod.containers[0].requests.cpu for pod in new] == [2.0]
