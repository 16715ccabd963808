"""What new pods of each workload would get from now on, by the updater's state: the webhook gives the same to a pod that begins.

A pod that was admitted notes what its owner had asked for; that is what its template says, and where a new pod begins.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from agents.logic.updates.pods_by_workload import PodRecord
from agents.logic.updates.updater import Updater
from schemas.names import Amounts
from schemas.policies.vertical import UpdateMode


@dataclass(frozen=True, slots=True)
class NewPodAmounts:
    """One container of a workload's new pods: what the owner asks for, and what it would get instead."""

    workload: str
    container: str
    before: Amounts
    after: Amounts


def amounts(updater: Updater, cluster: str) -> Iterator[NewPodAmounts]:
    """By workload and container, where a new pod would get anything else than its owner asks for."""
    newest: dict[str, PodRecord] = {}
    for pod in updater.clusters.pods.values():
        key, known = pod.fact.workload.key, newest.get(pod.fact.workload.key)
        if pod.fact.workload.cluster == cluster and (known is None or pod.fact.created > known.fact.created):
            newest[key] = pod
    for key, pod in sorted(newest.items()):
        policy = updater.policies.of(key)
        governed = policy is not None and not policy.policy.foreign and policy.policy.patch_new_pods
        if policy is None or not governed or policy.policy.update_mode is UpdateMode.OFF or key in updater.clusters.reverts:
            continue
        yield from _of_pod(updater, _as_its_owner_asks(pod))


def _of_pod(updater: Updater, pod: PodRecord) -> Iterator[NewPodAmounts]:
    advised = updater.advised(pod) or {}
    for seen in pod.fact.containers:
        target = advised[seen.name].target if seen.name in advised else Amounts()
        cpu = seen.requests.cpu if target.cpu is None else target.cpu
        memory = seen.requests.memory if target.memory is None else target.memory
        if (cpu, memory) != (seen.requests.cpu, seen.requests.memory):
            yield NewPodAmounts(pod.fact.workload.key, seen.name, seen.requests, Amounts(cpu, memory))


def _as_its_owner_asks(pod: PodRecord) -> PodRecord:
    noted = {} if pod.fact.admitted is None else {before.name: before for before in pod.fact.admitted.before}
    containers = tuple(
        replace(seen, requests=noted[seen.name].requests, limits=noted[seen.name].limits) if seen.name in noted else seen
        for seen in pod.fact.containers
    )
    return replace(pod, fact=replace(pod.fact, containers=containers))
