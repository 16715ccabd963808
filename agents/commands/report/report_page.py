"""The report as one self-contained HTML file: figures, tables and charts, for screen and paper, light and dark.

The script that draws is plotly's own, copied whole from the installed package. Every text from a cluster is escaped; the charts'
data contain no `<` that could end the script.
"""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite

import orjson

from agents.backtest.price_list import PriceList
from agents.commands.recommend import held_back, request_totals
from agents.commands.recommend.recommendation_table import RecommendedContainer
from agents.commands.recommend.request_totals import amount_text
from agents.commands.recommend.scan_table import grade, score
from agents.commands.report.report_data import Amount, ContainerChart, ReportData, ValueLine
from agents.why import event_descriptions

_MONTH = 730 * 3600.0
"""Seconds of the month that prices are for."""
_GIB = 1 << 30
_MOST_RISKS = 50
"""Containers whose promise is shown."""
_COLOURS = {"used": "#1f77b4", "requested": "#d62728", "limit": "#7f7f7f", "recommended": "#2ca02c"}
_MARKS = {
    "OOM kill": ("x", "#d62728"),
    "evict": ("triangle-down", "#9467bd"),
    "resize": ("diamond", "#ff7f0e"),
    "patch": ("circle-open", "#17becf"),
}
"""How a kill and each action are drawn; a patch is of a new pod, at its admission."""
_LINKS = '<a href="#savings">Savings</a> <a href="#risks">Promises</a> <a href="#workloads">Workloads</a>'
_STYLE = """
:root { color-scheme: light dark; --line: #8885; --soft: #8882; --good: #1a7f37; --bad: #c62828 }
@media (prefers-color-scheme: dark) { :root { --good: #57c774; --bad: #ff7b72 } }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 76rem; padding: 1.5rem 1rem 4rem }
h1 { font-size: 1.6rem; margin: 0 } h2 { margin: 2.5rem 0 .5rem; font-size: 1.2rem } .sub { opacity: .75; margin: .2rem 0 1.2rem }
.tiles { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)) }
.tile { background: var(--soft); border-radius: .5rem; padding: .8rem 1rem } .tile b { display: block; font-size: 1.25rem }
.tile.bad b { color: var(--bad) } .tile.good b { color: var(--good) } small { opacity: .8 }
table { border-collapse: collapse; width: 100% } .wide { overflow-x: auto }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .6rem; text-align: left; white-space: nowrap }
#workloads-table td:last-child { white-space: normal; min-width: 8rem } .tiles + p { margin-top: 1.2rem }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.chart { height: 22rem; margin-bottom: .5rem; width: 100% } .workload { break-inside: avoid; min-width: 0 }
@media print { body { max-width: none; padding: 0 } .chart { height: 17rem } }
"""
_SCRIPT = """
const dark = matchMedia('(prefers-color-scheme: dark)');
function colours() {
  const dim = dark.matches ? '#e6e6e6' : '#222', grid = dark.matches ? '#444' : '#ddd';
  const axis = { gridcolor: grid, zerolinecolor: grid, linecolor: grid };
  const clear = 'rgba(0,0,0,0)';
  return { paper_bgcolor: clear, plot_bgcolor: clear, font: { color: dim }, xaxis: axis, yaxis: axis, yaxis2: axis };
}
function layout(place) {
  const base = colours();
  return { ...base, width: place.clientWidth, height: place.clientHeight,
    margin: { l: 60, r: 15, t: place.clientWidth < 600 ? 85 : 45, b: 45 }, hovermode: 'x unified',
    legend: { orientation: 'h', y: 1.01, yanchor: 'bottom' }, grid: { rows: 2, columns: 1, roworder: 'top to bottom' },
    xaxis: { ...base.xaxis, anchor: 'y2', type: 'date' },
    yaxis: { ...base.yaxis, domain: [.54, 1], title: { text: 'cores' }, rangemode: 'tozero' },
    yaxis2: { ...base.yaxis2, domain: [0, .46], title: { text: 'GiB' }, rangemode: 'tozero' } };
}
let shown = JSON.parse(document.getElementById('charts').textContent);
function draw() {
  for (const chart of shown) {
    const place = document.getElementById(chart.id);
    Plotly.react(place, chart.lines, layout(place), { displayModeBar: false });
  }
}
draw();
dark.addEventListener('change', draw);
addEventListener('resize', draw);
"""


