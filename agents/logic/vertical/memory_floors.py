"""The least memory that containers are recommended after they were OOM-killed soon after their start.

Such a container cannot live with what it has, and a percentile over all pods of its workload grows too slowly for it: nine of
ten pods that were killed earlier hold it back. So a container that is killed within minutes of its start is recommended at least
twice what it requested, and after each further kill three times what that was killed under, until it lives: who needs twenty
times its memory has it after three kills, and nobody is given more than three times too much. A kill under no more than
was tried before says nothing new. A floor ends a day after its last kill: by then the use of those that live is known.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from agents.engine.tables.object_table import ObjectTable
from agents.engine.tables.row_table import Floats
from agents.logic.vertical.container_index import ContainerIndex, MemberSelection
from agents.logic.vertical.estimate_rules import PLACE
from agents.logic.vertical.percentile_estimation import with_margin
from schemas import bounds, times
from schemas.facts.usage import ContainerOOMKilled
from schemas.units import Bytes, Seconds

FIRST_STEP, LATER_STEPS = 2, 3
"""What a request is multiplied by after the first kill, and after those that follow."""
LASTS = 86_400_000
"""Milliseconds after the last kill for which a floor holds."""


@dataclass(frozen=True, slots=True)
class MemoryFloor:
    """The least memory of one container of a workload.

    `tried`: the highest request under which it was killed, in bytes; `failures`: how many requests in a row, each higher than the
    one before, were not enough; `killed`: the turn of the last kill.
    """

    memory: Bytes
    tried: Bytes
    failures: int
    killed: int


class MemoryFloors:
    """The floors of one partition. `quick`: a container that ran for less before it was killed gets one; 0 gives none."""

    def __init__(self, quick: Seconds) -> None:
        self._quick = quick
        self.table: ObjectTable[MemoryFloor] = ObjectTable("floors", MemoryFloor, 64)

    def killed(self, event: ContainerOOMKilled, used: float, now: int) -> None:
        """A container was killed. `used`: the most that it is known to have used, in bytes."""
        if event.started is None or not 0 <= (event.at - event.started).total_seconds() < self._quick:
            return
        key = f"{event.workload.key}/{event.container}"
        before = self.floor(key, now)
        had = int(event.memory_request or 0)
        if before is not None and had <= before.tried:
            self.table.upsert(key, replace(before, killed=now))
            return
        failures = 1 if before is None else before.failures + 1
        needed = min(max(had, used) * (FIRST_STEP if before is None else LATER_STEPS), bounds.MOST_BYTES)
        least = int(needed) if before is None else max(int(needed), before.memory)
        if least > 0:
            self.table.upsert(key, MemoryFloor(Bytes(least), Bytes(had), failures, now))

    def floor(self, key: str, now: int) -> MemoryFloor | None:
        """The floor of `workload/container`, if it still holds."""
        floor = self.table.get(key)
        return None if floor is None or now - floor.killed >= LASTS else floor

    def expire(self, now: int) -> None:
        """Drop the floors that no longer hold."""
        for key in [key for key, floor in self.table.items() if now - floor.killed >= LASTS]:
            self.table.remove(key)

    def of(self, workload: str, containers: Iterable[str]) -> Mapping[str, object]:
        """The floors of a workload's containers, with the numbers that they follow from."""
        held = ((name, self.table.get(f"{workload}/{name}")) for name in containers) if len(self.table) else ()
        return {
            name: {
                "memory": floor.memory,
                "killed_under": floor.tried,
                "failures": floor.failures,
                "killed": times.rfc3339(times.from_ms(floor.killed)),
            }
            for name, floor in held
            if floor is not None
        }

    def raised(self, memory: Floats, members: ContainerIndex, these: MemberSelection) -> Floats:
        """Amounts of memory, none of them below its container's floor and the margin of any recommendation."""
        least = dict(self._least(members))
        hit = np.flatnonzero(np.isin(these.members, list(least))) if least else ()
        if not len(hit):
            return memory
        memory = memory.copy()
        floors = np.array([least[member] for member in these.members[hit].tolist()])
        memory[hit] = np.fmax(memory[hit], with_margin(floors, these.rules[hit, PLACE["margin"]]))
        return memory

    def _least(self, members: ContainerIndex) -> Iterator[tuple[int, float]]:
        for key, floor in self.table.items():
            workload, _, container = key.rpartition("/")
            for name, member in members.containers(workload):
                if name == container:
                    yield member, float(floor.memory)
