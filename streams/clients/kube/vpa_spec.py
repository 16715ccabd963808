"""A VerticalPodAutoscaler's spec as the API server has it, and what can be read of one that breaks its own schema.

Enumerations and quantities stay text here: who gives them meaning can then name the value that has none.
"""

from typing import TypeVar

import msgspec

from streams.clients.kube.watched_objects import Quantity

T = TypeVar("T")


class Target(msgspec.Struct, frozen=True, rename="camel"):
    """The target reference."""

    kind: str = ""
    name: str = ""
    api_version: str = ""


class EvictionSpec(msgspec.Struct, frozen=True, rename="camel"):
    """An eviction requirement."""

    resources: list[str] = []
    change_requirement: str = ""


class UpdateSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The update policy."""

    update_mode: str = ""
    min_replicas: int | None = None
    evict_after_oom_seconds: int | None = msgspec.field(default=None, name="evictAfterOOMSeconds")
    eviction_requirements: list[EvictionSpec] | None = None


class BoostCpu(msgspec.Struct, frozen=True, rename="camel"):
    """A boost of CPU."""

    type: str = ""
    factor: float | None = None
    quantity: Quantity | None = None
    duration_seconds: float | None = None


class BoostSpec(msgspec.Struct, frozen=True):
    """A startup boost."""

    cpu: BoostCpu | None = None


class ContainerSpec(msgspec.Struct, frozen=True, rename="camel"):
    """A container policy."""

    container_name: str = ""
    mode: str | None = None
    min_allowed: dict[str, Quantity] | None = None
    max_allowed: dict[str, Quantity] | None = None
    controlled_resources: list[str] | None = None
    controlled_values: str | None = None
    oom_bump_up_ratio: Quantity | None = None
    oom_min_bump_up: Quantity | None = None
    memory_aggregation_interval_seconds: int | None = None
    memory_aggregation_interval_count: int | None = None
    startup_boost: BoostSpec | None = None


class ResourceSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The resource policy."""

    container_policies: list[ContainerSpec] | None = None


class Recommender(msgspec.Struct, frozen=True):
    """Who is asked to serve it."""

    name: str


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    """All of it."""

    target_ref: Target | None = None
    update_policy: UpdateSpec | None = None
    resource_policy: ResourceSpec | None = None
    startup_boost: BoostSpec | None = None
    recommenders: list[Recommender] | None = None


class _Whose(msgspec.Struct, frozen=True, rename="camel"):
    target_ref: msgspec.Raw = msgspec.Raw(b"null")
    recommenders: msgspec.Raw = msgspec.Raw(b"null")


def whole(spec: msgspec.Raw) -> Spec:
    """Raises ValueError with the path of what breaks the schema."""
    return msgspec.json.decode(spec, type=Spec)


def rescued(spec: msgspec.Raw) -> Spec:
    """Target and recommenders of a spec that cannot be read as a whole, as far as they can be."""
    parts = msgspec.json.decode(spec, type=_Whose)
    recommenders: list[Recommender] | None = _try(parts.recommenders, list[Recommender])
    return Spec(target_ref=_try(parts.target_ref, Target), recommenders=recommenders)


def _try(raw: msgspec.Raw, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(raw, type=kind)
    except ValueError:
        return None
