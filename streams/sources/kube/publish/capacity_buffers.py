"""CapacityBuffers, joined to facts with the PodTemplates that they name, or with the templates of workloads without pods.

A workload that has pods needs no template: its newest pod shows more. A buffer's fact waits until the kind of what it names was
listed, and says so where our account may not see that kind; other buffers do not wait for it.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from schemas.facts.nodes import LIMITED_BY_QUOTAS, READY_FOR_PROVISIONING, BufferShown, CapacityBufferSeen
from schemas.facts.scheduled_pods import PodShapeSeen
from streams import typed_json
from streams.clients.kube.scheduling_objects import (
    CapacityBufferObject,
    CapacityBufferStatus,
    DaemonPodTemplate,
    PodTemplateObject,
)
from streams.clients.kube.watched_objects import TemplatedController, TemplatedReplicationController
from streams.sources.kube.publish import scheduling_facts
from streams.sources.kube.watch.watched_resources import CONTROLLERS

_BUFFERS, _TEMPLATES = "capacitybuffers", "podtemplates"
_RESOURCES = {kind: resource for resource, kind in CONTROLLERS.items()}
"""By the kind of a workload, what the API calls all of these."""
TEMPLATED = TemplatedController, TemplatedReplicationController
"""Workloads that were read with their templates."""
_LONGEST = 500
"""Characters of a message that somebody wrote into the status."""


class CapacityBuffers:
    """The buffers and templates of one cluster, by namespace and name."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._buffers: dict[str, CapacityBufferSeen] = {}
        """As they were seen, without what their templates say."""
        self._templates: dict[str, tuple[PodShapeSeen, int]] = {}
        """The shapes of their pods, and their generations."""
        self._idle: dict[str, PodShapeSeen] = {}
        """What workloads without pods would make, by kind, namespace and name."""
        self._unlisted = {_BUFFERS, _TEMPLATES, *CONTROLLERS}
        self._refused = set[str]()
        """Kinds that our account may not see, and never saw."""

    @property
    def waiting(self) -> list[str]:
        """The buffers whose facts wait for something that was not listed yet."""
        return [name for name, buffer in sorted(self._buffers.items()) if not self._is_due(buffer)]

    @property
    def listed(self) -> bool:
        """Whether all buffers that exist were seen."""
        return _BUFFERS not in self._unlisted

    def see(self, found: CapacityBufferObject | PodTemplateObject, at: datetime) -> Iterable[str]:
        """Take an object in; the buffers whose facts may differ now. Raises ValueError for a bad quantity."""
        meta = found.metadata
        name = f"{meta.namespace}/{meta.name}"
        if isinstance(found, CapacityBufferObject):
            self._buffers[name] = _seen(found, self._cluster, at)
            return self._due([name])
        since = meta.creation_timestamp or at  # so that an unchanged template is no news
        shape = scheduling_facts.of_template(found.template, meta.namespace, self._cluster, since)
        self._templates[name] = shape, meta.generation
        return self._due(self._users(name))

    def workload(self, kind: str, workload: TemplatedController | TemplatedReplicationController, at: datetime) -> Iterable[str]:
        """A workload exists; the buffers whose facts may differ now."""
        meta = workload.metadata
        # The ReplicaSets of a Deployment are many, most have no pods, and buffers name their Deployment.
        controlled = any(one.controller for one in meta.owner_references)
        there = workload.status.replicas or workload.status.active  # the latter of a Job
        # A Job that has ended makes no pods any more, and a cluster may have thousands of them.
        ended = any(one.type in ("Complete", "Failed") and one.status == "True" for one in workload.status.conditions)
        shape = None if there or controlled or ended else _would_make(workload, self._cluster, at)
        return self._set_idle(f"{kind}/{meta.namespace}/{meta.name}", shape)

    def workload_gone(self, kind: str, name: str) -> Iterable[str]:
        """A workload, or whatever else is of a kind, is gone; the buffers whose facts may differ now."""
        return self._set_idle(f"{kind}/{name}", None)

    def _set_idle(self, key: str, shape: PodShapeSeen | None) -> Iterable[str]:
        before = self._idle.pop(key, None)
        if shape is not None:
            self._idle[key] = shape
        return [] if shape == before else self._due(self._named(lambda buffer: _workload(buffer) == key))

    def gone(self, kind: str, name: str) -> Iterable[str]:
        """Forget an object; the buffers whose facts may differ now."""
        if kind == _BUFFERS:
            self._buffers.pop(name, None)
            return [name]
        self._templates.pop(name, None)
        return self._due(self._users(name))

    def synced(self, kind: str) -> Iterable[str]:
        """All objects of a kind were listed; the buffers whose facts were held back until then."""
        if kind not in self._unlisted | self._refused:
            return []
        self._unlisted.discard(kind)
        self._refused.discard(kind)
        return self._due(self._named(lambda buffer: kind in (_BUFFERS, _kind_named(buffer))))

    def refused(self, kind: str) -> Iterable[str]:
        """Our account may not see a kind; the buffers whose facts waited for it. What was seen of it before stays."""
        if kind not in self._unlisted or kind == _BUFFERS:
            return []
        self._unlisted.discard(kind)
        self._refused.add(kind)
        return self._due(self._named(lambda buffer: _kind_named(buffer) == kind))

    def fact(self, name: str, at: datetime) -> CapacityBufferSeen | None:
        """The fact about a buffer; None if there is no such buffer."""
        buffer = self._buffers.get(name)
        if buffer is None:
            return None
        if (kind := _kind_named(buffer)) in self._refused:
            return replace(buffer, at=at, unseen=kind)
        if buffer.workload_kind:
            return replace(buffer, at=at, template=self._idle.get(_workload(buffer)))
        shape, generation = self._templates.get(f"{buffer.namespace}/{buffer.template_name}", (None, None))
        return replace(buffer, at=at, template=shape, template_generation=generation)

    def _users(self, template: str) -> list[str]:
        """The buffers that name a template."""
        return self._named(lambda buffer: f"{buffer.namespace}/{buffer.template_name}" == template)

    def _named(self, such: Callable[[CapacityBufferSeen], bool]) -> list[str]:
        return [name for name, buffer in sorted(self._buffers.items()) if such(buffer)]

    def _due(self, names: list[str]) -> list[str]:
        return [name for name in names if self._is_due(self._buffers[name])]

    def _is_due(self, buffer: CapacityBufferSeen) -> bool:
        return self._unlisted.isdisjoint((_BUFFERS, _kind_named(buffer)))


