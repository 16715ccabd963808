"""What the log says about VPA objects and their workloads, and whose status may have changed by it. Pure: it asks nobody.

Any order of topics gives the same: of recommendations the highest turn wins, and a repeat changes nothing. A recommendation is
said again with every heartbeat of its recommender, so one that a recommender has stopped saying is none any more, and is
forgotten; what a recommender could not have said yet since this log was begun to be read is unknown, which is not the same as
none. Its newest turn counts for nothing here, as it may have been read in part only. That there are
no pods is known only while a source vouches for them; where no source ever reports, facts about pods are taken as they are.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from schemas.catalogue import Event
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import PodChanged, PodDeleted, PodPhase
from schemas.facts.sources import SourceReported
from schemas.names import Place, PodName
from schemas.policies.vertical import ContainerMode
from schemas.policies.vpa import DEFAULT_RECOMMENDER, VpaChanged, VpaRemoved
from schemas.units import Seconds
from streams.consumers.vpa_status.conditions import ConditionInputs
from streams.decision_view import id_of

_PODS = "pod-changes"
"""The topic that a source names when it sees pods."""
_SILENT = 2
"""Heartbeats after which a recommendation that is not said again is none."""


def refuse_nothing(_vpa: VpaChanged) -> str | None:
    """Every VPA is served as it is."""
    return None


@dataclass(frozen=True, slots=True)
class Service:
    """Which VPAs are served: by the name of a recommender, which repeats itself with each heartbeat.

    `refuse` says in a sentence why the recommender cannot take a VPA in; such a VPA is unsupported.
    """

    recommender: str = DEFAULT_RECOMMENDER
    heartbeat: Seconds = Seconds(3600.0)
    refuse: Callable[[VpaChanged], str | None] = refuse_nothing


@dataclass(frozen=True, slots=True)
class Order:
    """A VPA to be kept up to date, what is known for it, the decision that says so (empty: none), and the places of both."""

    vpa: VpaChanged
    known: ConditionInputs
    decision: str
    cause: tuple[Place, ...]


@dataclass(slots=True)
class _Heard:
    """The turns of which a recommender spoke: the first, the newest, and the one before that, which is there as a whole."""

    first: int
    newest: int
    whole: int = -1

    def hear(self, turn: int) -> None:
        """It spoke in this turn."""
        self.first = min(self.first, turn)
        if turn > self.newest:
            self.whole, self.newest = self.newest, turn
        elif self.whole < turn < self.newest:
            self.whole = turn


@dataclass(frozen=True, slots=True)
class _Said:
    """The newest recommendation of a workload. `pods` is None when it does not say how many there were."""

    turn: int
    place: Place
    id: str
    containers: Sequence[ContainerRecommendation]
    pods: int | None


def _wanted(vpa: VpaChanged, said: Sequence[ContainerRecommendation] | None) -> Sequence[ContainerRecommendation] | None:
    """Without containers that the VPA has switched off by now: where that is all of them, no recommender says another word."""
    if said is None:
        return None
    modes = {entry.container: entry.mode for entry in vpa.containers}
    return [each for each in said if modes.get(each.container, modes.get("*")) is not ContainerMode.OFF]


class Desk:
    """`partition_of` gives the partition of a workload key: the partition of the recommender that speaks of it."""

    def __init__(self, cluster: str, service: Service, partition_of: Callable[[str], int]) -> None:
        self._cluster, self._service, self._partition_of = cluster, service, partition_of
        self._vpas: dict[str, tuple[VpaChanged, Place]] = {}
        self._on: dict[str, set[str]] = {}
        self._said: dict[str, _Said] = {}
        self._heard: dict[int, _Heard] = {}
        self._pods: dict[str, str] = {}
        self._count: Counter[str] = Counter()
        self._vouch: dict[str, bool] = {}
        """Sources, and whether they see pods."""
        self._changed: dict[str, None] = {}

    def take(self, event: Event, place: Place) -> None:
        """Take an event of the log in."""
        match event:
            case VpaChanged(cluster=self._cluster):
                reason = None if event.unsupported else self._service.refuse(event)
                self._vpa(event.key, (replace(event, unsupported=reason or event.unsupported), place))
            case VpaRemoved(cluster=self._cluster):
                self._vpa(event.key, None)
            case RequestsRecommended() if event.workload.cluster == self._cluster:
                self._recommendation(event, place)
            case PodChanged() if event.workload.cluster == self._cluster:
                self._pod(event.pod, "" if event.phase is PodPhase.PENDING else event.workload.key)
            case PodDeleted() if event.workload.cluster == self._cluster:
                self._pod(event.pod, "")
            case SourceReported(cluster=self._cluster):
                self._report(event)
            case _:
                pass

    def take_changed(self) -> list[str]:
        """The keys of VPAs whose status may have changed since this was last asked."""
        changed, self._changed = list(self._changed), {}
        return changed

    def order(self, key: str) -> Order | None:
        """What is to be done for a VPA; None when it is gone or another recommender's."""
        vpa, place = self._vpas.get(key, (None, None))
        if vpa is None or place is None or not vpa.served_by(self._service.recommender):
            return None
        first = self._governing(vpa.target)
        if not vpa.target or first is not vpa:
            rival = f"{first.namespace}/{first.name}" if first is not None else ""
            return Order(vpa, ConditionInputs(0, (), rival), "", (place,))
        said = self._live(vpa.target)
        containers = _wanted(vpa, self._containers(vpa.target, said))
        known = ConditionInputs(self._pods_of(vpa.target, said), containers)
        return Order(vpa, known, said.id, (said.place, place)) if said and containers else Order(vpa, known, "", (place,))

    def _governing(self, target: str) -> VpaChanged | None:
        """The VPA that governs a workload."""
        vpas = [self._vpas[key][0] for key in self._on.get(target, ())] if target else []
        return min(vpas, key=lambda vpa: vpa.rank(self._service.recommender), default=None)

    def _pods_of(self, target: str, said: _Said | None) -> int | None:
        """How many pods; None while nobody can know. A recommender speaks at once when the first comes or the last goes."""
        if said is not None and said.pods is not None:
            return said.pods
        return self._count[target] or (0 if self._sighted else None)

    @property
    def _sighted(self) -> bool:
        """Whether what was not said of pods is not so."""
        return not self._vouch or any(self._vouch.values())

    def _live(self, target: str) -> _Said | None:
        """What was said last of a workload, if that is still said."""
        said = self._said.get(target)
        return None if said is None or self._silent(self._partition_of(target), said.turn) else said

    def _silent(self, partition: int, since: int) -> bool:
        """Whether the recommender of this partition has had its say again and again since this turn."""
        heard = self._heard.get(partition)
        return heard is not None and self._beat(heard.whole) - self._beat(since) > _SILENT

    def _containers(self, target: str, said: _Said | None) -> Sequence[ContainerRecommendation] | None:
        """What is recommended; empty for nothing, None while nobody can know."""
        if said is not None:
            return said.containers
        heard = self._heard.get(self._partition_of(target))
        return () if heard is not None and self._silent(self._partition_of(target), heard.first) else None

    def _vpa(self, key: str, new: tuple[VpaChanged, Place] | None) -> None:
        old = self._vpas.pop(key, None)
        if old is not None:
            others = self._on[old[0].target]
            others.discard(key)
            self._touch(old[0].target)
            if not others:
                del self._on[old[0].target]
        if new is not None:
            self._vpas[key] = new
            self._on.setdefault(new[0].target, set()).add(key)
            self._touch(new[0].target)
            self._changed[key] = None

    def _recommendation(self, event: RequestsRecommended, place: Place) -> None:
        turn, workload = id_of(event).turn, event.workload.key
        self._hear(self._partition_of(workload), turn)
        before = self._said.get(workload)
        if before is None or (turn, -place.offset) > (before.turn, -before.place.offset):
            self._said[workload] = _Said(turn, place, event.id, event.containers, event.pods)
            self._touch(workload)

    def _hear(self, partition: int, turn: int) -> None:
        """A recommender spoke. With each of its heartbeats everything is looked at, as something may have gone silent."""
        heard = self._heard.setdefault(partition, _Heard(turn, turn))
        first, whole = heard.first, heard.whole
        heard.hear(turn)
        if heard.first < first or self._beat(heard.whole) > self._beat(whole):
            self._forget_the_silent(partition)
            self._touch_all()

    def _forget_the_silent(self, partition: int) -> None:
        """Workloads come and go, and what was said of those that are gone would be kept for ever."""
        mine = ((key, said.turn) for key, said in self._said.items() if self._partition_of(key) == partition)
        for key in [key for key, turn in mine if self._silent(partition, turn)]:
            del self._said[key]

    def _report(self, event: SourceReported) -> None:
        before = self._sighted
        self._vouch[event.source] = _PODS in event.sees
        if self._sighted != before:
            self._touch_all()

    def _beat(self, turn: int) -> int:
        """The number of the heartbeat that a turn is in."""
        return turn // max(1, int(self._service.heartbeat * 1000))

    def _pod(self, pod: PodName, workload: str) -> None:
        """A pod is of this workload; of none: it is gone, or not there yet."""
        before = self._pods.pop(pod.uid, "")
        if workload:
            self._pods[pod.uid] = workload
        if before == workload:
            return
        for key, step in ((before, -1), (workload, 1)):
            if key:
                self._count[key] += step
                if self._count[key] == max(0, step):
                    self._touch(key)
        if before and not self._count[before]:
            del self._count[before]

    def _touch_all(self) -> None:
        self._changed.update(dict.fromkeys(key for key, (vpa, _) in self._vpas.items() if vpa.target))

    def _touch(self, workload: str) -> None:
        """All VPAs on a workload may have changed."""
        self._changed.update(dict.fromkeys(sorted(self._on.get(workload, ())) if workload else ()))
