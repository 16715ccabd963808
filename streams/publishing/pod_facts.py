"""The facts about a pod of the cluster port, shared by all sources of pods."""

from collections.abc import Mapping
from datetime import datetime

from schemas.bounds import MOST_ENTRIES, MOST_LABEL_TEXT
from schemas.facts.pods import ContainerSeen, PodChanged
from schemas.facts.usage import ContainerOOMKilled
from streams.clients.cluster_port import OOMKill, Pod


def kept_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels by name; none at all if they exceed the bound for one object."""
    size = sum(len(name) + len(value) for name, value in labels.items())
    # None rather than some: a selector must not match by a part of the labels, nor fail to match by the other part.
    return dict(sorted(labels.items())) if size <= MOST_LABEL_TEXT and len(labels) <= MOST_ENTRIES else {}


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
        labels=kept_labels(pod.labels),
        resize=pod.resize,
        started=pod.started,
        init_containers=pod.init_containers,
        qos=pod.qos,
        opted_out=pod.opted_out,
        controller=pod.controller,
        observed=pod.observed,
        boosted=pod.boosted,
        ready_since=pod.ready_since,
        leaving=pod.leaving,
        requests=pod.requests,
        admitted=pod.admitted,
        limits=pod.limits,
        service_account=pod.service_account,
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
        started=kill.started,
    )
