"""`ullage recommendations --of workloads`, from pods, usage and OOM kills in a log."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from agents import cli
from agents.commands.recommend import crane_resource_recommendations, replica_and_node_recommendations
from agents.commands.recommend.crane_resource_recommendations import ResourceRow
from agents.logic.replicas.fleet_recommendations import Estimators
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes, Cores
from streams.errors import BadInput
from streams.log_context import LogContext
from tests.support.recent_log import log_at, put

NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)
WEB = Workload("prod", "shop", "Deployment", "web")
MIB = 1 << 20


@pytest.fixture
def context() -> LogContext:
    return log_at(NOW, "prod")


def pod(name: str, *containers: str) -> PodChanged:
    seen = tuple(ContainerSeen(each, Amounts(Cores(1.0), Bytes(512 * MIB)), ready=True) for each in containers)
    return PodChanged(NOW, WEB, PodName("shop", name, f"uid-{name}"), PodPhase.RUNNING, NOW, seen, "n1")


def usage(context: LogContext, before: timedelta, cores: float, mib: float, container: str = "app") -> None:
    """What each of two pods used."""
    columns = np.array([cores, cores]), np.array([mib * MIB, mib * MIB])
    put(
        context, "pod-metrics",
        MetricsScraped(NOW - before, "prod", (WEB.key,) * 2, ("a", "b"), (container,) * 2, *columns),
    )  # fmt: skip


def killed(context: LogContext, before: timedelta, mib: int | None) -> None:
    request = None if mib is None else Bytes(mib * MIB)
    put(context, "oom-events", ContainerOOMKilled(NOW - before, WEB, PodName("shop", "a", "uid-a"), "app", 1, request, None))


def rows(context: LogContext, by: str = "recommender", past: timedelta | None = None, sizes: str = "") -> dict[str, ResourceRow]:
    how = crane_resource_recommendations.options(by, past, sizes)
    found = crane_resource_recommendations.resource_rows(
        context, replica_and_node_recommendations.read_fleet(context, NOW), NOW, how
    )
    return {row.container: row for row in found}


def target(row: ResourceRow) -> Amounts:
    assert row.recommended is not None
    return row.recommended.target


def test_each_container_gets_the_percentile_of_all_its_pods_with_a_margin(context: LogContext) -> None:
    put(context, "pod-changes", pod("a", "app", "proxy"), pod("b", "app", "proxy"))
    for minutes in range(1, 11):
        usage(context, timedelta(minutes=minutes), 0.35, 250)
    found = rows(context)
    # the ends of the buckets of 0.3 cores and 200 MiB are 0.4 and 300; 15 % more of either, and a hair less in binary
    assert target(found["app"]) == Amounts(Cores(0.459), Bytes(345 * MIB))
    assert (found["app"].pods, found["proxy"].recommended, found["proxy"].why) == (2, None, "not enough usage is known")
    assert target(rows(context, sizes="0.25c0.25g,1c2g")["app"]) == Amounts(Cores(1.0), Bytes(2 << 30))


def test_an_evpa_looks_at_a_day_of_cpu_and_two_of_memory(context: LogContext) -> None:
    put(context, "pod-changes", pod("a", "app"))
    usage(context, timedelta(days=6), 3.95, 3950)
    usage(context, timedelta(hours=36), 1.95, 1950)
    usage(context, timedelta(hours=1), 0.35, 250)
    week, two_days, day = (buckets * 1.15 for buckets in (4.0, 2.0, 0.4))
    assert target(rows(context)["app"]).cpu == pytest.approx(week)
    evpa = target(rows(context, Estimators.EVPA)["app"])
    assert (evpa.cpu, evpa.memory) == (pytest.approx(day, abs=0.001), pytest.approx(two_days * 1000 * MIB))
    assert target(rows(context, past=timedelta(days=2))["app"]).cpu == pytest.approx(two_days)


def test_a_kill_of_the_last_seven_days_counts_by_what_was_requested(context: LogContext) -> None:
    put(context, "pod-changes", pod("a", "app"))
    usage(context, timedelta(hours=1), 0.35, 250)
    killed(context, timedelta(days=8), 4096)
    killed(context, timedelta(days=1), None)
    assert target(rows(context)["app"]).memory == 345 * MIB
    killed(context, timedelta(days=6), 512)
    killed(context, timedelta(days=5), 256)
    assert target(rows(context)["app"]).memory == 644_245_094
    assert "512.0 MiB" in rows(context)["app"].why


def test_flags_of_other_tables_are_refused() -> None:
    with pytest.raises(BadInput, match="is no size"):
        crane_resource_recommendations.options("evpa", None, "2")
    assert cli.run(["recommendations", "--of", "replicas", "--by", "evpa"]) == 2
    assert cli.run(["recommendations", "--sizes", "1c2g"]) == 2
