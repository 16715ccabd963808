"""The pods that a source has told of: what they are labelled, what runs in them, and so which aggregate a container is of.

Init containers are known by name only, and their usage never counts. A pod is known by workload and name, as upstream knows it
by namespace and name, so a successor of the same name goes on with its containers' windows unless its end was seen before.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from sys import intern

from agents.engine.tables.object_table import Table
from agents.logic.usage.label_sets import text
from schemas.facts.pods import PodChanged, PodPhase

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
        self._of: dict[str, tuple[str, ...]] | None = None
        """Keys of the table by workload."""
        self._shared: dict[tuple[str, ...], tuple[str, ...]] = {}

    def get(self, workload: str, pod: str) -> Pod | None:
        """A pod; None if no source told of it."""
        return self.table.get(f"{workload}/{pod}")

    def take(self, event: PodChanged) -> tuple[Pod | None, Pod]:
        """A pod as it was known, and as it is known now."""
        workload, name = intern(event.workload.key), event.pod.name
        old = self.get(workload, name)
        new = Pod(
            event.pod.uid,
            intern(text(event.labels)),
            event.phase,
            self._share(tuple(seen.name for seen in event.containers)),
            self._share(tuple(seen.name for seen in event.init_containers)),
        )
        if old != new:
            key = f"{workload}/{name}"
            keys = self._keys()
            self.table.put(key, new)
            if old is None:
                keys[workload] = (*keys.get(workload, ()), key)
        return old, new

    def drop(self, workload: str, pod: str) -> None:
        """Forget a pod."""
        keys, gone = self._keys(), f"{workload}/{pod}"
        if self.table.drop(gone) is not None:
            left = tuple(key for key in keys[workload] if key != gone)
            if left:
                keys[workload] = left
            else:
                del keys[workload]

    def has(self, workload: str) -> bool:
        """Whether any pod of a workload is known."""
        return workload in self._keys()

    def of(self, workload: str) -> Iterator[Pod]:
        """The pods of a workload."""
        for key in self._keys().get(workload, ()):
            pod = self.table.get(key)
            if pod is not None:
                yield pod

    def all(self) -> Iterator[tuple[str, str, Pod]]:
        """Workload, name and pod of each."""
        for key, pod in self.table.items():
            workload, name = key.rsplit("/", 1)
            yield workload, name, pod

    def loaded(self) -> None:
        """The table was loaded: what follows from it is to be made again."""
        self._of = None

    def _keys(self) -> dict[str, tuple[str, ...]]:
        if self._of is None:
            found: dict[str, list[str]] = {}
            for key in self.table:
                found.setdefault(intern(key.rsplit("/", 1)[0]), []).append(key)
            self._of = {workload: tuple(keys) for workload, keys in found.items()}
        return self._of

    def _share(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Equal tuples are one object."""
        return self._shared.setdefault(names, names)
