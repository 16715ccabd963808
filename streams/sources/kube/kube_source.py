"""The kube source: what comes in from the cluster becomes facts in the log.

One thread calls it: `begin` once the log can be read, then `take` and `beat` in turn. After a restart only what changed meanwhile
is told, and what is gone meanwhile; when facts had to be dropped because the log was away for too long, it is the same again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from schemas.facts.nodes import NodeChanged
from schemas.facts.sources import SourceReported
from schemas.policies.limit_ranges import LimitRangeChanged
from schemas.units import Seconds
from streams.clients.kube.pod_objects import PodObject
from streams.clients.kube.watched_objects import EventObject, LimitRangeObject, Named, NodeObject, VpaObject
from streams.codec.event_codec import Codec
from streams.errors import LogUnavailable
from streams.log.port import Log
from streams.publishing.outbox import Outbox
from streams.publishing.published_state import Memory, remember_all
from streams.sources.kube.owners import controllers
from streams.sources.kube.owners.controllers import Key
from streams.sources.kube.owners.owner_chain import FRESH, Owners
from streams.sources.kube.owners.vpa_targets import Aims
from streams.sources.kube.publish import limit_ranges, nodes
from streams.sources.kube.publish.evictions import Evictions
from streams.sources.kube.publish.pod_tracker import TELL_AGAIN, Pods
from streams.sources.kube.publish.published import Told
from streams.sources.kube.publish.publisher import Pen
from streams.sources.kube.watch.notifications import (
    Blind,
    Change,
    CheckpointsFound,
    Errand,
    Gone,
    InSync,
    LookAnew,
    ScaleFound,
    Seen,
)
from streams.sources.kube.watch.sync_status import Sights
from streams.sources.kube.watch.watched_resources import CONTROLLERS
from streams.topics import Topics

_log = structlog.get_logger(__name__)
NAME = "kube"
PERIOD = timedelta(seconds=30)
"""How often the source says that it is at work."""
SLOW = timedelta(minutes=1)
"""How often it looks for what is due by time alone."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What the source writes with: the cluster's name, and the log with its words. `now` gives event time."""

    cluster: str
    log: Log
    topics: Topics
    codec: Codec
    now: Callable[[], datetime]
    namespaces: tuple[str, ...] = ()
    period: timedelta = PERIOD


