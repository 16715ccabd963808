"""A log in memory that knows, as a broker does, which partitions the members of a consumer group hold."""

from collections.abc import Collection
from dataclasses import dataclass, field

from streams.log.memory_log import MemoryLog


@dataclass(eq=False)
class GroupedLog(MemoryLog):
    """`held`: by group what its members hold; None while they share it out anew."""

    held: dict[str, Collection[tuple[str, int]] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def held_by(self, group: str) -> Collection[tuple[str, int]] | None:
        """As of the Kafka log."""
        return self.held.get(group, ())
