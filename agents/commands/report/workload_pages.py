"""The pages of a report about a namespace, a workload, and the nodes: what there is, what was done, what to write down."""

import html
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from math import ceil

from agents.commands.recommend import recommendation_table, request_totals
from agents.commands.recommend.recommendation_table import RecommendedContainer
from agents.commands.recommend.scan_table import grade, score
from agents.commands.report.page_parts import TableCell, address, count_cell, cpu_cell, link, memory_cell, table, tiles
from agents.commands.report.report_data import MOST_ROWS, ContainerChart, ReportData, ValueLine
from agents.commands.report.report_history import MOST_ACTS, ReportedAct, ScaledWorkload
from agents.commands.report.time_chart import ChartPanel, TimeLine, drawn
from schemas.units import counted

NODES = address("nodes")
RISKS: Mapping[str, str] = {
    "high": "an OOM kill within a day, or a tenth of memory's daily peaks above the request",
    "medium": "no requests, memory peaks above the request, or CPU above it in a tenth of the time",
    "unknown": "no pod has been seen",
    "low": "nothing of that: it fits, uses less, or needs a little more",
}
"""What each word means; docs/scan.md has the order in which they are looked at."""
_GIB, _MIB = float(1 << 30), float(1 << 20)
_MUCH = 100_000
"""Millicores or MiB from which on people write cores or GiB."""
_MOST_CAPS = 5
_OF_CHART = "The highest use of any pod, requests and limits of one; kills, changes and admissions as marks."


def pages(data: ReportData) -> Iterator[str]:
    """The nodes' page, and one for each namespace and workload of the rows that are shown."""
    yield from _nodes(data)
    rows = sorted(data.rows[:MOST_ROWS], key=lambda row: (row.namespace, row.kind, row.workload, row.container))
    # `groupby` needs rows that are sorted by its key
    for namespace, of_namespace in groupby(rows, key=lambda row: row.namespace):
        yield from _namespace(data, namespace, list(of_namespace))
    for key, of_workload in groupby(rows, key=lambda row: row.workload_key):
        yield from _workload(data, key, list(of_workload))


def workload_cell(row: RecommendedContainer) -> TableCell:
    """The workload, with the way to its page."""
    return TableCell(f"{row.namespace}/{row.kind}/{row.workload}", to=workload_address(row))


def workload_address(row: RecommendedContainer) -> str:
    """Where the page of a row's workload is."""
    return address(row.namespace, row.kind, row.workload)


def amounts(row: RecommendedContainer) -> list[TableCell]:
    """CPU and memory, each now and as recommended."""
    now = row.requests
    return [
        cpu_cell(None if now is None else now.cpu),
        cpu_cell(row.target.cpu),
        memory_cell(None if now is None else now.memory),
        memory_cell(row.target.memory),
    ]


def _page(at: str, title: str, way: Sequence[str]) -> Iterator[str]:
    yield f'<section class="page" data-page="{html.escape(at)}">'
    yield f'<p class="sub">{" · ".join((link("overview", "fleet"), *way))}</p><h1>{html.escape(title)}</h1>'


def _namespace(data: ReportData, namespace: str, rows: Sequence[RecommendedContainer]) -> Iterator[str]:
    yield from _page(address(namespace), f"Namespace {namespace}", [])
    yield f'<p class="sub">{html.escape(request_totals.in_words(rows))} by today\'s targets</p>'
    risky = sum(row.risk == "high" for row in rows)
    yield from tiles(
        (f"{len(rows)}", "containers with a recommendation that this report shows", ""),
        # a workload's pods once, however many containers they have
        (f"{sum({row.workload_key: row.pods for row in rows}.values())}", "pods that they run in", ""),
        (f"{risky}", "at high risk as they are", "bad" if risky else "good"),
    )
    yield "<h2>Workloads</h2>"
    yield from container_table(rows, f"rows {namespace}")
    keys = dict.fromkeys(row.workload_key for row in rows)
    yield from _acts([act for key in keys for act in data.history.acts.get(key, ())], f"acts {namespace}")
    yield "</section>"


def container_table(rows: Sequence[RecommendedContainer], identity: str) -> Iterator[str]:
    """A row for each container: what it has, what is recommended, and what staying as it is may do."""
    names = ["workload", "container", "pods", "cpu now", "cpu target", "memory now", "memory target", "risk", "score", "why"]
    cells = [
        [
            workload_cell(row),
            TableCell(row.container),
            count_cell(row.pods),
            *amounts(row),
            TableCell(row.risk),
            TableCell(f"{score(row):.0f} {grade(score(row))}", score(row)),
            TableCell(row.remark),
        ]
        for row in rows
    ]
    yield from table(names, cells, identity, [row.workload_key for row in rows])


