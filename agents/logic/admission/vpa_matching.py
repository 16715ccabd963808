"""Which VPA governs a pod: the oldest of those that name the pod's topmost controller and select the pod.

Upstream's pkg/admission-controller/resource/vpa/matcher.go and pkg/utils/vpa/api.go. The topmost controller and the targets'
selectors are given; without either nothing governs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agents.logic.admission.pod_spec import AdmittedPod, PodOwnerReference
from agents.logic.admission.vpa_manifest import Vpa
from agents.logic.resources.container_limit_range import Ranges
from schemas.facts.resource_quotas import ResourceQuotaChanged
from schemas.policies.vertical import UpdateMode


@dataclass(frozen=True, slots=True)
class Unresolved:
    """The topmost controller, or the VPA, is unknown. `why` is a clause: "its owners form a circle"."""

    why: str


class Lookup(Protocol):
    """The known state of a cluster at the moment of a review."""

    def topmost(self, namespace: str, owner: PodOwnerReference) -> PodOwnerReference | Unresolved | None:
        """The topmost well-known or scalable controller above (or at) an owner; None when no such controller is there."""

    def vpas(self, namespace: str, kind: str, name: str) -> Sequence[Vpa]:
        """The VPAs whose target has this kind and name."""

    def ranges(self, namespace: str) -> Ranges:
        """The LimitRanges of a namespace."""

    def quotas(self, namespace: str) -> Sequence[ResourceQuotaChanged]:
        """The quotas of a namespace."""

    def coming(self, namespace: str, owner: PodOwnerReference) -> int | None:
        """How many pods an owner still wants, the one under review among them; None if that is not known."""


def governing(pod: AdmittedPod, lookup: Lookup) -> Vpa | Unresolved | str:
    """The VPA, or a clause that says why there is none; Unresolved if there may be one that cannot be found now."""
    if pod.owner is None:
        return "no controller owns the pod"
    top = lookup.topmost(pod.namespace, pod.owner)
    if top is None:
        return f"no controller that could be a target is above {pod.owner.kind} '{pod.owner.name}'"
    if isinstance(top, Unresolved):
        return Unresolved(f"the topmost controller above {pod.owner.kind} '{pod.owner.name}' is not known: {top.why}")
    candidates = lookup.vpas(pod.namespace, top.kind, top.name)
    vpa = strongest(pod, candidates)
    if vpa is None:
        return _nobody(top, candidates)
    # It governs although it does not patch: a younger VPA must not take its place.
    return vpa if vpa.patches else f"VPA '{vpa.name}' leaves new pods as they are"


def strongest(pod: AdmittedPod, candidates: Iterable[Vpa]) -> Vpa | None:
    """The oldest of those that select the pod and apply; among equally old ones the first by name."""
    fitting = [vpa for vpa in candidates if _applies(vpa) and _selects(vpa, pod)]
    return min(fitting, key=lambda vpa: (vpa.created, vpa.name), default=None)


def _applies(vpa: Vpa) -> bool:
    return vpa.mode != UpdateMode.OFF or vpa.boosts  # a boost is applied under Off, too, as upstream does


def _selects(vpa: Vpa, pod: AdmittedPod) -> bool:
    if vpa.selector is None or vpa.namespace != pod.namespace:
        return False
    return all(requirement.holds(pod.labels.get(requirement.key)) for requirement in vpa.selector)


def _nobody(top: PodOwnerReference, candidates: Sequence[Vpa]) -> str:
    if not candidates:
        return f"no VPA names {top.kind} '{top.name}'"
    if not any(_applies(vpa) for vpa in candidates):
        return f"the VPA of {top.kind} '{top.name}' is in mode Off"
    return f"no VPA of {top.kind} '{top.name}' selects the pod"
