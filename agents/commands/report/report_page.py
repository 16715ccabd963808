"""The report as one self-contained HTML file: figures, tables and charts, for screen and paper, light and dark.

It has an overview and, behind links, a page for each namespace and workload and for the nodes; without scripts, and on paper,
they stand one below the other. Every text from a cluster is escaped; explanations contain no `<` that could end the script.
"""

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import orjson

from agents.backtest.price_list import PriceList
from agents.commands.recommend import request_totals
from agents.commands.recommend.recommendation_table import RecommendedContainer
from agents.commands.recommend.request_totals import amount_text
from agents.commands.recommend.scan_table import grade, score
from agents.commands.report import page_parts, time_chart, workload_pages
from agents.commands.report.page_parts import TableCell, count_cell, table, tiles
from agents.commands.report.report_data import MOST_ROWS, Amount, ReportData
from schemas.units import counted

_MONTH = 730 * 3600.0
"""Seconds of the month that prices are for."""
_ABOUT = (
    "What containers request beside what they use, what Ullage recommends and has changed, and at what risk. "
    "A row or a mark shows, on a click or Enter, why; a workload's name leads to its page."
)
_MOST_RISKS = 50
"""Containers whose promise is shown."""
_LINKS = (
    '<a href="#fleet">Fleet</a> <a href="#savings">Savings</a> <a href="#risks">Promises</a> <a href="#workloads">Workloads</a> '
    + page_parts.link("Nodes", workload_pages.NODES)
)
_STYLE = """
html { scroll-padding-top: 4rem } /* what is jumped to stands below the row of links */
:root { color-scheme: light dark; --line: #8885; --soft: #8882; --good: #1a7f37; --bad: #c62828 }
@media (prefers-color-scheme: dark) { :root { --good: #57c774; --bad: #ff7b72 } }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 76rem; padding: 1.5rem 1rem 4rem }
h1 { font-size: 1.6rem; margin: 0; overflow-wrap: anywhere }
h2 { margin: 2.5rem 0 .5rem; font-size: 1.2rem } .sub { opacity: .75; margin: .2rem 0 1.2rem }
.tiles { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)) }
.tile { background: var(--soft); border-radius: .5rem; padding: .8rem 1rem } .tile b { display: block; font-size: 1.25rem }
.tile.bad b { color: var(--bad) } .tile.good b { color: var(--good) } small { opacity: .8 }
table { border-collapse: collapse; width: 100% } .wide { overflow-x: auto }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .6rem; text-align: left; vertical-align: top; white-space: nowrap }
td:last-child { white-space: normal; min-width: 8rem } .tiles + p { margin-top: 1.2rem } .wide + .sub { margin-top: .8rem }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.page { margin-top: 1rem } .chart { break-inside: avoid; margin-bottom: .5rem }
/* a narrower page lets names and headings wrap before it cuts a column; a moment stays in one piece */
@media (max-width: 70rem) {
  html { scroll-padding-top: 6rem } /* for the links may stand in two rows */
  table { font-size: .87rem } th, td { padding: .3rem .4rem; white-space: normal } td.n { white-space: nowrap }
  #news td:first-child, [id^=acts] td:first-child { white-space: nowrap }
  td:last-child { min-width: 6rem; overflow-wrap: anywhere }
}
@media (max-width: 44rem) { body nav { position: static } td:last-child:not(.n) { min-width: 16rem } }
@media print { body { max-width: none; padding: 0 } }
"""


@dataclass(frozen=True, slots=True)
class LiveParts:
    """What a live page has more: a style, controls, what stands above the overview, and a script."""

    style: str
    controls: str
    above: str
    script: str


def page(data: ReportData, prices: PriceList, whys: Mapping[str, str], live: LiveParts | None = None) -> Iterator[str]:
    """The lines of the page. `whys` are explanations that the page has with it, by what is asked about."""
    title = f"Ullage: {data.cluster}"
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{_STYLE}{page_parts.STYLE}{time_chart.STYLE}{live.style if live else ''}</style></head>"
    yield f"<body{' data-live=1' if live else ''}>"
    now = '<a href="#now">Now</a> ' if live else ""
    yield f"<nav>{now}{_LINKS} {page_parts.SEARCH}{live.controls if live else ''}</nav>"
    yield '<main id="report">'
    yield from content(data, prices, live.above if live else "")
    yield "</main>"
    yield page_parts.DIALOG
    # nothing in it can end the script that it stands in
    explanations = orjson.dumps(whys).decode().replace("<", "\\u003c").replace("&", "\\u0026")
    yield f'<script type="application/json" id="whys">{explanations}</script>'
    yield f"<script>{page_parts.SCRIPT}{live.script if live else ''}</script></body></html>"


def content(data: ReportData, prices: PriceList, above: str = "") -> Iterator[str]:
    """Everything visible: the overview, on which `above` stands first, and the other pages."""
    yield f'<section class="page" data-page="">{above}'
    yield f"<h1>Requests, use and changes in {html.escape(data.cluster)}</h1>"
    yield f'<p class="sub">{_moment(data.since)} to {_moment(data.until)} UTC · prices: {html.escape(str(prices))}</p>'
    yield f"<p>{_ABOUT}</p>"
    yield from _fleet(data)
    yield from _savings(data, prices)
    yield from _risks(data.rows)
    yield from _guards(data)
    yield from _workloads(data.rows[:MOST_ROWS], len(data.rows))
    yield "</section>"
    yield from workload_pages.pages(data)


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