def _workload(data: ReportData, key: str, rows: Sequence[RecommendedContainer]) -> Iterator[str]:
    row = rows[0]
    yield from _page(
        workload_address(row), f"{row.namespace}/{row.kind}/{row.workload}", [link(row.namespace, address(row.namespace))]
    )
    yield '<p class="sub">A row shows, on a click or Enter, why that is recommended.</p>'
    names = ["container", "pods", "cpu now", "cpu target", "memory now", "memory target", "risk", "why"]
    cells = [
        [TableCell(row.container), count_cell(row.pods), *amounts(row), TableCell(row.risk), TableCell(row.remark)]
        for row in rows
    ]
    yield from table(names, cells, f"rows {key}", [key] * len(rows))
    for risk in dict.fromkeys(row.risk for row in rows):
        yield f'<p class="sub">Risk {risk}: {html.escape(RISKS[risk])}.</p>'
    for sentence in recommendation_table.sentences_on_caps(rows, _MOST_CAPS):
        yield f'<p class="sub">{html.escape(sentence)}</p>'
    for reason in sorted({row.held_back for row in rows if row.held_back}):
        yield f'<p class="sub">Not applied to running pods now: {html.escape(reason)}.</p>'
    for row in rows:
        chart = data.charts.get((key, row.container))
        if chart is not None:
            yield f"<h2>Container {html.escape(row.container)}</h2>"
            yield f'<p class="sub">{_OF_CHART}</p>'
            yield from container_chart(chart, data.since, data.until)
    if key in data.history.scaled:
        yield "<h2>Replicas and forecast</h2>"
        yield from _replicas(data.history.scaled[key], data.since, data.until)
    yield from _acts(data.history.acts.get(key, ()), f"acts {key}")
    yield "<h2>To write down</h2>"
    yield '<p class="sub">The requests that are recommended now, for the pod template in your own manifests.</p>'
    yield f'<div><button class="copy">copy</button><pre class="snippet">{html.escape(snippet(rows))}</pre></div></section>'


def snippet(rows: Sequence[RecommendedContainer]) -> str:
    """The recommended requests of a workload's containers as YAML, rounded up to what people write."""
    lines = ["containers:"]
    for row in rows:
        lines += [f"- name: {row.container}", "  resources:", "    requests:"]
        if row.target.cpu is not None:
            # rounded first: a target is a product of floats, and may lie a hair above a whole millicore
            milli = ceil(round(row.target.cpu * 1000, 6))
            lines.append(f"      cpu: {milli}m" if milli < _MUCH else f"      cpu: {ceil(milli / 1000)}")
        if row.target.memory is not None:
            mebi = ceil(row.target.memory / _MIB)
            lines.append(f"      memory: {mebi}Mi" if mebi < _MUCH else f"      memory: {ceil(mebi / 1024)}Gi")
    return "\n".join(lines)


def _nodes(data: ReportData) -> Iterator[str]:
    yield from _page(NODES, "Nodes", [])
    nodes = counted(data.nodes, "node")
    yield f'<p class="sub">{nodes} at the end of this time; {data.removed} removed by a plan of ours in it</p>'
    if data.history.nodes:
        panel = ChartPanel("", [TimeLine("nodes", data.history.nodes, stepped=True)])
        yield from drawn("nodes over time", [panel], (), data.since, data.until)
    names = ["node", "pods", "cpu requested", "cpu allocatable", "memory requested", "memory allocatable"]
    cells = [
        [
            TableCell(node.name),
            count_cell(node.pods),
            cpu_cell(node.requested[0]),
            cpu_cell(node.size[0]),
            memory_cell(node.requested[1]),
            memory_cell(node.size[1]),
        ]
        for node in data.node_rows
    ]
    yield from table(names, cells, "nodes", [node.name for node in data.node_rows])
    yield from _acts(data.history.acts.get("", ()), "acts of nodes")
    yield "</section>"


def _acts(acts: Sequence[ReportedAct], ident: str) -> Iterator[str]:
    """The newest first. A row's explanation is that of the act."""
    newest = sorted(acts, key=lambda act: act.at, reverse=True)[:MOST_ACTS]
    yield "<h2>What was done, and what happened</h2>"
    if not newest:
        yield '<p class="sub">Nothing in this time.</p>'
        return
    yield '<p class="sub">The newest first; a row shows, on a click or Enter, why it was done.</p>'
    cells = [[TableCell(f"{act.at:%Y-%m-%d %H:%M:%S}"), *map(TableCell, (act.what, act.about, act.says))] for act in newest]
    yield from table(["time", "what", "about", "says"], cells, ident, [act.asked for act in newest])


def container_chart(chart: ContainerChart, since: datetime, until: datetime) -> Iterator[str]:
    """Use, requests, limits and recommendation of a container: cores above, GiB below."""
    used = [chart.used[number] for number in sorted(chart.used)]
    cores = [TimeLine("used", [(at, cpu) for at, cpu, _ in used])]
    memory = [TimeLine("used", [(at, amount / _GIB) for at, _, amount in used])]
    for name, line in (("requested", chart.requests), ("limit", chart.limits), ("recommended", chart.target)):
        if line.at:
            cores.append(TimeLine(name, list(zip(line.at, line.cpu, strict=True)), stepped=True))
            memory.append(TimeLine(name, _gib(line), stepped=True))
    title = f"{chart.workload} {chart.container}: used, requested, limit and recommended"
    yield from drawn(title, [ChartPanel("cores", cores), ChartPanel("GiB", memory)], chart.marks, since, until)


def _gib(line: ValueLine) -> list[tuple[datetime, float | None]]:
    return [(at, None if amount is None else amount / _GIB) for at, amount in zip(line.at, line.memory, strict=True)]


def _replicas(scaled: ScaledWorkload, since: datetime, until: datetime) -> Iterator[str]:
    replicas = [TimeLine("now", scaled.pods, stepped=True), TimeLine("planned", scaled.planned, stepped=True)]
    load = [TimeLine("used", sorted(scaled.used.items())), TimeLine("forecast", sorted(scaled.expected.items()))]
    within = [TimeLine(line.name, [(at, value) for at, value in line.points if since <= at <= until]) for line in load]
    yield from drawn("replicas and forecast", [ChartPanel("", replicas), ChartPanel("cores", within)], (), since, until)
