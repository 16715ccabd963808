"""OOM kills, as pods and eviction events show them.

A container's last end shows a kill, while it is stopped and also once it runs again; the published state sees to it that each
kill is published once. An eviction for lack of memory also says what was used. Anything malformed is no kill.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

from schemas.facts.pods import ContainerSeen, PodChanged
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Workload
from schemas.units import Bytes
from streams.clients.cluster_port import Pod
from streams.clients.kube import quantities
from streams.clients.kube.watched_objects import EventObject
from streams.publishing.pod_facts import oom_killed

LONG_AGO = timedelta(
    days=1
)  # before the last record of its pod: such a kill was published, even if we no longer read so far back
_LISTS = ("offending_containers", "offending_containers_usage", "starved_resource")
"""Annotations of an eviction event: three lists of equal length, as the kubelet writes them."""


def of_pod(pod: Pod, before: PodChanged | None) -> list[ContainerOOMKilled]:
    """Every kill that the pod shows, by container. `before` is the previous version of the pod."""
    now = {seen.name: seen for seen in pod.containers}
    then = {seen.name: seen for seen in before.containers} if before is not None else {}
    kills = sorted(pod.ooms, key=lambda kill: kill.container)
    return [oom_killed(pod, kill, _killed(kill.restarts, now[kill.container], then.get(kill.container))) for kill in kills]


def unpublished(shown: Iterable[ContainerOOMKilled], published: PodChanged | None) -> list[ContainerOOMKilled]:
    """The kills that may not have been published yet. `published` is the log's newest record of the pod."""
    return [kill for kill in shown if not _published_long_ago(kill, published)]


def of_event(event: EventObject, pod: PodChanged, workload: Workload) -> Iterator[ContainerOOMKilled]:
    """The kills of an eviction."""
    seen = {container.name: container for container in pod.containers}
    at = event.metadata.creation_timestamp
    for name, used in _offending(event.metadata.annotations or {}):
        if name in seen and at is not None:
            yield ContainerOOMKilled(
                at=at,
                workload=workload,
                pod=pod.pod,
                container=name,
                restarts=seen[name].restarts + 1,  # those of an evicted pod are final, so the next number is free
                memory_request=seen[name].requests.memory,
                memory_limit=seen[name].limits.memory,
                memory_used=used,
            )


def _published_long_ago(kill: ContainerOOMKilled, published: PodChanged | None) -> bool:
    """Whether the log's record of the pod is so much newer than the kill, which showed then, that the kill was published too."""
    if published is None or published.at - kill.at < LONG_AGO:
        return False
    return any(seen.name == kill.container and kill.restarts <= seen.restarts + 1 for seen in published.containers)


def _killed(restarts: int, now: ContainerSeen, then: ContainerSeen | None) -> ContainerSeen:
    """The container as it was when it was killed."""
    # What it was killed under counts: the old pod object's request if its successor, with one restart more, runs already.
    return then if then is not None and now.restarts == restarts and then.restarts < restarts else now


def _offending(annotations: Mapping[str, str]) -> Iterator[tuple[str, Bytes]]:
    """The containers that used too much memory, and how much. Lists of unequal length mean nothing."""
    lists = [annotations.get(name, "").split(",") for name in _LISTS]
    if len({len(values) for values in lists}) > 1:
        return
    for container, usage, resource in zip(*lists, strict=True):
        used = _bytes(usage) if resource == "memory" else None
        if used is not None:
            yield container, used


def _bytes(quantity: str) -> Bytes | None:
    try:
        return quantities.read_amounts({"memory": quantity}).memory
    except ValueError:
        return None
