"""VerticalPodAutoscalerCheckpoint objects: saved histories, written so that another recommender can read them.

There is one object for each container name of a VPA, called `<vpa>-<container>`, in the VPA's namespace. Times are whole seconds,
and a time that never was is left out.
"""

from collections.abc import Iterable
from http import HTTPStatus

from schemas import times
from schemas.facts.usage import CheckpointSeen, SavedHistogram
from schemas.times import NEVER
from streams.clients.kube import api_paths
from streams.clients.kube.api import Api, ApiRequest, accepted_body

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
