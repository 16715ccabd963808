"""`ullage report`: one file that needs nothing else, whose figures are those of the log, and which no name can break."""

import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents import cli
from agents.backtest.price_list import PriceList
from agents.commands.report import report_data, report_page, workload_pages
from agents.commands.report.report_data import ContainerChart, ReportData
from agents.commands.report.report_history import ReportHistory
from agents.commands.report.time_chart import ChartMark
from schemas.catalogue import Event
from schemas.decision_subjects import Subject, SubjectKind
from schemas.decisions.node_updates import NodeRemovalPlanned, RemovalReason, ScaleUpPlanned
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.facts.sources import SourceReported
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.names import Amounts, PodName, Workload
from schemas.outcomes import Action, ActionFinished, Result
from schemas.times import EPOCH
from schemas.units import Bytes, Cores, Seconds
from streams.log.file_log import FileLog
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS, Topics
from tests.support import demo_hour_log, examples

Y2026 = datetime(2026, 1, 1, tzinfo=UTC)
CART = Workload("demo", "shop", "Deployment", "cart")
GO = NodeRemovalPlanned(
    id="",
    at=Y2026,
    expires=Y2026 + timedelta(hours=1),
    cluster="",
    node="",
    node_uid="u",
    provider_id="aws:///a/i-1",
    instance="i-1",
    group="web",
    reason=RemovalReason.UNNEEDED,
    evict=(),
    daemons=(),
    grace=Seconds(60.0),
    drain=Seconds(600.0),
    because={},
)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_hour_log.keep(tmp_path_factory.mktemp("kept"), hours=0.8)


@pytest.fixture(scope="module")
def page(log: Path) -> str:
    file = log.with_name("report.html")
    assert cli.run(["report", str(file), "--log", str(log)]) == 0
    return file.read_text()


def charts(page: str) -> list[str]:
    """The charts of containers."""
    return [chart for chart in re.findall(r'<div class="chart">(.*?)</div>', page, re.DOTALL) if "recommended" in chart]


def lines(chart: str) -> set[str]:
    return set(re.findall(r'<path class="s (\w+)" d="M[^"]+[A-Z]', chart))


def marks(page: str, kind: str) -> list[str]:
    """What is asked about the marks of a kind in all charts."""
    return re.findall(rf'data-why="([^"]*)"><path class="mark {kind}"', page)


def tile(page: str, says: str) -> str:
    """The figure above a sentence."""
    found = re.search(rf"<b>([^<]*)</b><small>{says}", page)
    assert found is not None, says
    return found[1]


def counted(log: Path, capsys: pytest.CaptureFixture[str], topic: str, kind: str) -> list[Any]:
    capsys.readouterr()
    assert cli.run(["tap", topic, "--type", kind, "-o", "jsonl", "--log", str(log)]) == 0
    return [json.loads(line)["value"] for line in capsys.readouterr().out.splitlines()]


def test_the_page_asks_nobody_for_anything(page: str) -> None:
    assert not re.search(r"""src\s*=|href\s*=\s*(?!"#)|@import|url\(|https?://""", page)
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert len(page) < 1_500_000


def test_every_link_leads_to_a_page_or_a_part_of_it(page: str) -> None:
    pages, parts = set(re.findall(r'data-page="([^"]*)"', page)), set(re.findall(r'id="([^"]*)"', page))
    links = set(re.findall(r'href="#([^"]*)"', page))
    assert links <= pages | parts
    assert {"/nodes", "/shop", "/shop/Deployment/cart", "savings"} <= links
    assert len(pages) == 1 + 1 + 4 + 10, "the overview, the nodes, namespaces and workloads"


def test_a_workloads_page_has_its_acts_with_their_explanations_and_what_to_write_down(page: str) -> None:
    [whys] = re.findall(r'<script type="application/json" id="whys">(.*?)</script>', page, re.DOTALL)
    explained = json.loads(whys)
    [ledger] = re.findall(r'data-page="/payments/Deployment/ledger">(.*?)</section>', page, re.DOTALL)
    asked = [html.unescape(about) for about in re.findall(r'<tr tabindex="0" data-why="([^"]*)"', ledger)]
    newest = asked[1:6]
    assert "requests recommended" in explained[asked[0]]
    assert all("[ullage." in explained[about] for about in newest)
    assert "OOM kill" in ledger
    assert "admission done" in ledger
    assert "offered" not in ledger
    assert "Risk high: an OOM kill within a day" in ledger
    [snippet] = re.findall(r'<pre class="snippet">(.*?)</pre>', ledger, re.DOTALL)
    [container] = yaml.safe_load(snippet)["containers"]
    assert container["name"] == "ledger"
    assert re.fullmatch(r"[1-9]\d*m", container["resources"]["requests"]["cpu"])
    assert re.fullmatch(r"[1-9]\d*Mi", container["resources"]["requests"]["memory"])


