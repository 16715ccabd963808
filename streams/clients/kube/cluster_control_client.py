"""ClusterControl objects (deploy/crds/clustercontrols.yaml): the fields that are read, and writing their status."""

import msgspec

from streams import typed_json
from streams.clients.kube.api import MERGE_PATCH, Api, ApiRequest, accepted_body
from streams.clients.kube.json_objects import Json
from streams.clients.kube.pod_objects import AuthoredMeta

PATH = "/apis/ullage.internal/v1alpha1/clustercontrols"
KIND = "ClusterControl"


class ControlObject(msgspec.Struct, frozen=True, gc=False):
    """An object with spec and status undecoded: people write them, and one bad field must not hide the object's name."""

    metadata: AuthoredMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class ControlSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec. `budget` is a share of the pods; `on_an_open_log` permits mode apply on a log that anybody may write."""

    mode: str
    budget: float = 0.1
    paused: bool = False
    reason: str = ""
    on_an_open_log: bool = False


class ControlCondition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The condition `Applied`: whether the spec of this generation is in force, and else why not."""

    type: str = ""
    status: str = ""
    message: str = ""
    observed_generation: int = 0


class _Status(msgspec.Struct, frozen=True, gc=False):
    conditions: list[ControlCondition] = []


_SPEC, _STATUS = typed_json.decoder(ControlSpec), typed_json.decoder(_Status)


def decode_spec(spec: msgspec.Raw) -> ControlSpec:
    """The spec. Raises ValueError with the place of what is not as the type has it."""
    try:
        return _SPEC.decode(spec)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error).replace("`$", "`spec")) from error


def applied(found: ControlObject) -> ControlCondition:
    """What the object's status says of it; an empty condition if it says nothing that can be read."""
    try:
        conditions = _STATUS.decode(found.status).conditions
    except msgspec.MsgspecError:
        return ControlCondition()
    return next((each for each in conditions if each.type == "Applied"), ControlCondition())


def write_status(api: Api, found: ControlObject, status: Json) -> None:
    """Merge this into the status of this object, unless another has its name now. Raises Unreachable, TryAgain and GiveUp."""
    name = found.metadata.name
    body = {"metadata": {"uid": found.metadata.uid}, "status": status}
    request = ApiRequest(f"{PATH}/{name}/status", f"writing the status of {KIND}", name, "PATCH", body, MERGE_PATCH)
    accepted_body(api.send(request), request)
