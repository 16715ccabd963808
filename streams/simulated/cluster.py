"""The simulated cluster: deployments keep their replicas, pods get nodes, containers live, and callers resize and evict.

Nodes are given, or come and go with the instances of a simulated cloud; a node that leaves takes its pods along.

The caller advances time: `advance(to)` simulates every step up to `to`. Same seed and same calls, same bytes. Several threads may
call it; calls run one at a time. It refuses like an API server, with a status code (`streams.simulated.pod_admission`).
"""

import hashlib
import heapq
import threading
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime

import structlog

from schemas import times
from schemas.facts.pods import ResizeState
from schemas.names import Amounts, PodName
from schemas.units import Seconds
from streams.clients.cluster_port import AdmissionHook, Pod, PodUsage, admit_unchanged
from streams.simulated import pod_admission, scheduler
from streams.simulated.cluster_nodes import ClusterNodes
from streams.simulated.cluster_spec import SimulatedDeployment, SimulatedNode, SimulatedNodeGroup, daylight
from streams.simulated.kubelet import STEP, WINDOW, SimulatedPod, describe_pod, describe_usage, new_container
from streams.simulated.pod_admission import ApiRefusal, CreationBackOff, PodAdmission
from streams.simulated.scheduler import Scheduler, Waiting
from streams.simulated.simulated_aws import SimulatedAws

