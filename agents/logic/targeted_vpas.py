"""Which VPA objects target a workload, the one that governs it first."""

from bisect import bisect_left, insort
from collections.abc import Iterator

from schemas.policies.vpa import VpaChanged

_Entry = tuple[tuple[bool, float, str], str]


class TargetedVpas:
    """The keys of VPA objects by what they target, in the order of their rank. `recommender`: the name that is ours."""

    def __init__(self, recommender: str) -> None:
        self._recommender = recommender
        self._entries: dict[str, list[_Entry]] = {}

    def add(self, vpa: VpaChanged) -> None:
        """An object is there that was not. One that targets nothing is left out."""
        # Ten thousand VPAs without a target are no rivals of each other, and once took quadratic time as if they were.
        if vpa.target:
            # Anybody may create thousands of VPAs for one workload, so each that comes costs a search and not a sort of all.
            insort(self._entries.setdefault(vpa.target, []), self._entry(vpa))

    def remove(self, vpa: VpaChanged) -> None:
        """An object that was added is gone."""
        entries = self._entries.get(vpa.target)
        if entries is not None:
            del entries[bisect_left(entries, self._entry(vpa))]
            if not entries:
                del self._entries[vpa.target]

    def governing(self, target: str) -> str | None:
        """The key of the object that governs a workload, or None."""
        entries = self._entries.get(target)
        return entries[0][1] if entries else None

    def of(self, target: str, most: int | None = None) -> list[str]:
        """The keys of all that target a workload, or of the first `most`, the one that governs first."""
        return [key for _, key in self._entries.get(target, ())[:most]]

    def at(self, target: str, place: int) -> str | None:
        """The key of the object at a place in the order of those that target a workload; None if there are not so many."""
        entries = self._entries.get(target, ())
        return entries[place][1] if place < len(entries) else None

    def place(self, vpa: VpaChanged) -> int:
        """The place of an object in that order; 0 governs."""
        return bisect_left(self._entries.get(vpa.target, ()), self._entry(vpa))

    def __contains__(self, target: object) -> bool:
        """Whether any object targets this workload."""
        return target in self._entries

    def __iter__(self) -> Iterator[str]:
        """All workloads that some object targets."""
        return iter(self._entries)

    def _entry(self, vpa: VpaChanged) -> _Entry:
        return vpa.rank(self._recommender), vpa.key
