"""Our APIService: with it the API server passes questions for external metrics on to us.

A group has one server in a cluster. So an APIService that somebody else made for somebody else's Service (another adapter) is
left alone, and that is said. It is never taken away when a replica stops: an autoscaler that gets no answer keeps its replicas,
and a rolling update must not make the group disappear.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from streams.clients.kube.json_objects import Json, ObjectStore
from streams.consumers.metrics_api.discovery import EXTERNAL, MetricsGroup
from streams.errors import GiveUp
from streams.serving import certificates
from streams.serving.ca_bundle import CaBundle

PATH = "/apis/apiregistration.k8s.io/v1/apiservices"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServedAt:
    """The Service by which the API server reaches us for a group of metrics.

    `own` False: a chart made the APIService; only authorities are kept up.
    """

    namespace: str
    service: str
    port: int
    own: bool = True
    group: MetricsGroup = EXTERNAL

    @property
    def name(self) -> str:
        """The name of the APIService."""
        return self.group.api_service

    def spec(self, bundle: bytes) -> dict[str, Any]:
        """What the APIService says."""
        return {
            "group": self.group.name,
            "version": self.group.version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": self.namespace, "name": self.service, "port": self.port},
            "caBundle": base64.b64encode(bundle).decode(),
        }

    def is_served_by(self, found: Json) -> bool:
        """Whether an APIService leads to our Service."""
        service = (found.get("spec") or {}).get("service") or {}
        return (service.get("namespace"), service.get("name")) == (self.namespace, self.service)


class ApiServiceKeeper:
    """Keeps the APIService as it is to be. Calls raise TryAgain and GiveUp."""

    def __init__(self, objects: ObjectStore, served: ServedAt) -> None:
        self._objects, self._served, self._trust = objects, served, CaBundle()

    def ensure(self, ours: Sequence[bytes], at: datetime) -> None:
        """Make it say where we are and whom to trust; raises GiveUp when the group is another server's."""
        found = self._objects.find(self._served.name)
        if found is None:
            if self._served.own:
                about = {"name": self._served.name, "labels": {"app.kubernetes.io/managed-by": "ullage"}}
                body = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": about}
                spec = self._served.spec(certificates.joined(ours, at))
                self._objects.create(self._served.name, {**body, "spec": spec})
                _log.info("registered", api_service=self._served.name)
            return
        if not self._served.is_served_by(found):
            service = (found.get("spec") or {}).get("service") or {}
            answer = f"Service '{service.get('namespace', '')}/{service.get('name', '')}' serves it; a group has one server"
            raise GiveUp(doing="registering the APIService", to=self._served.name, answer=answer)
        spec = {**found["spec"], **self._wanted(found["spec"], ours, at)}
        if spec != found["spec"]:
            self._objects.replace(self._served.name, {**found, "spec": spec})
            _log.info("the APIService was brought up to date", api_service=self._served.name)

    def _wanted(self, spec: Json, ours: Sequence[bytes], at: datetime) -> Json:
        """The parts of the spec that are ours to say."""
        try:
            there = base64.b64decode(spec.get("caBundle") or "")
        except binascii.Error:
            there = b""
        bundle = self._trust.merged([there], ours, at)
        wanted: Json = self._served.spec(bundle) if self._served.own else {"caBundle": base64.b64encode(bundle).decode()}
        if wanted["caBundle"]:
            wanted["insecureSkipTLSVerify"] = False
        return {key: value for key, value in wanted.items() if value or key in spec}
