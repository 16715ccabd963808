"""The score card of a backtest: what requests would have cost and risked, recommended against the recording's own.

Slack is what is requested and not used; each scrape counts with the length of its window, so everything is weighted by time. Both
sides are compared over the same container time: that which had a request of its own and a recommendation in force. A would-be OOM
kill is a container whose memory goes over its limit, or over its request where it has no limit; it counts once until use is below
again or the limit is another. All of it assumes the usage as recorded: a backtest cannot know how a throttled or killed program
would have gone on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime

from schemas.units import Fraction, counted

GIB = 1 << 30
_MINUTE = 60


@dataclass(frozen=True, slots=True)
class ResourceScore:
    """One resource, in cores or bytes, weighted by time. `slack_p95` is right within 2 %."""

    container_days: float
    requested: float
    used: float
    slack: float
    slack_p95: float
    over: Fraction
    """Share of container time in windows of which the average use was over the request."""
    peak_over: Fraction | None
    """Share of container time in windows of which the highest use was over the request; None without window maxima."""


@dataclass(frozen=True, slots=True)
class RequestsScore:
    """One way to set requests. `container_days` is the time that was scored; `ooms` count over the whole recording."""

    container_days: float
    cpu: ResourceScore
    memory: ResourceScore
    ooms: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Container-days without a compared resource: no recommendation in force, or no request in the recording."""

    no_recommendation: float
    no_own_request: float


@dataclass(frozen=True, slots=True)
class Resolution:
    """The resolution of the recording. `windows`: seconds that samples are averages of, and how many samples have each length.

    `cpu_maxima`, `memory_maxima`: how many samples have the highest use within their window as well.
    """

    windows: tuple[tuple[float, int], ...]
    cpu_maxima: int
    memory_maxima: int


@dataclass(frozen=True, slots=True)
class Kills:
    """OOM kills. `recorded`: all that the recording tells of. `would_be`: under a recommended limit.

    `before`: of either side alike, before a recommendation was in force. `unknown`: recorded ones that came at a lower limit than
    the recommended one; whether they would have happened is unknown.
    """

    recorded: int
    would_be: int
    before: int
    unknown: int


@dataclass(slots=True)
class BacktestCounts:
    """What a backtest counts. The counts of other containers are added, and all of them are on the card."""

    rows: int = 0
    """Samples of containers."""
    recommendations: int = 0
    changes: int = 0
    """How often a running container was changed, by the updater's thresholds; all containers of a pod at once."""
    plans: int = 0
    """Resizes and evictions that the updater planned, for recorded pods that have a policy."""
    refused: int = 0
    dead_letters: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """The counts by name."""
        return {count.name: getattr(self, count.name) for count in fields(BacktestCounts)}


@dataclass(slots=True, kw_only=True)
class ScoreCard(BacktestCounts):
    """One backtest. `alone` scores the recommendation of a resource where the recording has no request to compare it with."""

    turns: int
    first: datetime | None
    last: datetime | None
    containers: int
    container_days: float
    covered: Fraction
    """Share of container time with a recommendation in force."""
    compared: Fraction
    """Share of container time that both sides are scored over."""
    left_out: LeftOut
    resolution: Resolution
    kills: Kills
    recommended: RequestsScore
    own: RequestsScore
    alone: RequestsScore | None

    @property
    def changes_per_container_day(self) -> float:
        """How often recommendations change a container."""
        return self.changes / self.container_days if self.container_days else 0.0

    @property
    def gated_kills(self) -> int:
        """The kills that a gate counts: those under the recommendation, and recorded ones that it may not prevent."""
        return self.recommended.ooms + self.kills.unknown


def lines(card: ScoreCard) -> Iterator[str]:
    """The card as plain text."""
    when = f"{card.first:%Y-%m-%d %H:%M} to {card.last:%Y-%m-%d %H:%M}" if card.first and card.last else "no usage at all"
    yield f"{counted(card.rows, 'sample')} of {counted(card.containers, 'container')} in {counted(card.turns, 'turn')}, {when}"
    yield f"{card.container_days:,.1f} container-days, {card.covered:.1%} of them with a recommendation in force"
    yield (
        f"compared: {card.compared:.1%}; left out: {card.left_out.no_recommendation:,.1f} container-days without a "
        f"recommendation in force, {card.left_out.no_own_request:,.1f} without a request of their own"
    )
    yield (
        f"{card.recommendations:,} recommendations; by the updater's thresholds {card.changes:,} changes of running containers, "
        f"{card.changes_per_container_day:.2f} a container-day"
    )
    yield f"{card.plans:,} updates planned, {card.refused:,} refused; {card.dead_letters:,} dead letters"
    yield from resolution_lines(card.resolution)
    yield from _table(card)
    yield from _kills(card)


