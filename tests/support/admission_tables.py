"""What admission looks up, in tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.logic.admission.admission_review import Unresolved
from agents.logic.admission.pod_spec import PodOwnerReference
from agents.logic.admission.vpa_manifest import Vpa
from agents.logic.resources.limit_ranges import NONE, Ranges
from schemas.facts.update_facts import ResourceQuotaChanged


@dataclass(frozen=True, slots=True)
class Tables:
    """All of it in tables. `above` leads from owners to topmost controllers; an owner that is not in it is its own."""

    by_target: Mapping[tuple[str, str, str], Sequence[Vpa]] = field(default_factory=dict)
    by_namespace: Mapping[str, Ranges] = field(default_factory=dict)
    above: Mapping[tuple[str, PodOwnerReference], PodOwnerReference | Unresolved | None] = field(default_factory=dict)
    quotas_of: Mapping[str, Sequence[ResourceQuotaChanged]] = field(default_factory=dict)

    def topmost(self, namespace: str, owner: PodOwnerReference) -> PodOwnerReference | Unresolved | None:
        """See Lookup."""
        return self.above.get((namespace, owner), owner)

    def vpas(self, namespace: str, kind: str, name: str) -> Sequence[Vpa]:
        """See Lookup."""
        return self.by_target.get((namespace, kind, name), ())

    def ranges(self, namespace: str) -> Ranges:
        """See Lookup."""
        return self.by_namespace.get(namespace, NONE)

    def quotas(self, namespace: str) -> Sequence[ResourceQuotaChanged]:
        """See Lookup."""
        return self.quotas_of.get(namespace, ())

    def coming(self, _namespace: str, _owner: PodOwnerReference) -> int | None:
        """One, the pod under review."""
        return 1
