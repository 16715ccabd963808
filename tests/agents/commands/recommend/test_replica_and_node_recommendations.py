"""`ullage recommendations --of replicas` and `--of nodes`, from facts, usage and forecasts in a log."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from agents import cli
from agents.commands.recommend import replica_and_node_recommendations
from schemas.decisions.replica_plans import LoadForecast, MetricForecast
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes, Cores, Seconds
from streams.log_context import LogContext
from tests.support.recent_log import log_at, put

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WEB, AGENT = Workload("prod", "shop", "Deployment", "web"), Workload("prod", "kube-system", "DaemonSet", "agent")
GIB = 1 << 30


@pytest.fixture
def context() -> LogContext:
    return log_at(NOW, "prod")


def pod(workload: Workload, name: str, node: str, *, ready: bool = True) -> PodChanged:
    seen = ContainerSeen("app", Amounts(Cores(1.0), Bytes(GIB)), ready=ready)
    controller = "ReplicaSet/web-1" if workload is WEB else "DaemonSet/agent"
    about = PodName(workload.namespace, name, f"uid-{name}")
    return PodChanged(NOW, workload, about, PodPhase.RUNNING, NOW, (seen,), node, controller=controller)


def usage(context: LogContext, *cores: float) -> None:
    """One scrape a minute: so much of each of two pods."""
    for minute, each in enumerate(cores):
        at = NOW - timedelta(minutes=len(cores) - minute)
        keys, columns = (WEB.key, WEB.key), (np.array([each, each]), np.array([0.25 * GIB, np.nan]))
        put(context, "pod-metrics", MetricsScraped(at, "prod", keys, ("a", "b"), ("app", "app"), *columns))


def replicas(context: LogContext, since: timedelta = timedelta(days=1)) -> Any:
    fleet = replica_and_node_recommendations.read_fleet(context, NOW)
    return {row.workload: row for row in replica_and_node_recommendations.replica_rows(context, fleet, NOW, since)}


def test_a_workload_gets_so_many_replicas_that_each_uses_half_of_its_request(context: LogContext) -> None:
    put(context, "pod-changes", pod(WEB, "a", "n1"), pod(WEB, "b", "n1"), pod(WEB, "old", "n1"))
    put(context, "pod-changes", PodDeleted(NOW, WEB, PodName("shop", "old", "uid-old")))
    usage(context, 1.0, 1.5)
    row = replicas(context)[WEB.key]
    # two pods with 1.5 cores each at the most: 3 / (0.5 * 1) = 6
    assert (row.pods, row.recommended.replicas, row.recommended.by) == (2, 6, "cpu")
    assert row.recommended.memory == 0.25 * GIB  # the second pod's memory was not seen
    assert replicas(context, timedelta(seconds=30))[WEB.key].recommended is None  # no usage is so young


def test_a_scrape_that_comes_in_parts_is_one_total_and_the_newest_of_a_container_counts(context: LogContext) -> None:
    put(context, "pod-changes", pod(WEB, "a", "n1"), pod(WEB, "b", "n1"))
    for seconds, name, cores in ((120, "a", 9.0), (105, "a", 1.0), (100, "b", 1.5), (60, "b", np.inf)):
        at, column = NOW - timedelta(seconds=seconds), np.array([GIB / 4])
        put(context, "pod-metrics", MetricsScraped(at, "prod", (WEB.key,), (name,), ("app",), np.array([cores]), column))
    found = replicas(context)[WEB.key].recommended
    assert (found.replicas, found.cpu, found.memory) == (5, 2.5, GIB / 2)


def test_what_is_forecast_counts_with_what_was(context: LogContext) -> None:
    put(context, "pod-changes", pod(WEB, "a", "n1"))
    usage(context, 1.0)
    metric = MetricForecast("resource.cpu", "s", NOW, Seconds(300.0), values=(9.0,), expected=(5.0,))
    put(context, "load-forecasts", LoadForecast("f", NOW, NOW, WEB, "E", "shop", "web", "u", 1, Seconds(3600.0), (metric,), {}))
    assert replicas(context)[WEB.key].recommended.replicas == 10  # 5 / 0.5


def test_nothing_is_recommended_while_most_pods_are_not_ready(context: LogContext) -> None:
    put(context, "pod-changes", pod(WEB, "a", "n1"), pod(WEB, "b", "n1", ready=False), pod(WEB, "c", "n1", ready=False))
    usage(context, 1.0)
    row = replicas(context)[WEB.key]
    assert (row.recommended, row.why) == (None, "only 1 of 3 pods are ready")


def test_nodes_without_pods_but_those_of_daemon_sets_may_go(context: LogContext) -> None:
    size = Amounts(Cores(4.0), Bytes(8 * GIB))
    nodes = [NodeChanged(NOW, "prod", name, size) for name in ("n1", "n2", "n3", "n4")]
    put(context, "cluster-changes", *nodes, NodeRemoved(NOW, "prod", "n4"))
    put(context, "pod-changes", pod(WEB, "a", "n1"), pod(AGENT, "x", "n1"), pod(AGENT, "y", "n2"))
    assert list(replica_and_node_recommendations.idle_nodes(replica_and_node_recommendations.read_fleet(context, NOW))) == [
        ("n2", 1),
        ("n3", 0),
    ]


@pytest.mark.parametrize("kind", ["DaemonSet", "Job", "Pod"])
def test_what_nobody_scales_gets_no_row(context: LogContext, kind: str) -> None:
    fixed = Workload("prod", "shop", kind, "fixed")
    put(context, "pod-changes", pod(WEB, "a", "n1"), pod(fixed, "x", "n1"))
    usage(context, 1.0)
    assert list(replicas(context)) == [WEB.key]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["replicas", "--limit", "1"], "--limit is for those requests that save most"),
        (["nodes", "--limit", "1"], "--limit is for those requests that save most"),
        (["nodes", "-n", "shop"], "a node is in none"),
    ],
)
def test_a_flag_that_would_do_nothing_is_refused(flags: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["recommendations", "--of", *flags]) != 0
    assert said in capsys.readouterr().err
