"""VerticalPodAutoscalerCheckpoint objects: how a saved history is written for another recommender to read.

One object for each container name of a VPA, called `<vpa>-<container>`, in the VPA's namespace. Times are whole seconds; one that
never was is left out. An object that is there keeps its metadata and gets a new spec and status, both as a whole.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from urllib.parse import quote

from schemas import times
from schemas.facts.vpa_checkpoints import CheckpointSeen, SavedHistogram
from streams.clients.kube.api import Answer, Api, Question, accepted

API_VERSION = "autoscaling.k8s.io/v1"
KIND = "VerticalPodAutoscalerCheckpoint"
_NEVER = -62_135_596_800.0
_TRIES = 5

Body = dict[str, object]


def as_object(kept: CheckpointSeen) -> Body:
    """The object that holds a checkpoint."""
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


def as_list(kept: Iterable[CheckpointSeen]) -> Body:
    """Several of them as one document, as `kubectl apply -f` takes it."""
    return {"apiVersion": "v1", "kind": "List", "items": [as_object(each) for each in kept]}


def object_name(kept: CheckpointSeen) -> str:
    """The name of the object that holds a checkpoint."""
    return f"{kept.vpa}-{kept.container}"


def put(api: Api, kept: CheckpointSeen) -> None:
    """Make the object, or replace what is there. Raises TryAgain and GiveUp."""
    made = as_object(kept)
    folder = f"/apis/{API_VERSION}/namespaces/{quote(kept.workload.namespace)}/verticalpodautoscalercheckpoints"
    place, name = f"{folder}/{quote(object_name(kept))}", f"{kept.workload.namespace}/{object_name(kept)}"
    read = Question(place, "reading checkpoint", name)
    for left in reversed(range(_TRIES)):
        there = api.find(read, dict[str, object])
        if there is None:
            question = Question(folder, "making checkpoint", name, method="POST", body=made)
        else:
            question = Question(place, "replacing checkpoint", name, method="PUT", body=_over(there, made))
        answer = api.ask(question)
        if not left or not _moved(answer):
            accepted(answer, question)
            return


def _over(there: Mapping[str, object], made: Body) -> Body:
    return {**there, "spec": made["spec"], "status": made["status"]}


def _moved(answer: Answer) -> bool:
    """Somebody else made, changed or removed it since it was read."""
    return answer.code == HTTPStatus.CONFLICT


def _histogram(kept: SavedHistogram) -> Body:
    return {
        **_timed("referenceTimestamp", kept.reference),
        "totalWeight": kept.total,
        "bucketWeights": {bucket: int(weight) for bucket, weight in kept.weights.items()},
    }


def _timed(name: str, seconds: float) -> Body:
    if seconds <= _NEVER:
        return {}
    return {name: times.rfc3339(times.from_seconds(int(seconds // 1)))}
