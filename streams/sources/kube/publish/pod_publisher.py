"""Publishes pods and their OOM kills: when they change, when the last record is old, and when they are gone.

A pod is not published before its workload is known; its kills and evictions wait with it. A container's last end shows a kill,
while it is stopped and also once it runs again; an eviction for lack of memory also says what was used.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Workload
from schemas.units import Bytes
from streams.clients.cluster_port import OOMKill, Pod, oom_killed, pod_changed
from streams.clients.kube import quantities
from streams.clients.kube.watched_objects import EventObject
from streams.publishing.published_state import REPUBLISH_AFTER, PublishedState
from streams.sources.kube.publish.publisher import Publisher
from streams.sources.kube.watch.notifications import ObjectGone, ObjectUnread

# Before the last record of its pod: such a kill was published, even if we no longer read so far back.
LONG_AGO = timedelta(days=1)
_LISTS = ("offending_containers", "offending_containers_usage", "starved_resource")
"""Annotations of an eviction event: three lists of equal length, as the kubelet writes them."""


def kills_of_pod(pod: Pod, before: PodChanged | None) -> list[ContainerOOMKilled]:
    """Every kill that the pod shows, by container. `before` is the previous version of the pod."""
    now = {seen.name: seen for seen in pod.containers}
    then = {seen.name: seen for seen in before.containers} if before is not None else {}
    kills = sorted(pod.ooms, key=lambda kill: kill.container)
    return [oom_killed(pod, kill, _killed(kill.restarts, now[kill.container], then.get(kill.container))) for kill in kills]


def unpublished_kills(shown: Iterable[ContainerOOMKilled], published: PodChanged | None) -> list[ContainerOOMKilled]:
    """The kills that may not have been published yet. `published` is the log's newest record of the pod."""
    return [kill for kill in shown if not _published_long_ago(kill, published)]


def kills_of_event(event: EventObject, pod: PodChanged, workload: Workload) -> Iterator[ContainerOOMKilled]:
    """The kills of an eviction."""
    seen = {container.name: container for container in pod.containers}
    at = event.metadata.creation_timestamp
    for name, used in _offending(event.metadata.annotations or {}):
        if name in seen and at is not None:
            yield ContainerOOMKilled(
                at=at,
                workload=workload,
                pod=pod.pod,
                container=name,
                restarts=seen[name].restarts + 1,  # those of an evicted pod are final, so the next number is free
                memory_request=seen[name].requests.memory,
                memory_limit=seen[name].limits.memory,
                memory_used=used,
            )


def seen_by(pod: Pod, at: datetime, before: PodChanged | None) -> Pod:
    """The pod with nothing of it after `at`, when it is seen: the clock of its node may be ahead. `before`: how it was seen."""
    runs = (seen.last_run for seen in (*pod.containers, *pod.init_containers))
    ends = (*(run.ended for run in runs if run is not None), *(kill.at for kill in pod.ooms))
    if max((time for time in (pod.started, pod.ready_since, *ends) if time is not None), default=at) <= at:
        return pod  # which nearly all are
    then = {seen.name: seen for seen in (*before.containers, *before.init_containers)} if before is not None else {}

    def told(seen: ContainerSeen) -> ContainerSeen:
        former, run = then.get(seen.name), seen.last_run
        if run is None or run.ended <= at:
            return seen
        known = former.last_run if former is not None and former.restarts == seen.restarts else None
        ended = at if known is None else min(known.ended, at)
        return replace(seen, last_run=replace(run, ended=ended, started=run.started and run.started - (run.ended - ended)))

    return replace(
        pod,
        containers=tuple(map(told, pod.containers)),
        init_containers=tuple(map(told, pod.init_containers)),
        started=_first_seen(pod.started, None if before is None else before.started, at),
        ready_since=_first_seen(pod.ready_since, None if before is None else before.ready_since, at),
        ooms=tuple(_not_ahead(kill, at) for kill in pod.ooms),
    )


def _first_seen(now: datetime | None, before: datetime | None, at: datetime) -> datetime | None:
    """A time, which is that of the first look if it lies ahead: else it would be another one at each look."""
    return now if now is None or now <= at else min(before or at, at)


