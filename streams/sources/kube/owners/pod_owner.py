"""Whose a pod is: the topmost controller, found once and kept while the chain above the pod says nothing else.

A pod whose owners are not known yet is not told: first for as long as they are being listed, then for some seconds, and then what
the pod itself and its references tell must do. A guess stands until the pod has another controller, unless it was one because
an owner could not be looked up: a server that was away for a moment must not part pods from their VPA for good. A controller that
goes before its pods (as in every deletion) takes nothing away from what was found.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from schemas.names import Workload
from streams.sources.kube.owners.controllers import Key
from streams.sources.kube.owners.owner_chain import Chain, Missing, Owners

PATIENCE = timedelta(seconds=5)
"""How long a pod waits for an owner that should be there and is not."""


@dataclass(slots=True)
class Belonging:
    """One pod's way up. `own` is the workload of a pod without controller, `guess` what the pod alone would tell."""

    owner: Key | None
    own: Workload
    guess: Workload
    since: datetime
    visited: tuple[Key, ...] = ()
    found: Workload | None = None
    guessed: bool = False


class Workloads:
    """Finds workloads in the chains of owners."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners

    def find(self, pod: Belonging, at: datetime) -> Workload | None:
        """The pod's workload; None while it is worth waiting. Keeps in `pod` what it found."""
        if pod.owner is None or pod.owner.kind == "Node":
            pod.found, pod.visited = pod.own, ()
            return pod.found
        chain = self._owners.chain(pod.owner)
        pod.visited = chain.visited
        if pod.guessed or _going(pod, chain):
            return pod.found
        if chain.whole:
            pod.found = _workload(pod, chain.top or pod.owner)
        elif pod.found is None and (chain.stop is Missing.CIRCLE or self._waited(pod, chain, at)):
            pod.found, pod.guessed = _guess(pod, chain), chain.stop is not Missing.UNSEEN
        return pod.found

    def _waited(self, pod: Belonging, chain: Chain, at: datetime) -> bool:
        return chain.stop is not Missing.NOT_YET and at - pod.since >= PATIENCE


def _going(pod: Belonging, chain: Chain) -> bool:
    """Whether what was found had a scale and has none any more: it goes before its pods."""
    return chain.stop is Missing.NO_SCALE and pod.found == _workload(pod, chain.visited[-1])


def _guess(pod: Belonging, chain: Chain) -> Workload:
    """The last controller that a reference names, if it is one that would count; else the best found; else the pod's own word."""
    last = chain.visited[-1]
    if len(chain.visited) > 1 and last.well_known and chain.stop is not Missing.CIRCLE:
        return _workload(pod, last)
    return pod.guess if chain.top is None else _workload(pod, chain.top)


def _workload(pod: Belonging, key: Key) -> Workload:
    return Workload(pod.own.cluster, key.namespace, key.kind, key.name)
