"""A pod of the client port as the fact that says so: one form for every source that sees pods."""

from datetime import datetime

from schemas.facts import PodChanged
from streams.clients import Pod


def pod_changed(pod: Pod, at: datetime) -> PodChanged:
    """What is to be said of this pod."""
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
