"""The simulated cluster: deployments keep their replicas, pods get nodes, containers live, and callers resize and evict.

The caller advances time: `advance(to)` simulates every step up to `to`. Same seed and same calls, same bytes. Several threads
may call it; one call runs at a time. It refuses like an API server, with a status code (`streams.simulated.api_errors`).
"""

import hashlib
import threading
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

import structlog

from schemas.facts.pods import ResizeState
from schemas.names import Amounts, PodName
from schemas.units import Seconds
from streams.clients.cluster_port import Admission, Pod, PodUsage, admit_unchanged
from streams.clients.kube.quantities import merged, settled
from streams.simulated import api_errors, scheduler
from streams.simulated.api_errors import ApiRefusal
from streams.simulated.cluster_spec import SimulatedDeployment, SimulatedNode
from streams.simulated.kubelet import STEP, WINDOW, SimulatedContainer, SimulatedPod
from streams.simulated.pod_description import describe_pod, describe_usage

RESIZE_DELAY = 30
"""Seconds from accepting a resize until the kubelet tries it."""
_log = structlog.get_logger(__name__)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_BEGUN = -STEP
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class SimulatedCluster:
    """`admit` is called once for each pod before it exists. Without `start` the first `advance` sets the beginning."""

    def __init__(  # noqa: PLR0913  # a cluster is put together in one place, by keyword
        self,
        *,
        name: str,
        seed: int,
        nodes: Sequence[SimulatedNode],
        deployments: Sequence[SimulatedDeployment],
        start: datetime | None = None,
        admit: Admission = admit_unchanged,
    ) -> None:
        self.name, self.admit = name, admit
        self.nodes, self.deployments = tuple(nodes), tuple(deployments)
        self._seed, self._born = seed, 0
        self._now = _NOT_BEGUN if start is None else int(start.timestamp()) // STEP * STEP
        self._pods: dict[tuple[str, str], SimulatedPod] = {}
        self._lock = threading.RLock()

    @property
    def now(self) -> datetime:
        """The end of the last step."""
        return _EPOCH + timedelta(seconds=self._now)

    def advance(self, to: datetime) -> None:
        """Simulate all steps that end at or before `to`; a time in the past changes nothing."""
        target = int(to.timestamp())
        with self._lock:
            if self._now == _NOT_BEGUN:
                self._now = target // STEP * STEP - STEP
            while self._now + STEP <= target:
                self._now += STEP
                self._step()

    def pods(self) -> Sequence[Pod]:
        """All pods, by namespace and name."""
        with self._lock:
            return [describe_pod(self.name, self._pods[key]) for key in sorted(self._pods)]

    def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod that has this name now."""
        with self._lock:
            pod = self._pods.get((namespace, name))
            return None if pod is None else describe_pod(self.name, pod)

    def usage(self) -> Sequence[PodUsage]:
        """Usage of all pods with a container at work, by namespace and name."""
        with self._lock:
            all_usage = (describe_usage(self._pods[key], at=self.now, window=Seconds(WINDOW)) for key in sorted(self._pods))
            return [usage for usage in all_usage if usage.containers]

    def pod_usage(self, namespace: str, name: str) -> PodUsage | None:
        """Usage of one pod; None when there is no such pod, or no container of it is at work."""
        with self._lock:
            pod = self._pods.get((namespace, name))
            usage = None if pod is None else describe_usage(pod, at=self.now, window=Seconds(WINDOW))
            return usage if usage is not None and usage.containers else None

    def resize(self, name: PodName, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts], version: str = "") -> None:
        """Accept new amounts for a pod; they come into force after `RESIZE_DELAY`, if the node has room.

        What the node could never hold is accepted too, as the API server does; the kubelet then calls it infeasible. With a
        `version`, only if the pod still is as it was described with that one.
        """
        with self._lock:
            pod = self._find(name)
            if version not in ("", describe_pod(self.name, pod).version):
                raise api_errors.changed_since(name.name)
            changed = _changed(pod, requests, limits)
            for container in pod.containers:
                container.asked_requests, container.asked_limits = changed[container.name]
            pod.resize, pod.resize_at = ResizeState.IN_PROGRESS, self._now + RESIZE_DELAY
            if pod.node is None:
                pod.apply_resize()

    def evict(self, name: PodName) -> None:
        """Delete a pod if enough ready ones remain; its deployment creates another one in the next step."""
        with self._lock:
            pod = self._find(name)
            keep, healthy = pod.deployment.keep, self._healthy(pod.deployment)
            left = healthy - 1 if pod.ready else healthy
            if pod.node is not None and left < keep:
                raise api_errors.budget_used_up(name.name, keep)
            del self._pods[name.namespace, name.name]

    def _step(self) -> None:
        self._keep_replicas()
        room = scheduler.free(self.nodes, self._pods.values())
        machines = {node.name: node for node in self.nodes}
        for pod in self._pods.values():
            if pod.node is None:
                self._schedule(pod, room)
            elif pod.resize is not ResizeState.NONE and self._now >= pod.resize_at:
                _try_resize(pod, machines[pod.node], room)
        for pod in self._pods.values():
            if pod.node is not None:
                for container in pod.containers:
                    container.step(self._now)

    def _keep_replicas(self) -> None:
        """Create the missing replicas of each deployment, in order; a refused pod is tried again in the next step."""
        counts: dict[tuple[str, str], int] = {}
        for pod in self._pods.values():
            counts[_key(pod.deployment)] = counts.get(_key(pod.deployment), 0) + 1
        for deployment in self.deployments:
            for _ in range(deployment.replicas - counts.get(_key(deployment), 0)):
                try:
                    pod = self._create(deployment)
                except ApiRefusal as no:
                    _log.warning("a new pod was refused as it was patched", deployment=deployment.name, answer=no.message)
                else:
                    self._pods[pod.name.namespace, pod.name.name] = pod

    def _create(self, deployment: SimulatedDeployment) -> SimulatedPod:
        self._born += 1
        digest = hashlib.blake2b(f"{self._seed}/{self._born}".encode(), digest_size=16).digest()
        template = _letters(hashlib.blake2b(f"{deployment.namespace}/{deployment.name}".encode(), digest_size=9).digest())
        replica_set = f"{deployment.name}-{template}"
        pod = SimulatedPod(
            deployment=deployment,
            name=PodName(deployment.namespace, f"{replica_set}-{_letters(digest[:5])}", str(uuid.UUID(bytes=digest, version=4))),
            replica_set=replica_set,
            template_hash=template,
            created=self.now,
            containers=[
                SimulatedContainer(t.name, t.shape, int.from_bytes(digest[:6]) + i, t.requests, t.limits, t.requests, t.limits)
                for i, t in enumerate(deployment.containers)
            ],
        )
        self._admit(pod)
        return pod

    def _admit(self, pod: SimulatedPod) -> None:
        patch = self.admit(describe_pod(self.name, pod))
        changed = _changed(pod, patch.requests, patch.limits)
        for container in pod.containers:
            container.asked_requests, container.asked_limits = changed[container.name]
        pod.apply_resize()

    def _schedule(self, pod: SimulatedPod, room: dict[str, scheduler.Room]) -> None:
        node = scheduler.place(pod, room)
        if node is not None:
            scheduler.reserve(room, node, pod.claim())
            pod.node, pod.started = node, self.now

    def _find(self, name: PodName) -> SimulatedPod:
        pod = self._pods.get((name.namespace, name.name))
        if pod is None:
            raise api_errors.not_found(name.name)
        if pod.name.uid != name.uid:
            raise api_errors.other_uid(name, pod.name.uid)
        return pod

    def _healthy(self, deployment: SimulatedDeployment) -> int:
        return sum(pod.ready for pod in self._pods.values() if pod.deployment is deployment)


def _try_resize(pod: SimulatedPod, node: SimulatedNode, room: dict[str, scheduler.Room]) -> None:
    """In force if the node has room for the difference; else deferred until it has, or infeasible as it never can have."""
    (cpu, memory), (more_cpu, more_memory) = pod.claim(), pod.asked()
    difference = more_cpu - cpu, more_memory - memory
    left = room[node.name]
    if (difference[0] <= 0 or difference[0] <= left[0]) and (difference[1] <= 0 or difference[1] <= left[1]):
        scheduler.reserve(room, node.name, difference)
        pod.apply_resize()
    elif scheduler.fits(pod.asked(), scheduler.allocatable(node)):
        pod.resize = ResizeState.DEFERRED
    else:
        pod.resize = ResizeState.INFEASIBLE


def _changed(
    pod: SimulatedPod, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]
) -> dict[str, tuple[Amounts, Amounts]]:
    """All containers' amounts after a patch. ApiRefusal (422) for a container that is not there, or a request above its limit."""
    result = {container.name: (container.asked_requests, container.asked_limits) for container in pod.containers}
    for name in sorted(requests.keys() | limits.keys()):
        if name not in result:
            raise ApiRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"pod '{pod.name.name}' has no container '{name}'")
        before, capped = result[name]
        after = merged(before, settled(requests.get(name, Amounts()))), merged(capped, settled(limits.get(name, Amounts())))
        _check_limits(pod, name, *after)
        result[name] = after
    return result


def _check_limits(pod: SimulatedPod, name: str, requests: Amounts, limits: Amounts) -> None:
    for resource, wanted, limit in (("cpu", requests.cpu, limits.cpu), ("memory", requests.memory, limits.memory)):
        if wanted is not None and limit is not None and wanted > limit:
            where = f"container '{name}' of pod '{pod.name.name}'"
            message = f"{where}: {resource} request {wanted:g} must be less than or equal to {resource} limit {limit:g}"
            raise ApiRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, message)


def _key(deployment: SimulatedDeployment) -> tuple[str, str]:
    return deployment.namespace, deployment.name


def _letters(data: bytes) -> str:
    """Kubernetes' alphabet for generated names: no vowels, so no words."""
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in data)
