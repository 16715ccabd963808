"""The machines' side: containers running under their limits, OOM kills, restarts with growing delay, and pods made of them.

Everything moves in steps of `STEP` seconds on a fixed grid, so it does not matter how often and how far time is advanced. CPU
above the limit is throttled, memory above it is an OOM kill, resizes take effect after a delay if the node has room. Init
containers run one after the other before the others, and sidecars on from their turn; limits of the pod hold for all together.
"""

import hashlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from schemas import pod_requests
from schemas.facts.pods import OOM_KILLED, AdmissionNote, ContainerRun, ContainerSeen, PodPhase, ResizeState
from schemas.names import Amounts, PodName, Workload
from schemas.pod_requests import CPU, MEMORY, ContainerRequests
from schemas.units import Bytes, Cores, Seconds, millicores
from streams.clients.cluster_port import OOMKill, Pod, PodUsage, asked_meanwhile
from streams.simulated.cluster_spec import ContainerTemplate, LoadMoment, Shape, SimulatedDeployment

STEP = 15
"""Seconds of one step."""
WINDOW = 60
"""Seconds over which usage is averaged."""
BACK_OFF_FIRST, BACK_OFF_MOST, CALM_AFTER = 10, 300, 600
"""Seconds. The first restart comes at once; then delays double from the first to the most, as the kubelet's. After a run that was
longer than the last of these they begin again. Source: kubelet's doBackOff, client-go's flowcontrol.Backoff."""
NANO = 1_000_000_000
KIB = 1024
_NOTHING = Amounts()