def _not_ahead(kill: OOMKill, at: datetime) -> OOMKill:
    """A kill that was not after `at`, of a run that was as long as it is said to be."""
    ahead = max(kill.at - at, timedelta())
    return replace(kill, at=kill.at - ahead, started=kill.started and kill.started - ahead)


def _published_long_ago(kill: ContainerOOMKilled, published: PodChanged | None) -> bool:
    """Whether the log's record of the pod is so much newer than the kill, which showed then, that the kill was published too."""
    if published is None or published.at - kill.at < LONG_AGO:
        return False
    return any(seen.name == kill.container and kill.restarts <= seen.restarts + 1 for seen in published.containers)


def _killed(restarts: int, now: ContainerSeen, then: ContainerSeen | None) -> ContainerSeen:
    """The container as it was when it was killed."""
    # What it was killed under counts: the old pod object's request if its successor, with one restart more, runs already.
    return then if then is not None and now.restarts == restarts and then.restarts < restarts else now


def _offending(annotations: Mapping[str, str]) -> Iterator[tuple[str, Bytes]]:
    """The containers that used too much memory, and how much. Lists of unequal length mean nothing."""
    lists = [annotations.get(name, "").split(",") for name in _LISTS]
    if len({len(values) for values in lists}) > 1:
        return
    for container, usage, resource in zip(*lists, strict=True):
        used = _bytes(usage) if resource == "memory" else None
        if used is not None:
            yield container, used


def _bytes(quantity: str) -> Bytes | None:
    try:
        return quantities.read_amounts({"memory": quantity}).memory
    except ValueError:
        return None


_log = structlog.get_logger(__name__)
MOST_EVICTIONS = 10_000
"""Eviction events that may wait for their pods."""


@dataclass(slots=True)
class _Pod:
    """A pod that exists. `fact` has the workload that was found last, or what the pod itself suggests.

    `kills` wait to be published; `killed` keeps the last one published of each container, in case the log has lost it.
    """

    fact: PodChanged
    kills: list[ContainerOOMKilled] = field(default_factory=list)
    killed: dict[str, ContainerOOMKilled] = field(default_factory=dict)


