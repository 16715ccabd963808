"""Which watches are in sync, and so which topics the source reports completely.

A kind of object may be watched in several namespaces. It is in sync when each of its watches is.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping

KINDS_BEHIND: Mapping[str, tuple[str, ...]] = {
    "cluster-changes": ("nodes",),
    "oom-events": ("pods", "events"),
    "pod-changes": ("pods",),
    "pod-changes-by-cluster": ("pods",),
    "policies": ("verticalpodautoscalers", "limitranges"),
    "scheduling-changes": (
        "pods",
        "nodes",
        "poddisruptionbudgets",
        "replicasets",
        "statefulsets",
        "daemonsets",
        "jobs",
        "replicationcontrollers",
        "persistentvolumeclaims",
        "persistentvolumes",
        "storageclasses",
        "namespaces",
    ),
}
"""By topic, the kinds that its facts come from: while one is out of sync, facts are missing."""


class SyncStatus:
    """The state of each watch. `kinds` gives the kind of each watch by the watch's name."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self._kinds = dict(kinds)
        self._watches: dict[str, list[str]] = defaultdict(list)
        for watch, kind in kinds.items():
            self._watches[kind].append(watch)
        self._synced: dict[str, bool] = {}
        self._reasons: dict[str, str] = {}
        self._refused: set[str] = set()

    @property
    def kinds(self) -> Collection[str]:
        """The kinds of object that are watched."""
        return self._watches.keys()

    def kind_of(self, watch: str) -> str:
        """The kind of object that a watch shows."""
        return self._kinds[watch]

    def mark_synced(self, watch: str) -> None:
        """A watch is in sync."""
        self._synced[watch], self._reasons[watch] = True, ""
        self._refused.discard(watch)

    def mark_failed(self, watch: str, reason: str, *, refused: bool = False) -> None:
        """A watch shows nothing at the moment, for this reason. `refused`: its account may not see the kind."""
        self._synced[watch], self._reasons[watch] = False, reason
        (self._refused.add if refused else self._refused.discard)(watch)

    def synced(self, kind: str) -> bool:
        """Whether every watch of this kind is in sync."""
        return all(self._synced.get(watch, False) for watch in self._watches.get(kind, ()))

    def all_heard_of(self, kinds: Collection[str]) -> bool:
        """Whether each of these kinds is in sync or has a failed watch, so that no first list is still under way."""
        return all(self.synced(kind) or self._failed(kind) for kind in kinds)

    def synced_topics(self, unpublished: Collection[str] = ()) -> tuple[str, ...]:
        """The topics that the source reports completely. `unpublished`: kinds with objects that are not published yet."""
        return tuple(
            topic
            for topic in sorted(KINDS_BEHIND)
            if all(self._is_synced(kind) and kind not in unpublished for kind in KINDS_BEHIND[topic])
        )

    def _is_synced(self, kind: str) -> bool:
        """Whether a kind is watched at all, and in sync."""
        # `synced` is true of a kind without any watch.
        return kind in self._watches and self.synced(kind)

    def reasons(self) -> list[str]:
        """Why not every watch is in sync; empty when all are."""
        return [self._reason(watch) for watch in sorted(self._kinds) if not self._synced.get(watch, False)]

    def refusals(self) -> list[str]:
        """The reasons that are missing rights of the account."""
        return [self._reason(watch) for watch in sorted(self._refused)]

    def _reason(self, watch: str) -> str:
        reason = self._reasons.get(watch)
        return f"{watch} cannot be seen: {reason}" if reason else f"{watch} are not listed yet"

    def _failed(self, kind: str) -> bool:
        # A watch that has not been heard of has no entry.
        return any(self._synced.get(watch) is False for watch in self._watches.get(kind, ()))
