"""The client port on a simulated cluster in memory: the same calls and the same errors as over HTTP."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

import msgspec

from schemas.names import Amounts, PodName
from streams.clients.cluster_port import Pod, PodUsage
from streams.clients.kube import refusals
from streams.clients.kube.api import Api, ApiRequest, ApiResponse
from streams.simulated import kube_json
from streams.simulated.api_errors import ApiRefusal
from streams.simulated.api_server import KubernetesPaths
from streams.simulated.cluster import SimulatedCluster


class SimulatedClient:
    """Calls a simulated cluster in the same process."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._simulated = simulated

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self._simulated.name

    def pods(self) -> Sequence[Pod]:
        """All pods, by namespace and name."""
        return self._simulated.pods()

    def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod that has this name now."""
        return self._simulated.pod(namespace, name)

    def usage(self) -> Sequence[PodUsage]:
        """What running pods used in the last window."""
        return self._simulated.usage()

    def pod_usage(self, namespace: str, name: str) -> PodUsage | None:
        """What one pod used in the last window."""
        return self._simulated.pod_usage(namespace, name)

    def resize(self, pod: Pod, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        """Ask for new amounts in place."""
        try:
            self._simulated.resize(pod.pod, requests=requests, limits=limits, version=pod.version)
        except ApiRefusal as refusal:
            raise _error("resizing", pod.pod, refusal) from refusal

    def evict(self, pod: PodName) -> None:
        """Evict the pod."""
        try:
            self._simulated.evict(pod)
        except ApiRefusal as refusal:
            raise _error("evicting", pod, refusal) from refusal


def _error(doing: str, pod: PodName, refusal: ApiRefusal) -> Exception:
    return refusals.error_for_status(
        doing=doing,
        to=f"{pod.namespace}/{pod.name}",
        code=refusal.code,
        message=refusal.message,
        after=refusal.after,
        causes=(refusal.cause,),
    )


# The simulated cluster's HTTP paths without HTTP: clients of an API server work on it in the same process.


class SimulatedApi(Api):
    """An API server that answers at once. It has no streams."""

    def __init__(self, paths: KubernetesPaths) -> None:
        self._paths = paths

    def send(self, request: ApiRequest) -> ApiResponse:
        """The answer of the simulated cluster."""
        body = b"" if request.body is None else msgspec.json.encode(request.body)
        try:
            code, answer = self._paths.answer(request.method, request.path, body)
        except ApiRefusal as refusal:
            code, answer = HTTPStatus(refusal.code), kube_json.status(refusal)
        return ApiResponse(int(code), msgspec.json.encode(answer))

    def close(self) -> None:
        """Nothing is open."""