class PodPublisher:
    """Every pod of a cluster. `published` is their state in the log."""

    def __init__(self, publisher: Publisher, published: PublishedState) -> None:
        self._publisher, self._published = publisher, published
        self._pods: dict[str, _Pod] = {}
        self._unread: dict[tuple[str, str], str] = {}
        """By namespace and name the uid of each pod that exists and cannot be read, empty where even that cannot."""
        self._evictions: OrderedDict[str, EventObject] = OrderedDict()

    def restore(self, published: PublishedState) -> None:
        """The log was read again. The caller then calls `publish` for every pod whose workload is known."""
        self._published = published
        for uid, pod in self._pods.items():
            pod.kills = [*unpublished_kills(pod.killed.values(), published.newest.get(uid)), *pod.kills]

    def upsert(self, shown: Pod, workload: Workload | None, at: datetime) -> None:
        """A pod exists, new or changed. It waits while its workload is None."""
        uid = shown.pod.uid
        before = self._pods.get(uid)
        shown = seen_by(shown, at, self._published.newest.get(uid) if before is None else before.fact)
        pod = self._pods[uid] = _Pod(pod_changed(shown, at))
        self._unread.pop((shown.pod.namespace, shown.pod.name), None)
        if before is None:
            pod.kills = unpublished_kills(kills_of_pod(shown, None), self._published.newest.get(uid))
        else:
            pod.kills, pod.killed = [*before.kills, *kills_of_pod(shown, before.fact)], before.killed
        if uid in self._evictions:
            pod.kills.extend(kills_of_event(self._evictions.pop(uid), pod.fact, pod.fact.workload))
        if workload is not None:
            self.publish(uid, workload, at)

    def publish(self, uid: str, workload: Workload, at: datetime) -> None:
        """The workload of a pod is known. Publishes the pod if it differs from its newest record, and kills that are new."""
        pod = self._pods[uid]
        if pod.fact.workload != workload:
            pod.fact = replace(pod.fact, workload=workload)
        newest, published = self._published.newest.get(uid), self._published.pods.get(uid)
        facts: list[PodChanged | ContainerOOMKilled] = []
        if newest is None or replace(pod.fact, at=newest.at) != newest:
            if published is not None and published[0] != workload:
                # Before the new record, because both workloads may share a partition.
                self._publisher.publish_left(PodDeleted(at, *published))
            facts.append(self._recorded(pod.fact, at))
        self._publisher.publish(*facts, *self._new_kills(pod))

    def keep(self, unread: ObjectUnread) -> None:
        """A pod exists and cannot be read: what was published of it stays until it is read again, or gone."""
        self._unread[unread.namespace, unread.name] = unread.uid

    def remove(self, gone: ObjectGone, at: datetime) -> None:
        """A pod is gone."""
        name = (gone.namespace, gone.name)
        uid = gone.uid or next((uid for uid, (_, pod) in self._published.pods.items() if (pod.namespace, pod.name) == name), "")
        self._unread.pop(name, None)
        pod = self._pods.pop(uid, None)
        if pod is not None:
            if uid not in self._published.newest and pod.kills:  # its workload was never found, and its kills count all the same
                self._publisher.publish(self._recorded(pod.fact, at))
            self._publisher.publish(*self._new_kills(pod))
        self._withdraw(uid, at)

    def mark_synced(self, at: datetime) -> None:
        """Every pod that exists was upserted: what was published and does not exist is gone, and so are the pods of evictions."""
        gone = [uid for uid in self._published.pods if uid not in self._pods and not self._kept(uid)]
        for uid in sorted(gone, key=lambda uid: (self._published.pods[uid][0].key, self._published.pods[uid][1].name, uid)):
            self._withdraw(uid, at)
        while self._evictions:
            self._drop_eviction()

    def _kept(self, uid: str) -> bool:
        """Whether a pod that was published is one that exists and cannot be read."""
        pod = self._published.pods[uid][1]
        return self._unread.get((pod.namespace, pod.name)) in ("", uid)

    def republish(self, at: datetime) -> None:
        """Publish again each pod whose newest record is old."""
        for uid, newest in list(self._published.newest.items()):
            if at - newest.at >= REPUBLISH_AFTER and (uid in self._pods or (uid in self._published.pods and self._kept(uid))):
                self._publisher.publish(self._recorded(self._pods[uid].fact if uid in self._pods else newest, at))

    def record_eviction(self, event: EventObject) -> None:
        """An event was seen. If it is an eviction, its kills are published, or wait for the pod."""
        uid = event.involved_object.uid
        if event.reason != "Evicted" or event.involved_object.kind != "Pod":
            return
        pod = self._pods.get(uid)
        if pod is None:
            self._evictions[uid] = event
            # The event may come before its pod does, while pods are being listed.
            while len(self._evictions) > MOST_EVICTIONS:
                self._drop_eviction()
            return
        pod.kills.extend(kills_of_event(event, pod.fact, pod.fact.workload))
        if uid in self._published.newest:
            self._publisher.publish(*self._new_kills(pod))

    def _recorded(self, fact: PodChanged, at: datetime) -> PodChanged:
        fact = fact if fact.at == at else replace(fact, at=at)
        self._published.record_pod(fact)
        return fact

    def _new_kills(self, pod: _Pod) -> list[ContainerOOMKilled]:
        """Take the waiting kills, and return those that are new, under the pod's workload."""
        waiting, pod.kills = pod.kills, []
        news = [kill for kill in waiting if self._published.record_kill(kill.pod.uid, kill.container, kill.restarts)]
        pod.killed.update({kill.container: kill for kill in news})
        return [replace(kill, workload=pod.fact.workload) for kill in news]

    def _withdraw(self, uid: str, at: datetime) -> None:
        published = self._published.pods.get(uid)
        self._published.forget_pod(uid)
        if published is not None:
            self._publisher.publish(PodDeleted(at, *published))

    def _drop_eviction(self) -> None:
        about = self._evictions.popitem(last=False)[1].involved_object
        _log.warning("an eviction is of a pod that is not known", pod=f"{about.namespace}/{about.name}", uid=about.uid)
