"""Our MutatingWebhookConfiguration, which makes the API server ask us, without depending on us or waiting for long, and a Lease.

Safe by default: failures are ignored, the time-out is five seconds, and it leaves out our own namespace, the system's, and pods
without a controller. It is checked every few seconds, so that somebody else's change or deletion does not last,
unless they insist. The Lease shows that admission is running: without it nobody evicts a pod, as its successor would come back
unchanged.
"""

import base64
import binascii
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import structlog

from streams.clients.kube import json_objects
from streams.clients.kube.json_objects import Json, ObjectStore
from streams.consumers.executing.holder_lease import micro_time, new_lease, was_faster
from streams.contested_writes import KeptObject
from streams.errors import TryAgain
from streams.serving import certificate_making
from streams.serving.certificate_making import CaBundle

PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
SYSTEM_NAMESPACES = ("kube-node-lease", "kube-public", "kube-system")
_CONTROLLED = (
    "has(object.metadata.ownerReferences) && "
    "object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller && o.kind != 'Node')"
)
_NAME_LABEL = "kubernetes.io/metadata.name"
_ASKED = ("rules", "clientConfig")
"""Fields without which the API server does not ask us."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Registration:
    """What the configuration says. `client` is where we are reached: a `service` or a `url`, as the API spells it.

    `own` False: somebody else (a chart) made it, and only the authorities in it are kept up to date.
    """

    name: str
    client: dict[str, Any]
    namespace: str
    excluded: tuple[str, ...] = SYSTEM_NAMESPACES
    fail: bool = False
    timeout: int = 5
    own: bool = True

    def webhooks(self, authorities: bytes) -> list[dict[str, Any]]:
        """The two webhooks, for pods and for VPA objects."""
        pods = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
        vpas = {
            "operations": ["CREATE", "UPDATE"],
            "apiGroups": ["autoscaling.k8s.io"],
            "apiVersions": ["*"],
            "resources": ["verticalpodautoscalers"],
        }
        return [
            self._webhook("pods.ullage.internal", pods, authorities)
            | {"matchConditions": [{"name": "controlled", "expression": _CONTROLLED}]},
            self._webhook("vpas.ullage.internal", vpas, authorities),
        ]

    def _webhook(self, name: str, rule: dict[str, Any], authorities: bytes) -> dict[str, Any]:
        outside = {"key": _NAME_LABEL, "operator": "NotIn", "values": sorted({*self.excluded, self.namespace})}
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": self.client | ({"caBundle": base64.b64encode(authorities).decode()} if authorities else {}),
            "rules": [rule | {"scope": "Namespaced"}],
            "failurePolicy": "Fail" if self.fail else "Ignore",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchExpressions": [outside]},
            "reinvocationPolicy": "IfNeeded",
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": self.timeout,
        }


class Registrar:
    """Keeps the configuration in its wanted state. `clock` counts real seconds. Calls raise TryAgain and GiveUp."""

    def __init__(self, objects: ObjectStore, registration: Registration, clock: Callable[[], float] = time.monotonic) -> None:
        self._objects, self._registration, self._trust = objects, registration, CaBundle(clock)
        self._kept = KeptObject("MutatingWebhookConfiguration", registration.name, clock)
        self.registered, self._seen = False, False

    def ensure(self, ours: Sequence[bytes], at: datetime) -> None:
        """Bring the configuration into its wanted state; returns when the server has accepted it."""
        wanted, live = self._registration, self._objects.find(self._registration.name)
        self._seen |= live is not None
        if live is None and not wanted.own:
            # Who made another one may have named it otherwise; one that is gone was deleted.
            self.registered = not self._seen
            return
        there = None if live is None else live.get("webhooks") or []
        ours_alone = wanted.webhooks(certificate_making.joined(ours, at))
        new = ours_alone if there is None else self._changed(there, ours, at)
        if new == there:
            self._kept.settled(ours_alone)
            self.registered = True
            return
        what = "it was deleted" if there is None else _difference(there, new)
        writer = "" if live is None else json_objects.last_writer(live)
        written = self._kept.write(ours_alone, what + writer, partial(self._write, live, new))
        # As long as the server asks us, it counts; else the Lease must not say that new pods are changed.
        self.registered = written or (there is not None and not what.endswith(_ASKED))

    def _write(self, live: Json | None, new: Sequence[dict[str, Any]]) -> None:
        name = self._registration.name
        if live is None:
            body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
            metadata = {"name": name, "labels": {"app.kubernetes.io/managed-by": "ullage"}}
            self._objects.create(name, {**body, "metadata": metadata, "webhooks": new})
            _log.info("registered", configuration=name)
        else:
            self._objects.replace(name, {**live, "webhooks": new})
            _log.info("the registration was brought up to date", configuration=name)

    def remove(self) -> None:
        """Delete our own configuration, so that the API server stops asking us."""
        if self._registration.own and self._objects.delete(self._registration.name):
            _log.info("unregistered", configuration=self._registration.name)
        self.registered = False

    def _changed(self, there: Sequence[dict[str, Any]], ours: Sequence[bytes], at: datetime) -> Sequence[dict[str, Any]]:
        bundle = self._trust.merged(_bundles(there), ours, at)
        if not self._registration.own:
            return [_trusting(webhook, bundle) for webhook in there] if ours else there
        wanted = self._registration.webhooks(bundle)
        return [_over(old, new) for old, new in zip(there, wanted, strict=True)] if _same_names(there, wanted) else wanted


def _bundles(webhooks: Iterable[dict[str, Any]]) -> list[bytes]:
    bundles = []
    for webhook in webhooks:
        try:
            bundles.append(base64.b64decode(webhook.get("clientConfig", {}).get("caBundle") or ""))
        except binascii.Error:  # what somebody spoiled is replaced
            continue
    return bundles


def _trusting(webhook: dict[str, Any], bundle: bytes) -> dict[str, Any]:
    return {**webhook, "clientConfig": {**webhook.get("clientConfig", {}), "caBundle": base64.b64encode(bundle).decode()}}


def _same_names(there: Sequence[dict[str, Any]], wanted: Sequence[dict[str, Any]]) -> bool:
    return [webhook.get("name") for webhook in there] == [webhook["name"] for webhook in wanted]


def _over(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The wanted configuration with the server's defaults for what we leave out."""
    # Without these each check would find a difference, and write.
    merged = {**old, **new}
    client = {**new["clientConfig"]}
    if "service" in client:
        client["service"] = {**old.get("clientConfig", {}).get("service", {}), **client["service"]}
    return {**merged, "clientConfig": client, "namespaceSelector": _narrowed(old, new)}