RESIZE_DELAY = STEP
"""Seconds from accepting a resize until the kubelet tries it: one step, the least that this cluster knows.

A real kubelet tries it when it sees the new spec, and is done after 1.8 s on average, or 0.2 s where it looks at the pod at once
(measured in kubernetes#137362). Before kubernetes#128518 it noticed the end at its next look at all pods, within a minute.
"""
_log = structlog.get_logger(__name__)
# before the epoch, for the epoch itself is a time that a caller may mean
_NOT_BEGUN = -STEP
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so no words: k8s.io/apimachinery/pkg/util/rand


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
        admit: AdmissionHook = admit_unchanged,
        groups: Sequence[SimulatedNodeGroup] = (),
        rules: PodAdmission | None = None,
        step: int = STEP,
    ) -> None:
        """`step` is the number of seconds between two moments of the simulation; containers with load need the default."""
        self.name, self.admit, self.rules = name, admit, rules or PodAdmission()
        self.deployments = tuple(deployments)
        self.nodes = ClusterNodes()
        self.cloud = SimulatedAws(groups, self.nodes)
        # reentrant: the HTTP paths hold it while they ask for pods, which takes it again
        self.lock = threading.RLock()
        """Held while anything in it changes, or is read as a whole."""
        self.pods_by_name: dict[tuple[str, str], SimulatedPod] = {}
        self.waited: list[int] = []
        """How many seconds each pod that got a node had waited for it, in the order of its coming."""
        self.moved = 0
        """Pods that were evicted, or lost with their nodes."""
        self._given = tuple(nodes)
        self._scheduler = Scheduler(self.nodes)
        self._seed, self._born, self._every = seed, 0, step
        self._now = _NOT_BEGUN if start is None else int(start.timestamp()) // step * step
        self._begun = False
        self._back_off = CreationBackOff()
        self._coming: dict[tuple[str, str], int] = {}
        self._replicas: dict[tuple[str, str], int] = {}
        """What was asked for through scales."""
        self._owed: list[tuple[SimulatedDeployment, int]] = []
        self._ends: list[tuple[int, tuple[str, str], str]] = []
        self._changed: dict[tuple[str, str], str] = {}

    @property
    def now(self) -> datetime:
        """The end of the last step."""
        return times.from_seconds(self._now)

    def advance(self, to: datetime) -> None:
        """Simulate all steps that end at or before `to`; a time in the past changes nothing."""
        target = int(to.timestamp())
        with self.lock:
            if self._now == _NOT_BEGUN:
                # one step before the target, so that the first call simulates one step and not the time since the epoch
                self._now = (target // self._every - 1) * self._every
            while self._now + self._every <= target:
                self._now += self._every
                self._step()

    def submit(self, template: SimulatedDeployment, lasts: int) -> None:
        """Create one pod that ends by itself, so many seconds after it got a node; if it is evicted, another one continues."""
        with self.lock:
            self._owed.append((template, lasts))

    def take_pod_changes(self) -> Mapping[tuple[str, str], str]:
        """Pods that came, went, got a node or changed their requests since the last call: uids by namespace and name."""
        with self.lock:
            changed, self._changed = self._changed, {}
            return changed

    def pods(self) -> Sequence[Pod]:
        """All pods, by namespace and name."""
        with self.lock:
            # an API server lists by namespace and name, whatever order pods came in
            return [describe_pod(self.name, self.pods_by_name[key]) for key in sorted(self.pods_by_name)]

    def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod that has this name now."""
        with self.lock:
            pod = self.pods_by_name.get((namespace, name))
            return None if pod is None else describe_pod(self.name, pod)

    def usage(self) -> Sequence[PodUsage]:
        """Usage of all pods with a container at work, by namespace and name."""
        with self.lock:
            all_usage = (
                describe_usage(self.pods_by_name[key], at=self.now, window=Seconds(WINDOW)) for key in sorted(self.pods_by_name)
            )
            return [usage for usage in all_usage if usage.containers]

    def pod_usage(self, namespace: str, name: str) -> PodUsage | None:
        """Usage of one pod; None when there is no such pod, or no container of it is at work."""
        with self.lock:
            pod = self.pods_by_name.get((namespace, name))
            usage = None if pod is None else describe_usage(pod, at=self.now, window=Seconds(WINDOW))
            return usage if usage is not None and usage.containers else None

    def resize(self, name: PodName, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts], version: str = "") -> None:
        """Accept new amounts for a pod; they come into force after `RESIZE_DELAY`, if the node has room.

        With a `version`, only if the pod still is as it was described with that one.
        """
        with self.lock:
            pod = self._find(name)
            # the kubelet's own changes make a new version too, so a caller that read an older pod has to read again
            if version not in ("", describe_pod(self.name, pod).version):
                raise pod_admission.changed_since(name.name)
            changed = pod_admission.patched(pod, requests, limits)
            self.rules.check_resize(pod, changed, self.pods_by_name.values(), self._now)
            for container in pod.containers:
                container.asked_requests, container.asked_limits = changed[container.name]
            # also what the node could never hold: the API server does not know, and the kubelet then calls it infeasible
            pod.resize, pod.resize_at = ResizeState.IN_PROGRESS, self._now + RESIZE_DELAY
            self._changed[_name(pod)] = pod.name.uid
            # no container runs yet, so there is nobody to wait for
            if pod.node is None:
                pod.apply_resize()

    def scale(self, namespace: str, name: str, replicas: int) -> None:
        """Let a deployment have so many replicas from the next step on."""
        with self.lock:
            self._replicas[namespace, name] = replicas
            self._back_off.wake((namespace, name))

    def refusal(self, deployment: SimulatedDeployment) -> str:
        """What was answered when the ReplicaSet of a deployment could not make a pod; empty while it can."""
        return self._back_off.message(_key(deployment))

    def coming(self, namespace: str, name: str) -> int | None:
        """How many pods the controller of a deployment wanted beyond those that were there when it made some last, if any."""
        # not counted now: a real controller's status is behind the pods that it makes at one time
        return self._coming.get((namespace, name))

    def allowed_disruptions(self, deployment: SimulatedDeployment) -> int:
        """How many ready pods the disruption budget of a deployment lets go now."""
        with self.lock:
            return max(self.healthy(deployment) - deployment.keep, 0)

    def evict(self, name: PodName) -> None:
        """Delete a pod if enough ready ones remain; its deployment creates another one in the next step."""
        with self.lock:
            pod = self._find(name)
            keep, healthy = pod.deployment.keep, self.healthy(pod.deployment)
            remaining = healthy - 1 if pod.ready else healthy
            # pods that wait may always go, and unready ones while enough others are ready: canIgnorePDB in Kubernetes'
            # eviction.go
            if pod.node is not None and remaining < keep:
                raise pod_admission.budget_used_up(name.name, keep)
            self._lose(pod)

    def _step(self) -> None:
        # nodes first: the pods of a machine that left are made anew and placed in the same step
        self._change_nodes()
        while self._ends and self._ends[0][0] <= self._now:
            _at, name, uid = heapq.heappop(self._ends)
            ended = self.pods_by_name.get(name)
            # the heap keeps the ends of pods that were evicted since, and a name may have come again
            if ended is not None and ended.name.uid == uid:
                self._remove(ended)
        self._keep_replicas()
        # alike pods fit alike, so only the first of hundreds that wait tries every node
        hopeless: set[Waiting] = set()
        for pod in self.pods_by_name.values():
            if pod.node is None:
                self._schedule(pod, hopeless)
            elif pod.resize is not ResizeState.NONE and self._now >= pod.resize_at:
                self._try_resize(pod, pod.node)
        shares = self._shares()
        for pod in self.pods_by_name.values():
            # pods without load stay as they are, and a step for each of them would be most of a long simulation
            if pod.node is not None and not pod.idle:
                pod.step(self._now, shares.get(_key(pod.deployment), 1.0))

    def _shares(self) -> dict[tuple[str, str], float]:
        """The part of the load that falls to each pod, for the deployments whose pods share it."""
        shared = {_key(deployment): 0 for deployment in self.deployments if deployment.shared}
        if shared:
            for pod in self.pods_by_name.values():
                if _key(pod.deployment) in shared:
                    shared[_key(pod.deployment)] += pod.ready
        # at least one: before the first pod is ready there is nobody to share with
        return {key: 1.0 / max(1, ready) for key, ready in shared.items()}

    def _change_nodes(self) -> None:
        """Let machines come and go. Pods of a node that left are lost."""
        before = {node.name for node in self.nodes}
        # in the first step, for the nodes' age is of the simulation's time, which __init__ may not have
        if not self._begun:
            self._begun = True
            for spec in self._given:
                self.nodes.join(spec, self.now)
            self.cloud.begin(self._now)
        for name in self.cloud.advance(self._now):
            for pod in [pod for pod in self.pods_by_name.values() if pod.node == name]:
                self._lose(pod)
            self._scheduler.node_left(name)
            before.discard(name)
        for node in self.nodes:
            if node.name not in before:
                self._scheduler.node_joined(node)

    def _lose(self, pod: SimulatedPod) -> None:
        """A pod goes early; its owner makes another one."""
        if pod.lasts is not None:
            # a pod that had begun leaves only its rest to be done
            self._owed.append((pod.deployment, pod.lasts if pod.ends is None else pod.ends - self._now))
        # a pod that still waited for a node was not moved
        self.moved += pod.node is not None
        self._remove(pod)

    def _remove(self, pod: SimulatedPod) -> None:
        del self.pods_by_name[_name(pod)]
        # what becomes of its own pods wakes a ReplicaSet that waits
        self._back_off.wake(_key(pod.deployment))
        self._scheduler.release(pod)
        self._changed[_name(pod)] = pod.name.uid

    def _keep_replicas(self) -> None:
        """Create the missing replicas of each deployment, in order; where a pod is refused, later and one at a time."""
        pods: dict[tuple[str, str], list[SimulatedPod]] = {}
        for pod in self.pods_by_name.values():
            pods.setdefault(_key(pod.deployment), []).append(pod)
        for deployment in self.deployments:
            missing = self.wanted(deployment) - len(mine := pods.get(_key(deployment), []))
            # who made a bare pod has gone home
            if deployment.kind == "Pod" and _key(deployment) in self._coming:
                continue
            self._coming[_key(deployment)] = missing
            if missing > 0 and self._back_off.may_try(_key(deployment), self._now):
                # all() stops at the first refusal, as a ReplicaSet's slow start does
                all(self._try_create(deployment, ordinal=place) for place in pod_admission.ordinals(deployment, mine, missing))
            elif missing <= 0:
                self._back_off.made(_key(deployment))
            if missing < 0:
                self._remove_newest(deployment, -missing)
        # taken away first, so that those that are refused are put back for the next step
        owed, self._owed = self._owed, []
        for template, lasts in owed:
            if not self._try_create(template, lasts):
                self._owed.append((template, lasts))

    def wanted(self, deployment: SimulatedDeployment) -> int:
        """How many pods a deployment wants at this hour."""
        if (scaled := self._replicas.get(_key(deployment))) is not None:
            return scaled
        if not deployment.peak:
            return deployment.replicas
        return deployment.replicas + round((deployment.peak - deployment.replicas) * daylight(Seconds(self._now)))

    def _remove_newest(self, deployment: SimulatedDeployment, count: int) -> None:
        """As a ReplicaSet does: waiting pods first, then the youngest."""
        mine = [pod for pod in self.pods_by_name.values() if _key(pod.deployment) == _key(deployment)]
        # Source: ActivePodsWithRanks in pkg/controller/controller_utils.go, of whose rules these matter here
        for pod in sorted(mine, key=lambda pod: (pod.node is not None, -pod.created.timestamp(), pod.name.name))[:count]:
            self._remove(pod)

    def _try_create(self, deployment: SimulatedDeployment, lasts: int | None = None, *, ordinal: int = 0) -> bool:
        try:
            pod = self._create(deployment)
        except ApiRefusal as refusal:
            _log.warning("a new pod was refused as it was patched", deployment=deployment.name, answer=refusal.message)
            self._back_off.failed(_key(deployment), refusal.message, self._now)
            return False
        self._back_off.made(_key(deployment))
        pod.lasts, pod.ordinal = lasts, ordinal
        self.pods_by_name[_name(pod)] = pod
        self._changed[_name(pod)] = pod.name.uid
        return True

    def _create(self, deployment: SimulatedDeployment) -> SimulatedPod:
        self._born += 1
        # an identity follows from seed, number and the cluster's name: same calls, same uids, and never those of another cluster
        digest = hashlib.blake2b(f"{self._seed}/{self._born}".encode(), digest_size=16).digest()
        uid = uuid.UUID(bytes=hashlib.blake2b(digest, digest_size=16, key=self.name.encode()[:64]).digest(), version=4)
        replica_set = replica_set_of(deployment)
        pod = SimulatedPod(
            deployment=deployment,
            name=PodName(deployment.namespace, f"{replica_set}-{_letters(digest[:5])}", str(uid)),
            replica_set=replica_set,
            template_hash=_template_hash(deployment),
            created=self.now,
            # a seed for each container of a pod, so that they do not move in step
            containers=[new_container(t, int.from_bytes(digest[:6]) + i) for i, t in enumerate(deployment.containers)],
            init=[new_container(t, int.from_bytes(digest[6:12]) + i, init=True) for i, t in enumerate(deployment.init)],
            requests=deployment.requests,
            limits=deployment.limits,
        )
        # in the API server's order: defaults, then what patches, then what refuses
        self.rules.give_defaults(pod)
        self._admit(pod)
        self.rules.check_new(pod, self.pods_by_name.values(), self._now)
        return pod

    def _admit(self, pod: SimulatedPod) -> None:
        patch = self.admit(describe_pod(self.name, pod))
        changed = pod_admission.patched(pod, patch.requests, patch.limits)
        for container in pod.containers:
            container.asked_requests, container.asked_limits = changed[container.name]
        pod.admitted = patch.note
        # no kubelet has seen it yet, so what admission gave is what the pod has
        pod.apply_resize()

    def _schedule(self, pod: SimulatedPod, hopeless: set[Waiting]) -> None:
        node = self._scheduler.place(pod, hopeless)
        if node is not None:
            self._scheduler.bind(pod, node)
            pod.node, pod.started = node, self.now
            self.waited.append(self._now - int(pod.created.timestamp()))
            self._changed[_name(pod)] = pod.name.uid
            if pod.lasts is not None:
                pod.ends = self._now + pod.lasts
                heapq.heappush(self._ends, (pod.ends, _name(pod), pod.name.uid))

    def _try_resize(self, pod: SimulatedPod, node: str) -> None:
        """Apply a resize if the node has room for the difference; else it is deferred, or infeasible if the node is too small."""
        (cpu, memory), (more_cpu, more_memory) = pod.claim(), pod.asked()
        # only the difference needs room: the pod's own claim is in what the node has given away
        if scheduler.fits((more_cpu - cpu, more_memory - memory), self._scheduler.free(node)):
            pod.apply_resize()
            self._scheduler.bind(pod, node)
            self._changed[_name(pod)] = pod.name.uid
        elif scheduler.fits(pod.asked(), scheduler.allocatable(self.nodes[node])):
            pod.resize = ResizeState.DEFERRED
        else:
            pod.resize = ResizeState.INFEASIBLE

    def _find(self, name: PodName) -> SimulatedPod:
        pod = self.pods_by_name.get((name.namespace, name.name))
        if pod is None:
            raise pod_admission.not_found(name.name)
        if pod.name.uid != name.uid:
            raise pod_admission.other_uid(name, pod.name.uid)
        return pod

    def healthy(self, deployment: SimulatedDeployment) -> int:
        """How many pods of a deployment are ready."""
        return sum(pod.ready for pod in self.pods_by_name.values() if pod.deployment is deployment)


def replica_set_of(deployment: SimulatedDeployment) -> str:
    """The name of a deployment's only ReplicaSet."""
    return f"{deployment.name}-{_template_hash(deployment)}"


def _template_hash(deployment: SimulatedDeployment) -> str:
    return _letters(hashlib.blake2b(f"{deployment.namespace}/{deployment.name}".encode(), digest_size=9).digest())


def _name(pod: SimulatedPod) -> tuple[str, str]:
    return pod.name.namespace, pod.name.name


def _key(deployment: SimulatedDeployment) -> tuple[str, str]:
    return deployment.namespace, deployment.name


def _letters(data: bytes) -> str:
    """Letters of Kubernetes' alphabet for generated names."""
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in data)
