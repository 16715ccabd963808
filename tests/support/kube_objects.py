"""Objects as an API server would send them, in short."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec

from streams.clients.kube.pod_objects import PodObject
from streams.clients.kube.watched_objects import (
    ControllerObject,
    CronJobObject,
    EventObject,
    LimitRangeObject,
    NodeObject,
    VpaObject,
)

T = TypeVar("T")
START = datetime(2026, 3, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
CREATED = "2026-02-28T23:00:00Z"
OOM_AT = "2026-03-01T00:00:30Z"


def decoded(kind: type[T], body: Mapping[str, object]) -> T:
    return msgspec.json.decode(json.dumps(body), type=kind)


def owner(kind: str, name: str, version: str = "apps/v1") -> dict[str, object]:
    return {"kind": kind, "name": name, "apiVersion": version, "controller": True, "uid": f"uid-{name}"}


def meta(name: str, *owners: Mapping[str, object], **more: object) -> dict[str, object]:
    return {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "creationTimestamp": CREATED,
        "ownerReferences": list(owners),
        **more,
    }


def pod(
    name: str, *owners: Mapping[str, object], memory: str = "64Mi", status: Mapping[str, object] | None = None, **more: object
) -> PodObject:
    """A running pod with one container `app`; `status` is the container's."""
    container = {"name": "app", "resources": {"requests": {"memory": memory}}}
    state = {"name": "app", "ready": True, "restartCount": 0, "state": {"running": {}}, **(status or {})}
    whole = {
        "metadata": meta(name, *owners, **more),
        "spec": {"containers": [container]},
        "status": {"phase": "Running", "containerStatuses": [state]},
    }
    return decoded(PodObject, whole)


def controller(name: str, *owners: Mapping[str, object], labels: Mapping[str, str] | None = None) -> ControllerObject:
    """A Deployment or the like; which, the watch says."""
    selector = {"matchLabels": {"app": name} if labels is None else dict(labels)}
    return decoded(ControllerObject, {"metadata": meta(name, *owners), "spec": {"selector": selector}})


def cron_job(name: str, labels: Mapping[str, str]) -> CronJobObject:
    template = {"metadata": {"labels": dict(labels)}}
    return decoded(CronJobObject, {"metadata": meta(name), "spec": {"jobTemplate": {"spec": {"template": template}}}})


def vpa(name: str, target: str = "web", *, kind: str = "Deployment", version: str = "apps/v1", **spec: object) -> VpaObject:
    whole = {"targetRef": {"kind": kind, "name": target, "apiVersion": version}, **spec}
    return decoded(VpaObject, {"metadata": meta(name, generation=3, resourceVersion="17"), "spec": whole})


def node(name: str, cpu: str = "4") -> NodeObject:
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": {"cpu": cpu, "memory": "16Gi"}, "conditions": [ready]}
    return decoded(NodeObject, {"metadata": {"name": name, "uid": f"uid-{name}"}, "status": status})


def limit_range(name: str, *limits: Mapping[str, object]) -> LimitRangeObject:
    return decoded(LimitRangeObject, {"metadata": meta(name), "spec": {"limits": list(limits)}})


def eviction(about: str, containers: str, usage: str, resources: str) -> EventObject:
    annotations = {"offending_containers": containers, "offending_containers_usage": usage, "starved_resource": resources}
    involved = {"kind": "Pod", "namespace": "shop", "name": about, "uid": f"uid-{about}"}
    metadata = meta("event-1", annotations=annotations, creationTimestamp=OOM_AT)
    return decoded(EventObject, {"metadata": metadata, "reason": "Evicted", "involvedObject": involved})


def running(restarts: int, last: str = "") -> dict[str, object]:
    """A status: running after so many restarts; `last` is the reason of the last end."""
    return {"restartCount": restarts, "state": {"running": {}}, **_last(last)}


def ended(restarts: int, reason: str) -> dict[str, object]:
    return {"restartCount": restarts, "ready": False, "state": {"terminated": {"reason": reason, "finishedAt": OOM_AT}}}


def waiting(restarts: int, last: str = "") -> dict[str, object]:
    return {"restartCount": restarts, "ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, **_last(last)}


def _last(reason: str) -> dict[str, object]:
    return {"lastState": {"terminated": {"reason": reason, "finishedAt": OOM_AT}}} if reason else {}


def names(things: Sequence[object]) -> list[str]:
    return [type(thing).__name__ for thing in things]