def _kind_named(buffer: CapacityBufferSeen) -> str:
    """The kind of what a buffer names, as the API calls all of them; empty where nobody watches it."""
    return _RESOURCES.get(buffer.workload_kind, "") if buffer.workload_kind else _TEMPLATES


def _workload(buffer: CapacityBufferSeen) -> str:
    return f"{buffer.workload_kind}/{buffer.namespace}/{buffer.workload_name}"


def _would_make(
    workload: TemplatedController | TemplatedReplicationController, cluster: str, at: datetime
) -> PodShapeSeen | None:
    """The shape of the pods that a workload would make; None where its template cannot be read."""
    meta = workload.metadata
    try:
        template = typed_json.decode_object(workload.spec.template, DaemonPodTemplate, "spec.template")
        return scheduling_facts.of_template(template, meta.namespace, cluster, meta.creation_timestamp or at)
    except ValueError:
        return None


def _seen(buffer: CapacityBufferObject, cluster: str, at: datetime) -> CapacityBufferSeen:
    meta, spec = buffer.metadata, buffer.spec
    workload = spec.scalable_ref
    limits = {name: str(amount) for name, amount in (spec.limits or {}).items()}
    return CapacityBufferSeen(
        at,
        cluster,
        meta.namespace,
        meta.name,
        meta.uid,
        strategy=spec.provisioning_strategy or "",
        template_name="" if spec.pod_template_ref is None else spec.pod_template_ref.name,
        workload_kind="" if workload is None else workload.kind,
        workload_name="" if workload is None else workload.name,
        replicas=spec.replicas,
        percentage=spec.percentage,
        limits=None if spec.limits is None else scheduling_facts.amounts(limits),
        shown=_shown(buffer.status),
    )


def _shown(status: CapacityBufferStatus) -> BufferShown | None:
    conditions = {condition.type: condition for condition in status.conditions}
    ready, limited = conditions.get(READY_FOR_PROVISIONING), conditions.get(LIMITED_BY_QUOTAS)
    if ready is None:
        return None
    quotas = "" if limited is None or limited.status != "True" else limited.message[:_LONGEST]
    template = "" if status.pod_template_ref is None else status.pod_template_ref.name
    generation = status.pod_template_generation
    return BufferShown(ready.status == "True", status.replicas, template, generation, ready.message[:_LONGEST], quotas)