def _narrowed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Our selector of namespaces, and what a platform takes out besides."""
    # AKS adds expressions of its own to each webhook, within milliseconds of each write.
    there = (old.get("namespaceSelector") or {}).get("matchExpressions") or []
    ours = new["namespaceSelector"]["matchExpressions"]
    kept = [expression for expression in there if expression in ours or expression.get("key") != _NAME_LABEL]
    return {"matchExpressions": [*kept, *(expression for expression in ours if expression not in kept)]}


def _difference(there: Sequence[dict[str, Any]], wanted: Sequence[dict[str, Any]]) -> str:
    """The first field that differs, such as `pods.ullage.internal: failurePolicy`."""
    if not _same_names(there, wanted):
        return f"its webhooks: {_ASKED[0]}"
    fields = ((new["name"], key) for old, new in zip(there, wanted, strict=True) for key in new if old.get(key) != new[key])
    return ": ".join(next(fields, ("", "")))


DURATION = timedelta(seconds=10)
"""After so long without a renewal the Lease counts for nothing; it is renewed twice as often."""
_GONE = 3 * DURATION
"""A replica that has not renewed for so long is gone."""
# Each replica notes its own last renewal in an annotation, so that the last one to stop knows that it is the last.
_REPLICA = "replica.ullage.internal/"


class StatusLease:
    """`replica` tells this process from the others. Calls raise Unreachable and GiveUp."""

    def __init__(self, objects: ObjectStore, name: str, replica: str) -> None:
        self._objects, self._name, self._replica = objects, name, replica

    def renew(self, at: datetime) -> bool:
        """Renew the Lease; False when another replica was faster, which is as good."""
        lease = self._objects.find(self._name)
        try:
            if lease is None:
                self._objects.create(self._name, new_lease(self._name, self._spec(at), {self._mark: micro_time(at)}))
            else:
                others = {name: since for name, since in self._replicas(lease, at).items() if name != self._mark}
                self._put(lease, {**others, self._mark: micro_time(at)}, {**(lease.get("spec") or {}), **self._spec(at)})
        except TryAgain as error:
            if not was_faster(error):
                raise
            return False
        return True

    def leave(self, at: datetime) -> bool:
        """Sign off; True when no other replica is running."""
        lease = self._objects.find(self._name)
        if lease is None:
            return True
        others = {name: since for name, since in self._replicas(lease, at).items() if name != self._mark}
        if others:
            self._put(lease, others, lease.get("spec") or {})
            return False
        self._objects.delete(self._name)
        return True

    @property
    def _mark(self) -> str:
        return f"{_REPLICA}{self._replica}"

    def _spec(self, at: datetime) -> dict[str, Any]:
        return {
            "holderIdentity": self._replica,
            "leaseDurationSeconds": int(DURATION.total_seconds()),
            "renewTime": micro_time(at),
        }

    def _put(self, lease: dict[str, Any], marks: Mapping[str, str], spec: Mapping[str, Any]) -> None:
        metadata = lease["metadata"]
        kept = {name: text for name, text in (metadata.get("annotations") or {}).items() if not name.startswith(_REPLICA)}
        self._objects.replace(self._name, {**lease, "metadata": {**metadata, "annotations": {**kept, **marks}}, "spec": spec})

    def _replicas(self, lease: dict[str, Any], at: datetime) -> dict[str, str]:
        """The replicas that have renewed lately."""
        marks = (lease["metadata"].get("annotations") or {}).items()
        return {name: text for name, text in marks if name.startswith(_REPLICA) and _recent(text, at)}


def _recent(text: str, at: datetime) -> bool:
    try:
        return abs(at - datetime.fromisoformat(text)) < _GONE  # a time far ahead would keep a replica for ever
    except (ValueError, TypeError):
        return False
