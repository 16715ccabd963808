"""The status of CapacityBuffers (`autoscaling.x-k8s.io/v1beta1`): read an object, and write its status."""

import msgspec

from streams.clients.kube import api_paths
from streams.clients.kube.api import MERGE_PATCH, Api, ApiRequest, accepted_body
from streams.clients.kube.json_objects import Json

_GROUP, _PLURAL = "/apis/autoscaling.x-k8s.io/v1beta1", "capacitybuffers"


class BufferMeta(msgspec.Struct, frozen=True, rename="camel"):
    """Which object this is, in which version."""

    name: str
    namespace: str
    uid: str = ""
    resource_version: str = ""
    generation: int = 0


class BufferObject(msgspec.Struct, frozen=True):
    """A CapacityBuffer with its status as the server has it."""

    metadata: BufferMeta
    status: dict[str, object] = {}


class CapacityBufferClient:
    """The buffers behind one API server. Every call raises Unreachable, TryAgain and GiveUp, and nothing else."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def buffer(self, namespace: str, name: str) -> BufferObject | None:
        """The buffer; None when there is none."""
        return self._api.find(ApiRequest(_path(namespace, name), "reading CapacityBuffer", f"{namespace}/{name}"), BufferObject)

    def write(self, read: BufferObject, status: Json) -> None:
        """Merge this into the status of the buffer that was read."""
        about = read.metadata
        # With the version that was read, so that the server refuses to overwrite somebody else's change.
        body = {"metadata": {"uid": about.uid, "resourceVersion": about.resource_version}, "status": status}
        path, name = f"{_path(about.namespace, about.name)}/status", f"{about.namespace}/{about.name}"
        request = ApiRequest(path, "writing the status of CapacityBuffer", name, "PATCH", body, MERGE_PATCH)
        accepted_body(self._api.send(request), request)


def _path(namespace: str, name: str) -> str:
    return api_paths.scoped(_GROUP, namespace, _PLURAL, name)
