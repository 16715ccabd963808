"""Queries take turns by namespace: nobody's many or slow queries keep another namespace waiting, and all are asked in the end."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.units import Seconds
from streams.sources.load_queries import QueryTurns, TurnLimits


class Server:
    """Answers when all places of a namespace are taken, and notes who was asked, in order, and how many at once."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds, self.now, self.asked = seconds, 0.0, list[str]()
        self.at_once: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self._lock = threading.Lock()
        self._mine = threading.local()

    def clock(self) -> float:
        return float(getattr(self._mine, "now", 0.0))

    def ask(self, query: tuple[str, int]) -> tuple[str, int]:
        namespace = query[0]
        with self._lock:
            self.asked.append(namespace)
            self.at_once[namespace] = self.at_once.get(namespace, 0) + 1
            self.most[namespace] = max(self.most.get(namespace, 0), self.at_once[namespace])
        self._mine.now = self.clock() + self.seconds.get(namespace, 0.0)
        with self._lock:
            self.at_once[namespace] -= 1
        return query


def run(server: Server, queries: list[tuple[str, int]], limits: TurnLimits) -> list[tuple[str, int]]:
    with ThreadPoolExecutor(limits.places) as pool:
        turns = QueryTurns(pool, limits, server.ask, server.clock)
        return list(chain.from_iterable(turns.round([(namespace, (namespace, number)) for namespace, number in queries])))


def test_one_query_of_another_namespace_is_asked_at_once_beside_two_hundred_slow_ones() -> None:
    server, limits = Server({"evil": 1.0}), TurnLimits(8, 2, Seconds(15.0), Seconds(60.0))
    answers = run(server, [*(("evil", n) for n in range(200)), ("good", 0)], limits)
    assert ("good", 0) in answers
    assert "good" in server.asked[:3]
    assert server.most["evil"] <= 2
    assert 15 <= server.asked.count("evil") <= 17  # what is left has its turn in the next round


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9)), max_size=60),
    st.integers(1, 6),
    st.integers(1, 6),
)
def test_every_query_that_costs_nothing_is_answered_once(queries: list[tuple[str, int]], places: int, of_one: int) -> None:
    server = Server({})
    answers = run(server, queries, TurnLimits(places, of_one, Seconds(1.0), Seconds(60.0)))
    assert sorted(answers) == sorted(queries)
    assert all(most <= min(of_one, places) for most in server.most.values())


def test_a_round_ends_beside_a_query_without_an_answer_and_a_later_one_gets_it() -> None:
    answered = threading.Event()

    def ask(query: str) -> str:
        if query == "slow":
            answered.wait(60)
        return query

    with ThreadPoolExecutor(4) as pool:
        turns = QueryTurns(pool, TurnLimits(4, 1, Seconds(15.0), Seconds(0.5)), ask, time.monotonic)
        queries = [("evil", "slow"), ("evil", "another"), ("good", "quick")]
        for _ in range(3):
            assert list(chain.from_iterable(turns.round(queries))) == ["quick"]
            assert turns.under_way() == ["slow"]
            queries = [("evil", "another"), ("good", "quick")]
        answered.set()
        assert sorted(chain.from_iterable(turns.round([]))) == ["slow"]
        assert turns.under_way() == []
