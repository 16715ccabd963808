"""Pods: told when they change, when nothing was said of them for long, and when they are gone; with their OOM kills.

A pod waits until its workload is known, and its kills and evictions wait with it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Workload
from streams.clients.kube import pod_objects
from streams.clients.kube.pod_objects import PodObject
from streams.clients.kube.watched_objects import EventObject
from streams.publishing.pod_facts import pod_changed
from streams.publishing.published_state import Memory
from streams.sources.kube.owners.controllers import Key, owner_of
from streams.sources.kube.owners.owner_chain import Owners
from streams.sources.kube.owners.pod_owner import Belonging, Workloads
from streams.sources.kube.publish import oom_kills
from streams.sources.kube.publish.publisher import Pen

_log = structlog.get_logger(__name__)
TELL_AGAIN = timedelta(hours=3)
"""How long, in event time, nothing may be said of a pod that is there."""


@dataclass(slots=True)
class _Here:
    """A pod that is there. `fact` carries the workload that was found last, or the pod's own word for it.

    `kills` are to be told; `killed` has the last of each container, in case the log has lost it.
    """

    fact: PodChanged
    belonging: Belonging
    kills: list[ContainerOOMKilled] = field(default_factory=list)
    killed: dict[str, ContainerOOMKilled] = field(default_factory=dict)


class Pods:
    """All pods of a cluster."""

    def __init__(self, pen: Pen, owners: Owners) -> None:
        self._pen, self._workloads = pen, Workloads(owners)
        self._memory = Memory()
        self._here: dict[str, _Here] = {}
        self._waiting: dict[str, None] = {}
        self._under: dict[Key, dict[str, None]] = {}

    def remember(self, memory: Memory, at: datetime) -> None:
        """What the log tells; what is here and differs is told."""
        self._memory = memory
        for uid, here in list(self._here.items()):
            here.kills = [*oom_kills.of_late(here.killed.values(), memory.said.get(uid)), *here.kills]
            self._tell(uid, at)

    def put(self, found: PodObject, at: datetime) -> None:
        """A pod is there, new or changed."""
        try:
            pod = pod_objects.read_pod(self._pen.cluster, found)
        except ValueError as error:
            name = f"{found.metadata.namespace}/{found.metadata.name}"
            _log.error("an object cannot be read", resource="pods", object=name, reason=str(error))
            return
        uid = pod.pod.uid
        before = self._here.get(uid)
        fact = pod_changed(pod, at)
        here = self._here[uid] = _Here(fact, self._belonging(found, fact, before))
        if before is None:
            here.kills = list(oom_kills.of_late(oom_kills.of_pod(pod, None), self._memory.said.get(uid)))
        else:
            here.kills, here.killed = [*before.kills, *oom_kills.of_pod(pod, before.fact)], before.killed
        self._tell(uid, at)

    def _belonging(self, found: PodObject, fact: PodChanged, before: _Here | None) -> Belonging:
        """As before while the pod has the same controller. What the log said of it is what was found."""
        owner = owner_of(found.metadata.namespace, found.metadata.owner_references)
        if before is not None and before.belonging.owner == owner:
            return before.belonging
        own = Workload(fact.workload.cluster, fact.pod.namespace, "Pod", fact.pod.name)
        made = Belonging(owner, own, fact.workload, fact.at)
        said = self._memory.pods.get(fact.pod.uid) if before is None else None
        made.found = None if said is None else said[0]
        return made

    def drop(self, uid: str, at: datetime) -> None:
        """A pod is gone. Its kills are told even if its workload never was found."""
        here = self._here.pop(uid, None)
        self._waiting.pop(uid, None)
        if here is not None:
            self._index(uid, here.belonging.visited, ())
            if uid not in self._memory.said and here.kills:
                self._say(here.fact, at)
            self._tell_kills(here, here.fact.workload)
        self._gone(uid, at)

    def _gone(self, uid: str, at: datetime) -> None:
        said = self._memory.pods.get(uid)
        self._memory.forget(uid)
        if said is not None:
            self._pen.pod(PodDeleted(at, *said))

    def settle(self, at: datetime) -> None:
        """All pods that are there were put: what was said and is not there is gone."""
        gone = [uid for uid in self._memory.pods if uid not in self._here]
        for uid in sorted(gone, key=lambda uid: (self._memory.pods[uid][0].key, self._memory.pods[uid][1].name, uid)):
            self._gone(uid, at)

    def under(self, keys: Iterable[Key], at: datetime) -> None:
        """Something is new about these controllers."""
        for key in keys:
            for uid in list(self._under.get(key, ())):
                self._tell(uid, at)

    def look_again(self, at: datetime) -> None:
        """For pods that wait: time has gone by, or a list is complete."""
        for uid in list(self._waiting):
            self._tell(uid, at)

    def repeat(self, at: datetime) -> None:
        """Tell again what nothing was said of for long."""
        for uid, said in list(self._memory.said.items()):
            if at - said.at >= TELL_AGAIN and uid in self._here:
                self._say(self._here[uid].fact, at)

    def evicted(self, event: EventObject) -> bool:
        """An eviction; False while its pod is not known."""
        here = self._here.get(event.involved_object.uid)
        if here is None:
            return False
        here.kills.extend(oom_kills.of_event(event, here.fact, here.fact.workload))
        if here.fact.pod.uid in self._memory.said:
            self._tell_kills(here, here.fact.workload)
        return True

    @property
    def waiting(self) -> int:
        """How many pods wait for their workload to be known."""
        return len(self._waiting)

    def _tell(self, uid: str, at: datetime) -> None:
        here = self._here[uid]
        before = here.belonging.visited
        workload = self._workloads.find(here.belonging, at)
        self._index(uid, before, here.belonging.visited)
        if workload is None:
            self._waiting[uid] = None
            return
        self._waiting.pop(uid, None)
        if here.fact.workload != workload:
            here.fact = replace(here.fact, workload=workload)
        said = self._memory.said.get(uid)
        if said is None or replace(here.fact, at=said.at) != said:
            self._move(uid, workload, at)
            self._say(here.fact, at)
        self._tell_kills(here, workload)

    def _move(self, uid: str, workload: Workload, at: datetime) -> None:
        """A pod that has another workload now has left the old one."""
        known = self._memory.pods.get(uid)
        if known is not None and known[0] != workload:
            self._pen.left(PodDeleted(at, *known))

    def _say(self, fact: PodChanged, at: datetime) -> None:
        said = fact if fact.at == at else replace(fact, at=at)
        self._memory.say(said)
        self._pen.pod(said)

    def _tell_kills(self, here: _Here, workload: Workload) -> None:
        told, here.kills = here.kills, []
        for kill in told:
            if self._memory.tell(kill.pod.uid, kill.container, kill.restarts):
                here.killed[kill.container] = kill
                self._pen.kill(replace(kill, workload=workload))

    def _index(self, uid: str, before: tuple[Key, ...], now: tuple[Key, ...]) -> None:
        if before == now:
            return
        for key in before:
            if uids := self._under.get(key):
                uids.pop(uid, None)
                if not uids:
                    del self._under[key]
        for key in now:
            self._under.setdefault(key, {})[uid] = None
