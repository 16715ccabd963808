"""Settings of the updater, and what a policy or a profile makes of them.

Defaults are upstream's; where upstream has no such setting, the text says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any

from agents.logic.guards import budget_schedules
from agents.logic.guards.shared_guards import REPORTS_WITHIN
from agents.logic.stage_rules import fault
from agents.logic.updates.eviction_tolerance import DisruptionRules
from agents.logic.updates.update_priority import UpdateThresholds
from schemas import exact_quantity
from schemas.catalogue import Event
from schemas.exact_quantity import NotAQuantityError
from schemas.facts.pods import PROTECTORS
from schemas.facts.update_facts import ResourceQuotaChanged, ResourceQuotaRemoved
from schemas.policies.vertical import NO_OVERRIDES, UPSTREAM_PROFILE, GuardOverrides, VerticalPolicyChanged
from schemas.policies.vpa import DEFAULT_RECOMMENDER
from schemas.units import Fraction, Seconds

NAME = "updater"
PROGRAM = 23
"""Counts changes of this capability's code that change what is decided."""


class UpdaterProfile(StrEnum):
    """UPSTREAM holds back what the VPA's updater holds back and nothing else; ULLAGE has guards of its own."""

    ULLAGE = "ullage"
    UPSTREAM = UPSTREAM_PROFILE


@dataclass(frozen=True, slots=True)
class UpdateSettings:
    """When pods may be changed, and how many at a time."""

    profile: str = UpdaterProfile.ULLAGE
    """`upstream` holds back what the VPA's updater holds back and nothing else, whatever the settings of our own guards say."""
    interval: Seconds = Seconds(60.0)
    """Pods are looked at once in this time of events."""
    threshold: Fraction = Fraction(0.1)
    """Inside its bounds a pod is changed only when requests differ from the target by at least this share ..."""
    lifetime: Seconds = Seconds(12 * 3600.0)
    """... and the pod is at least this old."""
    quick_oom: Seconds = Seconds(600.0)
    """A pod killed by an OOM within this time of its start, and this recently, is changed even inside its bounds."""
    min_replicas: int = 2
    """A controller with fewer pods on nodes is left alone. Source: min-replicas."""
    eviction_tolerance: Fraction = Fraction(0.5)
    """Share of the pods that a controller wants that may be away because of us."""
    in_place_skips_disruption: bool = False
    """Resizing in place ignores `min_replicas` and `eviction_tolerance`."""
    resize_deferred: Seconds = Seconds(300.0)
    """A resize that the node defers for longer becomes an eviction."""
    resize_in_progress: Seconds = Seconds(3600.0)
    """A resize that is still going on after this time becomes an eviction."""
    budget: Fraction = Fraction(0.1)
    """Share of a cluster's pods that may be away or being changed, where no control record says another. Not upstream's."""
    budget_schedules: str = ""
    """Smaller budgets at certain times, such as `0% @ 0 9 * * mon-fri for 8h; 5% @ 0 1 * * * for 90m`. Not upstream's."""
    protected_namespaces: str = "kube-system"
    """Namespaces whose pods are left alone, separated by commas; `*` stands for any text. Not upstream's."""
    protected_labels: str = ""
    """Labels of objects whose pods are left alone, such as `ServiceAccount:tier=critical,Namespace:team=*`. Not upstream's."""
    honor_opt_outs: bool = True
    """Pods whose annotations ask cluster-autoscaler or Karpenter not to evict them are not evicted. Not upstream's."""
    honor_hpas: bool = True
    """A resource that a HorizontalPodAutoscaler of the workload scales by is left to it. Not upstream's."""
    honor_disruption_budgets: bool = True
    """No eviction is planned that a PodDisruptionBudget would refuse. Not upstream's, which asks and is refused."""
    honor_nodes: bool = True
    """No pod is evicted whose successor fits no node that is known, and no new one of a known group. Not upstream's."""
    other_autoscaler: bool = False
    """Something else than Ullage or Karpenter adds nodes when pods wait, so full nodes hold no eviction back. Not upstream's."""
    unchanged_pause: Seconds = Seconds(3600.0)
    """Pause after an evicted pod came back as it was, or as nobody recommended; twice as long after the next. Not upstream's."""
    successor_within: Seconds = Seconds(300.0)
    """No pod of a workload is evicted while successors of evicted ones have been missing for longer. Not upstream's."""
    rate: int = 100
    """Evictions planned in one interval for each cluster, at most. Upstream has no limit by default."""
    resize_rate: int = 2_000
    """Resizes in place planned in one interval for each cluster, at most. Not upstream's."""
    pod_warm_up: Seconds = Seconds(0.0)
    """A pod is left alone for this long after its start, unless an OOM kill or a revert is the reason. Not upstream's."""
    warm_up: Seconds = Seconds(300.0)
    """No plan in this time after the stage's first turn. Not upstream's."""
    facts_within: Seconds = Seconds(6 * 3600.0)
    """No plan for a cluster of which no source reports and no pod fact was seen for this long. Not upstream's."""
    reports_within: Seconds = REPORTS_WITHIN
    """No plan for a cluster whose sources have not reported for this long that they see its pods. Not upstream's."""
    recommendation_within: Seconds = Seconds(2 * 3600.0)
    """No plan on a recommendation older than this; twice the recommender's heartbeat. Not upstream's."""
    cool_down: Seconds = Seconds(900.0)
    """No second plan for a pod in this time, unless it only raises requests in place. Not upstream's."""
    expires: Seconds = Seconds(300.0)
    """A plan is void after this time. Not upstream's."""

    def faults(self) -> Iterator[tuple[str, str]]:
        """The name of each setting that cannot be, and why."""
        if self.profile not in set(UpdaterProfile):
            yield "profile", f"it is 'ullage' or 'upstream', not '{self.profile}'"
        try:
            budget_schedules.parse(self.budget_schedules)
        except ValueError as error:
            yield "budget_schedules", str(error)
        for pattern in filter(None, map(str.strip, self.protected_labels.split(","))):
            if pattern.partition(":")[0] not in PROTECTORS or "=" not in pattern:
                yield "protected_labels", f"'{pattern}' is no label of {' or '.join(PROTECTORS)}, such as 'Namespace:team=a'"

    def governed_by(self, guards: GuardOverrides) -> "UpdateSettings":
        """The settings for workloads whose policy says this of the guards, with what the profile makes of them."""
        settings = replace(self, **overrides) if (overrides := dict[str, Any](guards.said)) else self
        if settings.profile != UpdaterProfile.UPSTREAM:
            return settings
        upstream = _upstream(settings)
        if self.profile == UpdaterProfile.UPSTREAM:
            return upstream
        # The profile of a policy lifts no guard of the whole cluster: only those that the policy could lift by their names.
        return replace(settings, **{name: getattr(upstream, name) for name in NO_OVERRIDES.names})

    @property
    def in_force(self) -> "UpdateSettings":
        """The settings with what the profile makes of them."""
        return self.governed_by(NO_OVERRIDES)

    @property
    def thresholds(self) -> UpdateThresholds:
        """The settings that upstream's choice of pods needs."""
        return _thresholds(self.threshold, self.lifetime)

    @property
    def disruption(self) -> DisruptionRules:
        """The settings that upstream's arithmetic of replica groups needs."""
        upstream, skips = self.profile == UpdaterProfile.UPSTREAM, self.in_place_skips_disruption
        waits = self.resize_deferred, self.resize_in_progress
        return _disruption(self.min_replicas, self.eviction_tolerance, waits, skips=skips, strict=upstream)


