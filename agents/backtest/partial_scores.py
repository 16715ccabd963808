"""What a backtest has counted, as numbers that can be put together: the score of some containers, or of all.

Workloads are independent, so each process may score its own. Everything here is a count, a sum of each container, or a sum of
whole numbers, so the total is the same to the last bit however the containers were distributed.

Kills count over the whole recording. Before a recommendation is in force, both sides have the recording's own limits, so its
kills are kills of both. If the recording has kills, only these happened, and windows over a limit without a kill do not count; if
it has none, such windows stand for the own side's kills, because most recordings have no kills.

Amounts are added container by container, each in the order of time, and the containers' sums exactly (`math.fsum`); lengths of
time are whole microseconds. Memory does not grow with the length of the recording.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from agents.backtest.recorded_containers import Floats, Rows
from agents.backtest.score_card import BacktestCounts, Kills, LeftOut, RequestsScore, Resolution, ResourceScore, ScoreCard
from agents.backtest.workload_sums import ContainerSums, WorkloadTotal
from schemas.units import Fraction

RATIO = 1.02
"""Each bin of the histogram of slack is 2 % wider than the one before."""
BINS = 2_048
DAY = 86_400.0

_AMOUNTS = ("requested", "used", "slack")
_FIRST_ROWS = 256
_MICRO = 1_000_000


def microseconds(seconds: float) -> int:
    """A length of time as a whole number, which adds up exactly."""
    return round(seconds * _MICRO)


def in_seconds(micros: int) -> float:
    """A sum of `microseconds` in seconds."""
    return micros / _MICRO


@dataclass(slots=True)
class ResourceSums:
    """One resource of one side. `unit` is the smallest slack that counts; lengths of time are microseconds."""

    unit: float
    micros: int = 0
    over: int = 0
    peak_micros: int = 0
    peak_over: int = 0
    bins: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    sums: dict[str, Floats] = field(default_factory=lambda: {name: np.zeros(_FIRST_ROWS) for name in _AMOUNTS})
    """(rows,) Amounts times seconds of each container."""

    def add(self, rows: Rows, request: Floats, use: Floats, seconds: float, peak: Floats | None = None) -> None:
        """Rows of windows of equal length, none of them NaN. `peak` is the highest use within the window, NaN if unknown."""
        if not len(rows):
            return
        self._reserve(int(rows.max()) + 1)
        slack, micros = np.maximum(request - use, 0.0), microseconds(seconds)
        for name, amounts in zip(_AMOUNTS, (request, use, slack), strict=True):
            # `add.at` and not `+=`: a container stands in several of the scrapes that are added at once
            np.add.at(self.sums[name], rows, amounts * seconds)
        self.micros += micros * len(rows)
        self.over += micros * int(np.count_nonzero(use > request))
        self.bins += micros * np.bincount(self._bin(slack), minlength=BINS)
        if peak is not None:
            self.peak_micros += micros * int(np.count_nonzero(~np.isnan(peak)))
            self.peak_over += micros * int(np.count_nonzero(peak > request))

    def _bin(self, slack: Floats) -> NDArray[np.int64]:
        """0 for less than a unit; then bin i holds from unit * RATIO**(i-1) to unit * RATIO**i."""
        steps = np.log(np.maximum(slack / self.unit, 1.0)) / np.log(RATIO)
        return np.minimum(np.where(slack < self.unit, 0, steps + 1), BINS - 1).astype(np.int64)

    def spread(self) -> ResourceScore:
        """The result; all zero when nothing was scored."""
        # `or 1.0`: nothing was scored, and all is zero
        seconds = in_seconds(self.micros) or 1.0
        # fsum: the same to the last bit however the containers were distributed over processes
        requested, used, slack = (math.fsum(self.sums[name].tolist()) / seconds for name in _AMOUNTS)
        return ResourceScore(
            container_days=in_seconds(self.micros) / DAY,
            requested=requested,
            used=used,
            slack=slack,
            slack_p95=self._p95(),
            over=Fraction(self.over / (self.micros or 1)),
            peak_over=Fraction(self.peak_over / self.peak_micros) if self.peak_micros else None,
        )

    def _p95(self) -> float:
        """The middle of the bin in which 95 % of the time is reached."""
        at = int(np.searchsorted(np.cumsum(self.bins), 0.95 * self.micros))
        # the bins grow by a factor, so their middle is half a step of the exponent
        return 0.0 if at == 0 else float(self.unit * RATIO ** (at - 0.5))

    def _reserve(self, rows: int) -> None:
        size = len(self.sums["used"])
        if rows > size:
            more = np.zeros(max(rows, 2 * size) - size)
            self.sums = {name: np.append(column, more) for name, column in self.sums.items()}

    @staticmethod
    def joined(parts: "Sequence[ResourceSums]") -> "ResourceSums":
        """The sums of other containers put together; no container is in two of them."""
        return ResourceSums(
            parts[0].unit,
            sum(part.micros for part in parts),
            sum(part.over for part in parts),
            sum(part.peak_micros for part in parts),
            sum(part.peak_over for part in parts),
            np.sum([part.bins for part in parts], axis=0),
            {name: np.concatenate([part.sums[name] for part in parts]) for name in _AMOUNTS},
        )


@dataclass(slots=True)
class SideSums:
    """Both resources of one side."""

    cpu: ResourceSums = field(default_factory=lambda: ResourceSums(unit=1e-4))
    memory: ResourceSums = field(default_factory=lambda: ResourceSums(unit=1024.0))

    def side(self, ooms: int) -> RequestsScore:
        """The result; `ooms` are counted elsewhere."""
        days = in_seconds(max(self.cpu.micros, self.memory.micros)) / DAY
        return RequestsScore(days, self.cpu.spread(), self.memory.spread(), ooms)

    @staticmethod
    def joined(parts: "Sequence[SideSums]") -> "SideSums":
        """As ResourceSums has it."""
        return SideSums(ResourceSums.joined([part.cpu for part in parts]), ResourceSums.joined([part.memory for part in parts]))


@dataclass(slots=True)
class KillCounts:
    """Running counts.

    `recorded` kills are of three kinds: `before` a recommendation was in force, `unknown` where the recommended limit is higher
    than the one they came at, and those that would have come all the same, which are in `would_be`. `own_crossings` are
    containers that went over their own limit, `crossings_before` those of them before a recommendation was in force.
    """

    recorded: int = 0
    before: int = 0
    unknown: int = 0
    would_be: int = 0
    own_crossings: int = 0
    crossings_before: int = 0

    @property
    def own(self) -> int:
        """Kills under the recording's own limits."""
        return self.recorded or self.own_crossings

    @property
    def recommended(self) -> int:
        """Kills under the recommendation, as far as the recording can show them."""
        return self.would_be + (self.before if self.recorded else self.crossings_before)

    def card(self) -> Kills:
        """Their part of the card."""
        before = self.before if self.recorded else self.crossings_before
        return Kills(recorded=self.recorded, would_be=self.would_be, before=before, unknown=self.unknown)

    @staticmethod
    def joined(parts: "Sequence[KillCounts]") -> "KillCounts":
        """The counts of other containers together."""
        return KillCounts(*(sum(counts) for counts in zip(*(astuple(part) for part in parts), strict=True)))


