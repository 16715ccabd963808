"""VPA objects as admission needs them: from a manifest under review, or from the log.

Enumerations stay text, so that a check can name an invalid value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agents.logic.admission import json_fields
from agents.logic.resources import resource_lists
from agents.logic.resources.resource_lists import Advice, Resources
from agents.logic.resources.target_caps import ContainerRule
from schemas import exact_quantity
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.exact_quantity import ZERO, Quantity
from schemas.policies.vertical import ContainerPolicy, ControlledValues, StartupBoost, UpdateMode
from schemas.policies.vpa import Requirement, TargetRef, VpaChanged


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """Upstream's feature gates, all off as there, and `--max-allowed-cpu-boost`, which is no bound while it is zero."""

    cpu_startup_boost: bool = False
    per_vpa_config: bool = False
    in_place: bool = False
    most_boosted_cpu: Quantity = ZERO
    largest: int = 5 * 1024 * 1024
    """Bytes of a review that are read; upstream's bound."""


@dataclass(frozen=True, slots=True)
class CpuBoost:
    """How much more CPU a starting container gets; an empty type, or None in a field, means not set."""

    type: str = ""
    factor: float | None = None
    quantity: Quantity | None = None
    duration: float | None = None


@dataclass(frozen=True, slots=True)
class StartupBoostManifest:
    """A startupBoost; one without `cpu` passes all checks and cannot be applied."""

    cpu: CpuBoost | None = None


@dataclass(frozen=True, slots=True)
class ContainerPolicyManifest:
    """A container policy; None where a field is not given."""

    container: str = ""
    mode: str | None = None
    least: Resources = field(default_factory=dict)
    most: Resources = field(default_factory=dict)
    resources: tuple[str, ...] | None = None
    values: str | None = None
    oom_ratio: Quantity | None = None
    oom_minimum: Quantity | None = None
    window_seconds: int | None = None
    windows: int | None = None
    startup: StartupBoostManifest | None = None

    @property
    def rule(self) -> ContainerRule:
        """Its part of capping."""
        return ContainerRule(self.container, self.least, self.most, self.values or ControlledValues.REQUESTS_AND_LIMITS)


@dataclass(frozen=True, slots=True)
class UpdatePolicyManifest:
    """An updatePolicy; None where a field is not given."""

    mode: str | None = None
    min_replicas: int | None = None
    evict_after_oom: int | None = None


@dataclass(frozen=True, slots=True)
class Vpa:
    """A VPA object. `selector` is its target's, resolved by others; None when it could not be. `advice`: None without any."""

    namespace: str
    name: str
    created: datetime = json_fields.NEVER
    target: TargetRef | None = None
    selector: tuple[Requirement, ...] | None = None
    update: UpdatePolicyManifest | None = None
    policies: tuple[ContainerPolicyManifest, ...] | None = None
    startup: StartupBoostManifest | None = None
    recommenders: int = 0
    advice: tuple[Advice, ...] | None = None
    left: frozenset[str] = frozenset()
    """Resources that HorizontalPodAutoscalers scale the target by; only a startup boost sets them."""
    patches: bool = True
    """Whether new pods are patched. A VPA that governs pods without patching them does not leave them to another VPA."""
    upstream: bool = True
    """Whether LimitRanges bound requests as they do upstream, also by limits that stay as they are."""

    @property
    def mode(self) -> str:
        """The mode; the default if it is not set."""
        declared = self.update.mode if self.update else None
        return declared or UpdateMode.RECREATE

    def policy_of(self, container: str) -> ContainerPolicyManifest | None:
        """The policy for a container: its own, else the last one for all, else none."""
        general = None
        for policy in self.policies or ():
            if policy.container == container:
                return policy
            # Upstream's loop goes on after a match of "*", so of several the last counts.
            if policy.container == "*":
                general = policy
        return general

    def startup_of(self, container: str) -> StartupBoostManifest | None:
        """The boost for a container: its policy's, else the object's."""
        policy = self.policy_of(container)
        return policy.startup if policy is not None and policy.startup is not None else self.startup

    @property
    def boosts(self) -> bool:
        """Whether it asks for a boost anywhere."""
        return self.startup is not None or any(policy.startup is not None for policy in self.policies or ())


def of_event(changed: VpaChanged, recommended: Sequence[ContainerRecommendation] | None) -> Vpa:
    """A VPA in the log with the recommendation for its target, which is None if there never was one."""
    return Vpa(
        namespace=changed.namespace,
        name=changed.name,
        created=changed.created,
        target=changed.target_ref,
        # A VPA whose spec makes no sense governs nothing, because it selects nothing.
        selector=None if changed.unsupported else changed.selector,
        update=UpdatePolicyManifest(changed.update_mode, changed.min_replicas),
        policies=tuple(_policy_of(container) for container in changed.containers),
        startup=_startup_of(changed.boost),
        recommenders=len(changed.recommenders),
        advice=_advice_of(recommended),
    )


def of_policy(
    target: str,
    mode: UpdateMode,
    containers: Sequence[ContainerPolicy],
    recommended: Sequence[ContainerRecommendation] | None,
) -> Vpa:
    """A policy of our own as if it were a VPA of a workload that it governs: it selects all pods there."""
    return Vpa(
        namespace="",
        name=target,
        selector=(),
        update=UpdatePolicyManifest(mode),
        policies=tuple(_policy_of(container) for container in containers),
        advice=_advice_of(recommended),
    )


def _advice_of(recommended: Sequence[ContainerRecommendation] | None) -> tuple[Advice, ...] | None:
    return None if recommended is None else tuple(map(resource_lists.of_recommendation, recommended))