@dataclass(frozen=True, slots=True)
class LiveParts:
    """What a live page has more: a style, links and controls, what stands above the report and below it, and a script."""

    style: str
    controls: str
    above: str
    below: str
    script: str


def page(data: ReportData, prices: PriceList, script: str, live: LiveParts | None = None) -> Iterator[str]:
    """The lines of the page. `script` is plotly's."""
    title = f"Ullage: {data.cluster}"
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{_STYLE}{live.style if live else ''}</style></head><body>"
    if live:
        yield f'<nav><a href="#now">Now</a> <a href="#fleet">Fleet</a> {_LINKS} {live.controls}</nav>'
    yield '<main id="report">'
    yield live.above if live else ""
    yield from content(data, prices)
    yield "</main>"
    yield live.below if live else ""
    yield f"<script>{script}</script>"
    yield f'<script type="application/json" id="charts">{_json(charts(data))}</script>'
    yield f"<script>{_SCRIPT}{live.script if live else ''}</script></body></html>"


def content(data: ReportData, prices: PriceList) -> Iterator[str]:
    """Everything visible, with empty places for the charts."""
    yield f"<h1>Requests, use and changes in {html.escape(data.cluster)}</h1>"
    yield f'<p class="sub">{_moment(data.since)} to {_moment(data.until)} UTC · prices: {html.escape(str(prices))}</p>'
    yield from _fleet(data)
    yield from _savings(data, prices)
    yield from _risks(data.rows)
    yield from _guards(data)
    yield from _workloads(data.rows[:50], len(data.rows))
    yield from _charts(data)


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


def _fleet(data: ReportData) -> Iterator[str]:
    points = sum(map(score, data.rows)) / len(data.rows) if data.rows else 100.0
    risky = sum(row.risk == "high" for row in data.rows)
    yield '<h2 id="fleet">Fleet</h2>'
    yield from _tiles(
        (f"{len(data.rows)}", f"containers with a recommendation, in {data.pods} pods on {data.nodes} nodes", ""),
        (f"{grade(points)}", f"grade; score {points:.0f} of 100", "good" if points >= 70 else "bad"),  # noqa: PLR2004  # C and better
        (f"{risky}", "at high risk as they are", "bad" if risky else "good"),
        (amount_text(data.requested[1]), "requested by running pods at the end", ""),
    )


def _savings(data: ReportData, prices: PriceList) -> Iterator[str]:
    """Three columns, because freed requests are no money, removable nodes could be, and removed nodes are; and the risk."""
    before, after = data.requested
    freed = (before[0] - after[0], before[1] - after[1])
    yield '<h2 id="savings">Savings, and the risk beside them</h2>'
    yield '<p class="sub">Requests that are freed first become idle capacity. They are money only when nodes leave.</p>'
    yield from _tiles(
        (
            amount_text(freed),
            f"requests freed in this time ({_price(freed, prices)}); by today's targets {request_totals.in_words(data.rows)}",
            "",
        ),
        (f"{data.removable}", f"nodes removable, as planned and still there ({_nodes(data, data.removable, prices)})", ""),
        (
            f"{data.removed}",
            f"nodes removed by a plan of ours; {data.fewer} fewer than at the beginning ({_nodes(data, data.fewer, prices)})",
            "good" if data.fewer else "",
        ),
    )
    if held := held_back.in_words(data.rows):
        yield f'<p class="sub">{html.escape(held[0].upper() + held[1:])}.</p>'
    yield '<div style="height:.8rem"></div>'
    evicted = data.done["evict done"]
    yield from _tiles(
        (f"{data.kills}", "OOM kills", "bad" if data.kills else "good"),
        (f"{data.kills_after_change}", "of them after a change of ours", "bad" if data.kills_after_change else "good"),
        (
            f"{evicted}",
            f"pods restarted by us; {data.done['resize done']} resized in place, {data.done['patch done']} new ones changed",
            "",
        ),
    )


