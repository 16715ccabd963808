"""A simulated pod and its usage as the client port describes them."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime

from schemas.facts.pods import OOM_KILLED, ContainerRun, ContainerSeen
from schemas.names import Amounts, Workload
from schemas.units import Bytes, Cores, Seconds
from streams.clients.cluster_port import OOMKill, Pod, PodUsage
from streams.simulated.kubelet import NANO, SimulatedContainer, SimulatedPod


def describe_pod(cluster: str, pod: SimulatedPod) -> Pod:
    """The pod as it is now, made anew where something in it changed. Its version only says whether anything did."""
    condition = _condition(pod)
    if pod.described is None or condition != pod.described_in:
        pod_now = _described(cluster, pod)
        pod.described = replace(pod_now, version=hashlib.blake2b(repr(pod_now).encode(), digest_size=8).hexdigest())
        pod.described_in = condition
    return pod.described


def _condition(pod: SimulatedPod) -> tuple[object, ...]:
    """All that a description is made of and that may change. Most pods are as they were at each of thousands of looks a day."""
    containers = (
        (c.requests, c.limits, c.asked_requests, c.asked_limits, c.restarts, c.ready, c.killed, c.ran_from, c.started is None)
        for c in pod.containers
    )
    return pod.node, pod.started, pod.resize, pod.admitted, *containers


def _described(cluster: str, pod: SimulatedPod) -> Pod:
    return Pod(
        workload=Workload(cluster, pod.deployment.namespace, "Deployment", pod.deployment.name),
        pod=pod.name,
        phase=pod.phase,
        created=pod.created,
        containers=tuple(map(_container, pod.containers)),
        asked_requests={c.name: c.asked_requests for c in pod.containers},
        asked_limits={c.name: c.asked_limits for c in pod.containers},
        node=pod.node,
        labels={"app": pod.deployment.name, "pod-template-hash": pod.template_hash},
        resize=pod.resize,
        controller=f"ReplicaSet/{pod.replica_set}",
        started=pod.started,
        ooms=tuple(kill for container in pod.containers for kill in _ooms(container)),
        admitted=pod.admitted,
    )


def describe_usage(pod: SimulatedPod, *, at: datetime, window: Seconds) -> PodUsage:
    """What the pod's containers at work used."""
    at_work = (container for container in pod.containers if container.ready)
    containers = {c.name: Amounts(Cores(c.averaged() / NANO), Bytes(c.memory)) for c in at_work}
    return PodUsage(pod.name.namespace, pod.name.name, at, window, containers)


def _container(container: SimulatedContainer) -> ContainerSeen:
    c, killed = container, container.killed
    last_run = None if killed is None else ContainerRun(_time(killed), _time(c.ran_from), OOM_KILLED)
    return ContainerSeen(c.name, c.requests, c.limits, c.restarts, c.ready, last_run=last_run)


def _ooms(container: SimulatedContainer) -> list[OOMKill]:
    if container.killed is None:
        return []
    # a container that waits for its restart has the kill already, and not yet the count
    ahead = 0 if container.started is not None else 1
    return [OOMKill(container.name, container.restarts + ahead, _time(container.killed), _time(container.ran_from))]


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)
