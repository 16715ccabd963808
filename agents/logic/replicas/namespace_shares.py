"""Decides which objects of a namespace get served: by age, each that still fits into the namespace's share.

If several EHPAs have one target, the oldest scales it. All of this is derived from the objects and is not part of the state.
"""

from dataclasses import dataclass

from schemas.bounds import MOST_CRONS, MOST_FORECASTS
from schemas.policies.ehpa import EhpaChanged, TimeSeriesPredictionChanged


@dataclass(frozen=True, slots=True)
class SharingObject:
    """What matters of an object: its age and name, its metrics, the workload that it would scale ("" for none), and its crons."""

    rank: tuple[float, str]
    metrics: int
    scales: str = ""
    crons: int = 0

    @classmethod
    def of(cls, event: EhpaChanged | TimeSeriesPredictionChanged) -> "SharingObject":
        """What matters of an EHPA or a TimeSeriesPrediction; the latter has no crons and scales nothing."""
        if isinstance(event, TimeSeriesPredictionChanged):
            return cls(event.rank, len(event.metrics))
        return cls(event.rank, len(event.metrics), event.claims, len(event.crons))


class NamespaceShares:
    """The objects of all namespaces of a partition."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, SharingObject]] = {}
        self._touched: dict[str, set[str]] = {}
        self._refused: dict[str, dict[str, str]] = {}
        """By namespace: the keys of refused objects, each with what the namespace has too many of."""
        self._scaled: dict[str, dict[str, str]] = {}
        """By namespace: the key of the EHPA that scales each target."""

    def put(self, key: str, new: SharingObject) -> None:
        """Add an object, or replace it by its current version."""
        self._touch(key)[key] = new

    def remove(self, key: str) -> None:
        """Drop an object that is gone."""
        self._touch(key).pop(key, None)

    def settle(self) -> list[str]:
        """Share again where something changed. Returns the sorted keys that appeared, changed, disappeared or were reassessed."""
        changed: set[str] = set()
        for namespace, keys in self._touched.items():
            changed |= keys | self._share(namespace)
        self._touched.clear()
        return sorted(changed)

    def is_refused(self, key: str) -> bool:
        """Whether what older objects leave of the namespace's share is too little for this object."""
        return key in self._refused.get(_namespace(key), ())

    def exceeded(self, key: str) -> str:
        """What the namespace has too many of to serve this object: "metrics" or "crons"; "" if the object is served."""
        return self._refused.get(_namespace(key), {}).get(key, "")

    def scaled_by(self, target: str) -> str | None:
        """The key of the EHPA that scales a workload."""
        return self._scaled.get(_namespace(target), {}).get(target)

    def _touch(self, key: str) -> dict[str, SharingObject]:
        namespace = _namespace(key)
        self._touched.setdefault(namespace, set()).add(key)
        return self._objects.setdefault(namespace, {})

    def _share(self, namespace: str) -> set[str]:
        """Go through the objects of a namespace by age. Returns the keys whose verdict changed."""
        objects, before = self._objects[namespace], self._refused.get(namespace, {})
        refused, scaled, taken, crons = dict[str, str](), dict[str, str](), 0, 0
        # By age, so that no new object can take what an old one has. By key among those of one second.
        for key, rival in sorted(objects.items(), key=lambda item: (item[1].rank, item[0])):
            if rival.scales:
                scaled.setdefault(rival.scales, key)
            # Each forecast metric takes 85 kB and a fit every few minutes, and each cron a look in every round, so that a tenant
            # with thousands of objects would starve all others. An object without a metric takes a place as well.
            counts = max(1, rival.metrics)
            if taken + counts > MOST_FORECASTS:
                refused[key] = "metrics"
            elif crons + rival.crons > MOST_CRONS:
                refused[key] = "crons"
            else:
                taken, crons = taken + counts, crons + rival.crons
        self._refused[namespace], self._scaled[namespace] = refused, scaled
        if not objects:
            for table in (self._objects, self._refused, self._scaled):
                del table[namespace]
        return {key for key in before | refused if before.get(key) != refused.get(key)}


def _namespace(key: str) -> str:
    """The cluster and namespace of a key."""
    return key[: key.index("/", key.index("/") + 1)]
