"""One container's day as a picture: an SVG that is light or dark as its reader is, with the first lines of `why` below it."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from xml.sax.saxutils import escape

from agents.why import explanation, explanation_lines
from schemas.facts.pods import PodChanged
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.outcomes import Action, ActionFinished, Result
from schemas.units import Bytes, counted
from streams.codec.event_codec import Codec
from streams.log_context import LogContext
from streams.log_range import read_range

_TOPICS = ("pod-changes", "pod-metrics", "oom-events", "outcomes")


@dataclass(frozen=True, slots=True)
class DoneResize:
    """A resize of the pod that was seen in force, and the decision that it carried out."""

    at: datetime
    decision: str


@dataclass(slots=True)
class ContainerDay:
    """One container of one pod. Each series is (time, bytes) in the order of time; `limits` is empty where there is none."""

    workload: str
    pod: str
    container: str
    used: list[tuple[datetime, float]] = field(default_factory=list)
    requests: list[tuple[datetime, Bytes]] = field(default_factory=list)
    limits: list[tuple[datetime, Bytes]] = field(default_factory=list)
    kills: list[datetime] = field(default_factory=list)
    resizes: list[DoneResize] = field(default_factory=list)

    @property
    def explained(self) -> DoneResize | None:
        """The first resize after the first kill; None when there was none."""
        return next((done for done in self.resizes if self.kills and done.at >= self.kills[0]), None)


def most_telling(context: LogContext) -> ContainerDay | None:
    """The container that was killed, then resized, and seen for longest; None when the log has none."""
    days = [day for day in _days(context) if day.explained is not None]
    # names settle ties, so that one log gives one picture
    return max(days, key=lambda day: (len(day.used), day.pod, day.container), default=None)


def _days(context: LogContext) -> Sequence[ContainerDay]:
    days, codec = _Days(), Codec(context.topics)
    for record in read_range(context.log, [context.topics.wire(name) for name in _TOPICS]):
        match codec.decode_or_none(record):
            case PodChanged() as pod:
                days.seen(pod)
            case MetricsScraped() as scrape:
                days.scraped(scrape)
            case ContainerOOMKilled(at, workload, name, container):
                days.of(workload.key, name.name, container).kills.append(at)
            case ActionFinished(_, at, decision, Action.RESIZE, Result.DONE, _, subject):
                days.resizes[subject.workload, subject.name].append(DoneResize(at, decision))
            case _:
                pass
    return days.in_order()


class _Days:
    """The days so far, by workload, pod and container; resizes are of a pod."""

    def __init__(self) -> None:
        self._days: dict[tuple[str, str, str], ContainerDay] = {}
        self.resizes: defaultdict[tuple[str, str], list[DoneResize]] = defaultdict(list)

    def of(self, workload: str, pod: str, container: str) -> ContainerDay:
        return self._days.setdefault((workload, pod, container), ContainerDay(workload, pod, container))

    def seen(self, pod: PodChanged) -> None:
        for container in pod.containers:
            day = self.of(pod.workload.key, pod.pod.name, container.name)
            _step(day.requests, pod.at, container.requests.memory)
            _step(day.limits, pod.at, container.limits.memory)

    def scraped(self, scrape: MetricsScraped) -> None:
        for key, pod, container, used in zip(scrape.workloads, scrape.pods, scrape.containers, scrape.memory, strict=True):
            # NaN has no place on the paper
            if math.isfinite(used):
                self.of(key, pod, container).used.append((scrape.at, float(used)))

    def in_order(self) -> Sequence[ContainerDay]:
        for day in self._days.values():
            day.resizes = sorted(self.resizes[day.workload, day.pod], key=lambda done: done.at)
            # the log is in order within a partition only, and the topics have several
            day.used.sort()
            day.requests.sort()
            day.limits.sort()
            day.kills.sort()
        return list(self._days.values())


def _step(series: list[tuple[datetime, Bytes]], at: datetime, amount: Bytes | None) -> None:
    """Keep an amount where it changed."""
    if amount is not None and (not series or series[-1][1] != amount):
        series.append((at, amount))


NAME = "day.svg"
_LINES = 5
"""Of `ullage why`, below the picture."""
_WIDTH, _HEIGHT = 880, 430
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 860, 58, 290
_MIB = 2.0**20
_HOURS = 24
_MOST_LETTERS = 118
_TEXT = 24
_STYLE = """
:root { --ink: #1f2328; --faint: #59636e; --grid: #d1d9e0; --paper: #ffffff; --use: #0969da; --request: #1a7f37;
  --limit: #9a6700; --kill: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --ink: #f0f6fc; --faint: #9198a1; --grid: #3d444d; --paper: #0d1117;
  --use: #4493f8; --request: #3fb950; --limit: #d29922; --kill: #f85149; } }
text { font: 12px system-ui, sans-serif; fill: var(--faint); } .title { font-size: 15px; font-weight: 600; fill: var(--ink); }
.why { font: 11.5px ui-monospace, monospace; fill: var(--ink); } .grid { stroke: var(--grid); }
.use { fill: none; stroke: var(--use); } .request { fill: none; stroke: var(--request); stroke-width: 2.5; }
.limit { fill: none; stroke: var(--limit); stroke-width: 1.5; stroke-dasharray: 6 4; }
.kill { stroke: var(--kill); stroke-width: 3; } .resize { fill: var(--request); } .leader { fill: none; stroke: var(--faint); }
/* on a telephone the letters are larger, and what would still be too small is left out */
@media (max-width: 600px) { text { font-size: 20px; } .title { font-size: 24px; } .why, .leader, .command { display: none; } }
"""


def save(context: LogContext, folder: Path) -> Path | None:
    """Draw the most telling container of the day into the folder; None when no container was both killed and resized."""
    drawing = picture(context)
    if drawing is None:
        return None
    path = folder / NAME
    path.write_text(drawing, encoding="utf-8")
    return path


def picture(context: LogContext) -> str | None:
    """The most telling container of a log as SVG; None when no container was both killed and resized."""
    day = most_telling(context)
    return None if day is None else drawn(day, why_lines(context, day))


def why_lines(context: LogContext, day: ContainerDay) -> Sequence[str]:
    """The lines of `why` about the first resize after a kill that say what, why, from which numbers, and what became of it."""
    if day.explained is None:
        return []
    why = explanation.explain(context, day.explained.decision)
    # without the places in the log, which nobody can follow in a picture
    lines = [line.partition("  [")[0] for line in explanation_lines.lines(why)]
    wanted = ("resize planned", "· why:", f"{day.container} memory:", "requests recommended:", "then:")
    shown = (next((line for line in lines if word in line), None) for word in wanted)
    return [line for line in shown if line is not None]


def drawn(day: ContainerDay, why: Sequence[str]) -> str:
    """The picture of a day that has a use and an explained resize, as SVG."""
    title = (
        f"A day of container {escape(day.container)} of pod {escape(day.pod)}: memory used, requested and allowed; "
        f"{counted(len(day.kills), 'OOM kill')}, {counted(len(day.resizes), 'resize')} in place"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-labelledby="title">',
            f'<title id="title">{title}</title>',
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="8" fill="var(--paper)"/>',
            f'<text class="title" x="{_LEFT}" y="26">One day of {escape(day.container)}, from the log of the demo: memory</text>',
            *_Plot(day).parts(),
            *(
                f'<text class="why" xml:space="preserve" x="{_TEXT}" y="{_BOTTOM + 62 + 17 * number}">'
                f"{escape(line if len(line) <= _MOST_LETTERS else line[: _MOST_LETTERS - 1] + '…')}</text>"
                for number, line in enumerate(why)
            ),
            "</svg>\n",
        ]
    )


class _Plot:
    """Places times and bytes on the paper."""

    def __init__(self, day: ContainerDay) -> None:
        self._day = day
        self._begin = min(day.used[0][0], day.requests[0][0])
        self._end = self._begin + timedelta(hours=_HOURS)
        amounts = [amount for series in (day.used, day.requests, day.limits) for _, amount in series]
        self._most = max(amounts) * 1.08

    def parts(self) -> list[str]:
        """Grid, series, marks, key, and the line from the explained resize to its reasons."""
        day = self._day
        use = " ".join(f"{self._x(at):.1f},{self._y(amount):.1f}" for at, amount in day.used if at <= self._end)
        return [
            *self._grid(),
            f'<polyline class="use" points="{use}"/>',
            f'<path class="limit" d="{self._steps(day.limits)}"/>' if day.limits else "",
            f'<path class="request" d="{self._steps(day.requests)}"/>',
            *(self._kill(at) for at in day.kills),
            *(self._resize(done.at) for done in day.resizes),
            *self._leader(),
            *self._key(),
        ]

    def _x(self, at: datetime) -> float:
        share = (at - self._begin) / (self._end - self._begin)
        # what goes on after the day is drawn at the edge
        return _LEFT + (_RIGHT - _LEFT) * min(1.0, share)

    def _y(self, amount: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * amount / self._most

    def _steps(self, series: Sequence[tuple[datetime, float]]) -> str:
        """An amount stands until it changes; the last one until the container was last seen."""
        (first, amount), *others = series
        path = f"M{self._x(first):.1f} {self._y(amount):.1f}"
        for at, changed in others:
            # across, then up or down: an amount holds until the moment of its change
            path += f"H{self._x(at):.1f}V{self._y(changed):.1f}"
        return f"{path}H{self._x(self._day.used[-1][0]):.1f}"

    def _grid(self) -> list[str]:
        # the smallest step that gives at most six lines; the last is for whatever else a log may say
        step = next(s for s in (64, 128, 256, 512, 1024, 2048, 4096, 1 << 30) if self._most / _MIB / s <= 6)  # noqa: PLR2004
        levels = range(0, int(self._most / _MIB) + 1, step)
        hours = range(0, _HOURS + 1, 3)
        # in large letters the first would stand on the 0 beside it, and the last beyond the paper
        anchors = {0: "start", _HOURS: "end"}
        return [
            *(
                f'<path class="grid" d="M{_LEFT} {self._y(mib * _MIB):.1f}H{_RIGHT}"/>'
                f'<text x="{_LEFT - 8}" y="{self._y(mib * _MIB) + 4:.1f}" text-anchor="end">{mib}</text>'
                for mib in levels
            ),
            f'<text x="{_LEFT - 8}" y="{_TOP - 10}" text-anchor="end">MiB</text>',
            *(
                f'<text x="{self._x(self._begin + timedelta(hours=hour)):.1f}" y="{_BOTTOM + 18}" '
                f'text-anchor="{anchors.get(hour, "middle")}">{hour:02}:00</text>'
                for hour in hours
            ),
        ]

    def _kill(self, at: datetime) -> str:
        # at the limit, where kills happen; a container without one is marked at its request
        x, y = self._x(at), self._y(self._standing(self._day.limits or self._day.requests, at))
        return f'<path class="kill" d="M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10"/>'

    def _resize(self, at: datetime) -> str:
        x, y = self._x(at), self._y(self._standing(self._day.requests, at))
        return f'<circle class="resize" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'

    @staticmethod
    def _standing(series: Sequence[tuple[datetime, float]], at: datetime) -> float:
        """The amount that stood at a time; before the first one, the first."""
        return next((amount for since, amount in reversed(series) if since <= at), series[0][1])

    def _leader(self) -> list[str]:
        done = self._day.explained
        if done is None:
            return []
        x, y = self._x(done.at), self._y(self._standing(self._day.requests, done.at))
        turn = _BOTTOM + 30
        return [
            f'<path class="leader" d="M{x:.1f} {y + 5:.1f}V{turn}H{_TEXT + 4}V{turn + 18}"/>',
            f'<text class="command" x="{_TEXT + 14}" y="{turn + 14}">$ ullage why {escape(done.decision)}</text>',
        ]

    def _key(self) -> list[str]:
        # as far apart as the larger letters of a narrow picture need it
        words = (("use", "used", _LEFT), ("request", "requested", _LEFT + 120), ("limit", "limit", _LEFT + 285))
        lines = [f'<path class="{name}" d="M{x} 43h22"/><text x="{x + 28}" y="47">{word}</text>' for name, word, x in words]
        kill, resize = _LEFT + 400, _LEFT + 545
        return [
            *lines,
            f'<path class="kill" d="M{kill} 38l10 10m0 -10l-10 10"/><text x="{kill + 18}" y="47">OOM kill</text>',
            f'<circle class="resize" cx="{resize}" cy="43" r="4.5"/><text x="{resize + 12}" y="47">resized in place</text>',
        ]
