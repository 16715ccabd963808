"""The facts about a pod of the cluster port, the same from every source that sees pods."""

from datetime import datetime

from schemas.facts.pods import ContainerSeen, PodChanged
from schemas.facts.usage import ContainerOOMKilled
from streams.clients.cluster_port import OOMKill, Pod


def pod_changed(pod: Pod, at: datetime) -> PodChanged:
    """The fact about a pod as it is now."""
    return PodChanged(
        at=at,
        workload=pod.workload,
        pod=pod.pod,
        phase=pod.phase,
        created=pod.created,
        containers=pod.containers,
        node=pod.node,
        labels=dict(sorted(pod.labels.items())),
        resize=pod.resize,
        started=pod.started,
        init_containers=pod.init_containers,
        qos=pod.qos,
    )


def oom_killed(pod: Pod, kill: OOMKill, killed: ContainerSeen) -> ContainerOOMKilled:
    """The fact about an OOM kill. `killed` is the container as it was when it was killed."""
    return ContainerOOMKilled(
        at=kill.at,
        workload=pod.workload,
        pod=pod.pod,
        container=kill.container,
        restarts=kill.restarts,
        memory_request=killed.requests.memory,
        memory_limit=killed.limits.memory,
    )