def test_replicas_forecasts_and_nodes_are_drawn(page: str) -> None:
    [orders] = re.findall(r'data-page="/shop/Deployment/orders">(.*?)</section>', page, re.DOTALL)
    [scaled] = [chart for chart in re.findall(r'<div class="chart">(.*?)</div>', orders, re.DOTALL) if "forecast" in chart]
    assert {"now", "planned", "used"} <= lines(scaled)
    [nodes] = re.findall(r'data-page="/nodes">(.*?)</section>', page, re.DOTALL)
    assert "nodes" in lines(nodes)
    assert "removal planned" in nodes
    assert nodes.count("<tr tabindex") > 4


def test_kills_and_actions_are_those_of_the_log(page: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kills = counted(log, capsys, "oom-events", "ContainerOOMKilled")
    outcomes = counted(log, capsys, "outcomes", "ActionFinished")
    done = [each["action"] for each in outcomes if each["result"] == "done"]
    assert len(done) > 5
    assert tile(page, "OOM kills") == str(len(kills))
    assert len(kills) > 0
    assert tile(page, r"pods restarted by us; " + str(done.count("resize")) + " resized in place") == str(done.count("evict"))
    assert len(marks(page, "kill")) == len(kills)
    for action in ("resize", "evict", "patch"):
        wanted = {each["decision"] for each in outcomes if (each["action"], each["result"]) == (action, "done")}
        assert set(marks(page, "admission" if action == "patch" else action)) == wanted, action


def test_what_bears_the_newest_ticks_time_is_of_the_stretch(page: str, log: Path, tmp_path: Path) -> None:
    copy, newest = tmp_path / "log.jsonl", datetime(2026, 1, 5, 0, 48, tzinfo=UTC)
    copy.write_bytes(log.read_bytes())
    kill = next(each for each in examples.EVENTS if isinstance(each, ContainerOOMKilled))
    with FileLog(copy) as kept:
        context = LogContext.of(kept, Topics("ullage"), "demo")
        kept.append([context.codec.encode(replace(kill, at=newest), topic="oom-events", key=CART.key, partition=0, source="/t")])
    assert cli.run(["report", str(tmp_path / "report.html"), "--log", str(copy)]) == 0
    assert int(tile((tmp_path / "report.html").read_text(), "OOM kills")) == int(tile(page, "OOM kills")) + 1


def test_a_chart_has_usage_requests_limits_and_recommendations_of_its_container(page: str) -> None:
    assert len(charts(page)) == 11
    for chart in charts(page):
        assert {"used", "requested", "recommended"} <= lines(chart)
        used = re.findall(r'<path class="s used" d="(M[^"]+L[^"]+)"', chart)
        assert [path.count("L") > 30 for path in used] == [True, True]


def test_freed_requests_removable_nodes_and_removed_nodes_stand_apart_with_their_price(
    page: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "GiB" in tile(page, r"requests freed in this time \([-0-9.,]+ USD a month at list prices\)")
    assert tile(page, "nodes removable, as planned and still there") == "0"
    gone = counted(log, capsys, "scheduling-changes", "NodeDetailsRemoved")
    assert tile(page, "nodes removed by a plan of ours") == str(len(gone)) == "5"


def test_a_stretch_begins_with_the_pods_nodes_and_requests_that_there_were(log: Path) -> None:
    whole, late = log.with_name("report.html"), log.with_name("late.html")
    assert (
        cli.run(["report", str(whole), "--log", str(log)])
        == cli.run(["report", str(late), "--log", str(log), "--from", "5m"])
        == 0
    )
    one, two = whole.read_text(), late.read_text()
    for says in ("containers with a recommendation, in [0-9]+ pods on [1-9][0-9]* nodes", "requested by running pods at the end"):
        assert tile(two, says) == tile(one, says)
    pods = [re.search("in [0-9]+ pods on [1-9][0-9]* nodes", text) for text in (one, two)]
    assert pods[0] is not None is not pods[1]
    assert pods[0][0] == pods[1][0]
    assert all({"used", "requested", "recommended"} <= lines(chart) for chart in charts(two))


@pytest.mark.parametrize("minutes", [10, 20, 30, 40])
def test_two_halves_of_a_stretch_count_what_the_whole_does(log: Path, minutes: int) -> None:
    begin, end = datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 5, 0, 48, tzinfo=UTC)
    middle = begin + timedelta(minutes=minutes)
    with FileLog(log) as kept:
        context = LogContext.of(kept, Topics("ullage"), "demo")
        whole, first, second = (
            report_data.collect(context, *stretch, top=12, heartbeat=Seconds(3600.0))
            for stretch in ((begin, end), (begin, middle), (middle, end))
        )
    assert first.removed + second.removed == whole.removed == 5
    assert first.kills_after_change + second.kills_after_change == whole.kills_after_change
    assert first.done + second.done == whole.done
    for key, chart in second.charts.items():
        known = [at for at in whole.charts[key].target.at if at < middle]
        assert not known or chart.target.at[0] == middle, key


def test_a_count_of_one_stands_before_no_plural() -> None:
    planned = next(event for event in examples.EVENTS if isinstance(event, ScaleUpPlanned))
    history = ReportHistory(frozenset())
    for after, pods in ((1, 1), (2, 5)):
        history.take(replace(planned, before=0, after=after, pods=pods))
    assert [act.says.partition(",")[0] for act in history.acts[""]] == ["0 to 1 node for 1 pod", "0 to 2 nodes for 5 pods"]


def test_what_adaptive_promised_and_delivered_is_that_of_its_newest_decision(
    page: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = counted(log, capsys, "recommendations", "RequestsRecommended")
    newest = {each["workload"]["name"]: each["because"] for each in found if "policy_grounds" in each["because"]}
    assert list(newest) == ["metrics"]
    grounds = newest["metrics"]["policy_grounds"]["metrics"]
    table = re.search(r'<table id="risks-table">.*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    assert table is not None
    assert re.findall(r"<td[^>]*>(?:<a [^>]*>)?([^<]*)<", table[1].replace("<wbr>", "")) == [
        "platform/Deployment/metrics",
        "metrics",
        f"{grounds['cpu_short_delivered']:.2%}",
        "2.00%",
        f"{grounds['memory_kills']:g}",
        f"{grounds['memory_kills_promised'] * grounds['memory_kills_built_in']:.1f}",
        f"{grounds['memory_kills_built_in']:g}",
    ]
    assert "Containers that adaptive decides: 1; short" in page


def test_a_name_from_a_cluster_cannot_break_out_of_the_page() -> None:
    evil = "</script><script>alert(1)</script>"
    data = ReportData(evil, EPOCH, EPOCH.replace(year=1971))
    chart = ContainerChart(evil, evil)
    chart.marks.append(ChartMark(EPOCH, "OOM kill", evil, evil))
    drawn = "\n".join(workload_pages.container_chart(chart, data.since, data.until))
    page = "\n".join(report_page.page(data, PriceList(origin=evil), {evil: evil}))
    assert "alert(1)</script>" not in page + drawn
    assert page.count("<script") == 2
    assert "<script" not in drawn
    assert 'data-why="&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;"' in drawn


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--from", "00:30", "--to", "00:10"), "is not after"),
        (("--prices", "none.csv"), "cannot be read"),
        (("--cluster", "other"), "other"),
    ],
)
def test_wrong_usage_exits_with_2(words: tuple[str, ...], says: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report", str(log.with_name("no.html")), "--log", str(log), *words]) == 2
    assert says in capsys.readouterr().err
    assert not log.with_name("no.html").exists()


def written_log(key: str = "demo") -> tuple[LogContext, Callable[[Event, str], None]]:
    """A log of one partition, and what puts an event into one of its topics (short name), with this key."""
    topics, log = Topics(partitions=1), MemoryLog()
    for topic in TOPICS:
        log.create(topics.wire(topic.name), 1)
    context = LogContext.of(log, topics, "demo")

    def put(event: Event, topic: str) -> None:
        log.append([context.codec.encode(event, topic=topic, key=key, partition=0, source="/test")])

    return context, put


def test_a_kill_is_laid_at_our_door_only_where_we_changed_the_pod() -> None:
    """`evicted` was replaced by `new`; `old` and `let through` are as they were; `resized` and `admitted` have our amounts."""
    (context, put), at = written_log(CART.key), Y2026

    def pod(name: str, minute: int) -> PodName:
        began, pod = at + timedelta(minutes=minute), PodName("shop", name, f"uid-{name}")
        put(PodChanged(began, CART, pod, PodPhase.RUNNING, began, (), started=began), "pod-changes")
        return pod

    def done(name: str, action: Action) -> None:
        subject = Subject(SubjectKind.POD, "demo", name, "shop", f"uid-{name}", workload=CART.key)
        when = at + timedelta(minutes=5, milliseconds=700)
        put(ActionFinished(f"x/{name}", when, name, action, Result.DONE, "", subject), "outcomes")

    pods = [pod("evicted", 0), pod("old", 0), pod("resized", 0)]
    done("evicted", Action.EVICT)
    done("resized", Action.RESIZE)
    pods.append(pod("new", 5))
    pods += [pod("admitted", 5), pod("let through", 4)]
    done("admitted", Action.PATCH)
    for killed in pods[1:]:
        put(ContainerOOMKilled(at + timedelta(minutes=6), CART, killed, "main", 1, None, None), "oom-events")
    data = report_data.collect(context, at, at + timedelta(minutes=10), top=0, heartbeat=Seconds(600.0))
    assert (data.kills, data.kills_after_change) == (5, 3)


def test_a_stretch_begins_with_the_first_complete_picture() -> None:
    """Usage comes while the source still lists: three of twelve nodes are known then, and one node joins later."""
    context, put = written_log()

    def scrape(minute: int) -> None:
        one = ((CART.key,), ("cart-1",), ("main",), (Cores(0.1),), (Bytes(1 << 20),))
        put(MetricsScraped(minutes[minute], "demo", *one), "pod-metrics")

    def pod(number: int, minute: int, created: int) -> None:
        name, seen = PodName("shop", f"cart-{number}", f"u{number}"), ContainerSeen("main", Amounts(Cores(1.0), Bytes(1 << 30)))
        put(PodChanged(minutes[minute], CART, name, PodPhase.RUNNING, minutes[created], (seen,)), "pod-changes")

    minutes = [Y2026 + timedelta(minutes=minute) for minute in range(9)]
    size = Amounts(Cores(4.0), Bytes(1 << 34))
    for number in range(12):
        if number == 3:
            pod(1, 1, 0)
            scrape(1)
        put(NodeChanged(minutes[1 + (number >= 3)], "demo", f"n{number}", size), "cluster-changes")
    put(SourceReported(minutes[2], "demo", "kube", ("pod-changes", "cluster-changes")), "cluster-changes")
    scrape(3)
    pod(2, 4, 0)
    pod(3, 5, 5)
    for number in range(9):
        put(replace(GO, at=minutes[4], cluster="demo", node=f"n{number}", id=f"n{number}"), "node-updates")
        put(NodeRemoved(minutes[5], "demo", f"n{number}"), "cluster-changes")
    data = report_data.collect(context, minutes[0], minutes[8], top=0, heartbeat=Seconds(600.0))
    assert (data.removed, data.fewer, data.nodes) == (9, 9, 3)
    assert [cpu for cpu, _ in data.requested] == [2.0, 3.0], "a pod that is listed late was there before"


@pytest.mark.parametrize(("came", "fewer"), [((), 2), (("n4",), 1), (("n4", "n5", "n6"), 0)])
def test_a_node_that_comes_back_is_no_saving(came: tuple[str, ...], fewer: int) -> None:
    context, put = written_log()
    minutes = [Y2026 + timedelta(minutes=minute) for minute in range(5)]
    for name in ("n1", "n2", "n3"):
        put(NodeChanged(minutes[0], "demo", name, Amounts(Cores(4.0), Bytes(1 << 34))), "cluster-changes")
    pod = PodName("shop", "cart-1", "u")
    put(PodChanged(minutes[0], CART, pod, PodPhase.RUNNING, minutes[0], (), started=minutes[0]), "pod-changes")
    put(MetricsScraped(minutes[1], "demo", (CART.key,), ("cart-1",), ("main",), (Cores(0.1),), (Bytes(1 << 20),)), "pod-metrics")
    for name in ("n1", "n2"):
        put(replace(GO, at=minutes[2], cluster="demo", node=name, id=name), "node-updates")
        put(NodeRemoved(minutes[3], "demo", name), "cluster-changes")
    for name in came:
        put(NodeChanged(minutes[4], "demo", name, Amounts(Cores(4.0), Bytes(1 << 34))), "cluster-changes")
    data = report_data.collect(context, minutes[0], Y2026 + timedelta(minutes=9), top=0, heartbeat=Seconds(600.0))
    assert (data.removed, data.fewer) == (2, fewer)