class KubeSource:
    """One cluster into one log. `errand` is called with what is to be asked aside."""

    def __init__(self, desk: Desk, sights: Sights, errand: Callable[[Errand], None], outbox: Outbox | None = None) -> None:
        """`outbox` is another one in tests of its bound."""
        self._desk, self._sights, self._now, self._errand = desk, sights, desk.now, errand
        self._outbox = Outbox(desk.log) if outbox is None else outbox
        pen = self._pen = Pen(desk.cluster, desk.topics, desk.codec)
        self._owners = Owners(desk.now, errand)
        self._pods = Pods(pen, self._owners)
        self._aims = Aims(pen, self._owners, desk.now, errand)
        self._nodes: Told[NodeChanged] = Told(pen.about_cluster, lambda said: pen.about_cluster(nodes.removed(said, desk.now())))
        self._limits: Told[LimitRangeChanged] = Told(pen.policy, lambda said: pen.policy(limit_ranges.removed(said, desk.now())))
        self._evictions = Evictions(self._pods)
        self._reported: datetime | None = None
        self._slow = self._anew = self._now()
        self._start_over = self._pods_told = False

    @property
    def dropped(self) -> Mapping[str, int]:
        """Records dropped since the start because the log was away for too long, by topic (wire name)."""
        return self._outbox.dropped

    def begin(self) -> None:
        """Read what was said before. Raises LogUnavailable."""
        desk = self._desk
        memory = remember_all(desk.log, desk.topics, desk.codec, cluster=desk.cluster)
        _forget_elsewhere(memory, desk.namespaces)
        self._pods.remember(memory, self._now())
        self._nodes.remember(memory.nodes)
        self._limits.remember(memory.limits)
        self._aims.remember(memory.vpas)
        for kind in ("pods", "nodes", "limitranges", "verticalpodautoscalers"):
            if self._sights.seen(kind):
                self._settle(kind)

    def take(self, changes: Sequence[Change]) -> None:
        """Take in what happened, in order."""
        for change in changes:
            match change:
                case Seen():
                    self._seen(self._sights.kind(change.resource), change.object)
                case Gone():
                    self._gone(self._sights.kind(change.resource), change)
                case InSync():
                    self._sights.set(change.resource, seen=True)
                    self._settle(self._sights.kind(change.resource))
                case Blind():
                    self._sights.set(change.resource, seen=False, why=change.why)
                    self._unseen(self._sights.kind(change.resource), change.why)
                case ScaleFound():
                    if self._owners.answer(change.key, change.scale, change.why):
                        self._under(change.key)
                case CheckpointsFound():
                    self._aims.seed(change.namespace, change.found)

    def beat(self) -> bool:
        """What is due by time; then everything goes out. False when the log is away and the facts wait."""
        at = self._now()
        if all(self._sights.seen(kind) or self._sights.blind(kind) for kind in CONTROLLERS):
            self._pods.look_again(at)
        self._pods_told = self._pods_told or (self._sights.seen("pods") and not self._pods.waiting)
        if at - self._slow >= SLOW:
            self._slow = at
            self._slowly(at)
        facts = self._pen.take()
        self._report(at)
        self._outbox.put(facts=facts, scrapes=self._pen.take())
        flushed = self._outbox.flush()
        if flushed and (self._outbox.forget_losses() or self._start_over):
            return self._begun_anew()
        return flushed

    def _begun_anew(self) -> bool:
        """Facts were dropped, so what this source believes to have said is not what the log holds: as after a restart."""
        self._start_over = True
        try:
            self.begin()
        except LogUnavailable:
            return False
        self._start_over = False
        return True

    def _slowly(self, at: datetime) -> None:
        self._pods.repeat(at)
        self._nodes.repeat(at, TELL_AGAIN)
        self._owners.tidy()
        if at - self._anew >= FRESH:
            self._anew = at
            self._errand(LookAnew())
        self._aims.refresh()

    def _report(self, at: datetime) -> None:
        """Pods are not vouched for before those of the first list were told: nobody is to take one that waits for none."""
        if self._reported is None or at - self._reported >= self._desk.period:
            self._reported = at
            period = Seconds(self._desk.period.total_seconds())
            sees = self._sights.sees(untold=() if self._pods_told else ("pods",))
            self._pen.about_cluster(SourceReported(at, self._desk.cluster, NAME, sees, period))

    def _seen(self, kind: str, found: Named) -> None:
        try:
            self._put(kind, found)
        except ValueError as error:
            name = f"{found.metadata.namespace}/{found.metadata.name}"
            _log.error("an object cannot be read", resource=kind, object=name, reason=str(error))

    def _put(self, kind: str, found: Named) -> None:
        match found:
            case PodObject():
                self._pods.put(found, self._now())
                self._evictions.look_again(found.metadata.uid)
            case NodeObject():
                self._nodes.put(found.metadata.name, nodes.changed(found, self._desk.cluster, self._now()))
            case LimitRangeObject():
                fact = limit_ranges.changed(found, self._desk.cluster, self._now())
                self._limits.put(fact.key, fact)
            case VpaObject():
                self._aims.put(found)
            case EventObject():
                self._evictions.put(found)
            case _:
                controller = controllers.read(CONTROLLERS[kind], found)
                if self._owners.put(controller):
                    self._under(controller.key)

    def _gone(self, kind: str, gone: Gone) -> None:
        match kind:
            case "pods":
                self._pods.drop(gone.uid, self._now())
            case "nodes":
                self._nodes.drop(gone.name)
            case "limitranges":
                self._limits.drop(f"{self._desk.cluster}/{gone.namespace}/LimitRange/{gone.name}")
            case "verticalpodautoscalers":
                self._aims.drop(gone.namespace, gone.name)
            case _ if kind in CONTROLLERS:
                key = Key(gone.namespace, CONTROLLERS[kind], gone.name)
                self._owners.drop(key)
                self._under(key)

    def _under(self, key: Key) -> None:
        self._pods.under((key,), self._now())
        self._aims.under((key,))

    def _settle(self, kind: str) -> None:
        """A watch is in sync: if all of its kind are, what was not seen is not there."""
        if not self._sights.seen(kind):
            return
        match kind:
            case "pods":
                self._pods.settle(self._now())
                self._evictions.settle()
            case "nodes":
                self._nodes.settle()
            case "limitranges":
                self._limits.settle()
            case "verticalpodautoscalers":
                self._aims.settle()
            case _ if kind in CONTROLLERS:
                self._owners.listed(CONTROLLERS[kind])
                self._look_again()

    def _unseen(self, kind: str, why: str) -> None:
        if kind in CONTROLLERS:
            self._owners.unseen(CONTROLLERS[kind], why)
            self._look_again()

    def _look_again(self) -> None:
        self._pods.look_again(self._now())
        self._aims.look_again()


def _forget_elsewhere(memory: Memory, namespaces: Sequence[str]) -> None:
    """What lies in namespaces that are not watched is not ours to take back."""
    if not namespaces:
        return
    for uid in [uid for uid, (_, pod) in memory.pods.items() if pod.namespace not in namespaces]:
        memory.forget(uid)
    memory.vpas = {key: vpa for key, vpa in memory.vpas.items() if vpa.namespace in namespaces}
    memory.limits = {key: limit for key, limit in memory.limits.items() if limit.namespace in namespaces}
