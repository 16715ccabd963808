"""Settings of the updater's guards that a policy overrides for the workloads that it governs."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from schemas.units import Fraction, Seconds

UPSTREAM_PROFILE = "upstream"
"""The profile under which none of our own guards holds anything back."""


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
    def said(self) -> Mapping[str, bool | int | float | str]:
        """The fields that are not None."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}


NO_OVERRIDES = GuardOverrides()
