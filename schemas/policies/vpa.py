"""VerticalPodAutoscaler objects as policies, and label selectors: what the labels of a pod must be."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from schemas.names import ObjectEvent
from schemas.policies.control import Author
from schemas.policies.vertical import ContainerPolicy, StartupBoost, UpdateMode
from schemas.units import Seconds


class Operator(StrEnum):
    """Kubernetes' operators for label requirements."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one label of a pod must be. A selector is several of these, all to be met; an empty one matches every pod."""

    key: str
    operator: Operator = Operator.EXISTS
    values: tuple[str, ...] = ()

    def holds(self, value: str | None) -> bool:
        """Whether a label with this value meets it. None is a missing label, which NotIn accepts, as in Kubernetes."""
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                # Kubernetes takes a missing label for one with another value.
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None


DEFAULT_RECOMMENDER = "default"
"""Upstream's name of the recommender that serves VPAs that name none."""


@dataclass(frozen=True, slots=True)
class TargetRef:
    """The controller that a VPA names, in the VPA's own namespace."""

    kind: str
    name: str
    api_version: str = ""


class ChangeRequirement(StrEnum):
    """In which direction a recommendation must differ from the requests for an eviction."""

    HIGHER = "TargetHigherThanRequests"
    LOWER = "TargetLowerThanRequests"


@dataclass(frozen=True, slots=True)
class EvictionRequirement:
    """Evict only when one of these resources is to change this way."""

    resources: tuple[str, ...]
    change: ChangeRequirement


@dataclass(frozen=True, slots=True)
class VpaChanged(ObjectEvent):
    """A VerticalPodAutoscaler object was created or changed: all of its spec, and its target as the source resolved it."""

    created: datetime
    target_ref: TargetRef | None = None
    # The target's, resolved by the source; None when it could not be, and then `unsupported` says why.
    selector: tuple[Requirement, ...] | None = None
    # Also set when the target is not the topmost controller of its pods; empty means that the object can be served.
    unsupported: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    update_mode: UpdateMode | None = None
    min_replicas: int | None = None
    evict_after_oom: Seconds | None = None
    requirements: tuple[EvictionRequirement, ...] = ()
    containers: tuple[ContainerPolicy, ...] = ()
    boost: StartupBoost | None = None
    recommenders: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    by: Author | None = None
    """Who changed its spec last; None where the object does not say."""

    @property
    def key(self) -> str:
        """`cluster/namespace/name`, the record key."""
        return f"{self.cluster}/{self.namespace}/{self.name}"

    @property
    def target(self) -> str:
        """The key of the workload that it is for; empty when it cannot be served."""
        ref = self.target_ref
        return "" if ref is None or self.unsupported else f"{self.cluster}/{self.namespace}/{ref.kind}/{ref.name}"

    def served_by(self, recommender: str) -> bool:
        """Whether the recommender of this name should serve it."""
        return recommender in (self.recommenders or (DEFAULT_RECOMMENDER,))

    @property
    def recommender(self) -> str:
        """The name of the recommender that should serve it; the first if there are several."""
        return (self.recommenders or (DEFAULT_RECOMMENDER,))[0]

    def rank(self, recommender: str) -> tuple[bool, bool, float, str]:
        """If several VPAs have the same target, the lowest rank governs.

        Ours come first, then those that change pods, then the oldest, then by name.
        """
        # Dashboards make a VPA in mode Off for each workload, and such a one keeps no other from its work upstream, either.
        boosts = self.boost is not None or any(entry.boost is not None for entry in self.containers)
        idle = self.update_mode is UpdateMode.OFF and not boosts
        return (not self.served_by(recommender), idle, self.created.timestamp(), self.name)


@dataclass(frozen=True, slots=True)
class VpaRemoved(ObjectEvent):
    """A VerticalPodAutoscaler object is gone."""

    @property
    def key(self) -> str:
        """`cluster/namespace/name`, the record key."""
        return f"{self.cluster}/{self.namespace}/{self.name}"
