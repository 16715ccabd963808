"""Our own vertical policies with their container entries, whose form VPA objects share, and the guards that they override."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum

from schemas.names import Amounts
from schemas.policies.control import Author
from schemas.units import Bytes, Cores, Fraction, Seconds

UPSTREAM_PROFILE = "upstream"
"""The profile under which none of our own guards holds anything back; in a policy, none of those for its own pods."""


@dataclass(frozen=True, slots=True)
class GuardOverrides:
    """Each field is the updater's setting of that name; None leaves it as it is. `profile` counts before the others."""

    profile: str | None = None
    threshold: Fraction | None = None
    lifetime: Seconds | None = None
    quick_oom: Seconds | None = None
    min_replicas: int | None = None
    eviction_tolerance: Fraction | None = None
    in_place_skips_disruption: bool | None = None
    resize_deferred: Seconds | None = None
    resize_in_progress: Seconds | None = None
    budget: Fraction | None = None
    budget_schedules: str | None = None
    honor_opt_outs: bool | None = None
    honor_hpas: bool | None = None
    honor_disruption_budgets: bool | None = None
    unchanged_pause: Seconds | None = None
    pod_warm_up: Seconds | None = None
    recommendation_within: Seconds | None = None
    cool_down: Seconds | None = None

    @property
    def names(self) -> Sequence[str]:
        """All settings that a policy may override."""
        return [field.name for field in fields(self)]

    @property
    def said(self) -> Mapping[str, bool | int | float | str]:
        """The fields that are not None."""
        return {name: value for name in self.names if (value := getattr(self, name)) is not None}


NO_OVERRIDES = GuardOverrides()


class UpdateMode(StrEnum):
    """How a workload's pods may be changed; VPA's words. AUTO is VPA's old name for RECREATE."""

    OFF = "Off"
    INITIAL = "Initial"
    RECREATE = "Recreate"
    IN_PLACE_OR_RECREATE = "InPlaceOrRecreate"
    IN_PLACE = "InPlace"
    AUTO = "Auto"


class ContainerMode(StrEnum):
    """OFF: this container gets no recommendation and takes no share of its pod's minimum."""

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
    leak_growth: float | None = None
    """The share of its target by which a leaking container's memory may grow a day."""
    risk_cpu: Fraction | None = None
    """The share of time in which it may use more CPU than it requests, where `adaptive` decides."""
    risk_oom: float | None = None
    """The OOM kills that may come, as a share of those under the built-in estimator, where `adaptive` decides."""


@dataclass(frozen=True, slots=True)
class ContainerPolicy:
    """The settings for one container name; `*` stands for all names that have no entry of their own. None means "not set"."""

    container: str = "*"
    min_allowed: Amounts = Amounts()
    max_allowed: Amounts = Amounts()
    mode: ContainerMode = ContainerMode.AUTO
    # Which of `cpu` and `memory` are recommended; an empty one, that none is.
    controlled_resources: tuple[str, ...] | None = None
    controlled_values: ControlledValues = ControlledValues.REQUESTS_AND_LIMITS
    oom_ratio: float | None = None
    oom_minimum: Bytes | None = None
    memory_window: Seconds | None = None
    memory_windows: int | None = None
    boost: StartupBoost | None = None
    tuning: Tuning = Tuning()
    policy: str | None = None
    """What decides its requests: `adaptive` or `built-in`; None leaves that to the settings."""


@dataclass(frozen=True, slots=True)
class VerticalPolicyChanged:
    """An operator set (or replaced) the vertical policy of the workloads that `target` names."""

    at: datetime
    # A workload key or a prefix that ends in `*`; of several that match, the longest wins.
    target: str
    version: str  # Goes into every `because`.
    update_mode: UpdateMode = UpdateMode.IN_PLACE_OR_RECREATE
    containers: tuple[ContainerPolicy, ...] = ()
    guards: GuardOverrides = NO_OVERRIDES
    # Whether new pods get what is recommended; otherwise they start as in their template and are changed in place.
    patch_new_pods: bool = True
    by: Author | None = None
    through: str = ""
    """The object of the cluster that says so, as `VerticalPolicy/shop/cart`; while it exists, it alone changes this policy."""


@dataclass(frozen=True, slots=True)
class VerticalPolicyRemoved:
    """An operator removed the vertical policy with this target. `by` is not known where an object was deleted."""

    at: datetime
    target: str
    by: Author | None = None
    through: str = ""
    """The object of the cluster that said it and is gone, or names other workloads now."""
