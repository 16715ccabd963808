"""Objects by which somebody commands Ullage (deploy/crds): how they are read, and what their status says became of them."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar

import msgspec

from streams import typed_json
from streams.clients.kube.api import MERGE_PATCH, Api, ApiRequest, accepted_body
from streams.clients.kube.json_objects import Json
from streams.clients.kube.pod_objects import AuthoredMeta

S = TypeVar("S", bound=msgspec.Struct)
ROOT = "/apis/ullage.internal/v1alpha1"


class CommandingObject(msgspec.Struct, frozen=True, gc=False):
    """An object with spec and status undecoded."""

    metadata: AuthoredMeta
    # People write them, and one bad field must not hide the object's name.
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class AppliedCondition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The condition `Applied`: whether the spec of this generation is in force, and else why not."""

    type: str = ""
    status: str = ""
    message: str = ""
    observed_generation: int = 0


class _Status(msgspec.Struct, frozen=True, gc=False):
    conditions: list[AppliedCondition] = []


def decode_spec(spec: msgspec.Raw, kind: type[S]) -> S:
    """The spec. Raises ValueError with the place of what is not as the type has it."""
    return typed_json.decode_object(spec, kind, "spec")


def applied(command: CommandingObject) -> AppliedCondition:
    """What the object's status says of it; an empty condition if it says nothing that can be read."""
    try:
        conditions = typed_json.decode_object(command.status, _Status).conditions
    except ValueError:
        return AppliedCondition()
    return next((condition for condition in conditions if condition.type == "Applied"), AppliedCondition())


def status(command: CommandingObject, at: datetime, *, in_force: bool, message: str) -> Json:
    """A status with the condition `Applied` for the spec of this generation."""
    condition: Mapping[str, object] = {
        "type": "Applied",
        "status": "True" if in_force else "False",
        "reason": "InForce" if in_force else "Refused",
        "message": message,
        "observedGeneration": command.metadata.generation,
        # The form of Kubernetes' own times (metav1.Time).
        "lastTransitionTime": at.isoformat(timespec="seconds").replace("+00:00", "Z"),
    }
    return {"observedGeneration": command.metadata.generation, "conditions": [condition]}


def merge_status(api: Api, path: str, kind: str, command: CommandingObject, status: Json) -> None:
    """Merge this into the status of the object at `path`. Raises Unreachable, TryAgain and GiveUp."""
    name = command.metadata.name
    # The server refuses a patch with the uid of another object, so that a successor of the same name gets no foreign status.
    body = {"metadata": {"uid": command.metadata.uid}, "status": status}
    request = ApiRequest(f"{path}/status", f"writing the status of {kind}", name, "PATCH", body, MERGE_PATCH)
    accepted_body(api.send(request), request)
