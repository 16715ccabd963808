"""What a backtest has counted, as numbers that can be put together: the score of some containers, or of all.

Workloads are independent, so each process may score its own. Everything here is a count, a sum of each container, or a sum of
whole numbers, so the total is the same to the last bit however the containers were distributed.

Kills count over the whole recording. Before a recommendation is in force, both sides have the recording's own limits, so its
kills are kills of both. If the recording has kills, only these happened, and windows over a limit without a kill do not count; if
it has none, such windows stand for the own side's kills, because most recordings have no kills.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import datetime

import numpy as np

from agents.backtest.recorded_containers import Floats
from agents.backtest.score_card import BacktestCounts, Kills, LeftOut, Resolution, ScoreCard
from agents.backtest.time_weighted_sums import DAY, SideSums, in_seconds, microseconds
from agents.backtest.workload_sums import ContainerSums, WorkloadTotal
from schemas.units import Fraction


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
