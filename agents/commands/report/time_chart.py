"""A chart over time as SVG in the page's own colours: panels above each other, and marks that can be clicked or reached by keys.

It is drawn here and not in the browser, so that a page needs no library, prints as it is shown, and can be read without scripts.
A reader sees the values of a moment by resting on it.
"""

import html
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import floor, isfinite, log10

STYLE = """
:root { --used: #0969da; --requested: #cf222e; --limit: #6e7781; --recommended: #1a7f37; --other: #8250df; --change: #bc4c00 }
@media (prefers-color-scheme: dark) { :root { --used: #4493f8; --requested: #ff7b72; --limit: #9198a1; --recommended: #3fb950;
  --other: #ab7df8; --change: #f0883e } }
.chart { overflow-x: auto } .chart svg { display: block; min-width: 40rem; width: 100% }
.chart text { fill: currentColor; font: 12px system-ui, sans-serif; opacity: .8 } .chart .grid { stroke: var(--line) }
.chart .s { fill: none; stroke-width: 1.8 } .chart .used, .chart .now { stroke: var(--used) }
.chart .requested { stroke: var(--requested) } .chart .limit { stroke: var(--limit); stroke-dasharray: 2 3 }
.chart .recommended, .chart .planned, .chart .nodes { stroke: var(--recommended) }
.chart .recommended, .chart .forecast { stroke-dasharray: 7 4 } .chart .forecast { stroke: var(--other) }
.chart .band { fill: transparent } .chart .band:hover { fill: var(--soft) }
.chart .mark { cursor: pointer; fill: none; stroke: var(--change); stroke-width: 2 }
.chart .mark.kill { stroke: var(--requested) }
.chart .mark.evict { stroke: var(--other) } .chart .mark.admission { stroke: var(--recommended) }
.chart .mark:focus-visible { outline: 2px solid currentColor; outline-offset: 2px }
"""
_WIDTH, _LEFT, _RIGHT, _TOP, _PANEL, _GAP, _FOOT = 960, 66, 930, 34, 130, 26, 26
_BANDS = 96
"""Stretches of which a chart says the values, at most."""
_LEVELS, _MOST_TIMES = 4, 9
_LEAST, _MOST = 1e-12, 1e15
"""The highest value of a chart has a round scale between these: less is a line at 0, and no machine has more."""
_STEPS = tuple(timedelta(minutes=n) for n in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080, 43200))
_SYMBOLS = {"kill": "M-5 -5L5 5M5 -5L-5 5", "evict": "M-6 -5H6L0 6Z", "resize": "M0 -6L6 0L0 6L-6 0Z"}
"""Of other acts a circle."""
_ROUND = "M-5 0A5 5 0 1 1 5 0A5 5 0 1 1 -5 0"

Points = Sequence[tuple[datetime, float | None]]


