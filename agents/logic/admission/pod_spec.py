"""Pods under review: the few fields that admission reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.logic.admission import json_fields
from agents.logic.admission.json_fields import UnreadableError
from agents.logic.resources.pod_resources import InitContainer, PodResources
from agents.logic.resources.quota_admission import QuotaPod
from agents.logic.resources.resource_lists import Container


@dataclass(frozen=True, slots=True)
class PodOwnerReference:
    """A controller as a reference names it, in the namespace of what it owns."""

    kind: str
    name: str
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class AdmittedPod:
    """A pod.

    `containers` as the spec has them, `standing` with what their status says of them instead, if it does. `given`: the resources
    objects of the spec's containers as they are; None where there is none. `annotations`: None where there are none. `whole`: all
    that the spec asks for, as quotas see it.
    """

    namespace: str
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str] | None
    owner: PodOwnerReference | None
    containers: tuple[Container, ...]
    standing: tuple[Container, ...]
    given: tuple[Mapping[str, Any] | None, ...]
    whole: QuotaPod
    uid: str = ""


def read(manifest: object, namespace: str = "") -> AdmittedPod:
    """Read a manifest in a namespace. A pod without a name yet goes by its name prefix and `%`. Raises UnreadableError."""
    whole = json_fields.parts(manifest, ".")
    if "metadata" not in whole:
        raise UnreadableError("the pod has no metadata")
    meta, spec = json_fields.parts(whole["metadata"], "metadata"), json_fields.parts(whole.get("spec"), "spec")
    name = json_fields.text(meta.get("name"), "metadata.name")
    start = json_fields.text(meta.get("generateName"), "metadata.generateName")
    entries = [
        json_fields.parts(entry, "spec.containers") for entry in json_fields.items(spec.get("containers"), "spec.containers")
    ]
    containers = tuple(_container(entry, "spec.containers") for entry in entries)
    return AdmittedPod(
        namespace=json_fields.text(meta.get("namespace"), "metadata.namespace") or namespace,
        # The API server makes the name of such a pod after admission.
        name=name or f"{start}%",
        labels=json_fields.texts(meta.get("labels"), "metadata.labels") or {},
        annotations=json_fields.texts(meta.get("annotations"), "metadata.annotations"),
        owner=_owner(meta),
        containers=containers,
        standing=_standing(containers, json_fields.parts(whole.get("status"), "status")),
        given=tuple(entry.get("resources") for entry in entries),
        whole=_whole(containers, spec),
        uid=json_fields.text(meta.get("uid"), "metadata.uid"),
    )


def _whole(containers: tuple[Container, ...], spec: Mapping[str, Any]) -> QuotaPod:
    path = "spec.initContainers"
    entries = [json_fields.parts(entry, path) for entry in json_fields.items(spec.get("initContainers"), path)]
    # An init container that restarts always is a sidecar: it runs beside the others, so its amounts add to theirs.
    init = tuple(InitContainer(_container(entry, path), sidecar=entry.get("restartPolicy") == "Always") for entry in entries)
    own = json_fields.parts(spec.get("resources"), "spec.resources")
    requests, limits = (json_fields.amounts(own.get(kind), f"spec.resources.{kind}") for kind in ("requests", "limits"))
    overhead = json_fields.amounts(spec.get("overhead"), "spec.overhead")
    stated = spec.get("resources") is not None
    return QuotaPod(
        PodResources(containers, init, requests, limits, overhead, stated=stated),
        json_fields.text(spec.get("priorityClassName"), "spec.priorityClassName"),
        # Kubernetes' quota scope Terminating: activeDeadlineSeconds is set, whatever it is.
        terminating=spec.get("activeDeadlineSeconds") is not None,
        crosses=_crosses(json_fields.parts(spec.get("affinity"), "spec.affinity")),
    )


def _crosses(affinity: Mapping[str, Any]) -> bool:
    """Whether an affinity to pods, or against them, names other namespaces."""
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = json_fields.parts(affinity.get(kind), f"spec.affinity.{kind}")
        for how in ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"):
            path = f"spec.affinity.{kind}.{how}"
            for entry in json_fields.items(rules.get(how), path):
                term = json_fields.parts(entry, path)
                term = json_fields.parts(term.get("podAffinityTerm"), path) if how.startswith("preferred") else term
                if term.get("namespaces") or term.get("namespaceSelector") is not None:
                    return True
    return False


def _container(entry: Mapping[str, Any], path: str) -> Container:
    name = json_fields.text(entry.get("name"), f"{path}.name")
    resources = json_fields.parts(entry.get("resources"), f"{path}.resources")
    amounts = (json_fields.amounts(resources.get(kind), f"{path}.resources.{kind}") for kind in ("requests", "limits"))
    return Container(name, *amounts)


def _standing(containers: tuple[Container, ...], status: Mapping[str, Any]) -> tuple[Container, ...]:
    path = "status.containerStatuses"
    # If several have the same name, the first counts, in the spec and in the status, as in upstream's look-up.
    by_name: dict[str, Container] = {}
    for entry in json_fields.items(status.get("containerStatuses"), path):
        container_status = json_fields.parts(entry, path)
        if container_status.get("resources") is not None:
            container = _container(container_status, path)
            by_name.setdefault(container.name, container)
    for container in containers:
        by_name.setdefault(container.name, container)
    return tuple(by_name[container.name] for container in containers)


def _owner(meta: Mapping[str, Any]) -> PodOwnerReference | None:
    """The last owner that says that it controls the pod; there is at most one in a valid pod."""
    path, owner = "metadata.ownerReferences", None
    for entry in json_fields.items(meta.get("ownerReferences"), path):
        reference = json_fields.parts(entry, path)
        if reference.get("controller") is True:
            owner = PodOwnerReference(
                *(json_fields.text(reference.get(name), f"{path}.{name}") for name in ("kind", "name", "apiVersion"))
            )
    return owner
