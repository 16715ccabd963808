"""What is there and what was said of it: facts by name, told when they differ, and taken back when their objects are gone.

What was said comes from the log at a start, so a restart tells only what changed meanwhile. Time and resource version alone are
no change.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from schemas.facts.nodes import NodeChanged
from schemas.policies.limit_ranges import LimitRangeChanged
from schemas.policies.vpa import VpaChanged

F = TypeVar("F", NodeChanged, LimitRangeChanged, VpaChanged)


class Told(Generic[F]):
    """Facts of one kind. `say` appends one; `take_back` says that it is gone."""

    def __init__(self, say: Callable[[F], None], take_back: Callable[[F], None]) -> None:
        self._say: Callable[[F], None] = say
        self._take_back: Callable[[F], None] = take_back
        self._here: dict[str, F] = {}
        self._said: dict[str, F] = {}

    def remember(self, said: Mapping[str, F]) -> None:
        """What the log holds; what is here and differs is told."""
        self._said = dict(said)
        for name in sorted(self._here):
            self.put(name, self._here[name])

    def put(self, name: str, fact: F) -> bool:
        """It is there. Whether it was told."""
        self._here[name] = fact
        before = self._said.get(name)
        if before is not None and _alike(before, fact):
            return False
        self._said[name] = fact
        self._say(fact)
        return True

    def drop(self, name: str) -> None:
        """It is gone."""
        self._here.pop(name, None)
        said = self._said.pop(name, None)
        if said is not None:
            self._take_back(said)

    def settle(self, waiting: Collection[str] = ()) -> None:
        """All that is there was put, or is `waiting`: what was said and is not there is gone."""
        for name in sorted(self._said.keys() - self._here.keys() - set(waiting)):
            self.drop(name)

    def repeat(self, at: datetime, older: timedelta) -> None:
        """Tell again what nothing was said of for so long."""
        for name, said in list(self._said.items()):
            if at - said.at >= older and name in self._here:
                self._said[name] = again = replace(self._here[name], at=at)
                self._say(again)


def _alike(left: F, right: F) -> bool:
    if isinstance(left, VpaChanged) and isinstance(right, VpaChanged):
        right = replace(right, resource_version=left.resource_version)
    return replace(right, at=left.at) == left
