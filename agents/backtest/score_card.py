"""The score card of a backtest: what requests would have cost and risked, recommended against the recording's own.

Slack is what is requested and not used; each scrape counts with the length of its window, so everything is weighted by time. A
would-be OOM is a container whose memory use goes over its limit, or over its request where it has no limit; it counts once
until use is below again. All of it assumes the usage as recorded: no backtest knows how a program that was throttled or killed
would have gone on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from schemas.units import Fraction

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class ResourceScore:
    """One resource, in cores or bytes, weighted by time. `slack_p95` is right within 2 %."""

    requested: float
    used: float
    slack: float
    slack_p95: float
    over: Fraction
    """Share of container time in which more was used than requested: what would be throttled, for CPU."""


@dataclass(frozen=True, slots=True)
class Side:
    """One way to set requests. `container_days` is the time that had a request at all and so was scored."""

    container_days: float
    cpu: ResourceScore
    memory: ResourceScore
    ooms: int


@dataclass(frozen=True, slots=True)
class ScoreCard:
    """One backtest. `recommended` has the recording's own request where nothing was recommended yet; `own` is that alone."""

    rows: int
    turns: int
    first: datetime | None
    last: datetime | None
    containers: int
    container_days: float
    covered: Fraction
    """Share of container time with a recommendation in force."""
    recommendations: int
    changes: int
    """How often the target of a running container became another one, the first included."""
    plans: int
    """Resizes and evictions that were planned."""
    refused: int
    dead_letters: int
    recommended: Side
    own: Side

    @property
    def changes_per_container_day(self) -> float:
        """How restless the recommendations are."""
        return self.changes / self.container_days if self.container_days else 0.0


def lines(card: ScoreCard) -> Iterator[str]:
    """The card as plain text."""
    when = f"{card.first:%Y-%m-%d %H:%M} to {card.last:%Y-%m-%d %H:%M}" if card.first and card.last else "no usage at all"
    yield f"{card.rows:,} samples of {card.containers} containers in {card.turns:,} turns, {when}"
    yield f"{card.container_days:,.1f} container-days, {card.covered:.1%} of them with a recommendation in force"
    yield (
        f"{card.recommendations:,} recommendations, {card.changes_per_container_day:.2f} changes a container-day; "
        f"{card.plans:,} updates planned, {card.refused:,} refused; {card.dead_letters:,} dead letters"
    )
    yield f"{'':28}{'own':>12}{'recommended':>14}"
    for name, own, recommended in _table(card):
        yield f"{name:28}{own:>12}{recommended:>14}"


def _table(card: ScoreCard) -> Iterator[tuple[str, str, str]]:
    own, ours = card.own, card.recommended
    yield "container-days scored", f"{own.container_days:,.1f}", f"{ours.container_days:,.1f}"
    for what in ("requested", "used", "slack", "slack_p95"):
        name = what.replace("_", " ")
        yield f"CPU {name}, cores", f"{getattr(own.cpu, what):.3f}", f"{getattr(ours.cpu, what):.3f}"
    yield "CPU over request, of time", f"{own.cpu.over:.2%}", f"{ours.cpu.over:.2%}"
    for what in ("requested", "used", "slack", "slack_p95"):
        name = what.replace("_", " ")
        yield f"memory {name}, GiB", f"{getattr(own.memory, what) / GIB:.3f}", f"{getattr(ours.memory, what) / GIB:.3f}"
    yield "memory over request, of time", f"{own.memory.over:.2%}", f"{ours.memory.over:.2%}"
    yield "would-be OOM kills", f"{own.ooms:,}", f"{ours.ooms:,}"
