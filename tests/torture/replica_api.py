"""An API server's EHPAs, what follows from them, and scales, behind HTTP; it remembers each write and when that was.

It checks what a client must be able to rely on: a scale is changed only on the version and the uid that were read, an object is
deleted only with its uid. While it is `away` it answers nobody, but may have done what it was asked.
"""

import copy
import random
import re
import time
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from tests.support.scaled_world import KeptObjects, KillSwitch, ScaledWorld
from tests.torture.lease_server import JsonServer, NoAnswer

Json = dict[str, Any]
NAMESPACE = "shop"
OBJECT = re.compile(r"/apis/[^/]+/[^/]+/namespaces/shop/(?P<plural>[a-z]+)/(?P<name>[^/]+)(?:/(?P<part>status|scale))?")
DISCOVERY: dict[str, Json] = {
    "/apis/apps": {"versions": [{"groupVersion": "apps/v1"}]},
    "/apis/apps/v1": {
        "resources": [{"name": "deployments", "kind": "Deployment"}, {"name": "deployments/scale", "kind": "Scale"}],
    },
    "/api/v1/namespaces/shop/pods": {"items": []},
}
_GONE = HTTPStatus.NOT_FOUND, {"message": "not found"}


@dataclass(frozen=True, slots=True)
class ScaleSet:
    """A scale that was accepted: in seconds of real time, whose, and the replicas before and after."""

    at: float
    name: str
    before: int
    after: int


class ReplicaApi(ScaledWorld):
    """At work between `open` and `close`. `away` may be set at any time."""

    def __init__(self, seed: int) -> None:
        super().__init__(KillSwitch())
        self.away = False
        self.scaled: list[ScaleSet] = []
        self._chance = random.Random(seed)
        self._kept: dict[str, KeptObjects] = {
            "effectivehorizontalpodautoscalers": self.ehpas, "horizontalpodautoscalers": self.hpas,
            "timeseriespredictions": self.tsps, "substitutes": self.substitutes,
        }  # fmt: skip
        self._server = JsonServer(self._answer)
        self.url = self._server.url

    def open(self) -> None:
        self._server.open()

    def close(self) -> None:
        self._server.close()

    def put(self, manifest: Json) -> None:
        """Somebody wrote an EHPA."""
        with self.lock:
            key = NAMESPACE, str(manifest["metadata"]["name"])
            self.ehpas.held[key] = {**self.ehpas.held.get(key, {}), **copy.deepcopy(manifest)}

    def meddle(self, name: str) -> bool:
        """Somebody changes a generated HPA by hand; False when there is none."""
        with self.lock:
            found = self.hpas.held.get((NAMESPACE, f"ehpa-{name}"))
            if found is not None:
                found["spec"]["maxReplicas"] = 99
                found["metadata"]["resourceVersion"] = self.next_version()
            return found is not None

    def replicas(self) -> dict[str, int]:
        """What each deployment asks for."""
        with self.lock:
            return {name: scale.replicas for name, scale in self.scales.items()}

    def _answer(self, method: str, path: str, body: Json) -> tuple[HTTPStatus, Json]:
        if self.away and self._chance.random() < 0.5:
            raise NoAnswer
        answer = self._done(method, path.partition("?")[0], body)
        if self.away:
            raise NoAnswer
        return answer

    def _done(self, method: str, path: str, body: Json) -> tuple[HTTPStatus, Json]:
        if path in DISCOVERY:
            return HTTPStatus.OK, DISCOVERY[path]
        match = OBJECT.fullmatch(path)
        if match is None:
            return _GONE
        if match["part"] == "scale":
            return self._scale(method, match["name"], body)
        return self._object(method, match, body)

    def _object(self, method: str, match: re.Match[str], body: Json) -> tuple[HTTPStatus, Json]:
        kept, name = self._kept[match["plural"]], match["name"]
        with self.lock:
            if method == "PATCH" and "apiVersion" in body:
                return HTTPStatus.OK, kept.apply(NAMESPACE, body)
            found = kept.find(NAMESPACE, name)
            if found is None:
                return _GONE
            if method == "PATCH":
                return HTTPStatus.OK, kept.merge(NAMESPACE, name, body, part=match["part"] or "")
            if method == "DELETE" and not kept.delete(NAMESPACE, name, body["preconditions"]["uid"]):
                return HTTPStatus.CONFLICT, {"message": "the object has another uid"}
            return HTTPStatus.OK, found

    def _scale(self, method: str, name: str, body: Json) -> tuple[HTTPStatus, Json]:
        with self.lock:
            found = self.scales.get(name)
            if found is None:
                return _GONE
            if method == "PATCH":
                about, wanted = body["metadata"], int(body["spec"]["replicas"])
                if (about["uid"], about["resourceVersion"]) != (found.uid, found.version):
                    return HTTPStatus.CONFLICT, {"message": "the object has been modified"}
                self.scaled.append(ScaleSet(time.time(), name, found.replicas, wanted))
                found = replace(found, replicas=wanted, there=wanted, version=self.next_version())
                self.scales[name] = found
            metadata = {"name": name, "namespace": NAMESPACE, "uid": found.uid, "resourceVersion": found.version}
            status = {"replicas": found.there, "selector": found.selector}
            return HTTPStatus.OK, {"metadata": metadata, "spec": {"replicas": found.replicas}, "status": status}
