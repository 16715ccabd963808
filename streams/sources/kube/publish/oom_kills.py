"""OOM kills as pods and events show them.

A container's last end tells of a kill, whether it stands at its end or runs again; that it is told once is the memory's work. The
request that counts is the one it was killed under: the old pod's when its successor runs already, else the new pod's. An eviction
for want of memory says what was used. Everything malformed is no kill.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

from schemas.facts.pods import ContainerSeen, PodChanged
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Workload
from schemas.units import Bytes
from streams.clients.cluster_port import Pod
from streams.clients.kube import amounts
from streams.clients.kube.watched_objects import EventObject
from streams.publishing.pod_facts import oom_killed

LONG_AGO = timedelta(days=1)
"""What was known for so long was told, though the log may be read back less far than to the word of it."""
_LISTS = ("offending_containers", "offending_containers_usage", "starved_resource")


def of_pod(pod: Pod, before: PodChanged | None) -> Iterator[ContainerOOMKilled]:
    """Every kill that the pod shows, in the order of containers."""
    now = {seen.name: seen for seen in pod.containers}
    then = {seen.name: seen for seen in before.containers} if before is not None else {}
    for kill in sorted(pod.ooms, key=lambda kill: kill.container):
        seen = _under(kill.restarts, now[kill.container], then.get(kill.container))
        yield oom_killed(pod, kill, seen)


def of_late(shown: Iterable[ContainerOOMKilled], said: PodChanged | None) -> Iterator[ContainerOOMKilled]:
    """Those that may not have been told yet; `said` is the log's last word of the pod."""
    return (kill for kill in shown if not _told_long_ago(kill, said))


def _told_long_ago(kill: ContainerOOMKilled, said: PodChanged | None) -> bool:
    """Whether the log's word of the pod is so much later that the kill, which showed then, must have been told, too."""
    if said is None or said.at - kill.at < LONG_AGO:
        return False
    return any(seen.name == kill.container and kill.restarts <= seen.restarts + 1 for seen in said.containers)


def _under(restarts: int, now: ContainerSeen, then: ContainerSeen | None) -> ContainerSeen:
    """The container as it was when it was killed: its restart count was one less than its successor's."""
    return then if then is not None and now.restarts == restarts and then.restarts < restarts else now


def of_event(event: EventObject, pod: PodChanged, workload: Workload) -> Iterator[ContainerOOMKilled]:
    """The kills of an eviction. An evicted pod's restart counts are final, so the number after them is the eviction's."""
    seen = {container.name: container for container in pod.containers}
    at = event.metadata.creation_timestamp
    for name, used in _offending(event.metadata.annotations or {}):
        if name in seen and at is not None:
            yield ContainerOOMKilled(
                at=at,
                workload=workload,
                pod=pod.pod,
                container=name,
                restarts=seen[name].restarts + 1,
                memory_request=seen[name].requests.memory,
                memory_limit=seen[name].limits.memory,
                memory_used=used,
            )


def _offending(annotations: Mapping[str, str]) -> Iterator[tuple[str, Bytes]]:
    """Containers that starved others of memory, and what they used. Lists of unequal length mean nothing."""
    lists = [annotations.get(name, "").split(",") for name in _LISTS]
    if len({len(each) for each in lists}) > 1:
        return
    for container, usage, resource in zip(*lists, strict=True):
        used = _bytes(usage) if resource == "memory" else None
        if used is not None:
            yield container, used


def _bytes(quantity: str) -> Bytes | None:
    try:
        return amounts.read({"memory": quantity}).memory
    except ValueError:
        return None