def read(manifest: object) -> Vpa:
    """A manifest. Its selector is not in it. Raises UnreadableError."""
    whole = json_fields.parts(manifest, ".")
    meta, spec = json_fields.parts(whole.get("metadata"), "metadata"), json_fields.parts(whole.get("spec"), "spec")
    policy = spec.get("resourcePolicy")
    return Vpa(
        namespace=json_fields.text(meta.get("namespace"), "metadata.namespace"),
        name=json_fields.text(meta.get("name"), "metadata.name"),
        created=json_fields.moment(meta.get("creationTimestamp"), "metadata.creationTimestamp"),
        target=_target(spec.get("targetRef")),
        update=_update(spec.get("updatePolicy")),
        policies=None if policy is None else _policies(json_fields.parts(policy, "spec.resourcePolicy")),
        startup=_startup(spec.get("startupBoost"), "spec.startupBoost"),
        recommenders=len(json_fields.items(spec.get("recommenders"), "spec.recommenders")),
        advice=_advice(json_fields.parts(whole.get("status"), "status").get("recommendation")),
    )


def _target(value: object) -> TargetRef | None:
    if value is None:
        return None
    reference = json_fields.parts(value, "spec.targetRef")
    return TargetRef(
        *(json_fields.text(reference.get(name), f"spec.targetRef.{name}") for name in ("kind", "name", "apiVersion"))
    )


def _update(value: object) -> UpdatePolicyManifest | None:
    if value is None:
        return None
    path = "spec.updatePolicy"
    policy = json_fields.parts(value, path)
    return UpdatePolicyManifest(
        json_fields.optional(policy.get("updateMode"), f"{path}.updateMode"),
        json_fields.whole(policy.get("minReplicas"), f"{path}.minReplicas"),
        json_fields.whole(policy.get("evictAfterOOMSeconds"), f"{path}.evictAfterOOMSeconds"),
    )


def _policies(value: Mapping[str, Any]) -> tuple[ContainerPolicyManifest, ...]:
    path = "spec.resourcePolicy.containerPolicies"
    entries = json_fields.items(value.get("containerPolicies"), path)
    return tuple(_policy(json_fields.parts(entry, f"{path}[{i}]"), f"{path}[{i}]") for i, entry in enumerate(entries))


def _policy(value: Mapping[str, Any], path: str) -> ContainerPolicyManifest:
    declared = value.get("controlledResources")
    names = [
        json_fields.text(name, f"{path}.controlledResources")
        for name in json_fields.items(declared, f"{path}.controlledResources")
    ]
    count, seconds = "memoryAggregationIntervalCount", "memoryAggregationIntervalSeconds"
    return ContainerPolicyManifest(
        container=json_fields.text(value.get("containerName"), f"{path}.containerName"),
        mode=json_fields.optional(value.get("mode"), f"{path}.mode"),
        least=json_fields.amounts(value.get("minAllowed"), f"{path}.minAllowed") or {},
        most=json_fields.amounts(value.get("maxAllowed"), f"{path}.maxAllowed") or {},
        resources=None if declared is None else tuple(names),
        values=json_fields.optional(value.get("controlledValues"), f"{path}.controlledValues"),
        oom_ratio=json_fields.amount(value.get("oomBumpUpRatio")),
        oom_minimum=json_fields.amount(value.get("oomMinBumpUp")),
        window_seconds=json_fields.whole(value.get(seconds), f"{path}.{seconds}"),
        windows=json_fields.whole(value.get(count), f"{path}.{count}", 64),
        startup=_startup(value.get("startupBoost"), f"{path}.startupBoost"),
    )


def _startup(value: object, path: str) -> StartupBoostManifest | None:
    if value is None:
        return None
    cpu = json_fields.parts(value, path).get("cpu")
    if cpu is None:
        return StartupBoostManifest()
    path = f"{path}.cpu"
    boost = json_fields.parts(cpu, path)
    return StartupBoostManifest(
        CpuBoost(
            json_fields.text(boost.get("type"), f"{path}.type"),
            json_fields.whole(boost.get("factor"), f"{path}.factor"),
            json_fields.amount(boost.get("quantity")),
            json_fields.whole(boost.get("durationSeconds"), f"{path}.durationSeconds"),
        )
    )


def _advice(value: object) -> tuple[Advice, ...] | None:
    if value is None:
        return None
    path = "status.recommendation"
    entries = json_fields.items(json_fields.parts(value, path).get("containerRecommendations"), path)
    return tuple(_advised(json_fields.parts(entry, path), path) for entry in entries)


def _advised(value: Mapping[str, Any], path: str) -> Advice:
    fields = ("target", "lowerBound", "upperBound", "uncappedTarget")
    name = json_fields.text(value.get("containerName"), f"{path}.containerName")
    return Advice(name, *(json_fields.amounts(value.get(field), f"{path}.{field}") for field in fields))


def _policy_of(entry: ContainerPolicy) -> ContainerPolicyManifest:
    """Where the log does not distinguish "not set" from the default, it is the default."""
    return ContainerPolicyManifest(
        container=entry.container,
        mode=entry.mode,
        least=resource_lists.of_amounts(entry.min_allowed),
        most=resource_lists.of_amounts(entry.max_allowed),
        resources=entry.controlled_resources,
        values=entry.controlled_values,
        startup=_startup_of(entry.boost),
    )


def _startup_of(boost: StartupBoost | None) -> StartupBoostManifest | None:
    if boost is None:
        return None
    # Nine decimals are the finest that a quantity can have.
    more = None if boost.quantity is None else exact_quantity.of_nano(round(boost.quantity * 1_000_000_000))
    return StartupBoostManifest(CpuBoost(boost.kind, boost.factor, more, boost.duration))
