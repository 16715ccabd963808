"""Which workloads changed since somebody last asked, so that the others need not be looked at again. It is no state."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class ChangedWorkloads:
    """The workloads that changed since the last query: `keys`, or `all` by a policy that names many."""

    keys: set[str] = field(default_factory=set)
    all: bool = True

    def clear(self) -> None:
        """The changes were read."""
        self.keys.clear()
        self.all = False
