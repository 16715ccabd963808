"""Facts about ResourceQuotas: what all pods of a namespace may ask for together, and how much of it is in use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class QuotaScope:
    """A condition on the pods that a quota counts: `Exists`, `DoesNotExist`, `In` or `NotIn` some values.

    The names are Kubernetes': BestEffort, NotBestEffort, Terminating, NotTerminating, PriorityClass, CrossNamespacePodAffinity.
    """

    scope: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceQuotaChanged:
    """A quota was made or changed, or pods came or went. A pod counts if it meets all `scopes`.

    `hard` and `used` are quantities by resource, as the quota's status has them, for that is what the API server judges by. Only
    resources of pods are in it, by the names that quotas have for them: pods, count/pods, cpu, limits.memory and their like.
    """

    at: datetime
    cluster: str
    namespace: str
    name: str
    hard: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[str, str] = field(default_factory=dict)
    scopes: tuple[QuotaScope, ...] = ()

    @property
    def key(self) -> str:
        """`cluster/namespace/ResourceQuota/name`."""
        return f"{self.cluster}/{self.namespace}/ResourceQuota/{self.name}"


@dataclass(frozen=True, slots=True)
class ResourceQuotaRemoved:
    """A quota is gone, or counts no pods any more."""

    at: datetime
    cluster: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """`cluster/namespace/ResourceQuota/name`."""
        return f"{self.cluster}/{self.namespace}/ResourceQuota/{self.name}"
