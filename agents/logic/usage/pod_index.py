"""The pods that a source has reported: their labels and containers, and so which aggregate a container belongs to.

Init containers are known by name only, and their usage never counts. A pod is known by workload and name, as upstream knows it by
namespace and name, so a successor of the same name goes on with its containers' windows, unless the end of the former one was
seen.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from sys import intern

from agents.engine.tables.object_table import ObjectTable
from schemas.facts.pods import ENDED_PHASES, PodChanged, PodPhase
from schemas.policies.vpa import Requirement

UNKNOWN = "?"
"""Stands for the labels of a pod that no source has reported."""

SEED = "checkpoint:"
"""Begins what stands in place of labels for history that came from a checkpoint of a VPA, whose name follows."""


def text(labels: Mapping[str, str]) -> str:
    """`a=1,b=2`, sorted."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


@lru_cache(maxsize=8192)
def matches(selector: tuple[Requirement, ...], labels: str) -> bool:
    """Whether labels, as their text, meet all requirements."""
    return met(selector, dict(part.split("=", 1) for part in labels.split(",") if "=" in part))


def met(selector: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether labels meet all requirements."""
    return all(requirement.holds(labels.get(requirement.key)) for requirement in selector)


@dataclass(frozen=True, slots=True)
class IndexedPod:
    """The parts of a pod that count. `labels` is the text of all its labels."""

    uid: str
    labels: str
    phase: PodPhase
    containers: tuple[str, ...]
    init_containers: tuple[str, ...] = ()


class PodIndex:
    """Pods by workload and name."""

    def __init__(self) -> None:
        self.table: ObjectTable[IndexedPod] = ObjectTable("pods", IndexedPod, 1024, shares=())
        self._of: dict[str, dict[str, None]] | None = None
        """Keys of the table by workload, in the order in which they came."""

    def get(self, workload: str, pod: str) -> IndexedPod | None:
        """A pod; None if no source reported it."""
        return self.table.get(f"{workload}/{pod}")

    def take(self, event: PodChanged) -> tuple[IndexedPod | None, IndexedPod]:
        """The former and the present version of a pod."""
        workload, name = intern(event.workload.key), event.pod.name
        old = self.get(workload, name)
        new = IndexedPod(
            event.pod.uid,
            text(event.labels),
            event.phase,
            tuple(seen.name for seen in event.containers),
            tuple(seen.name for seen in event.init_containers),
        )
        # Most facts about a pod change nothing that counts here, and a table that is written is checkpointed.
        if old != new:
            key = f"{workload}/{name}"
            keys = self._keys()
            self.table.upsert(key, new)
            if old is None:
                keys.setdefault(workload, {})[key] = None
        return old, new

    def drop(self, workload: str, pod: str) -> None:
        """Forget a pod."""
        keys, gone = self._keys(), f"{workload}/{pod}"
        if self.table.remove(gone) is not None:
            del keys[workload][gone]
            if not keys[workload]:
                del keys[workload]

    def has(self, workload: str) -> bool:
        """Whether any pod of a workload is known."""
        return workload in self._keys()

    def of(self, workload: str) -> Iterator[IndexedPod]:
        """The pods of a workload."""
        for key in self._keys().get(workload, ()):
            pod = self.table.get(key)
            if pod is not None:
                yield pod

    def kinds(self, workload: str) -> set[tuple[str, ...]]:
        """The containers of the pods of a workload that have not ended, once for pods that have the same."""
        return {pod.containers for pod in self.of(workload) if pod.phase not in ENDED_PHASES}

    def names(self, workload: str) -> Iterator[str]:
        """The names of these."""
        return (key.rsplit("/", 1)[1] for key in self._keys().get(workload, ()))

    def all(self) -> Iterator[tuple[str, str, IndexedPod]]:
        """Workload, name and pod of each."""
        for key, pod in self.table.items():
            workload, name = key.rsplit("/", 1)
            yield workload, name, pod

    def loaded(self) -> None:
        """The table was loaded, so what follows from it is built again."""
        self._of = None

    def _keys(self) -> dict[str, dict[str, None]]:
        if self._of is None:
            self._of = {}
            for key in self.table:
                self._of.setdefault(intern(key.rsplit("/", 1)[0]), {})[key] = None
        return self._of
