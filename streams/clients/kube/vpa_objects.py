"""A VerticalPodAutoscaler's spec as the API server sends it, even if it violates its own schema, and its checkpoints.

A VerticalPodAutoscalerCheckpoint is a saved history, written so that another recommender can read it. There is one for each
container name of a VPA, called `<vpa>-<container>`, in the VPA's namespace. Times are whole seconds, and a time that never was is
left out.
"""

from collections.abc import Iterable
from http import HTTPStatus
from typing import TypeVar

import msgspec

from schemas import times
from schemas.facts.usage import CheckpointSeen, SavedHistogram
from schemas.times import NEVER
from streams import typed_json
from streams.clients.kube import api_paths
from streams.clients.kube.api import Api, ApiRequest, accepted_body
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


API_VERSION = "autoscaling.k8s.io/v1"
KIND = "VerticalPodAutoscalerCheckpoint"
_PLURAL = "verticalpodautoscalercheckpoints"
_TRIES = 5

JsonObject = dict[str, object]


def checkpoint_object(kept: CheckpointSeen) -> JsonObject:
    """The checkpoint as a Kubernetes object."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": object_name(kept), "namespace": kept.workload.namespace},
        "spec": {"vpaObjectName": kept.vpa, "containerName": kept.container},
        "status": {
            "version": kept.version,
            "lastUpdateTime": times.rfc3339(kept.at.replace(microsecond=0)),
            **_timed("firstSampleStart", kept.first),
            **_timed("lastSampleStart", kept.last),
            "totalSamplesCount": kept.count,
            "cpuHistogram": _histogram(kept.cpu),
            "memoryHistogram": _histogram(kept.memory),
        },
    }


def checkpoint_list(kept: Iterable[CheckpointSeen]) -> JsonObject:
    """Several checkpoints as one `List` document, which `kubectl apply -f` accepts."""
    return {"apiVersion": "v1", "kind": "List", "items": [checkpoint_object(checkpoint) for checkpoint in kept]}


def object_name(kept: CheckpointSeen) -> str:
    """The object's name: `<vpa>-<container>`."""
    return f"{kept.vpa}-{kept.container}"


def write(api: Api, kept: CheckpointSeen) -> None:
    """Create the object or replace it. Raises TryAgain and GiveUp; conflicts are tried again a few times first."""
    wanted = checkpoint_object(kept)
    start, namespace = api_paths.root(API_VERSION), kept.workload.namespace
    collection = api_paths.scoped(start, namespace, _PLURAL)
    path, name = api_paths.scoped(start, namespace, _PLURAL, object_name(kept)), f"{namespace}/{object_name(kept)}"
    read = ApiRequest(path, "reading checkpoint", name)
    for tries_left in reversed(range(_TRIES)):
        there = api.find(read, dict[str, object])
        if there is None:
            request = ApiRequest(collection, "making checkpoint", name, method="POST", body=wanted)
        else:
            # Its metadata stays: others may own or label it.
            body = {**there, "spec": wanted["spec"], "status": wanted["status"]}
            request = ApiRequest(path, "replacing checkpoint", name, method="PUT", body=body)
        response = api.send(request)
        if not tries_left or response.code != HTTPStatus.CONFLICT:  # somebody else wrote after it was read
            accepted_body(response, request)
            return


def _histogram(kept: SavedHistogram) -> JsonObject:
    return {
        **_timed("referenceTimestamp", kept.reference),
        "totalWeight": kept.total,
        "bucketWeights": {bucket: int(weight) for bucket, weight in kept.weights.items()},
    }


def _timed(name: str, seconds: float) -> JsonObject:
    if seconds <= NEVER:
        return {}
    return {name: times.rfc3339(times.from_seconds(int(seconds // 1)))}