@dataclass(slots=True)
class SimulatedContainer:
    """A container: the amounts in force, those of the spec, and its condition. Times are seconds since the epoch.

    `killed`: when its last run that is over was killed; it had begun at `ran_from`. `delay`: before the next restart. An init
    container `lasts` so many seconds and then is `done`; a sidecar and all others never are.
    """

    name: str
    shape: Shape | None
    seed: int
    requests: Amounts
    limits: Amounts
    asked_requests: Amounts
    asked_limits: Amounts
    started: int | None = None
    restart_at: int | None = None
    delay: int = 0
    restarts: int = 0
    killed: int | None = None
    ran_from: int = 0
    # the newest steps alone: right after a start usage is averaged over what there is
    nanocores: deque[int] = field(default_factory=lambda: deque(maxlen=WINDOW // STEP))
    memory: int = 0
    lasts: int | None = None
    sidecar: bool = False
    done: bool = False

    @property
    def at_work(self) -> bool:
        """Up for at least one whole step."""
        return bool(self.nanocores)

    @property
    def ready(self) -> bool:
        """At work; an init container is ready once it is done."""
        # no probe is simulated, so work done is the sign
        return self.at_work if self.lasts is None else self.done

    @property
    def lets_others_begin(self) -> bool:
        """Whether the containers after this one may start."""
        # a sidecar only has to have started once
        return self.done or (self.sidecar and (self.started is not None or self.killed is not None))

    def step(self, now: int, share: float = 1.0) -> None:
        """Simulate the step that ends at `now`. `share`: the part of the shape's CPU that falls to this one."""
        if self.started is None:
            if self.restart_at is not None and now < self.restart_at:
                return
            # the step in which it starts has no usage yet
            self._start(now)
            return
        if self.lasts is not None and now - self.started > self.lasts:
            self.done = True
            self._end()
            return
        if self.shape is None:
            self.nanocores.append(0)
            return
        load = self.shape(LoadMoment(self.seed, Seconds(now), Seconds(now - self.started)))
        wanted = load.cores * share
        # a limit of zero is none to the kubelet
        cores = min(wanted, self.limits.cpu) if self.limits.cpu else wanted
        # whole KiB, for metrics-server's JSON has no finer unit
        memory = max(KIB, load.memory // KIB * KIB)
        if self.limits.memory and memory > self.limits.memory:
            self.kill(now)
            return
        self.nanocores.append(max(1, int(cores * NANO)))
        self.memory = memory

    def averaged(self) -> int:
        """Nanocores over the window."""
        return sum(self.nanocores) // len(self.nanocores)

    def _start(self, now: int) -> None:
        # the first start is no restart
        if self.killed is not None:
            self.restarts += 1
        self.started, self.restart_at = now, None

    def kill(self, now: int) -> None:
        """It has no more memory."""
        self.ran_from = now if self.started is None else self.started
        # before `delay` is used: after a run that was long enough the back-off begins anew
        if now - self.ran_from > CALM_AFTER:
            self.delay = 0
        self.killed, self.started, self.restart_at = now, None, now + self.delay
        self.delay = min(BACK_OFF_MOST, max(BACK_OFF_FIRST, 2 * self.delay))
        self._end()

    def _end(self) -> None:
        # what the run that ended used is no usage of the next one
        self.nanocores.clear()
        self.memory = 0


def new_container(template: ContainerTemplate, seed: int, *, init: bool = False) -> SimulatedContainer:
    """A container that has not started yet."""
    t, lasts = template, template.lasts if init and not template.sidecar else None
    asked = t.requests, t.limits
    return SimulatedContainer(t.name, t.shape, seed, *asked, *asked, lasts=lasts, sidecar=t.sidecar)


@dataclass(slots=True)
class SimulatedPod:
    """A pod. `resize_at` is when an accepted resize may take effect; `ordinal` is its place among those of a StatefulSet.

    A pod that ends by itself has `lasts` seconds from the moment at which it gets a node, and then `ends`.
    """

    deployment: SimulatedDeployment
    name: PodName
    replica_set: str
    template_hash: str
    created: datetime
    containers: list[SimulatedContainer]
    init: list[SimulatedContainer] = field(default_factory=list)
    requests: Amounts = Amounts()
    limits: Amounts = Amounts()
    node: str | None = None
    started: datetime | None = None
    resize: ResizeState = ResizeState.NONE
    resize_at: int = 0
    ordinal: int = 0
    lasts: int | None = None
    ends: int | None = None
    admitted: AdmissionNote | None = None
    described: Pod | None = field(default=None, compare=False, repr=False)
    """How it was described last."""
    described_in: tuple[object, ...] = field(default=(), compare=False, repr=False)
    """The condition in which it was described."""

    @property
    def idle(self) -> bool:
        """Whether it will never change by itself any more."""
        return all(container.shape is None and container.ready for container in self.all_containers)

    @property
    def all_containers(self) -> list[SimulatedContainer]:
        """The init containers, then the others."""
        return [*self.init, *self.containers]

    @property
    def phase(self) -> PodPhase:
        """Pending until it has a node and its init containers let the others begin. Source: getPhase in the kubelet."""
        begun = self.node is not None and all(container.lets_others_begin for container in self.init)
        return PodPhase.RUNNING if begun else PodPhase.PENDING

    @property
    def ready(self) -> bool:
        """All containers are ready."""
        return self.node is not None and all(container.ready for container in self.all_containers)

    def claim(self) -> tuple[int, int]:
        """Millicores and bytes that the scheduler counts: per container what is in force."""
        return self._total([container.requests for container in self.containers])

    def asked(self) -> tuple[int, int]:
        """Millicores and bytes that the spec asks for."""
        return self._total([container.asked_requests for container in self.containers])

    def _total(self, containers: Iterable[Amounts]) -> tuple[int, int]:
        """Unset amounts count as nothing."""
        amounts = total(containers, [(first.asked_requests, first.sidecar) for first in self.init], self.requests)
        return amounts.get(CPU, 0), amounts.get(MEMORY, 0)

    def step(self, now: int, share: float) -> None:
        """Simulate the step that ends at `now`, with this part of the load."""
        for starter in self.init:
            if not starter.done:
                starter.step(now)
            if not starter.lets_others_begin:
                break
        else:
            for container in self.containers:
                container.step(now, share)
        if self.limits != _NOTHING:
            self._hold_together(now)

    def _hold_together(self, now: int) -> None:
        """What the containers may use together: CPU is throttled for all alike, and memory is taken from the largest."""
        at_work = [container for container in self.all_containers if container.at_work]
        cores, most = sum(container.nanocores[-1] for container in at_work), (self.limits.cpu or Cores(0.0)) * NANO
        for container in at_work if 0 < most < cores else ():
            container.nanocores[-1] = int(container.nanocores[-1] * most / cores)
        if self.limits.memory and sum(container.memory for container in at_work) > self.limits.memory:
            # the kernel's choice within the pod's cgroup: who has most, where nothing but requests tells them apart
            max(at_work, key=lambda container: container.memory).kill(now)

    def apply_resize(self) -> None:
        """What was asked for is in force."""
        # at once, where a kubelet changes memory and CPU one after the other
        for container in self.all_containers:
            container.requests, container.limits = container.asked_requests, container.asked_limits
        self.resize = ResizeState.NONE


def total(containers: Iterable[Amounts], init: Iterable[tuple[Amounts, bool]] = (), own: Amounts = _NOTHING) -> dict[str, int]:
    """What a pod asks for in whole millicores and bytes, so that sums compare exactly; unset amounts are not there.

    `init`: each init container, and whether it is a sidecar. `own`: what the pod itself asks for.
    """
    starters = [ContainerRequests(whole(amounts), always=sidecar) for amounts, sidecar in init]
    return pod_requests.of_pod([ContainerRequests(whole(amounts)) for amounts in containers], starters, pod_level=whole(own))


def whole(amounts: Amounts) -> dict[str, int]:
    """Amounts that are set, in millicores and bytes."""
    cpu = {} if amounts.cpu is None else {CPU: millicores(amounts.cpu)}
    return cpu if amounts.memory is None else {**cpu, MEMORY: int(amounts.memory)}


def describe_pod(cluster: str, pod: SimulatedPod) -> Pod:
    """The pod as it is now, made anew where something in it changed. Its version only says whether anything did."""
    condition = _condition(pod)
    # most pods are as they were at each of thousands of looks a day
    if pod.described is None or condition != pod.described_in:
        pod_now = _described(cluster, pod)
        # a hash of what is shown, so pods that look alike in two runs have one version
        pod.described = replace(pod_now, version=hashlib.blake2b(repr(pod_now).encode(), digest_size=8).hexdigest())
        pod.described_in = condition
    return pod.described


def _condition(pod: SimulatedPod) -> tuple[object, ...]:
    """All that a description is made of and that may change."""
    containers = (
        (c.requests, c.limits, c.asked_requests, c.asked_limits, c.restarts, c.ready, c.killed, c.ran_from, c.started is None)
        for c in pod.all_containers
    )
    return pod.node, pod.started, pod.resize, pod.admitted, pod.phase, *containers


def _described(cluster: str, pod: SimulatedPod) -> Pod:
    kind, name = pod.deployment.kind, pod.deployment.name
    containers, asked = tuple(map(_container, pod.containers)), {c.name: c.asked_requests for c in pod.containers}
    bare, controller = kind == "Pod", f"ReplicaSet/{pod.replica_set}" if kind == "Deployment" else f"{kind}/{name}"
    return Pod(
        workload=Workload(cluster, pod.deployment.namespace, kind, pod.name.name if bare else name),
        pod=pod.name,
        phase=pod.phase,
        created=pod.created,
        containers=containers,
        asked_requests=asked,
        asked_limits={c.name: c.asked_limits for c in pod.containers},
        node=pod.node,
        labels={"app": pod.deployment.name, "pod-template-hash": pod.template_hash},
        resize=pod.resize,
        controller="" if bare else controller,
        started=pod.started,
        ooms=tuple(kill for container in pod.containers for kill in _ooms(container)),
        init_containers=tuple(map(_container, pod.init)),
        admitted=pod.admitted,
        requests=pod.requests,
        limits=pod.limits,
        asked=asked_meanwhile(containers, asked, pod.resize),
    )


def describe_usage(pod: SimulatedPod, *, at: datetime, window: Seconds) -> PodUsage:
    """What the pod's containers at work used."""
    at_work = (container for container in pod.all_containers if container.at_work)
    # CPU is a rate and needs the window; memory is a state, so its newest value counts
    containers = {c.name: Amounts(Cores(c.averaged() / NANO), Bytes(c.memory)) for c in at_work}
    return PodUsage(pod.name.namespace, pod.name.name, at, window, containers)


def _container(container: SimulatedContainer) -> ContainerSeen:
    c, killed = container, container.killed
    last_run = None if killed is None else ContainerRun(_time(killed), _time(c.ran_from), OOM_KILLED)
    return ContainerSeen(c.name, c.requests, c.limits, c.restarts, c.ready, sidecar=c.sidecar, last_run=last_run)


def _ooms(container: SimulatedContainer) -> list[OOMKill]:
    if container.killed is None:
        return []
    # a container that waits for its restart has the kill already, and not yet the count
    ahead = 0 if container.started is not None else 1
    return [OOMKill(container.name, container.restarts + ahead, _time(container.killed), _time(container.ran_from))]


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)