def _fleet(data: ReportData) -> Iterator[str]:
    points = sum(map(score, data.rows)) / len(data.rows) if data.rows else 100.0
    risky = sum(row.risk == "high" for row in data.rows)
    yield '<h2 id="fleet">Fleet</h2>'
    yield from tiles(
        (
            f"{len(data.rows)}",
            f"containers with a recommendation, in {counted(data.pods, 'pod')} on {counted(data.nodes, 'node')}",
            "",
        ),
        (f"{grade(points)}", f"grade; score {points:.0f} of 100", "good" if points >= 70 else "bad"),  # noqa: PLR2004  # C and better
        (f"{risky}", "at high risk as they are", "bad" if risky else "good"),
        (amount_text(data.requested[1]), "requested by running pods at the end", ""),
    )


def _savings(data: ReportData, prices: PriceList) -> Iterator[str]:
    """What was saved, in three columns, and at what risk."""
    before, after = data.requested
    freed = (before[0] - after[0], before[1] - after[1])
    yield '<h2 id="savings">Savings, and the risk beside them</h2>'
    yield '<p class="sub">Requests that are freed first become idle capacity. They are money only when nodes leave.</p>'
    yield from tiles(
        (
            amount_text(freed),
            f"requests freed in this time ({_price(freed, prices)}); by today's targets {request_totals.in_words(data.rows)}",
            "",
        ),
        # three figures and no sum: freed requests are no money, removable nodes could be, and removed nodes are
        (f"{data.removable}", f"nodes removable, as planned and still there ({_nodes(data, data.removable, prices)})", ""),
        (
            f"{data.removed}",
            f"nodes removed by a plan of ours; {data.fewer} fewer than at the beginning ({_nodes(data, data.fewer, prices)})",
            "good" if data.fewer else "",
        ),
    )
    if words := request_totals.held_back_in_words(data.rows):
        yield f'<p class="sub">{html.escape(words[0].upper() + words[1:])}.</p>'
    yield '<div style="height:.8rem"></div>'
    evicted = data.done["evict done"]
    yield from tiles(
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


def _guards(data: ReportData) -> Iterator[str]:
    if not data.refused:
        return
    yield "<h2>Why pods were left alone</h2>"
    rows = [[TableCell(guard), count_cell(count)] for guard, count in data.refused.most_common(10)]
    yield from table(["guard", "times that a pod was held back"], rows, "guards")


def _risks(rows: Sequence[RecommendedContainer]) -> Iterator[str]:
    """Those that break a promise most come first."""
    promises = [(row, row.risk_kept) for row in rows if row.risk_kept is not None]
    yield '<h2 id="risks">Promised and delivered</h2>'
    if not promises:
        yield "<p class='sub'>No container here is decided by adaptive, the policy that promises a risk.</p>"
        return
    worst = sorted(promises, key=lambda pair: (pair[1].kills_allowed - pair[1].kills, -pair[1].cpu_broken_by))

    kept = sum(risk.cpu_broken_by <= 0.0 for _, risk in promises)
    yield (
        f"<p class='sub'>Containers that adaptive decides: {len(promises)}; "
        f"short of CPU at most as often as was promised: {kept}. "
        "OOM kills beside those that the built-in estimator would have had on the same samples.</p>"
    )
    names = ["workload", "container", "short of CPU", "promised", "OOM kills", "promised", "built-in"]
    cells = [
        [
            workload_pages.workload_cell(row),
            TableCell(row.container),
            TableCell(f"{risk.cpu_delivered:.2%}", risk.cpu_delivered),
            TableCell(f"{risk.cpu_promised:.2%}", risk.cpu_promised),
            TableCell(f"{risk.kills:g}", risk.kills),
            TableCell(f"{risk.kills_allowed:.1f}", risk.kills_allowed),
            TableCell(f"{risk.kills_built_in:g}", risk.kills_built_in),
        ]
        for row, risk in worst[:_MOST_RISKS]
    ]
    yield from table(names, cells, "risks-table", [row.workload_key for row, _ in worst[:_MOST_RISKS]])


def _workloads(rows: Sequence[RecommendedContainer], total: int) -> Iterator[str]:
    yield '<h2 id="workloads">Workloads</h2>'
    yield f'<p class="sub">{len(rows)} of {counted(total, "container")}, those that save most first</p>'
    yield from workload_pages.container_table(rows, "workloads-table")
    yield '<p class="sub">What staying as it is may do, by recorded kills and use: '
    yield "; ".join(f"<b>{risk}</b>: {html.escape(says)}" for risk, says in workload_pages.RISKS.items()) + ".</p>"
    spaces = dict.fromkeys(row.namespace for row in rows)
    if spaces:
        links = " · ".join(page_parts.link(name, page_parts.address(name)) for name in sorted(spaces))
        yield f'<p class="sub">By namespace: {links}</p>'
