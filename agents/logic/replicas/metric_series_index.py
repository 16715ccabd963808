"""Which objects of a partition want which load series: an index that is rebuilt from the objects and is not part of the state."""

from collections.abc import Iterable, Iterator

from agents.logic.replicas.metric_series import WantedSeries


def ring_key(wanted: WantedSeries) -> str:
    """The name of a wanted series, unique across all workloads."""
    return series_key(wanted.workload, wanted.series)


def series_key(workload: str, series: str) -> str:
    """The name of a workload's series, unique across all workloads."""
    return f"{workload}|{series}"


def model_key(object_key: str, wanted: WantedSeries) -> str:
    """The name of the model of one metric of one object."""
    return f"{object_key}|{wanted.identifier}"


class WantedIndex:
    """The series that objects want, by object, by series and by workload."""

    def __init__(self) -> None:
        self._of: dict[str, list[WantedSeries]] = {}
        self._users: dict[str, set[str]] = {}
        self._objects: dict[str, set[str]] = {}
        self._workload: dict[str, str] = {}

    def put(self, object_key: str, wanted: Iterable[WantedSeries], workload: str) -> list[str]:
        """Replace what an object wants by these series of a workload. Returns the names of series that nobody wants any more."""
        gone = self.remove(object_key)
        self._of[object_key] = list(wanted)
        if workload:
            self._workload[object_key] = workload
            self._objects.setdefault(workload, set()).add(object_key)
        for series in self._of[object_key]:
            self._users.setdefault(ring_key(series), set()).add(object_key)
        # Only now: a series that the object still wants was dropped above and has its user back.
        return [name for name in gone if name not in self._users]

    def remove(self, object_key: str) -> list[str]:
        """Drop all that an object wants. Returns the names of series that nobody wants any more."""
        gone = []
        for name in map(ring_key, self._of.pop(object_key, ())):
            users = self._users.get(name, set())
            users.discard(object_key)
            if not users and self._users.pop(name, None) is not None:
                gone.append(name)
        workload = self._workload.pop(object_key, "")
        if workload:
            self._objects[workload].discard(object_key)
            if not self._objects[workload]:
                del self._objects[workload]
        return gone

    def of(self, object_key: str) -> list[WantedSeries]:
        """The series that an object wants."""
        return self._of.get(object_key, [])

    def users(self, name: str) -> list[str]:
        """The keys of the objects that want a series, in order."""
        return sorted(self._users.get(name, ()))

    def wants(self, name: str) -> bool:
        """Whether somebody wants a series."""
        return name in self._users

    def objects(self, workload: str) -> list[str]:
        """The keys of the objects that are about a workload, in order."""
        return sorted(self._objects.get(workload, ()))

    def is_wanted(self, workload: str) -> bool:
        """Whether some object is about a workload."""
        return workload in self._objects

    def scraped(self, workload: str) -> Iterator[WantedSeries]:
        """The series of a workload that are summed up from its pods' usage, each once."""
        seen: set[str] = set()
        for key in self.objects(workload):
            for series in self.of(key):
                if series.scraped and series.series not in seen:
                    seen.add(series.series)
                    yield series
