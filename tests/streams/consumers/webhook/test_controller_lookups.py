"""Owners are looked up without letting a pod wait for long, and once for all pods that ask at one time."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from schemas.units import Seconds
from streams.clients.kube.controllers import ControllerKey
from streams.consumers.webhook.controller_lookups import ControllerLookups, LookupLimits, OwnerLookups, coming_pods
from streams.consumers.webhook.review_interface import UnknownOwner
from streams.errors import GiveUp

SET = ControllerKey("shop", "ReplicaSet", "web-1", "apps/v1")
TOP = ControllerKey("shop", "Deployment", "web")


class Chain:
    """Answers as it is told; `hold` keeps it waiting."""

    def __init__(self) -> None:
        self.asked: list[ControllerKey] = []
        self.counted: list[str] = []
        self.answer: ControllerKey | Exception | None = TOP
        self.hold = threading.Event()
        self.hold.set()
        self.now = 0.0

    def topmost(self, start: ControllerKey) -> ControllerKey | None:
        self.asked.append(start)
        self.hold.wait(60.0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def looked_up(self, result: str) -> None:
        self.counted.append(result)


@pytest.fixture
def chain() -> Chain:
    return Chain()


def run(
    chain: Chain,
    work: Callable[[OwnerLookups], Awaitable[None]],
    patience: float = 5.0,
    *,
    kept: int = 100,
    waiting: int = 100,
) -> None:
    async def whole() -> None:
        with ThreadPoolExecutor(2) as pool:
            limits = LookupLimits(Seconds(600.0), kept, waiting, Seconds(patience), lambda: chain.now)
            lookups: OwnerLookups = ControllerLookups(chain.topmost, UnknownOwner, pool, limits, chain)
            try:
                await work(lookups)
            finally:
                chain.hold.set()

    asyncio.run(whole())


def test_an_answer_is_kept_for_ten_minutes(chain: Chain) -> None:
    async def work(lookups: OwnerLookups) -> None:
        assert lookups.cached(SET) is None
        assert await lookups.find(SET) == TOP
        assert lookups.cached(SET) == (TOP,)
        chain.now = 599.0
        assert await lookups.find(SET) == TOP
        assert len(chain.asked) == 1
        chain.now = 601.0
        assert lookups.cached(SET) is None
        assert await lookups.find(SET) == TOP
        assert len(chain.asked) == 2

    run(chain, work)
    assert chain.counted == ["found", "found"]


def test_that_there_is_none_is_an_answer_and_a_failure_is_asked_again_soon(chain: Chain) -> None:
    async def work(lookups: OwnerLookups) -> None:
        chain.answer = None
        assert await lookups.find(SET) is None
        assert lookups.cached(SET) == (None,)
        other = SET._replace(name="web-2")
        chain.answer = GiveUp(doing="reading", to="ReplicaSet shop/web-2", answer="403 Forbidden")
        found = await lookups.find(other)
        assert isinstance(found, UnknownOwner)
        assert "403 Forbidden" in found.why
        chain.answer, chain.now = TOP, 6.0
        assert await lookups.find(other) == TOP

    run(chain, work)
    assert chain.counted == ["none", "failed", "found"]


def test_a_hundred_pods_of_one_replica_set_ask_once(chain: Chain) -> None:
    async def work(lookups: OwnerLookups) -> None:
        chain.hold.clear()
        asking = [asyncio.create_task(lookups.find(SET)) for _ in range(100)]
        await asyncio.sleep(0)  # each of them has begun
        chain.hold.set()
        assert set(await asyncio.gather(*asking)) == {TOP}

    run(chain, work)
    assert chain.asked == [SET]


def test_a_pod_does_not_wait_beyond_its_time_and_the_late_answer_is_there_for_the_next(chain: Chain) -> None:
    async def work(lookups: OwnerLookups) -> None:
        chain.hold.clear()
        found = await lookups.find(SET)
        assert found == UnknownOwner("the API server did not say within 0.05 s")
        chain.hold.set()
        assert await asyncio.shield(lookups._under_way[SET]) == TOP
        assert lookups.cached(SET) == (TOP,)

    run(chain, work, patience=0.05)
    assert chain.counted == ["late", "found"]
    assert chain.asked == [SET]


def test_too_many_at_once_are_refused_instead_of_piling_up(chain: Chain) -> None:
    async def work(lookups: OwnerLookups) -> None:
        chain.hold.clear()
        waiting = [asyncio.create_task(lookups.find(SET._replace(name=f"other-{n}"))) for n in range(3)]
        await asyncio.sleep(0)  # each of them has begun
        found = await lookups.find(SET)
        assert found == UnknownOwner("3 other owners are being looked up")
        chain.hold.set()
        await asyncio.gather(*waiting)

    run(chain, work, waiting=3)
    assert sorted(chain.counted) == ["found", "found", "found", "refused"]


def test_what_is_kept_is_bounded(chain: Chain) -> None:
    async def work(lookups: OwnerLookups) -> None:
        for n in range(3):
            await lookups.find(SET._replace(name=f"web-{n}"))
        assert lookups.cached(SET._replace(name="web-0")) is None
        assert lookups.cached(SET._replace(name="web-2")) == (TOP,)

    run(chain, work, kept=2)


def test_how_many_pods_are_still_wanted_is_unknown_where_nobody_says() -> None:
    class Wanted:
        def coming(self, owner: ControllerKey) -> int | None:
            if owner == TOP:
                raise GiveUp(doing="reading", to="it", answer="403")
            return 3

    async def whole() -> None:
        with ThreadPoolExecutor(2) as pool:
            coming = coming_pods(Wanted(), pool, Seconds(5.0))
            assert (await coming.find(SET), await coming.find(TOP), coming.cached(SET)) == (3, None, (3,))

    asyncio.run(whole())
