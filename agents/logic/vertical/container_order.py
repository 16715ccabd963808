"""All members of a partition in order of workload and container, so that whole workloads are found by arithmetic on arrays.

The order follows from names alone; it is made again when a container name comes or goes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from agents.engine.tables.row_table import Indices, RowKey


def in_stretches(begins: Indices, ends: Indices) -> Indices:
    """All places of some stretches, one stretch after the other; each goes from its begin up to, but not including, its end."""
    counts = ends - begins
    return np.asarray(np.arange(counts.sum()) + np.repeat(begins - np.cumsum(counts) + counts, counts))


@dataclass(frozen=True, slots=True)
class MemberOrder:
    """`members` in order; `begins` (workloads + 1,) is where each workload begins among them, and last their number.

    `rank` gives for each member the place of its workload in that order; it is undefined for numbers without a member.
    """

    members: Indices
    begins: Indices
    rank: Indices

    @staticmethod
    def of(names: Sequence[RowKey], members: Iterable[Iterable[int]], workloads: Indices) -> "MemberOrder":
        """Put members in order by their `names`; `workloads` tells which of them belong to one workload."""
        ordered = np.array(sorted(chain.from_iterable(members), key=names.__getitem__), np.int64)
        numbers = workloads[ordered]
        begins = np.flatnonzero(np.diff(numbers, prepend=-1)) if len(ordered) else ordered
        begins = np.append(begins, len(ordered))
        rank = np.zeros(len(names), np.int64)
        rank[ordered] = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
        return MemberOrder(ordered, begins, rank)

    def workloads(self, members: Indices) -> Indices:
        """The ranks of these members' workloads, in order, no workload twice."""
        wanted = np.zeros(len(self.begins) - 1, np.bool_)
        wanted[self.rank[members]] = True
        return wanted.nonzero()[0]

    def whole_workloads(self, ranks: Indices) -> tuple[Indices, Indices, Indices]:
        """The workloads of these ranks, which rise.

        Returns the first member of each, all their members, and for each of these the place of its workload among them.
        """
        if len(ranks) == len(self.members):  # one container each: all of them
            return self.members, self.members, ranks
        # A turn looks at thousands of containers, and looking each up by name took longer than judging it.
        begins, ends = self.begins[ranks], self.begins[ranks + 1]
        workload = np.repeat(np.arange(len(ranks)), ends - begins)
        return self.members[begins], self.members[in_stretches(begins, ends)], workload
