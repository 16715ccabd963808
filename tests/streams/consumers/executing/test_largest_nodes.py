"""The largest node: by each resource, of the nodes that somebody still publishes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.names import Amounts
from schemas.units import Bytes, Cores
from streams.consumers.resizer import LargestNodes
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import Topics
from tests.support import ticks

START = datetime(2026, 1, 1, tzinfo=UTC)
TOPICS = Topics("t", 2)
GIB = 1 << 30


class Site:
    """A log of which the nodes of the cluster `prod` are read."""

    def __init__(self) -> None:
        log = MemoryLog()
        for spec in TOPICS.specs():
            log.create(spec.name, spec.partitions)
        self.context = LogContext.of(log, TOPICS, "prod")
        self.sizes = LargestNodes(self.context)

    def at(self, hours: float, *events: NodeChanged | NodeRemoved) -> None:
        """What was published before a tick, so many hours after the start."""
        at = START + timedelta(hours=hours)
        for event in (replace(each, at=at) for each in events):
            self.context.log.append(
                self.context.codec.encode_for_all(event, topic="cluster-changes", key=event.cluster, source="/t")
            )
        number = int(at.timestamp() * 1000)
        ticks.append(self.context.log, TOPICS, number)


def node(name: str, cores: float | None, gib: int | None, cluster: str = "prod") -> NodeChanged:
    amounts = Amounts(None if cores is None else Cores(cores), None if gib is None else Bytes(gib * GIB))
    return NodeChanged(START, cluster, name, amounts)


@pytest.fixture
def site() -> Site:
    return Site()


def test_the_most_of_each_resource_counts_whichever_node_has_it(site: Site) -> None:
    assert site.sizes.largest() is None
    site.at(0, node("a", 4.0, 64), node("b", 16.0, 8), node("c", None, None), node("other", 99.0, 999, cluster="test"))
    assert site.sizes.largest() == Amounts(Cores(16.0), Bytes(64 * GIB))
    site.at(1, NodeRemoved(START, "prod", "b"))
    assert site.sizes.largest() == Amounts(Cores(4.0), Bytes(64 * GIB))


def test_a_resource_that_no_node_has_is_unknown(site: Site) -> None:
    site.at(0, node("a", 4.0, None))
    assert site.sizes.largest() == Amounts(Cores(4.0), None)


def test_a_node_that_nobody_publishes_any_more_counts_for_six_hours(site: Site) -> None:
    site.at(0)
    site.at(0.5, node("large", 64.0, 256), node("small", 4.0, 16))
    site.at(6.0, node("small", 4.0, 16))
    assert site.sizes.largest() == Amounts(Cores(64.0), Bytes(256 * GIB))
    site.at(6.51)
    assert site.sizes.largest() == Amounts(Cores(4.0), Bytes(16 * GIB))


def test_a_node_of_impossible_size_says_nothing(site: Site) -> None:
    site.at(0, node("small", 4.0, 16), node("odd", 1e9, 16))
    assert site.sizes.largest() == Amounts(Cores(4.0), Bytes(16 * GIB))