def _price(amount: Amount, prices: PriceList) -> str:
    cost = prices.cost(amount[0] * _MONTH, amount[1] * _MONTH)
    return f"{cost:,.2f} {prices.currency} a month at list prices"


def _nodes(data: ReportData, count: int, prices: PriceList) -> str:
    return _price((data.node_size[0] * count, data.node_size[1] * count), prices)


def _tiles(*tiles: tuple[str, str, str]) -> Iterator[str]:
    yield '<div class="tiles">'
    for figure, says, kind in tiles:
        yield f'<div class="tile {kind}"><b>{html.escape(figure)}</b><small>{html.escape(says)}</small></div>'
    yield "</div>"


def _guards(data: ReportData) -> Iterator[str]:
    if not data.refused:
        return
    yield "<h2>Why pods were left alone</h2>"
    rows = [[guard, f"{count:,}"] for guard, count in data.refused.most_common(10)]
    yield from _table(["guard", "times that a pod was held back"], rows)


def _risks(rows: Sequence[RecommendedContainer]) -> Iterator[str]:
    """Those that break a promise most come first."""
    kept = [(row, row.risk_kept) for row in rows if row.risk_kept is not None]
    yield "<h2 id='risks'>Promised and delivered</h2>"
    if not kept:
        yield "<p class='sub'>No container here is decided by adaptive, the policy that promises a risk.</p>"
        return
    worst = sorted(kept, key=lambda pair: (pair[1].kills_allowed - pair[1].kills, -pair[1].cpu_broken_by))
    held = sum(risk.cpu_broken_by <= 0.0 for _, risk in kept)
    yield (
        f"<p class='sub'>{len(kept)} containers are decided by adaptive; {held} of them were short of CPU at most as often as "
        "was promised. OOM kills beside those that the built-in estimator would have had on the same samples.</p>"
    )
    names = ["workload", "container", "short of CPU", "promised", "OOM kills", "promised", "built-in"]
    cells = [
        [
            f"{row.namespace}/{row.kind}/{row.workload}",
            row.container,
            f"{risk.cpu_delivered:.2%}",
            f"{risk.cpu_promised:.2%}",
            f"{risk.kills:g}",
            f"{risk.kills_allowed:.1f}",
            f"{risk.kills_built_in:g}",
        ]
        for row, risk in worst[:_MOST_RISKS]
    ]
    asked = [f"{row.cluster}/{row.namespace}/{row.kind}/{row.workload}" for row, _ in worst[:_MOST_RISKS]]
    yield from _table(names, cells, "risks-table", asked)


def _workloads(rows: Sequence[RecommendedContainer], total: int) -> Iterator[str]:
    yield f"<h2 id='workloads'>Workloads</h2><p class='sub'>{len(rows)} of {total} containers, those that save most first</p>"
    names = ["workload", "container", "pods", "cpu now", "cpu target", "memory now", "memory target", "risk", "score", "why"]
    cells = []
    for row in rows:
        now = row.requests
        cells.append(
            [
                f"{row.namespace}/{row.kind}/{row.workload}",
                row.container,
                f"{row.pods}",
                event_descriptions.amount(cpu=None if now is None else now.cpu),
                event_descriptions.amount(cpu=row.target.cpu),
                event_descriptions.amount(memory=None if now is None else now.memory),
                event_descriptions.amount(memory=row.target.memory),
                row.risk,
                f"{score(row):.0f} {grade(score(row))}",
                row.remark,
            ]
        )
    yield from _table(
        names, cells, "workloads-table", [f"{row.cluster}/{row.namespace}/{row.kind}/{row.workload}" for row in rows]
    )


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], ident: str = "table", asked: Sequence[str] = ()) -> Iterator[str]:
    """Columns of numbers stand at the right, with their names. `asked`: what `ullage why` is asked about each row."""
    numeric = [all(row[n][:1].isdigit() or row[n] == event_descriptions.amount() for row in rows) for n in range(len(names))]
    kinds = [" class=n" if number else "" for number in numeric]
    heads = "".join(f"<th{kind}>{html.escape(name)}</th>" for kind, name in zip(kinds, names, strict=True))
    yield f'<div class="wide"><table id="{ident}"><thead><tr>{heads}</tr></thead><tbody>'
    for number, row in enumerate(rows):
        why = f' tabindex="0" data-why="{html.escape(asked[number])}"' if asked else ""
        cells = "".join(f"<td{kind}>{html.escape(text)}</td>" for kind, text in zip(kinds, row, strict=True))
        yield f"<tr{why}>{cells}</tr>"
    yield "</tbody></table></div>"


