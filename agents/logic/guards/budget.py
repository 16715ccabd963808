"""The disruption budget: how many members of a group may be away or being changed at one time.

Its members are the pods of a workload or a cluster; nodes of a group count in the same way.
"""

from dataclasses import dataclass

from schemas.units import Fraction


@dataclass(slots=True)
class Headcount:
    """How many members a group has, how many of them run, and how many of the running ones have an open plan."""

    live: int = 0
    running: int = 0
    acting: int = 0

    def count(self, *, running: bool, acting: bool) -> None:
        """Count one more member. One with an open plan counts as running until a fact shows that it no longer runs."""
        self.live += 1
        self.running += running
        self.acting += acting and running

    def add(self, other: "Headcount") -> None:
        """Count the members of a smaller group as well."""
        self.live += other.live
        self.running += other.running
        self.acting += other.acting

    @property
    def away(self) -> int:
        """How many members do not run or are being changed."""
        return self.live - self.running + self.acting

    def within(self, share: Fraction) -> bool:
        """Whether one more member may be away. One always may, because otherwise a small group could never be changed."""
        return self.away < max(1, int(self.live * share))


def over_budget(group: str, headcount: Headcount, share: Fraction, members: str = "pods") -> str | None:
    """Why no further member may be changed, as a sentence; None while the budget allows one. `group`: such as "cluster"."""
    if headcount.within(share):
        return None
    away = f"{headcount.away} of the {group}'s {headcount.live} {members} are away or being changed"
    return f"{away}; the budget is {share:g} of them"