@dataclass(frozen=True, slots=True)
class TimeLine:
    """One value over time. None and NaN stand for nothing; a `stepped` value stands until the next one."""

    name: str
    points: Points
    stepped: bool = False


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A kill or an action: `asked` is what `ullage why` is asked about it."""

    at: datetime
    what: str
    says: str
    asked: str


@dataclass(frozen=True, slots=True)
class ChartPanel:
    """Lines with one unit."""

    unit: str
    lines: Sequence[TimeLine]


def drawn(
    title: str, panels: Sequence[ChartPanel], marks: Sequence[ChartMark], since: datetime, until: datetime
) -> Iterator[str]:
    """The chart from `since` to `until`, which are not equal, in lines of HTML. Marks stand above the lowest panel."""
    height = _TOP + len(panels) * (_PANEL + _GAP) - _GAP + _FOOT
    paper = _Paper(since, until, [_TOP + number * (_PANEL + _GAP) for number in range(len(panels))])
    yield f'<div class="chart"><svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{html.escape(title)}">'
    yield from paper.key(panels, marks)
    yield from paper.times(height)
    for top, panel in zip(paper.tops, panels, strict=True):
        yield from paper.panel(top, panel)
    yield from paper.bands(panels)
    for mark in marks:
        yield paper.mark(mark)
    yield "</svg></div>"


@dataclass(frozen=True, slots=True)
class _Paper:
    """Places moments and values. `tops` are those of the panels."""

    since: datetime
    until: datetime
    tops: Sequence[int]

    def x(self, at: datetime) -> float:
        share = (at - self.since) / (self.until - self.since)
        # what lies outside of the stretch is drawn at its edge
        return _LEFT + (_RIGHT - _LEFT) * min(max(share, 0.0), 1.0)

    def key(self, panels: Sequence[ChartPanel], marks: Sequence[ChartMark]) -> Iterator[str]:
        across = _LEFT
        for name in dict.fromkeys(line.name for panel in panels for line in panel.lines):
            yield f'<path class="s {_class(name)}" d="M{across} 14h22"/><text x="{across + 28}" y="18">{html.escape(name)}</text>'
            across += 48 + 8 * len(name)
        for what in dict.fromkeys(mark.what for mark in marks):
            yield f'<g transform="translate({across + 8} 14)">{_symbol(what)}</g>'
            yield f'<text x="{across + 22}" y="18">{html.escape(what)}</text>'
            across += 42 + 8 * len(what)

    def times(self, height: int) -> Iterator[str]:
        length = self.until - self.since
        step = next((step for step in _STEPS if length / step <= _MOST_TIMES), _STEPS[-1])
        seconds = step.total_seconds()
        # the first whole step after the beginning: labels stand at round times
        at = datetime.fromtimestamp(-(-self.since.timestamp() // seconds) * seconds, UTC)
        while at <= self.until:
            x, text = self.x(at), f"{at:%m-%d}" if at.hour == at.minute == 0 else f"{at:%H:%M}"
            yield f'<path class="grid" d="M{x:.1f} {_TOP}V{height - _FOOT}"/>'
            yield f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{text}</text>'
            at += step

    def panel(self, top: int, panel: ChartPanel) -> Iterator[str]:
        """The lowest value is 0."""
        most = max(
            (value for line in panel.lines for _, value in line.points if value is not None and isfinite(value)), default=0.0
        )
        step = _round_step(most)
        levels = max(1, -int(-most // step))
        foot, high = top + _PANEL, levels * step
        for level in range(levels + 1):
            y = foot - _PANEL * level / levels
            unit = f" {html.escape(panel.unit)}" if level == levels else ""
            yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>'
            yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{level * step:g}{unit}</text>'
        for line in panel.lines:
            yield f'<path class="s {_class(line.name)}" d="{self._path(line, foot, high)}"/>'

    def _path(self, line: TimeLine, foot: int, high: float) -> str:
        parts, drawing, last = [], False, 0.0
        for at, value in line.points:
            if value is None or not isfinite(value):
                # a stepped value stands until nothing is known any more
                parts += [f"H{self.x(at):.1f}"] if drawing and line.stepped else []
                drawing = False
                continue
            x, y = self.x(at), foot - _PANEL * (value / high)
            if not drawing:
                parts.append(f"M{x:.1f} {y:.1f}")
            else:
                parts.append(f"H{x:.1f}V{y:.1f}" if line.stepped else f"L{x:.1f} {y:.1f}")
            drawing, last = True, x
        if drawing and line.stepped and last < _RIGHT:
            parts.append(f"H{_RIGHT}")
        return "".join(parts)

    def bands(self, panels: Sequence[ChartPanel]) -> Iterator[str]:
        """Each says what stood at its end. A line that is not stepped says its newest value of before."""
        lines = [(line, panel.unit, [at for at, _ in line.points]) for panel in panels for line in panel.lines]
        width, height = (_RIGHT - _LEFT) / _BANDS, self.tops[-1] + _PANEL - _TOP
        for number in range(_BANDS):
            at = self.since + (self.until - self.since) * (number + 1) / _BANDS
            words = [f"{at:%Y-%m-%d %H:%M} UTC"]
            for line, unit, moments in lines:
                place = bisect_right(moments, at)
                value = line.points[place - 1][1] if place else None
                if value is not None and isfinite(value):
                    words.append(f"{line.name} {value:.4g} {unit}")
            says = html.escape("\n".join(words))
            x = _LEFT + number * width
            yield f'<rect class="band" x="{x:.1f}" y="{_TOP}" width="{width:.1f}" height="{height}"><title>{says}</title></rect>'

    def mark(self, mark: ChartMark) -> str:
        says = html.escape(f"{mark.at:%Y-%m-%d %H:%M:%S} {mark.what}: {mark.says}")
        return (
            f'<g transform="translate({self.x(mark.at):.1f} {self.tops[-1] - 1})" tabindex="0" role="button" aria-label="{says}" '
            f'data-why="{html.escape(mark.asked)}">{_symbol(mark.what)}<title>{says}</title></g>'
        )


def _round_step(most: float) -> float:
    """A step of 1, 2 or 5 and zeros, of which at most `_LEVELS` reach the highest value."""
    if not _LEAST < most < _MOST:
        return max(1.0, most / _LEVELS)
    size = 10.0 ** floor(log10(most / _LEVELS))
    return next(step for factor in (1, 2, 5, 10) if most / (step := factor * size) <= _LEVELS)


def _symbol(what: str) -> str:
    kind = _class(what)
    return f'<path class="mark {kind}" d="{_SYMBOLS.get(kind, _ROUND)}"/>'


def _class(name: str) -> str:
    """The last word of a name; names of lines and acts are ours, never a cluster's."""
    return html.escape(name.rsplit(" ", 1)[-1])
