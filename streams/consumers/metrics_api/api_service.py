"""Our APIService, which makes the API server forward requests for external metrics to us.

It goes with our ClusterRole: an APIService that nobody serves keeps namespaces from being deleted.
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
from streams.serving.certificates import CaBundle

PATH = "/apis/apiregistration.k8s.io/v1/apiservices"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServedAt:
    """The Service by which the API server reaches us for a group of metrics.

    `own` False: a chart made the APIService; only its authorities are kept up to date.
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
        """The spec of the APIService."""
        return {
            "group": self.group.name,
            "version": self.group.version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": self.namespace, "name": self.service, "port": self.port},
            "caBundle": base64.b64encode(bundle).decode(),
        }

    def is_served_by(self, live: Json) -> bool:
        """Whether an APIService leads to our Service."""
        service = (live.get("spec") or {}).get("service") or {}
        return (service.get("namespace"), service.get("name")) == (self.namespace, self.service)


# Nothing removes the APIService when a replica stops: a rolling update must not make the group disappear, and an autoscaler that
# gets no answer keeps its replicas.
class ApiServiceKeeper:
    """Keeps the APIService in its wanted state. Calls raise TryAgain and GiveUp."""

    def __init__(self, objects: ObjectStore, served: ServedAt) -> None:
        self._objects, self._served, self._trust = objects, served, CaBundle()

    def ensure(self, ours: Sequence[bytes], at: datetime) -> None:
        """Make it name our Service and the authorities to trust; raises GiveUp when the group belongs to another server."""
        live = self._objects.find(self._served.name)
        if live is None:
            if self._served.own:
                about = {"name": self._served.name, "labels": {"app.kubernetes.io/managed-by": "ullage"}}
                spec = self._served.spec(certificates.joined(ours, at))
                body = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": about, "spec": spec}
                self._objects.create(self._served.name, body)
                _log.info("registered", api_service=self._served.name)
            return
        if not self._served.is_served_by(live):  # another adapter's: a group has one server in a cluster
            service = (live.get("spec") or {}).get("service") or {}
            answer = f"Service '{service.get('namespace', '')}/{service.get('name', '')}' serves it; a group has one server"
            raise GiveUp(doing="registering the APIService", to=self._served.name, answer=answer)
        spec = {**live["spec"], **self._wanted(live["spec"], ours, at)}
        if spec != live["spec"]:
            self._objects.replace(self._served.name, {**live, "spec": spec})
            _log.info("the APIService was brought up to date", api_service=self._served.name)

    def _wanted(self, spec: Json, ours: Sequence[bytes], at: datetime) -> Json:
        """The parts of the spec that we set."""
        try:
            there = base64.b64decode(spec.get("caBundle") or "")
        except binascii.Error:
            there = b""
        bundle = self._trust.merged([there], ours, at)
        wanted: Json = self._served.spec(bundle) if self._served.own else {"caBundle": base64.b64encode(bundle).decode()}
        if wanted["caBundle"]:  # the API server takes either authorities or the skipping of all checks
            wanted["insecureSkipTLSVerify"] = False
        return {key: value for key, value in wanted.items() if value or key in spec}
