"""The least memory that containers are recommended after they were OOM-killed soon after their start.

Such a container cannot live with what it has, and a percentile over all pods of its workload grows too slowly for it: nine of
ten pods that were killed earlier hold it back. So a container that is killed within minutes of its start is recommended at least
twice what it requested, and after each further kill two or three times what that was killed under, until it lives.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from agents.engine.tables.object_table import ObjectTable
from agents.logic.vertical.container_index import ContainerIndex, MemberSelection
from agents.logic.vertical.estimate_rules import PLACE, Estimate, with_margin
from schemas import bounds, times
from schemas.facts.usage import ContainerOOMKilled
from schemas.units import Bytes, Seconds

STEP, LARGE_STEP = 2, 3
"""What a request is multiplied by after a kill; the larger one after a second kill at once, which shows that much is missing."""
AT_ONCE = 180.0
"""Seconds. Who lived for longer than these filled most of what it had step by step, and is near to what it needs."""
SETTLES = 3_600_000
"""Milliseconds after its last rise in which a floor stands as it is. What warms up for longer is killed once more."""
SLACK = 0.1
"""The share by which a pod may request more than a floor that came down, before it is too much."""


@dataclass(frozen=True, slots=True)
class MemoryFloor:
    """The least memory of one container of a workload.

    `tried`: the highest request under which it was killed, in bytes; `failures`: how many requests in a row, each higher than
    the one before, were not enough; `killed`: the turn of the last kill; `raised`: that of the last kill that raised it;
    `settled`: it came down to what those use that live.
    """

    memory: Bytes
    tried: Bytes
    failures: int
    killed: int
    raised: int = 0
    settled: bool = False


class MemoryFloors:
    """The floors of one partition. `quick`: a container that ran for less before it was killed gets one; 0 gives none.

    `lasts`: the time after its last kill for which a floor holds.
    """

    def __init__(self, quick: Seconds, lasts: Seconds) -> None:
        self._quick, self._lasts = quick, int(lasts * 1000)
        self.table: ObjectTable[MemoryFloor] = ObjectTable("floors", MemoryFloor, 64)

    def killed(self, event: ContainerOOMKilled, used: float, now: int) -> None:
        """A container was killed. `used`: the most that it is known to have used, in bytes."""
        ran = None if event.started is None else (event.at - event.started).total_seconds()
        # At a limit of the pod itself more for one of its containers helps nobody, and what others of it use is not its need.
        if ran is None or not 0 <= ran < self._quick or event.at_pod_limit is not None:
            return
        key = f"{event.workload.key}/{event.container}"
        before = self.floor(key, now)
        requested = int(event.memory_request or 0)
        # A kill under no more than was tried before says nothing new.
        if before is not None and requested <= before.tried:
            self.table.upsert(key, replace(before, killed=now))
            return
        failures = 1 if before is None else before.failures + 1
        # So who needs twenty times its memory has it after three kills, and nobody is given more than three times too much.
        step = LARGE_STEP if before is not None and ran < AT_ONCE else STEP
        needed = min(max(requested, used) * step, bounds.MOST_BYTES)
        least = int(needed) if before is None else max(int(needed), before.memory)
        if least > 0:
            self.table.upsert(key, MemoryFloor(Bytes(least), Bytes(requested), failures, now, raised=now))

    def floor(self, key: str, now: int) -> MemoryFloor | None:
        """The floor of `workload/container`, if it still holds."""
        floor = self.table.get(key)
        # As late as usage is forgotten, because the kill may be all that was ever seen of the need: a peak of seconds at each
        # start lies between two scrapes.
        return None if floor is None or now - floor.killed >= self._lasts else floor

    def review(self, now: int, most_used: Callable[[str, str], float]) -> set[str]:
        """Drop the floors that no longer hold, and let those down that have stood for an hour; returns the workloads of these.

        `most_used` gives the most bytes that a container of a workload uses in any pod that is there.
        """
        lowered = set()
        for key, floor in sorted(self.table.items()):
            workload, _, container = key.rpartition("/")
            if now - floor.killed >= self._lasts:
                self.table.remove(key)
            # The use of those that live with the floor is known by now. Pods that have more come down with it, which leaves room
            # for those that still wait.
            elif now - floor.raised >= SETTLES and floor.tried < (used := most_used(workload, container)):
                after = replace(floor, memory=Bytes(min(floor.memory, int(used))), settled=True)
                if after != floor:
                    self.table.upsert(key, after)
                    lowered.add(workload)
        return lowered

    def of(self, workload: str, containers: Iterable[str]) -> Mapping[str, object]:
        """The floors of a workload's containers, with the numbers that they follow from."""
        floors = ((name, self.table.get(f"{workload}/{name}")) for name in containers) if len(self.table) else ()
        return {
            name: {
                "memory": floor.memory,
                "killed_under": floor.tried,
                "failures": floor.failures,
                "killed": times.rfc3339(times.from_ms(floor.killed)),
                **({"settled": True} if floor.settled else {}),
            }
            for name, floor in floors
            if floor is not None
        }

    def bounded(self, memory: Estimate, members: ContainerIndex, these: MemberSelection) -> Estimate:
        """Memory, its targets and upper bounds not below the floors of their containers with the margin of any recommendation."""
        floors = dict(self._of_members(members))
        hit = np.flatnonzero(np.isin(these.members, list(floors))) if floors else ()
        if not len(hit):
            return memory
        binding = [floors[member] for member in these.members[hit].tolist()]
        least = with_margin(np.array([float(floor.memory) for floor in binding]), these.rules[hit, PLACE["margin"]])
        target, upper = memory.target.copy(), memory.upper.copy()
        target[hit] = np.fmax(target[hit], least)
        settled = np.array([floor.settled for floor in binding])
        # Where a floor has settled no confidence is missing any more, so the upper bound is a little above the target.
        upper[hit] = np.where(settled, target[hit] * (1.0 + SLACK), np.fmax(upper[hit], least))
        return replace(memory, target=target, upper=upper)

    def _of_members(self, members: ContainerIndex) -> Iterator[tuple[int, MemoryFloor]]:
        for key, floor in self.table.items():
            workload, _, container = key.rpartition("/")
            for name, member in members.containers(workload):
                if name == container:
                    yield member, floor
