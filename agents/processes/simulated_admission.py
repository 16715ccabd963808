"""The webhook's answers for the pods of a simulated cluster, in its own process: the same reviews, without HTTPS in between.

A simulated pod knows its Deployment, so there are no look-ups of owners. It only has requests and limits, so only these parts of
a patch are applied; of the annotations it keeps admission's note.
"""

import base64
import json
from collections.abc import Callable
from typing import Any

from schemas import admission_notes
from schemas.names import Amounts
from schemas.well_known_labels import ADMISSION_NOTE
from streams.clients.cluster_port import Patch, Pod
from streams.clients.kube.quantities import read_amounts
from streams.simulated import kube_json


class SimulatedAdmission:
    """Called once for each new pod. `answer` is the webhook's function for an AdmissionReview."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer

    def __call__(self, pod: Pod) -> Patch:
        """The patch for a new pod; empty when it is to stay as it is."""
        answer = json.loads(self._answer(json.dumps(review(pod)).encode()))
        coded = answer["response"].get("patch")
        return Patch() if coded is None else _patch(pod, json.loads(base64.b64decode(coded)))


def review(pod: Pod) -> dict[str, Any]:
    """The review of a new pod, with its workload as its controller."""
    manifest = kube_json.pod(pod)
    owner = {"apiVersion": "apps/v1", "kind": pod.workload.kind, "name": pod.workload.name, "controller": True}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    request = {
        "uid": pod.pod.uid,
        "operation": "CREATE",
        "namespace": pod.pod.namespace,
        "name": pod.pod.name,
        "resource": resource,
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "object": {**manifest, "metadata": {**kube_json.metadata(pod), "ownerReferences": [owner]}, "status": {}},
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _patch(pod: Pod, ops: list[dict[str, Any]]) -> Patch:
    quantities: dict[str, dict[str, dict[str, str]]] = {"requests": {}, "limits": {}}
    names, note = [container.name for container in pod.containers], None
    for op in ops:
        match op["path"].split("/")[1:]:
            case ["spec", "containers", index, "resources", kind, resource]:
                quantities[kind].setdefault(names[int(index)], {})[resource] = op["value"]
            case ["metadata", "annotations", name] if name == ADMISSION_NOTE.replace("/", "~1"):
                note = admission_notes.read(op["value"])
    read: dict[str, dict[str, Amounts]] = {
        kind: {name: read_amounts(of_container) for name, of_container in of_kind.items()} for kind, of_kind in quantities.items()
    }
    return Patch(read["requests"], read["limits"], note)
