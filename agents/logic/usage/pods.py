"""The pods that a source has told of: what they are labelled, what runs in them, and so which aggregate a container is of.

Init containers are known by name only, and their usage never counts. A pod is known by workload and name, as upstream knows it
by namespace and name, so a successor of the same name goes on with its containers' windows unless its end was seen before.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from sys import intern

from agents.logic.tables.objects import Table
from agents.logic.usage.labels import text
from schemas.facts import PodChanged, PodPhase

OVER = (PodPhase.SUCCEEDED, PodPhase.FAILED)


@dataclass(frozen=True, slots=True)
class Pod:
    """What counts of a pod. `labels` is the text of all its labels."""

    uid: str
    labels: str
    phase: PodPhase
    containers: tuple[str, ...]
    init_containers: tuple[str, ...] = ()


class Pods:
    """Pods by workload and name."""

    def __init__(self) -> None:
        self.table: Table[Pod] = Table("pods", Pod, 1024)
        self._of: dict[str, set[str]] | None = None
        self._shared: dict[tuple[str, ...], tuple[str, ...]] = {}

    def get(self, workload: str, pod: str) -> Pod | None:
        """A pod; None if no source told of it."""
        return self.table.get(f"{workload}/{pod}")

    def take(self, event: PodChanged) -> tuple[Pod | None, Pod]:
        """A pod as it was known, and as it is known now."""
        workload, name = event.workload.key, event.pod.name
        old = self.get(workload, name)
        new = Pod(
            event.pod.uid,
            intern(text(event.labels)),
            event.phase,
            self._share(tuple(seen.name for seen in event.containers)),
            self._share(tuple(seen.name for seen in event.init_containers)),
        )
        if old != new:
            self.table.put(f"{workload}/{name}", new)
            self._names().setdefault(workload, set()).add(name)
        return old, new

    def drop(self, workload: str, pod: str) -> None:
        """Forget a pod."""
        if self.table.drop(f"{workload}/{pod}") is not None:
            names = self._names()[workload]
            names.discard(pod)
            if not names:
                del self._names()[workload]

    def has(self, workload: str) -> bool:
        """Whether any pod of a workload is known."""
        return workload in self._names()

    def of(self, workload: str) -> Iterator[tuple[str, Pod]]:
        """Names and pods of a workload."""
        for name in self._names().get(workload, ()):
            pod = self.get(workload, name)
            if pod is not None:
                yield name, pod

    def all(self) -> Iterator[tuple[str, str, Pod]]:
        """Workload, name and pod of each."""
        for key, pod in self.table.items():
            workload, name = key.rsplit("/", 1)
            yield workload, name, pod

    def loaded(self) -> None:
        """The table was loaded: what follows from it is to be made again."""
        self._of = None

    def _names(self) -> dict[str, set[str]]:
        if self._of is None:
            self._of = {}
            for workload, name, _ in self.all():
                self._of.setdefault(workload, set()).add(name)
        return self._of

    def _share(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Equal tuples are one object."""
        return self._shared.setdefault(names, names)
