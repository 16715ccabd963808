from collections.abc import Mapping
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_reader import SLICE_MS, KafkaReader

PLACE = ("clock", 0)


class Consumer:
    """Delivers one record, and notes how long each poll and each of its fetches may wait."""

    def __init__(self) -> None:
        self._fetcher = SimpleNamespace(config={})
        self.waits: list[tuple[int, int]] = []

    def assignment(self) -> set[tuple[str, int]]:
        return {PLACE}

    def seek(self, *_place: object) -> None:
        pass

    resume = seek

    def poll(self, *, timeout_ms: int, max_records: int) -> Mapping[Any, Any]:
        self.waits.append((timeout_ms, self._fetcher.config["fetch_max_wait_ms"]))
        record = SimpleNamespace(
            topic="clock", partition=0, offset=0, key=None, value=b"", headers=(), timestamp=-1, leader_epoch=-1
        )
        return {PLACE: [record][:max_records]}


@pytest.mark.parametrize(("wait", "fetch"), [(0.0, 0), (0.75, SLICE_MS)])
def test_a_fetch_waits_only_for_a_caller_who_waits(wait: float, fetch: int) -> None:
    reader = KafkaReader(KafkaConnection("nowhere"), lambda places, _which: dict.fromkeys(places, 0))
    consumer: Any = Consumer()
    reader._consumer = consumer
    assert reader.poll({PLACE: 0}, until=monotonic() + wait, limit=1)
    ((_, waited),) = consumer.waits
    assert waited == fetch
