"""Containers whose memory only rises, and the bound of growth that they get instead of ever more memory.

A recommendation follows use, so it would feed a leak for ever. From the hour in which a leak is found, a container's memory
target is at most what it was then, and `leak_growth` of that more for each day that has begun since.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from agents.engine.tables.object_table import ObjectTable
from agents.engine.tables.row_table import Floats, RowKey, RowTable
from agents.logic.usage.memory_peaks import HOUR
from agents.logic.vertical.container_index import ContainerIndex, MemberSelection
from agents.logic.vertical.estimate_rules import PLACE
from schemas import bounds, times
from schemas.decisions.recommendations import LeakEnd, MemoryLeak
from schemas.names import PodName
from schemas.units import Bytes

LASTS = 86_400_000
"""Milliseconds after the last hour of rising for which a leak counts."""
_PODS = 4
"""Leaking pods of a container that are remembered: where the first gets its memory back, the next one still leaks."""
_MEMORY = slice(3, 6)
"""The columns of lower bound, target and upper bound of memory among AMOUNTS."""


@dataclass(frozen=True, slots=True)
class RisingMemory:
    """A container that an hour ended for in which it leaked; bytes, and hours since 1970. `limit`: 0 for none.

    `restarts`: what its pod had said by then.
    """

    pod: str
    uid: str
    first: float
    last: float
    rises: int
    hour: int
    limit: float
    restarts: int = 0

    @property
    def rate(self) -> float:
        """Bytes an hour, since the first rise."""
        return (self.last - self.first) / self.rises


@dataclass(frozen=True, slots=True)
class KnownLeak:
    """The leak of a container of a workload; times are turns, in ms. `days`: how many have begun since it was found.

    `rising` is the pod that rises fastest, `others` the next of those that leaked in the same hour. `end` is empty while it
    leaks, and `ended` is when that began or ceased last, after `found`.
    """

    rising: RisingMemory
    target: float
    found: int
    seen: int
    days: int = 1
    others: tuple[RisingMemory, ...] = ()
    ended: int = 0
    end: str = ""


@dataclass(frozen=True, slots=True)
class LeakChange:
    """A container leaks; if `again`, that was said before; if `over`, it no longer does; if `quiet`, only its bound changes."""

    workload: str
    container: str
    leak: KnownLeak
    over: bool = False
    again: bool = False
    quiet: bool = False

    @property
    def key(self) -> str:
        """`workload/container`."""
        return f"{self.workload}/{self.container}"

    @property
    def row(self) -> RowKey:
        """The name of the container in the pod that rises fastest."""
        return (self.workload, self.leak.rising.pod, self.container)


class MemoryLeaks:
    """The leaks of one partition, by `workload/container`."""

    def __init__(self) -> None:
        self.table: ObjectTable[KnownLeak] = ObjectTable("leaks", KnownLeak, 64)

    def take(self, rising_memory: Iterable[tuple[str, str, RisingMemory]], announced: RowTable, now: int) -> list[LeakChange]:
        """These leaked in an hour that has ended; returns the new ones. `announced` has the targets in force."""
        # A turn may have the history of weeks; what leaked more than a day before it is over.
        return [
            LeakChange(workload, container, leak)
            for workload, container, rising in rising_memory
            if now - (rising.hour + 1) * int(HOUR * 1000) < LASTS
            and (leak := self._see(workload, container, rising, announced, now)) is not None
        ]

    def _see(self, workload: str, container: str, rising: RisingMemory, announced: RowTable, now: int) -> KnownLeak | None:
        """One of them; its leak if that is new."""
        key = f"{workload}/{container}"
        leak = self.table.get(key)
        if leak is None:
            row = announced.find((workload, container))
            # What was announced last, because the use of this hour has the leak in it already.
            target = math.nan if row is None else float(announced.floats("target_memory")[row])
            leak = KnownLeak(rising, rising.last if math.isnan(target) else target, now, now)
            self.table.upsert(key, leak)
            return leak
        before = [series for series in (leak.rising, *leak.others) if not leak.end and series.pod != rising.pod]
        newest = max(series.hour for series in (*before, rising))
        leaking = sorted(
            (series for series in (*before, rising) if series.hour >= newest - 1),
            key=lambda series: (-series.hour, -series.rate),
        )
        latest = replace(leak, rising=leaking[0], others=tuple(leaking[1:_PODS]), seen=now, end="")
        if leak.end:
            latest = replace(latest, ended=now)
        self.table.upsert(key, latest)
        return latest if leak.end else None

    def end(self, now: int, end_of: Callable[[str, str, RisingMemory], LeakEnd | None]) -> list[LeakChange]:
        """The leaks that end in this turn, because the memory of each pod of theirs came back; `end_of` says by what."""
        ended = []
        for key, leak in sorted(self.table.items()):
            # What was seen to leak in this very turn, which may have the history of days, ends in a later one.
            if leak.end or leak.seen == now:
                continue
            workload, _, container = key.rpartition("/")
            leaking = [series for series in (leak.rising, *leak.others) if end_of(workload, container, series) is None]
            if leaking and leaking[0] is leak.rising:
                continue
            if leaking:
                self.table.upsert(key, replace(leak, rising=leaking[0], others=tuple(leaking[1:])))
                continue
            over = replace(leak, others=(), ended=now, end=str(end_of(workload, container, leak.rising)))
            self.table.upsert(key, over)
            ended.append(LeakChange(workload, container, over, over=True))
        return ended

    def review(self, now: int) -> list[LeakChange]:
        """Drop the leaks that nobody saw for a day, count the days of the others, and return all of them, once an hour."""
        reviewed = []
        for key, leak in sorted(self.table.items()):
            workload, _, container = key.rpartition("/")
            aged = replace(leak, days=1 + (now - leak.found) // LASTS)
            # Only after a day, so that a restart, after which memory has to rise for hours again, does not end the bound.
            if over := now - aged.seen >= LASTS:
                self.table.remove(key)
            elif aged != leak:
                self.table.upsert(key, aged)
            # A leak that was found, was found again or ended in this very turn has been said once already.
            if now not in (aged.found, aged.ended):
                reviewed.append(LeakChange(workload, container, aged, over=over, again=not over, quiet=bool(aged.end)))
        return reviewed

    def bounded(self, amounts: Floats, members: ContainerIndex, these: MemberSelection, but: Iterable[str]) -> Floats:
        """(members, 6) These amounts, named by AMOUNTS, with no more memory than leaks are given; `but` these get none."""
        leaks = dict(self._members(members, set(but)))
        hit = np.flatnonzero(np.isin(these.members, list(leaks))) if leaks else ()
        if not len(hit):
            return amounts
        growth = these.rules[hit, PLACE["leak_growth"]]
        most = [_most(leaks[member], by) for member, by in zip(these.members[hit].tolist(), growth.tolist(), strict=True)]
        amounts = amounts.copy()
        amounts[hit, _MEMORY] = np.minimum(amounts[hit, _MEMORY], np.array(most)[:, None])
        return amounts

    def of(self, workload: str, members: ContainerIndex) -> tuple[MemoryLeak, ...]:
        """The leaks of a workload's containers, as its decision says them."""
        containers = members.containers(workload) if len(self.table) else ()
        leaks = ((member, name, self.table.get(f"{workload}/{name}")) for name, member in containers)
        return tuple(
            _described(workload, name, leak, members.rule(member, "leak_growth"))
            for member, name, leak in leaks
            if leak is not None
        )

    def described(self, change: LeakChange, members: ContainerIndex) -> MemoryLeak:
        """The leak of a change, as its decision says it."""
        member = members.find(change.workload, change.container)
        growth = 0.0 if member < 0 else members.rule(member, "leak_growth")
        return _described(change.workload, change.container, change.leak, growth)

    def _members(self, members: ContainerIndex, but: set[str]) -> Iterator[tuple[int, KnownLeak]]:
        for key, leak in self.table.items():
            workload, _, container = key.rpartition("/")
            member = -1 if key in but else members.find(workload, container)
            if member >= 0:
                yield member, leak


def _described(workload: str, container: str, leak: KnownLeak, growth: float) -> MemoryLeak:
    """The form of a leak in decisions."""
    rising, limit = leak.rising, int(leak.rising.limit)
    end = (rising.hour + 1) * HOUR
    # A leak that is found has risen, so its rate is above 0.
    hours = (limit - rising.last) / rising.rate if limit else math.inf
    full = None if math.isinf(hours) else times.from_seconds(min(end + max(0.0, hours) * HOUR, bounds.LAST_SECOND))
    return MemoryLeak(
        container,
        PodName(workload.split("/")[1], rising.pod, rising.uid),
        times.from_seconds(end - (rising.rises + 1) * HOUR),
        Bytes(int(rising.last)),
        Bytes(int(rising.rate)),
        Bytes(limit) if limit else None,
        full,
        Bytes(int(leak.target)),
        Bytes(int(_most(leak, growth))),
        times.from_ms(leak.ended) if leak.end else None,
        LeakEnd(leak.end) if leak.end else None,
    )


def _most(leak: KnownLeak, growth: float) -> float:
    """Target + growth * target for each day that has begun, in whole bytes."""
    return min(float(int(leak.target * (1.0 + growth * leak.days))), float(bounds.MOST_BYTES))
