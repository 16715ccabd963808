"""A VerticalPodAutoscaler's spec as the API server sends it, even if it violates its own schema."""

from typing import TypeVar

import msgspec

from streams import typed_json
from streams.clients.kube.watched_objects import QuantityInJson

T = TypeVar("T")


class TargetReference(msgspec.Struct, frozen=True, rename="camel"):
    """The reference to the controller that the VPA is for."""

    kind: str = ""
    name: str = ""
    api_version: str = ""


class EvictionRequirementSpec(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of `evictionRequirements`."""

    resources: list[str] = []
    change_requirement: str = ""


class UpdatePolicySpec(msgspec.Struct, frozen=True, rename="camel"):
    """The `updatePolicy`."""

    # Enumerations and quantities stay text, so that the code which interprets them can quote an invalid value.
    update_mode: str = ""
    min_replicas: int | None = None
    # Renaming to camel case would make `evictAfterOomSeconds` of it.
    evict_after_oom_seconds: int | None = msgspec.field(default=None, name="evictAfterOOMSeconds")
    eviction_requirements: list[EvictionRequirementSpec] | None = None


class CpuBoostSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The CPU part of a startup boost."""

    type: str = ""
    factor: float | None = None
    quantity: QuantityInJson | None = None
    duration_seconds: float | None = None


class StartupBoostSpec(msgspec.Struct, frozen=True):
    """The `startupBoost`, of a VPA or of one container."""

    cpu: CpuBoostSpec | None = None


class ContainerPolicySpec(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of `containerPolicies`."""

    container_name: str = ""
    mode: str | None = None
    min_allowed: dict[str, QuantityInJson] | None = None
    max_allowed: dict[str, QuantityInJson] | None = None
    controlled_resources: list[str] | None = None
    controlled_values: str | None = None
    oom_bump_up_ratio: QuantityInJson | None = None
    oom_min_bump_up: QuantityInJson | None = None
    memory_aggregation_interval_seconds: int | None = None
    memory_aggregation_interval_count: int | None = None
    startup_boost: StartupBoostSpec | None = None


class ResourcePolicySpec(msgspec.Struct, frozen=True, rename="camel"):
    """The `resourcePolicy`."""

    container_policies: list[ContainerPolicySpec] | None = None


class RecommenderSelector(msgspec.Struct, frozen=True):
    """An entry of `recommenders`."""

    name: str


class VpaSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The whole spec."""

    target_ref: TargetReference | None = None
    update_policy: UpdatePolicySpec | None = None
    resource_policy: ResourcePolicySpec | None = None
    startup_boost: StartupBoostSpec | None = None
    recommenders: list[RecommenderSelector] | None = None


class _TargetAndRecommenders(msgspec.Struct, frozen=True, rename="camel"):
    target_ref: msgspec.Raw = msgspec.Raw(b"null")
    recommenders: msgspec.Raw = msgspec.Raw(b"null")


def decode(spec: msgspec.Raw) -> VpaSpec:
    """The whole spec. Raises ValueError with the path of what breaks the schema."""
    return typed_json.decode_object(spec, VpaSpec, "spec")


def decode_leniently(spec: msgspec.Raw) -> VpaSpec:
    """Only target and recommenders, each as far as it can be read: for a spec that `decode` refuses."""
    parts = _decode_or_none(spec, _TargetAndRecommenders) or _TargetAndRecommenders()
    recommenders: list[RecommenderSelector] | None = _decode_or_none(parts.recommenders, list[RecommenderSelector])
    return VpaSpec(target_ref=_decode_or_none(parts.target_ref, TargetReference), recommenders=recommenders)


def _decode_or_none(raw: msgspec.Raw, kind: type[T]) -> T | None:
    try:
        return typed_json.decode_object(raw, kind)
    except ValueError:
        return None
