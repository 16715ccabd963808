"""The disruption budget: how many members of a group may be away or being changed at one time.

Its members are the pods of a workload or a cluster; nodes of a group count in the same way.
"""

from dataclasses import dataclass

from schemas.units import Fraction


@dataclass(slots=True)
class Headcount:
    """How many members a group should have, how many of them serve, and how many of the serving ones have an open plan.

    Of those that should be there, `missing` ones are not, and `down` ones are there without serving and without a plan.
    `guessed`: how many of the missing ones are only believed to be wanted, and not because of us; they count in no larger group.
    """

    live: int = 0
    running: int = 0
    acting: int = 0
    missing: int = 0
    down: int = 0
    guessed: int = 0

    def count(self, *, running: bool, acting: bool) -> None:
        """Count one more member. One with an open plan counts as running until a fact shows that it no longer runs."""
        self.live += 1
        self.running += running
        # A member that is planned for and already down is away once, not twice.
        self.acting += acting and running

    def add(self, other: "Headcount") -> None:
        """Count the members of a smaller group as well."""
        # A guess about one workload's missing pods must not close the budget of the whole cluster.
        self.live += other.live - other.guessed
        self.running += other.running
        self.acting += other.acting
        self.missing += other.missing - other.guessed
        self.down += other.down

    @property
    def away(self) -> int:
        """How many members do not serve or are being changed."""
        return self.live - self.running + self.acting

    def within(self, share: Fraction, spared: int = 0) -> bool:
        """Whether one more member may be away. One always may, because otherwise a small group could never be changed.

        `spared`: so many of those that are away do not count.
        """
        return self.away - spared < max(1, int(self.live * share))


def over_budget(group: str, headcount: Headcount, share: Fraction, members: str = "pods", *, spared: int = 0) -> str | None:
    """Why no further member may be changed, as a sentence; None while the budget allows one. `group`: such as "cluster"."""
    if headcount.within(share, spared):
        return None
    away = f"{headcount.away - spared} of the {group}'s {headcount.live} {members} are away or being changed"
    absent = f" ({headcount.missing} are missing)" if headcount.missing else ""
    return f"{away}{absent}; the budget is {share:g} of them"