def resolution_lines(resolution: Resolution) -> Iterator[str]:
    """The resolution of samples, and what it hides."""
    rows = sum(count for _, count in resolution.windows)
    if not rows:
        return
    # the length that most samples have
    seconds, _ = max(resolution.windows, key=lambda window: window[1])
    shortest, longest = resolution.windows[0][0], resolution.windows[-1][0]
    others = f" (from {_duration(shortest)} to {_duration(longest)})" if shortest != longest else ""
    yield (
        f"samples are averages over {_duration(seconds)}{others}; the highest CPU in one is known of "
        f"{_share(resolution.cpu_maxima, rows)}, the highest memory of {_share(resolution.memory_maxima, rows)}"
    )
    hidden = [what for what, count in (("CPU", resolution.cpu_maxima), ("memory", resolution.memory_maxima)) if count < rows]
    if hidden:
        yield f"hidden by that: {' and '.join(hidden)} bursts within a window, so throttling and OOM kills are at least as stated"
    yield "hidden in any case: how long a burst within a window lasts, and how a throttled or killed program would go on"


def _share(count: int, rows: int) -> str:
    return "no sample" if not count else "every sample" if count >= rows else f"{count / rows:.1%} of samples"


def _duration(seconds: float) -> str:
    return f"{seconds:g} s" if seconds % _MINUTE else f"{seconds / _MINUTE:g} min"


def _table(card: ScoreCard) -> Iterator[str]:
    """The sides beside one another; a third column for container time without a request of its own, if there is any."""
    sides = {"own": card.own, "recommended": card.recommended}
    if card.alone is not None:
        sides["no own request"] = card.alone
    yield f"{'':40}" + "".join(f"{name:>16}" for name in sides)
    yield _row("container-days scored", [f"{side.container_days:,.1f}" for side in sides.values()])
    for name, resource, unit, scale in (("CPU", "cpu", "cores", 1), ("memory", "memory", "GiB", GIB)):
        scores: list[ResourceScore] = [getattr(side, resource) for side in sides.values()]
        # said only where a resource was scored over less time than the other
        if any(getattr(side, resource).container_days != side.container_days for side in sides.values()):
            yield _row(f"{name}, container-days of them", [f"{score.container_days:,.1f}" for score in scores])
        for what in ("requested", "used", "slack", "slack_p95"):
            numbers = [f"{getattr(score, what) / scale:.3f}" for score in scores]
            yield _row(f"{name} {what.replace('_', ' ')}, {unit}", numbers)
        yield _row(f"{name} average over request, of time", [f"{score.over:.2%}" for score in scores])
        if any(score.peak_over is not None for score in scores):
            peaks = ["" if score.peak_over is None else f"{score.peak_over:.2%}" for score in scores]
            yield _row(f"{name} peak over request, of time", peaks)
    # over the whole recording, and so without a column for the part that has no own request
    yield _row("OOM kills, whole recording", [f"{card.own.ooms:,}", f"{card.recommended.ooms:,}"])


def _row(name: str, numbers: list[str]) -> str:
    return f"{name:40}" + "".join(f"{number:>16}" for number in numbers)


def _kills(card: ScoreCard) -> Iterator[str]:
    """Which kills were recorded, and which only would have been."""
    kills = card.kills
    if kills.recorded:
        yield f"own: {kills.recorded:,} OOM kills that the recording tells of"
    else:
        yield f"own: the recording tells of no OOM kill; {counted(card.own.ooms, 'time')} memory went over a container's limit"
    yield f"recommended: {kills.would_be:,} would-be OOM kills at a recommended limit, {kills.before:,} before one was in force"
    if kills.unknown:
        yield f"unknown: {kills.unknown:,} recorded OOM kills came at a lower limit than the recommended one"
