"""What a backtest has counted, as numbers that can be put together: the score of some containers, or of all.

Workloads are independent, so each process may score its own. Everything here is a count, a sum of each container, or a sum of
whole numbers, so the total is the same to the last bit however the containers were distributed.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from agents.backtest.kill_counts import KillCounts
from agents.backtest.recorded_containers import Floats
from agents.backtest.score_card import BacktestCounts, LeftOut, Resolution, ScoreCard
from agents.backtest.time_weighted_sums import DAY, SideSums, in_seconds, microseconds
from agents.backtest.workload_sums import ContainerSums, WorkloadTotal
from schemas.units import Fraction


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
