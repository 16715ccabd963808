"""Counts OOM kills of a backtest: those in the recording, and those that the recommendation would have caused.

Kills count over the whole recording. Before a recommendation is in force, both sides have the recording's own limits, so its
kills are kills of both. If the recording has kills, only these happened, and windows over a limit without a kill do not count; if
it has none, such windows stand for the own side's kills, because most recordings have no kills.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from agents.backtest.score_card import Kills


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
