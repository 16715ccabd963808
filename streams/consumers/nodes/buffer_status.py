"""Reads and writes the status of a CapacityBuffer: for how many pods nodes are to have room, or why for none.

Source of the fields, conditions and reasons: common.go in capacitybuffer/common, and pod_list_processor.go in
processors/capacitybuffer. Conditions of others are kept.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from schemas import times
from schemas.decisions.node_updates import BufferStatusPlanned
from schemas.facts.nodes import ACTIVE_CAPACITY, LIMITED_BY_QUOTAS, READY_FOR_PROVISIONING
from schemas.outcomes import OutcomeDetail, Result
from streams.clients.kube import api_paths
from streams.clients.kube.api import MERGE_PATCH, Api, ApiRequest, accepted_body
from streams.clients.kube.json_objects import Json
from streams.consumers.executing.handler import ActPermit, HandlerResult

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


PROVISIONING = "Provisioning"


def write(buffers: CapacityBufferClient, plan: BufferStatusPlanned, permit: ActPermit, now: datetime) -> HandlerResult | None:
    """Look, ask the permit, then the API server; `now` is real time. Raises TryAgain and GiveUp."""
    buffer = _planned(buffers, plan)
    if buffer is None:
        return HandlerResult(Result.REFUSED, f"it moved: {_gone(plan)}", OutcomeDetail.MOVED)
    if _shows(buffer, plan):
        return _shown(plan)
    # After all looks and right before the write, because a pause may have begun meanwhile.
    permit.check("writing the status of CapacityBuffer", f"{plan.namespace}/{plan.name}")
    buffers.write(buffer, _status(buffer, plan, now))
    return None


def look(buffers: CapacityBufferClient, plan: BufferStatusPlanned) -> HandlerResult | str:
    """The result for a buffer that shows what was decided; for any other, what it shows. Raises TryAgain and GiveUp."""
    buffer = _planned(buffers, plan)
    if buffer is None:
        return _gone(plan)
    return _shown(plan) if _shows(buffer, plan) else f"its status has {buffer.status.get('replicas', 'no')} replicas"


def _planned(buffers: CapacityBufferClient, plan: BufferStatusPlanned) -> BufferObject | None:
    """The buffer that the plan is about; None if it is gone, or another one has its name."""
    buffer = buffers.buffer(plan.namespace, plan.name)
    return buffer if buffer is not None and buffer.metadata.uid == plan.uid else None


def _gone(plan: BufferStatusPlanned) -> str:
    return f"CapacityBuffer '{plan.namespace}/{plan.name}' with uid '{plan.uid}' is gone"


def _shown(plan: BufferStatusPlanned) -> HandlerResult:
    what = f"room for {plan.replicas} pods" if plan.ready else f"no room: {plan.message}"
    reason = f"CapacityBuffer '{plan.namespace}/{plan.name}' shows {what}"
    return HandlerResult(Result.DONE, reason[:1000], OutcomeDetail.ALREADY_DONE)


def _shows(buffer: BufferObject, plan: BufferStatusPlanned) -> bool:
    """Whether everything but times is as decided."""
    wanted = _fields(plan)
    conditions = _conditions(plan)
    shown = {
        str(condition.get("type")): (condition.get("status"), condition.get("reason"), condition.get("message"))
        for condition in _present(buffer)
        if condition.get("type") in conditions
    }
    return shown == conditions and all(buffer.status.get(name) == field for name, field in wanted.items())


def _fields(plan: BufferStatusPlanned) -> dict[str, object]:
    return {
        "replicas": plan.replicas,
        "podTemplateRef": {"name": plan.template} if plan.template else None,
        "podTemplateGeneration": plan.template_generation,
        "provisioningStrategy": ACTIVE_CAPACITY,
    }


def _conditions(plan: BufferStatusPlanned) -> dict[str, tuple[str, str, str]]:
    """By type: status, reason and message."""
    # In the words of upstream's controller, so that what reads them need not know us.
    ready, provisioned = ("True", "AttributesSetSuccessfully", plan.message), ("True", "FakePodsInjected", "")
    if not plan.ready:
        ready, provisioned = ("False", "error", plan.message), ("False", "NotReadyForProvisioning", plan.message)
    limited = ("True" if plan.limited else "False", "ResourceQuotasAllocated", plan.limited)
    return {READY_FOR_PROVISIONING: ready, LIMITED_BY_QUOTAS: limited, PROVISIONING: provisioned}


def _present(buffer: BufferObject) -> list[Mapping[str, object]]:
    conditions = buffer.status.get("conditions")
    return [condition for condition in conditions if isinstance(condition, dict)] if isinstance(conditions, list) else []


def _status(buffer: BufferObject, plan: BufferStatusPlanned, now: datetime) -> Json:
    """The status with our conditions beside those of others; a condition keeps its time while its status stays."""
    before = {str(condition.get("type")): condition for condition in _present(buffer)}
    wanted, generation = _conditions(plan), buffer.metadata.generation
    ours: list[object] = []
    for name, (status, reason, message) in wanted.items():
        previous = before.get(name, {})
        since = previous.get("lastTransitionTime") if previous.get("status") == status else None
        entry = {"type": name, "status": status, "reason": reason, "message": message, "observedGeneration": generation}
        ours.append({**entry, "lastTransitionTime": since or times.rfc3339(now.replace(microsecond=0))})
    others = [condition for name, condition in before.items() if name not in wanted]
    return {**_fields(plan), "conditions": [*others, *ours]}
