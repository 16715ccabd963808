"""Which resources are in sight, and so which topics the source can vouch for.

A kind may be watched in several namespaces; it is in sight when each of its watches is.
"""

from collections.abc import Collection, Iterable, Mapping

NEEDS: Mapping[str, tuple[str, ...]] = {
    "cluster-changes": ("nodes",),
    "oom-events": ("pods", "events"),
    "pod-changes": ("pods",),
    "pod-changes-by-cluster": ("pods",),
    "policies": ("verticalpodautoscalers", "limitranges"),
}
"""Topics, and the kinds without which their facts would be missing."""


class Sights:
    """`kinds` gives the kind of each watch by its name."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self._kinds = dict(kinds)
        self._states: dict[str, bool] = {}
        self._why: dict[str, str] = {}

    def kind(self, watch: str) -> str:
        """The kind that a watch is of."""
        return self._kinds[watch]

    def set(self, watch: str, *, seen: bool, why: str = "") -> None:
        """A watch is in sync, or cannot see."""
        self._states[watch], self._why[watch] = seen, why

    def seen(self, kind: str) -> bool:
        """Whether all watches of this kind are in sync."""
        return all(self._states.get(watch, False) for watch in self._of(kind))

    def blind(self, kind: str) -> bool:
        """Whether a watch of this kind said that it cannot see."""
        return any(self._states.get(watch) is False for watch in self._of(kind))

    def sees(self, untold: Collection[str] = ()) -> tuple[str, ...]:
        """The topics that can be vouched for. `untold`: kinds of which not all that is in sight was told."""
        return tuple(topic for topic in sorted(NEEDS) if all(self.seen(kind) and kind not in untold for kind in NEEDS[topic]))

    def reasons(self) -> list[str]:
        """Why not everything is in sight; empty when it is."""
        return [self._reason(watch) for watch in sorted(self._kinds) if not self._states.get(watch, False)]

    def _reason(self, watch: str) -> str:
        return f"{watch} cannot be seen: {self._why[watch]}" if self._why.get(watch) else f"{watch} are not listed yet"

    def _of(self, kind: str) -> Iterable[str]:
        return (watch for watch, of in self._kinds.items() if of == kind)
