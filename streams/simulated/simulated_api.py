"""The simulated cluster's HTTP paths without HTTP: clients of an API server work on it in the same process."""

from http import HTTPStatus

import msgspec

from streams.clients.kube.api import Api, ApiRequest, ApiResponse
from streams.simulated import kube_json
from streams.simulated.api_errors import ApiRefusal
from streams.simulated.api_server import KubernetesPaths


class SimulatedApi(Api):
    """An API server that answers at once. It has no streams."""

    def __init__(self, paths: KubernetesPaths) -> None:
        self._paths = paths

    def send(self, request: ApiRequest) -> ApiResponse:
        """The answer of the simulated cluster."""
        body = b"" if request.body is None else msgspec.json.encode(request.body)
        try:
            code, answer = self._paths.answer(request.method, request.path, body)
        except ApiRefusal as no:
            code, answer = HTTPStatus(no.code), kube_json.status(no)
        return ApiResponse(int(code), msgspec.json.encode(answer))

    def close(self) -> None:
        """Nothing is open."""