@dataclass(slots=True, kw_only=True)
class PartialScore(BacktestCounts):
    """The score of some containers. `covered`, `compared` and `unrequested` are microseconds of container time.

    `workloads` (containers,) has each one's workload, `changed` (containers,) how often it was changed. `sums` are by container,
    None unless workloads are compared. `first` and `last` are the times of scrapes.
    """

    turns: int
    first: datetime | None
    last: datetime | None
    covered: int
    compared: int
    unrequested: int
    windows: Counter[float]
    peaks: Counter[str]
    kills: KillCounts
    own: SideSums
    recommended: SideSums
    alone: SideSums
    workloads: Sequence[str]
    changed: Floats
    sums: ContainerSums | None

    def totals(self, side: str) -> list[WorkloadTotal]:
        """Of each workload, on one side (ours, own or oracle); none where nothing was summed by container."""
        return [] if self.sums is None else self.sums.totals(side, self.workloads, self.changed)

    def card(self) -> ScoreCard:
        """The score card."""
        micros = sum(microseconds(window) * count for window, count in self.windows.items())
        return ScoreCard(
            **self.counts,
            turns=self.turns,
            first=self.first,
            last=self.last,
            containers=len(self.workloads),
            container_days=in_seconds(micros) / DAY,
            covered=Fraction(self.covered / (micros or 1)),
            # `or 1`: nothing was recorded, and the shares are 0
            compared=Fraction(self.compared / (micros or 1)),
            left_out=LeftOut(
                no_recommendation=in_seconds(micros - self.covered) / DAY,
                no_own_request=in_seconds(self.unrequested) / DAY,
            ),
            resolution=Resolution(
                windows=tuple(sorted(self.windows.items())),
                cpu_maxima=self.peaks["cpu"],
                memory_maxima=self.peaks["memory"],
            ),
            kills=self.kills.card(),
            recommended=self.recommended.side(self.kills.recommended),
            own=self.own.side(self.kills.own),
            alone=self.alone.side(self.kills.recommended) if self.alone.cpu.micros or self.alone.memory.micros else None,
        )


def joined(parts: Sequence[PartialScore]) -> PartialScore:
    """The score of all containers. No container is in two parts, and each part went through all turns."""
    counts: Counter[str] = Counter()
    windows: Counter[float] = Counter()
    peaks: Counter[str] = Counter()
    for part in parts:
        counts.update(part.counts)
        windows.update(part.windows)
        peaks.update(part.peaks)
    sums = [part.sums for part in parts if part.sums is not None]
    return PartialScore(
        **counts,
        turns=max(part.turns for part in parts),
        first=min((part.first for part in parts if part.first is not None), default=None),
        last=max((part.last for part in parts if part.last is not None), default=None),
        covered=sum(part.covered for part in parts),
        compared=sum(part.compared for part in parts),
        unrequested=sum(part.unrequested for part in parts),
        windows=windows,
        peaks=peaks,
        kills=KillCounts.joined([part.kills for part in parts]),
        own=SideSums.joined([part.own for part in parts]),
        recommended=SideSums.joined([part.recommended for part in parts]),
        alone=SideSums.joined([part.alone for part in parts]),
        workloads=[workload for part in parts for workload in part.workloads],
        changed=np.concatenate([part.changed for part in parts]),
        sums=ContainerSums.joined(sums) if sums else None,
    )
