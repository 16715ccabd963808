"""Policies: what an operator asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from schemas.names import Amounts
from schemas.units import Bytes, Cores, Fraction, Seconds

DEFAULT_RECOMMENDER = "default"
"""Upstream's name of the recommender that serves VPAs that name none."""


class Mode(StrEnum):
    """How far the program may go. SHADOW only records, PLAN also says what it would do, APPLY acts."""

    SHADOW = "shadow"
    PLAN = "plan"
    APPLY = "apply"


class UpdateMode(StrEnum):
    """How a workload's pods may be changed; VPA's words. AUTO is VPA's old name for RECREATE."""

    OFF = "Off"
    INITIAL = "Initial"
    RECREATE = "Recreate"
    IN_PLACE_OR_RECREATE = "InPlaceOrRecreate"
    IN_PLACE = "InPlace"
    AUTO = "Auto"


class ContainerMode(StrEnum):
    """OFF: nothing is recommended for this container, and it takes no share of its pod's minimum."""

    AUTO = "Auto"
    OFF = "Off"


class ControlledValues(StrEnum):
    """Whether limits follow requests."""

    REQUESTS_AND_LIMITS = "RequestsAndLimits"
    REQUESTS_ONLY = "RequestsOnly"


class BoostKind(StrEnum):
    """FACTOR multiplies the CPU of a starting container, QUANTITY adds to it."""

    FACTOR = "Factor"
    QUANTITY = "Quantity"


@dataclass(frozen=True, slots=True)
class StartupBoost:
    """More CPU for a container while it starts, and for `duration` after its pod is ready."""

    kind: BoostKind
    factor: float | None = None
    quantity: Cores | None = None
    duration: Seconds = Seconds(0.0)


@dataclass(frozen=True, slots=True)
class Tuning:
    """Settings of the recommender for some containers alone; None leaves the recommender's own. Upstream has none of these."""

    lower_cpu_percentile: Fraction | None = None
    target_cpu_percentile: Fraction | None = None
    upper_cpu_percentile: Fraction | None = None
    lower_memory_percentile: Fraction | None = None
    target_memory_percentile: Fraction | None = None
    upper_memory_percentile: Fraction | None = None
    margin: Fraction | None = None
    cpu_half_life: Seconds | None = None
    memory_half_life: Seconds | None = None
    minimum: Amounts = Amounts()
    """The least for this container, instead of its share of the pod's minimum."""


@dataclass(frozen=True, slots=True)
class ContainerPolicy:
    """What is asked for one container name; `*` stands for all names that have no entry of their own.

    None means "not said". `controlled_resources` says which of `cpu` and `memory` are recommended; an empty one, that none is.
    """

    container: str = "*"
    min_allowed: Amounts = Amounts()
    max_allowed: Amounts = Amounts()
    mode: ContainerMode = ContainerMode.AUTO
    controlled_resources: tuple[str, ...] | None = None
    controlled_values: ControlledValues = ControlledValues.REQUESTS_AND_LIMITS
    oom_ratio: float | None = None
    oom_minimum: Bytes | None = None
    memory_window: Seconds | None = None
    memory_windows: int | None = None
    boost: StartupBoost | None = None
    tuning: Tuning = Tuning()


@dataclass(frozen=True, slots=True)
class VerticalPolicyChanged:
    """An operator set (or replaced) the vertical policy of the workloads that `target` names.

    `target` is a workload key or a prefix that ends in `*`. The longest match wins; `version` goes into every `because`.
    """

    at: datetime
    target: str
    version: str
    update_mode: UpdateMode = UpdateMode.IN_PLACE_OR_RECREATE
    containers: tuple[ContainerPolicy, ...] = ()


@dataclass(frozen=True, slots=True)
class VerticalPolicyRemoved:
    """An operator removed the vertical policy with this target."""

    at: datetime
    target: str


class Operator(StrEnum):
    """Kubernetes' words for what a label must be."""

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
        """Whether a label with this value meets it; None is a label that is not there, which NotIn accepts, as in Kubernetes."""
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None


@dataclass(frozen=True, slots=True)
class TargetRef:
    """The controller that a VPA names, in the VPA's own namespace."""

    kind: str
    name: str
    api_version: str = ""


class ChangeRequirement(StrEnum):
    """Which way a recommendation must lie from the requests, for an eviction."""

    HIGHER = "TargetHigherThanRequests"
    LOWER = "TargetLowerThanRequests"


@dataclass(frozen=True, slots=True)
class EvictionRequirement:
    """Evict only when one of these resources is to change this way."""

    resources: tuple[str, ...]
    change: ChangeRequirement


@dataclass(frozen=True, slots=True)
class VpaChanged:
    """A VerticalPodAutoscaler object was made or changed: all of its spec, and what its target was found to be.

    `selector` is the target's, resolved by the source; None when it could not be, and then `unsupported` says why. `unsupported`
    is also said when the target is not the topmost controller of its pods. Empty: the object can be served.
    """

    at: datetime
    cluster: str
    namespace: str
    name: str
    created: datetime
    target_ref: TargetRef | None = None
    selector: tuple[Requirement, ...] | None = None
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
        """Whether the recommender of this name is to serve it."""
        return recommender in (self.recommenders or (DEFAULT_RECOMMENDER,))

    def rank(self, recommender: str) -> tuple[bool, float, str]:
        """Of several VPAs with one target the one with the lowest rank governs: ours first, then the oldest, then by name."""
        return (not self.served_by(recommender), self.created.timestamp(), self.name)


@dataclass(frozen=True, slots=True)
class VpaRemoved:
    """A VerticalPodAutoscaler object is gone."""

    at: datetime
    cluster: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """`cluster/namespace/name`, the record key."""
        return f"{self.cluster}/{self.namespace}/{self.name}"


class LimitType(StrEnum):
    """What an entry of a LimitRange bounds."""

    CONTAINER = "Container"
    POD = "Pod"


@dataclass(frozen=True, slots=True)
class Limit:
    """One entry of a LimitRange. Amounts that are None are not bounded; ratios are limit to request, by resource."""

    type: LimitType
    least: Amounts = Amounts()
    most: Amounts = Amounts()
    default_limits: Amounts = Amounts()
    default_requests: Amounts = Amounts()
    ratios: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LimitRangeChanged:
    """A LimitRange object was made or changed. Entries of other types than those of LimitType are left out."""

    at: datetime
    cluster: str
    namespace: str
    name: str
    limits: tuple[Limit, ...] = ()

    @property
    def key(self) -> str:
        """`cluster/namespace/LimitRange/name`, the record key."""
        return f"{self.cluster}/{self.namespace}/LimitRange/{self.name}"


@dataclass(frozen=True, slots=True)
class LimitRangeRemoved:
    """A LimitRange object is gone."""

    at: datetime
    cluster: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """`cluster/namespace/LimitRange/name`, the record key."""
        return f"{self.cluster}/{self.namespace}/LimitRange/{self.name}"


@dataclass(frozen=True, slots=True)
class ControlChanged:
    """The cluster-wide switch: mode, pause and budget. Consumers obey it even when agents lag."""

    at: datetime
    cluster: str
    mode: Mode
    paused: bool = False
    reason: str = ""
    budget: Fraction = Fraction(0.1)
    """Share of a cluster's and of a workload's pods that may be away or being changed at one time."""


Policy = (
    VerticalPolicyChanged
    | VerticalPolicyRemoved
    | VpaChanged
    | VpaRemoved
    | LimitRangeChanged
    | LimitRangeRemoved
    | ControlChanged
)
