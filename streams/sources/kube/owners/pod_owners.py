"""Which workload a pod belongs to: the topmost controller above it, found once and kept until the chain above the pod changes.

A pod whose owners are not known yet waits while they are being listed, and then a few seconds more. After that the workload is a
guess from the pod itself and its references, which stands until the pod gets another controller. A controller that is deleted
before its pods, as in every deletion, changes nothing for them.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from schemas.names import Workload
from streams.clients.cluster_port import Pod
from streams.clients.kube.controllers import ControllerKey
from streams.publishing.published_state import PublishedState
from streams.sources.kube.owners.topmost_controller import WHOLE, Dependents, MissingController, OwnerChain, OwnerGraph

PATIENCE = timedelta(seconds=5)
"""How long a pod waits for an owner that should exist and does not."""


@dataclass(slots=True)
class PodOwnership:
    """One pod's way up. `own` is the workload if the pod has no controller, `guess` what the pod alone suggests."""

    owner: ControllerKey | None
    own: Workload
    guess: Workload
    since: datetime
    workload: Workload | None = None
    guessed: bool = False


class PodOwners:
    """The workload of each pod. Methods return (uid, workload) of the pods whose workload is known now or may have changed."""

    def __init__(self, graph: OwnerGraph, published: PublishedState) -> None:
        """`published`: where a pod was published, its workload is what was found then."""
        self._graph, self._published = graph, published
        self._pods: dict[str, PodOwnership] = {}
        self._waiting: dict[str, None] = {}
        self._dependents = Dependents()

    @property
    def waiting(self) -> int:
        """How many pods wait for their owners."""
        return len(self._waiting)

    def restore(self, published: PublishedState, at: datetime) -> list[tuple[str, Workload]]:
        """The log was read again: every pod whose workload is known."""
        self._published = published
        return self._resolved(list(self._pods), at)

    def upsert(self, pod: Pod, owner: ControllerKey | None, at: datetime) -> Workload | None:
        """A pod exists, new or changed. Returns its workload; None while it waits."""
        uid, before = pod.pod.uid, self._pods.get(pod.pod.uid)
        if before is None or before.owner != owner:
            own = Workload(pod.workload.cluster, pod.pod.namespace, "Pod", pod.pod.name)
            # Only at the first look: a pod that has changed hands since is not what the log says.
            published = self._published.pods.get(uid) if before is None else None
            self._pods[uid] = PodOwnership(owner, own, pod.workload, at, None if published is None else published[0])
        return self._resolve(uid, at)

    def remove(self, uid: str) -> None:
        """A pod is gone."""
        self._pods.pop(uid, None)
        self._waiting.pop(uid, None)
        self._dependents.set(uid, ())

    def controller_changed(self, key: ControllerKey, at: datetime) -> list[tuple[str, Workload]]:
        """A controller came, changed or went."""
        return self._resolved(self._dependents.on(key), at)

    def retry_waiting(self, at: datetime) -> list[tuple[str, Workload]]:
        """Try waiting pods again: time has passed, or a list is complete."""
        return self._resolved(list(self._waiting), at)

    def _resolved(self, uids: list[str], at: datetime) -> list[tuple[str, Workload]]:
        workloads = [(uid, self._resolve(uid, at)) for uid in uids]
        return [(uid, workload) for uid, workload in workloads if workload is not None]

    def _resolve(self, uid: str, at: datetime) -> Workload | None:
        pod = self._pods[uid]
        # A static pod is owned by its node, which is no workload.
        if pod.owner is None or pod.owner.kind == "Node":
            pod.workload = pod.own
            self._dependents.set(uid, ())
        else:
            chain = self._graph.chain(pod.owner)
            self._dependents.set(uid, chain.visited)
            _follow(pod, pod.owner, chain, at)
        if pod.workload is None:
            self._waiting[uid] = None
        else:
            self._waiting.pop(uid, None)
        return pod.workload


def _follow(pod: PodOwnership, owner: ControllerKey, chain: OwnerChain, at: datetime) -> None:
    """Update `pod` from the chain above it."""
    if pod.guessed or _loses_its_scale(pod, chain):
        return
    if chain.stop in WHOLE:
        pod.workload = _workload(pod, chain.top or owner)
    elif pod.workload is None and (chain.stop is MissingController.CIRCLE or _waited_enough(pod, chain, at)):
        # A guess that was made because an owner could not be looked up does not stand: a short outage of the server must not
        # separate pods from their VPA for good.
        pod.workload, pod.guessed = _guess(pod, chain), chain.stop is not MissingController.UNSEEN


def _waited_enough(pod: PodOwnership, chain: OwnerChain, at: datetime) -> bool:
    return chain.stop is not MissingController.NOT_YET and at - pod.since >= PATIENCE


def _loses_its_scale(pod: PodOwnership, chain: OwnerChain) -> bool:
    """Whether the workload had a scale and has none any more: it is being deleted before its pods."""
    return chain.stop is MissingController.NO_SCALE and pod.workload == _workload(pod, chain.visited[-1])


def _guess(pod: PodOwnership, chain: OwnerChain) -> Workload:
    """The last controller that a reference names, if it is well-known; else the topmost one found; else what the pod suggests."""
    last = chain.visited[-1]
    if len(chain.visited) > 1 and last.well_known and chain.stop is not MissingController.CIRCLE:
        return _workload(pod, last)
    return pod.guess if chain.top is None else _workload(pod, chain.top)


def _workload(pod: PodOwnership, key: ControllerKey) -> Workload:
    return Workload(pod.own.cluster, key.namespace, key.kind, key.name)
