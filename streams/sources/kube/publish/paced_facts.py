"""Facts by object, of which some fields change all the time: those are published at most every few seconds for each object.

Whatever else of an object changes is published at once.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Generic

from streams.sources.kube.publish.fact_changes import F, PublishedFacts, alike

PERIOD = timedelta(seconds=5)
"""The shortest time between two facts about one object of which only busy fields change."""
AT_ONCE = 100  # facts that are published at one time, so that a cluster of ten thousand quotas costs no more


class PacedFacts(Generic[F]):
    """Facts of one kind. `settled` gives a fact without its busy fields; without it, every change is published at once."""

    def __init__(self, facts: PublishedFacts[F], settled: Callable[[F], object] | None) -> None:
        self._facts, self._settled = facts, settled
        self._published: dict[str, F] = {}
        """What this process published last, by name."""
        self._waiting: dict[str, F] = {}
        self._since: dict[str, datetime] = {}
        """When each was published."""

    def restore(self, published: Mapping[str, F]) -> None:
        """Start from what the log has."""
        self._facts.restore(published)

    def put(self, name: str, fact: F | None, at: datetime) -> None:
        """An object exists; None if there is no fact about it any more."""
        before = self._published.get(name)
        if fact is None:
            self.remove(name)
        elif self._settled is None:
            self._facts.upsert(name, fact)
        elif before is None or self._settled(before) != self._settled(fact):
            self._publish(name, fact, at)
        elif name in self._waiting or not alike(before, fact):
            self._waiting[name] = fact

    def remove(self, name: str) -> None:
        """An object is gone."""
        self._waiting.pop(name, None)
        self._published.pop(name, None)
        self._since.pop(name, None)
        self._facts.remove(name)

    def keep(self, name: str) -> None:
        """An object exists and cannot be read."""
        self._facts.keep(name)

    def mark_synced(self) -> None:
        """Every object that exists was seen."""
        self._facts.mark_synced()

    def publish_due(self, at: datetime) -> None:
        """Publish the changes that have waited long enough, those that have waited longest first."""
        due = [name for name in self._waiting if at - self._since[name] >= PERIOD]
        for name in sorted(due, key=lambda name: self._since[name])[:AT_ONCE]:
            self._publish(name, self._waiting[name], at)

    def republish(self, at: datetime, older: timedelta) -> None:
        """Publish again what was last published this long ago."""
        self._facts.republish(at, older)

    def _publish(self, name: str, fact: F, at: datetime) -> None:
        self._waiting.pop(name, None)
        self._published[name], self._since[name] = fact, at
        self._facts.upsert(name, fact)
