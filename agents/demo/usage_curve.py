"""What was requested and what was used over the day, in slices of half an hour, and the slack that follows.

Slack is the share of the requested amount that was not used: 1 - used / requested, over all samples. The bill follows it. Usage
beyond the request makes it smaller.
"""

from dataclasses import dataclass, field
from datetime import datetime

SLICE_SECONDS = 1800


@dataclass(slots=True)
class UsageTotals:
    """Sums over containers: cores and bytes."""

    cpu_requested: float = 0.0
    cpu_used: float = 0.0
    cpu_recommended: float = 0.0
    memory_requested: float = 0.0
    memory_used: float = 0.0
    memory_recommended: float = 0.0

    def add(self, *, cpu: tuple[float, float, float], memory: tuple[float, float, float]) -> None:
        """Add one container: (requested, used, recommended) of each."""
        self.cpu_requested += cpu[0]
        self.cpu_used += cpu[1]
        self.cpu_recommended += cpu[2]
        self.memory_requested += memory[0]
        self.memory_used += memory[1]
        self.memory_recommended += memory[2]

    @property
    def cpu(self) -> tuple[float, float, float]:
        """Requested, used and recommended cores."""
        return self.cpu_requested, self.cpu_used, self.cpu_recommended

    @property
    def memory(self) -> tuple[float, float, float]:
        """Requested, used and recommended bytes."""
        return self.memory_requested, self.memory_used, self.memory_recommended

    @property
    def cpu_slack(self) -> float:
        """Share of requested cores that is not used."""
        return 1 - self.cpu_used / self.cpu_requested if self.cpu_requested else 0.0

    @property
    def memory_slack(self) -> float:
        """Share of requested bytes that is not used."""
        return 1 - self.memory_used / self.memory_requested if self.memory_requested else 0.0


@dataclass(slots=True)
class UsageCurve:
    """Sums of samples by half hour of event time. `rounds` counts scrapes, so that sums become averages."""

    slices: dict[int, UsageTotals] = field(default_factory=dict)
    rounds: dict[int, set[datetime]] = field(default_factory=dict)

    def add(self, at: datetime, totals: UsageTotals) -> None:
        """Add one scrape of one partition."""
        number = int(at.timestamp()) // SLICE_SECONDS
        into = self.slices.setdefault(number, UsageTotals())
        self.rounds.setdefault(number, set()).add(at)
        into.add(cpu=totals.cpu, memory=totals.memory)

    def average(self, number: int) -> UsageTotals:
        """The average of one slice."""
        total, count = self.slices[number], len(self.rounds[number])
        return UsageTotals(
            cpu_requested=total.cpu_requested / count,
            cpu_used=total.cpu_used / count,
            cpu_recommended=total.cpu_recommended / count,
            memory_requested=total.memory_requested / count,
            memory_used=total.memory_used / count,
            memory_recommended=total.memory_recommended / count,
        )

    def averages(self) -> list[UsageTotals]:
        """The averages of all slices in order of time."""
        return [self.average(number) for number in sorted(self.slices)]

    @property
    def hours(self) -> float:
        """How long it is, from the first scrape to the last."""
        scrapes = [at for times in self.rounds.values() for at in times]
        return (max(scrapes) - min(scrapes)).total_seconds() / 3600 if scrapes else 0.0

    def total(self) -> UsageTotals:
        """The sum of all samples of the day."""
        day = UsageTotals()
        for m in self.slices.values():
            day.add(cpu=m.cpu, memory=m.memory)
        return day
