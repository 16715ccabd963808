"""Answers what the crons of many objects want in each round, at the price of a look at the clock.

The answer is always that of `ehpa_crons.wanted`, whatever came before, and a restart with an empty cache decides the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agents.logic.replicas import ehpa_crons
from agents.logic.replicas.ehpa_crons import CronEntry

_MINUTE = 60


@dataclass(frozen=True, slots=True)
class _KeptCrons:
    """The crons of an object with those that are active in a minute, or why they cannot be read."""

    crons: Sequence[CronEntry]
    minute: int
    active: tuple[bool, ...] = ()
    fault: str = ""


class CronClock:
    """Crons by the key of their object. Entries are replaced as a whole, so several threads may read them."""

    def __init__(self, *, upstream: bool = False) -> None:
        """`upstream`: by upstream's rule."""
        self._rule = ehpa_crons.active if upstream else ehpa_crons.in_window
        self._kept: dict[str, _KeptCrons] = {}

    def remove(self, key: str) -> None:
        """Forget an object that is gone."""
        self._kept.pop(key, None)

    def wanted(self, key: str, crons: Sequence[CronEntry], now: float, *, least: int) -> int:
        """The largest target of an object's active crons, at least `least`; `ValueError` if any of them cannot be read."""
        kept, minute = self._kept.get(key), math.floor(now / _MINUTE)
        # All moments of schedules are whole minutes, in every zone, so an answer holds until the next minute begins. A fault lies
        # in the texts and holds as long as they do.
        if kept is None or kept.crons != crons or (kept.minute != minute and not kept.fault):
            kept = self._kept[key] = self._read(crons, now, minute)
        if kept.fault:
            raise ValueError(kept.fault)
        return max([least, *[cron.target for cron, on in zip(crons, kept.active, strict=True) if on]])

    def _read(self, crons: Sequence[CronEntry], now: float, minute: int) -> _KeptCrons:
        try:
            return _KeptCrons(crons, minute, tuple(self._rule(cron, now) for cron in crons))
        except ValueError as error:
            return _KeptCrons(crons, minute, fault=str(error))
