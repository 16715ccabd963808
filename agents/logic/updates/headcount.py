"""How many pods there are, are away, or are being changed: what budgets and tolerances are measured against."""

from dataclasses import dataclass


@dataclass(slots=True)
class Headcount:
    """Pods of a workload or a cluster. `acting`: those with a plan of ours that is not finished."""

    live: int = 0
    running: int = 0
    acting: int = 0

    def count(self, *, running: bool, acting: bool) -> None:
        """One more pod. A pod with a plan counts as running until it is seen not to be."""
        self.live += 1
        self.running += running
        self.acting += acting and running

    @property
    def away(self) -> int:
        """Pods that are not running, or are being changed."""
        return self.live - self.running + self.acting

    def within(self, budget: float) -> bool:
        """May one more be away? At least one pod may always be, else nothing small could ever be changed."""
        return self.away < max(1, int(self.live * budget))

    def disruptable(self, tolerance: float) -> bool:
        """Upstream's rule: alive > configured - int(configured * tolerance), or all are there and nothing was begun."""
        tolerated = int(self.live * tolerance)
        alive = self.running - self.acting
        return alive > self.live - tolerated or (self.live == self.running and tolerated == 0 and self.acting == 0)
