"""Which policy a workload has: the longest target that names it. And the bounds that it sets for a container.

Policies are few and workloads are many, so a workload's match is remembered until some policy changes.
"""

from dataclasses import dataclass

from agents.logic.tables.objects import Table
from agents.logic.turns import Recorded
from schemas.names import Place
from schemas.policies import ContainerPolicy, VerticalPolicyChanged, VerticalPolicyRemoved


@dataclass(frozen=True, slots=True)
class Held:
    """A policy in force and where it stands in the log."""

    policy: VerticalPolicyChanged
    place: Place


NOT_BOUNDED = ContainerPolicy()


class Policies:
    """The vertical policies that a partition has seen."""

    def __init__(self) -> None:
        self.table: Table[Held] = Table("policies", Held, 16)
        self._lengths: list[int] | None = None
        self._matches: dict[str, Held | None] = {}

    def take(self, recorded: Recorded) -> bool:
        """Take a policy record in; False if it changes no vertical policy."""
        event = recorded.event
        if isinstance(event, VerticalPolicyChanged):
            self.table.put(event.target, Held(event, recorded.place))
        elif not isinstance(event, VerticalPolicyRemoved) or self.table.drop(event.target) is None:
            return False
        self._lengths = None
        return True

    def loaded(self) -> None:
        """The table was loaded: no match that was remembered holds."""
        self._lengths = None

    def of(self, workload: str) -> Held | None:
        """The policy of a workload key, or None."""
        if self._lengths is None:
            targets = [target for target, _ in self.table.items() if target.endswith("*")]
            self._lengths = sorted({len(target) - 1 for target in targets}, reverse=True)
            self._matches = {}
        if workload not in self._matches:
            self._matches[workload] = self._match(workload, self._lengths)
        return self._matches[workload]

    def _match(self, workload: str, lengths: list[int]) -> Held | None:
        exact = self.table.get(workload)
        if exact is not None:
            return exact
        prefixes = (self.table.get(workload[:length] + "*") for length in lengths if length <= len(workload))
        return next((held for held in prefixes if held is not None), None)


def bounds(held: Held | None, container: str) -> ContainerPolicy:
    """The entry for a container: its own, else that of `*`, else none. They are not merged."""
    if held is None:
        return NOT_BOUNDED
    named = {entry.container: entry for entry in held.policy.containers}
    return named.get(container) or named.get("*") or NOT_BOUNDED


def body(held: Held | None) -> dict[str, object] | None:
    """What `because` says of a policy."""
    if held is None:
        return None
    return {"target": held.policy.target, "version": held.policy.version, "place": str(held.place)}
