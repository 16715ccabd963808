"""Which objects of a namespace are looked at: the oldest of them, as far as the share of one namespace reaches.

Each metric that is forecast takes 85 kB and a fit every few minutes, and each cron a look in every round, so a tenant with
thousands of objects would take both from all others. Of several EHPAs with one target the oldest scales it. All of this follows
from the objects and is no state.
"""

from dataclasses import dataclass

from schemas.bounds import MOST_CRONS, MOST_FORECASTS
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.time_series_prediction import TimeSeriesPredictionChanged


@dataclass(frozen=True, slots=True)
class SharingObject:
    """What counts of an object: its age and name, its metrics, the workload that it would scale ("" for none), and its crons."""

    rank: tuple[float, str]
    metrics: int
    scales: str = ""
    crons: int = 0

    @classmethod
    def of(cls, event: EhpaChanged | TimeSeriesPredictionChanged) -> "SharingObject":
        """What counts of an EHPA or a TimeSeriesPrediction, which has no crons and scales nothing."""
        if isinstance(event, TimeSeriesPredictionChanged):
            return cls(event.rank, len(event.metrics))
        return cls(event.rank, len(event.metrics), "" if event.unsupported else event.target, len(event.crons))


class NamespaceShares:
    """The objects of all namespaces of a partition."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, SharingObject]] = {}
        self._touched: dict[str, set[str]] = {}
        self._refused: dict[str, dict[str, str]] = {}
        """By namespace, as all of these; of what it has too many."""
        self._scaled: dict[str, dict[str, str]] = {}
        """The keys of the EHPAs that scale, by target."""

    def put(self, key: str, new: SharingObject) -> None:
        """An object is there, as it is now."""
        self._touch(key)[key] = new

    def remove(self, key: str) -> None:
        """An object is gone."""
        self._touch(key).pop(key, None)

    def settle(self) -> list[str]:
        """Share anew where something changed; the keys that came, changed, went or are looked at otherwise now, in order."""
        found: set[str] = set()
        for namespace, keys in self._touched.items():
            found |= keys | self._share(namespace)
        self._touched.clear()
        return sorted(found)

    def is_refused(self, key: str) -> bool:
        """Whether the share of its namespace does not reach to this object."""
        return key in self._refused.get(_namespace(key), ())

    def exceeded(self, key: str) -> str:
        """Of what its namespace has too many for this object: "metrics" or "crons"; "" where its share reaches to it."""
        return self._refused.get(_namespace(key), {}).get(key, "")

    def scaled_by(self, target: str) -> str | None:
        """The key of the EHPA that scales a workload."""
        return self._scaled.get(_namespace(target), {}).get(target)

    def _touch(self, key: str) -> dict[str, SharingObject]:
        namespace = _namespace(key)
        self._touched.setdefault(namespace, set()).add(key)
        return self._objects.setdefault(namespace, {})

    def _share(self, namespace: str) -> set[str]:
        """Go through the objects of a namespace by age; the keys that are looked at otherwise than before."""
        objects, before = self._objects[namespace], self._refused.get(namespace, {})
        refused, scaled, taken, crons = dict[str, str](), dict[str, str](), 0, 0
        for key, each in sorted(objects.items(), key=lambda item: (item[1].rank, item[0])):
            if each.scales:
                scaled.setdefault(each.scales, key)
            counts = max(1, each.metrics)
            if taken + counts > MOST_FORECASTS:
                refused[key] = "metrics"
            elif crons + each.crons > MOST_CRONS:
                refused[key] = "crons"
            else:
                taken, crons = taken + counts, crons + each.crons
        self._refused[namespace], self._scaled[namespace] = refused, scaled
        if not objects:
            for table in (self._objects, self._refused, self._scaled):
                del table[namespace]
        return {key for key in before | refused if before.get(key) != refused.get(key)}


def _namespace(key: str) -> str:
    """The cluster and namespace of a key."""
    return key[: key.index("/", key.index("/") + 1)]
