"""CapacityBuffers and the PodTemplates that they name, joined to facts. A buffer's fact waits until both kinds were listed."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from schemas.facts.capacity_buffers import READY_FOR_PROVISIONING, BufferShown, CapacityBufferSeen
from schemas.facts.scheduled_pods import PodShapeSeen
from streams.clients.kube.scheduling_objects import CapacityBufferObject, CapacityBufferStatus, PodTemplateObject
from streams.sources.kube.publish import scheduling_facts

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
        self._unlisted = {"capacitybuffers", "podtemplates"}

    @property
    def complete(self) -> bool:
        """Whether all that exists was seen, so that a template which is not known does not exist."""
        return not self._unlisted

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

    def gone(self, kind: str, name: str) -> Iterable[str]:
        """Forget an object; the buffers whose facts may differ now."""
        if kind == "capacitybuffers":
            self._buffers.pop(name, None)
            return [name]
        self._templates.pop(name, None)
        return self._due(self._users(name))

    def synced(self, kind: str) -> Iterable[str]:
        """All objects of a kind were listed; the buffers whose facts were held back until then."""
        before = self.complete
        self._unlisted.discard(kind)
        return [] if before else self._due(sorted(self._buffers))

    def fact(self, name: str, at: datetime) -> CapacityBufferSeen | None:
        """The fact about a buffer; None if there is no such buffer."""
        buffer = self._buffers.get(name)
        if buffer is None:
            return None
        shape, generation = self._templates.get(f"{buffer.namespace}/{buffer.template_name}", (None, None))
        return replace(buffer, at=at, template=shape, template_generation=generation)

    def _users(self, template: str) -> list[str]:
        """The buffers that name a template."""
        return [name for name, one in sorted(self._buffers.items()) if f"{one.namespace}/{one.template_name}" == template]

    def _due(self, names: list[str]) -> list[str]:
        return names if self.complete else []


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
    ready = next((condition for condition in status.conditions if condition.type == READY_FOR_PROVISIONING), None)
    if ready is None:
        return None
    template = "" if status.pod_template_ref is None else status.pod_template_ref.name
    generation = status.pod_template_generation
    return BufferShown(ready.status == "True", status.replicas, template, generation, ready.message[:_LONGEST])