def _charts(data: ReportData) -> Iterator[str]:
    if data.charts:
        yield "<h2>Usage against requests and limits</h2>"
        yield '<p class="sub">The highest use of any pod; requests and limits of one pod; kills, changes, new pods as marks.</p>'
    for number, chart in enumerate(data.charts.values()):
        name = f"{chart.workload.split('/', 1)[-1]} · {chart.container}"
        yield f'<div class="workload"><h3>{html.escape(name)}</h3><div class="chart" id="chart-{number}"></div></div>'


def charts(data: ReportData) -> list[dict[str, object]]:
    """The charts for plotly, and their places."""
    return [
        {"id": f"chart-{number}", "lines": list(_lines(chart, data.until))} for number, chart in enumerate(data.charts.values())
    ]


def _lines(chart: ContainerChart, until: datetime) -> Iterator[dict[str, object]]:
    used = [chart.used[number] for number in sorted(chart.used)]
    at = [when for when, _, _ in used]
    highest: tuple[list[float], list[float]] = ([cpu for _, cpu, _ in used], [memory / _GIB for _, _, memory in used])
    for values, axis in zip(highest, ("y", "y2"), strict=True):
        yield _line("used", at, values, axis)
    for name, line, dash in (
        ("requested", chart.requests, "solid"),
        ("limit", chart.limits, "dot"),
        ("recommended", chart.target, "dash"),
    ):
        if line.at:
            yield from _steps(name, line, dash, until)
    for what, (symbol, colour) in _MARKS.items():
        marks = [mark for mark in chart.marks if mark.what == what]
        if marks:
            top = max((value for value in highest[1] if isfinite(value)), default=1.0)
            yield {
                "name": what,
                "x": [mark.at for mark in marks],
                "y": [top] * len(marks),
                "text": [html.escape(mark.says) for mark in marks],
                "customdata": [mark.asked for mark in marks],
                "yaxis": "y2",
                "mode": "markers",
                "type": "scatter",
                "marker": {"symbol": symbol, "color": colour, "size": 11},
            }


def _steps(name: str, line: ValueLine, dash: str, until: datetime) -> Iterator[dict[str, object]]:
    """A value holds until the next one, and the last to the end."""
    at = [*line.at, until]
    memory = [None if value is None else value / _GIB for value in line.memory]
    for values, axis in ((line.cpu, "y"), (memory, "y2")):
        yield _line(name, at, [*values, values[-1]], axis) | {"line": {"shape": "hv", "dash": dash, "color": _COLOURS[name]}}


def _line(name: str, at: Sequence[datetime], values: Sequence[float | None], axis: str) -> dict[str, object]:
    shown = [None if value is None or not isfinite(value) else round(value, 4) for value in values]
    return {
        "name": name,
        "x": list(at),
        "y": shown,
        "yaxis": axis,
        "mode": "lines",
        "type": "scatter",
        "legendgroup": name,
        "showlegend": axis == "y",
        "line": {"color": _COLOURS[name]},
    }


def _json(figures: object) -> str:
    return orjson.dumps(figures).decode().replace("<", "\\u003c")
