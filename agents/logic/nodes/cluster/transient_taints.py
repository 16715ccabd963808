"""Taints that describe one node at one moment and not its group, and what makes a ready node unusable.

A new node of a group is simulated without such taints, because it would not have them for long. A start-up taint also says that
its node is not ready yet; a status taint does not. Source: utils/taints/taints.go and utils/kubernetes/ready.go.
"""

from dataclasses import dataclass
from typing import Self

from agents.logic.nodes.scaler_settings import ScalerSettings
from agents.logic.nodes.scheduling.pod_shapes import UNSCHEDULABLE_TAINT
from schemas.facts.nodes import NodeDetailsChanged
from schemas.well_known_labels import DELETION_CANDIDATE, TO_BE_DELETED

_NOT_READY = frozenset(
    ("node.kubernetes.io/not-ready", "node.kubernetes.io/disk-pressure", "node.kubernetes.io/network-unavailable")
)
_UNUSABLE = ("DiskPressure", "NetworkUnavailable")
"""Conditions that a ready node does not have."""
_PASSING = _NOT_READY | {
    TO_BE_DELETED,
    DELETION_CANDIDATE,
    UNSCHEDULABLE_TAINT,
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cloudprovider.kubernetes.io/shutdown",
    "NodeWithImpairedVolumes",
    "ullage.internal/removal",
}
_STARTUP = ("startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/")
_STATUS = ("status-taint.cluster-autoscaler.kubernetes.io/",)


@dataclass(frozen=True, slots=True)
class TransientTaints:
    """The configured keys, in addition to those that every cluster has."""

    startup: frozenset[str] = frozenset()
    status: frozenset[str] = frozenset()

    @classmethod
    def of(cls, settings: ScalerSettings) -> Self:
        """As the settings say."""
        return cls(frozenset(settings.startup_taint_keys), frozenset(settings.status_taint_keys))

    def passes(self, key: str) -> bool:
        """Whether a new node would not have such a taint for long."""
        return key in _PASSING or self._starts(key) or key in self.status or key.startswith(_STATUS)

    def usable(self, fact: NodeDetailsChanged) -> bool:
        """Whether no condition or taint makes the node unusable, whatever its kubelet says of being ready."""
        return not any(fact.conditions.get(condition) == "True" for condition in _UNUSABLE) and not any(
            taint.key in _NOT_READY or self._starts(taint.key) for taint in fact.taints
        )

    def _starts(self, key: str) -> bool:
        return key in self.startup or key.startswith(_STARTUP)