@dataclass(frozen=True, slots=True)
class UpdateRules(UpdateSettings):
    """All that the updater decides by."""

    recommender: str = DEFAULT_RECOMMENDER
    """VPA objects count that name this recommender; `default` also stands for those that name none."""


class SettingsCache:
    """The settings in force for each policy, worked out once."""

    def __init__(self, settings: UpdateSettings) -> None:
        self._settings, self.own = settings, settings.in_force
        self._of: dict[GuardOverrides, UpdateSettings] = {NO_OVERRIDES: self.own}

    def of(self, guards: GuardOverrides) -> UpdateSettings:
        """The settings for workloads whose policy says this of the guards."""
        settings = self._of.get(guards)
        if settings is None:
            # Policies come and go, and only the present ones are worth their memory.
            if len(self._of) >= _REMEMBERED:
                self._of = {NO_OVERRIDES: self.own}
            settings = self._of[guards] = self._settings.governed_by(guards)
        return settings


_REMEMBERED = 1000


# Cached, because they are asked for each pod, some of them several times.
@lru_cache(maxsize=_REMEMBERED)
def _disruption(least: int, tolerance: Fraction, waits: tuple[Seconds, Seconds], *, skips: bool, strict: bool) -> DisruptionRules:
    deferred, in_progress = (timedelta(seconds=seconds) for seconds in waits)
    return DisruptionRules(least, tolerance, skips, deferred, in_progress, strict)


@lru_cache(maxsize=_REMEMBERED)
def _thresholds(difference: Fraction, lifetime: Seconds) -> UpdateThresholds:
    return UpdateThresholds(difference, timedelta(seconds=lifetime))


def _upstream(settings: UpdateSettings) -> UpdateSettings:
    """None of our own guards holds anything back."""
    return replace(
        settings,
        budget=Fraction(1.0),
        budget_schedules="",
        protected_namespaces="",
        protected_labels="",
        honor_opt_outs=False,
        honor_hpas=False,
        honor_disruption_budgets=False,
        honor_nodes=False,
        unchanged_pause=Seconds(0.0),
        rate=1_000_000,
        resize_rate=1_000_000,
        pod_warm_up=Seconds(0.0),
        warm_up=Seconds(0.0),
        cool_down=Seconds(0.0),
    )


# What the updater must not take in: guards of a policy that its settings do not have or refuse, and quotas without a meaning.


def reasons(event: Event) -> Iterator[str]:
    """Why an event must be refused; nothing for a good event, or one of another capability."""
    if isinstance(event, VerticalPolicyChanged) and (odd := fault(UpdateSettings, event.guards.said)) is not None:
        yield odd.replace("settings.", "guards.", 1)
    if isinstance(event, ResourceQuotaChanged | ResourceQuotaRemoved):
        yield from quota_reasons(event)


def quota_reasons(event: ResourceQuotaChanged | ResourceQuotaRemoved) -> Iterator[str]:
    """Why a fact about a quota must be refused."""
    for name in ("cluster", "namespace", "name"):
        text = getattr(event, name)
        if not text or "/" in text:
            yield f"{name} is '{text}'; it is a name without slashes"
    if isinstance(event, ResourceQuotaChanged):
        for name, amounts in (("hard", event.hard), ("used", event.used)):
            for resource, amount in amounts.items():
                try:
                    exact_quantity.parse(amount)
                except NotAQuantityError:
                    yield f"{name}['{resource[:80]}'] is '{amount[:80]}', which is no quantity"
