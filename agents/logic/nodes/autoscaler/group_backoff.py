"""How long a group is left alone after a failed scale-up: longer each time, up to a cap, and forgotten after a quiet while."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScaleUpFailure:
    """Why a scale-up failed. `kind` is 'OutOfResources' or 'Other', `code` the cloud's own word, or 'timeout'."""

    kind: str
    code: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class BackoffEntry:
    """A group in the books of `Backoff`; times in seconds."""

    duration: float
    until: float
    failed: float
    failure: ScaleUpFailure


@dataclass(frozen=True, slots=True)
class BackoffSettings:
    """Seconds: the first backoff, the longest, and the quiet time after which all is forgotten."""

    first: float = 300.0
    longest: float = 1800.0
    forgotten: float = 10800.0


class EarlyEnds:
    """What ends before it has served, by group: instances that became no node, and nodes that ended within their first minutes.

    `young`: the group of each instance and node that has yet to show that it stays. `ended`: how many have ended in a row.
    """

    def __init__(self) -> None:
        self.young: dict[str, str] = {}
        self.ended: dict[str, int] = {}

    def look(self, young: Mapping[str, str], there: Collection[str], settled: Collection[str]) -> set[str]:
        """Take in what is young now, what is there at all, and what has served; the groups of which more have ended."""
        before, self.young = self.young, dict(young)
        # Those that serve come first: whichever of a group ended meanwhile begin a new row.
        for name in before.keys() & {*settled}:
            self.ended.pop(before[name], None)
        ends = [group for name, group in before.items() if name not in settled and name not in there]
        for group in ends:
            self.ended[group] = self.ended.get(group, 0) + 1
        return set(ends)

    def dismiss(self, names: Collection[str]) -> None:
        """These go because they are to."""
        self.young = {name: group for name, group in self.young.items() if name not in names}


class Backoff:
    """Backoffs by key: a group, or whatever else can fail. Source: exponentialBackoff in utils/backoff."""

    def __init__(self, settings: BackoffSettings) -> None:
        self.settings = settings
        self.entries: dict[str, BackoffEntry] = {}

    def fail(self, key: str, failure: ScaleUpFailure, now: float) -> float:
        """Note a failure; the answer is when the key may be tried again."""
        entry = self.entries.get(key)
        duration = self.settings.first
        if entry is not None:
            # Several failures may follow from one try, and only one after the end of the backoff makes the next one
            # longer.
            duration = min(2 * entry.duration, self.settings.longest) if entry.until < now else entry.duration
        self.entries[key] = BackoffEntry(duration, now + duration, now, failure)
        return now + duration

    def of(self, key: str, now: float) -> ScaleUpFailure | None:
        """What a key is backed off for, or None if it may be tried."""
        entry = self.entries.get(key)
        return None if entry is None or entry.until < now else entry.failure

    def remove(self, key: str) -> None:
        """Forget a key."""
        self.entries.pop(key, None)

    def clean(self, now: float) -> None:
        """Forget keys whose last failure is long ago."""
        old = [key for key, entry in self.entries.items() if entry.failed + self.settings.forgotten < now]
        for key in old:
            del self.entries[key]
