"""What became of the patches that the webhook answered with, according to the log.

An answer is an offer: another webhook, a quota or a policy may refuse the pod, and who reaches our port may ask for pods that
nobody makes. An offer is done for each pod that the sources report with its note and its amounts. It is lost when no such pod
came within `PATIENCE`, although a source was at work. Pods of one controller that are alike share an offer, and the tries of a
controller whose pod is refused are one offer, however many they are.

A loss of a controller that cannot make the pods that it wants means that the workload's patched pods are refused, so its new pods
are left as they are, for longer each time: a rollout makes its pods even if our patch stands in the way. That the controller
cannot is what the source says of it, so that reviews which somebody made up pause nothing; of a controller of which nobody says
anything, several tries without a pod mean the same. All of this follows from the log, so every replica and every later process
concludes the same, and says it word for word.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from schemas import admission_pauses
from schemas.admission_pauses import AdmissionPause
from schemas.catalogue import Event
from schemas.decision_subjects import Subject
from schemas.facts.pods import PodChanged
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import ReplicaControllerChanged, ReplicaControllerRemoved
from schemas.ids import OutcomeId
from schemas.names import Place
from schemas.outcomes import Action, ActionFinished, AdmittedAmounts, OutcomeDetail, Result
from streams.clients.kube.quantities import meets

PATIENCE = timedelta(seconds=60)
"""How long a pod may take from the offer until a source reports it, and how much older than its offer it may seem: the API server
and the clock of the log need not agree."""
_HEARD = timedelta(seconds=15)
"""A source that was at work so long after the offer would have reported the pod: it publishes within seconds."""
_OTHERS = timedelta(seconds=15)
"""What another replica or an earlier process offered is concluded so much later: its own conclusion may be on its way."""
REACH = admission_pauses.REMEMBERED
"""How far back outcomes count."""
PODS_REACH = timedelta(minutes=10)
"""How far back pods are looked for."""
_ENOUGH_TRIES = 2
"""Of a controller of which nobody says anything: a single review may be of a pod that nobody wanted later."""
_SAY_WHY = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"})
"""Kinds of controllers of which the source says why they cannot make pods. Of others nobody knows, so tries are enough."""
_MOST = 50_000
"""Offers and controllers that are remembered."""
_MOST_EARLY = 2_000
"""Offers that were not read yet, of which pods are remembered."""
_LONGEST_UID = 80
_OFFERED, _GIVEN = "a new pod was offered ", "a new pod was given "


@dataclass(slots=True)
class _Offer:
    """An offer of which it is not known yet whether a pod comes of it, unless it is `settled`."""

    outcome: ActionFinished
    admitted: AdmittedAmounts
    cause: tuple[Place, ...]
    own: bool
    tries: int = 1
    settled: bool = False


OutcomeWithCause = tuple[ActionFinished, tuple[Place, ...]]
"""An outcome and the records that it follows from."""


class Offers:
    """The offers of one cluster. Any thread may ask."""

    def __init__(self, cluster: str) -> None:
        self._cluster, self._lock = cluster, threading.Lock()
        self.patience = PATIENCE
        """Longer where sources look less often than that."""
        self._offers: OrderedDict[str, _Offer] = OrderedDict()
        """The newest by what is offered."""
        self._concluded: OrderedDict[str, None] = OrderedDict()
        """Ids of the outcomes that say what became of offers."""
        self._pauses: dict[str, AdmissionPause] = {}
        """By the workload's key."""
        self._refusals: OrderedDict[tuple[str, str], str] = OrderedDict()
        """What was answered to controllers when they made pods, by namespace and kind/name; empty where they can."""
        self._vain: OrderedDict[tuple[str, str], int] = OrderedDict()
        """How many offers were lost since a pod of a controller came, by the same: one that has failed for long tries seldom."""
        self._early: OrderedDict[str, dict[str, tuple[PodChanged, Place]]] = OrderedDict()
        """The first reports of pods whose offers were not read yet, by offer and uid: later ones may show a resize."""
        self._heard: datetime | None = None
        """When a source was last at work."""
        self._due: list[OutcomeWithCause] = []

    def objection(self, workload: str, now: datetime) -> str | None:
        """Why new pods of a workload are left as they are, as a sentence; None when they are not."""
        with self._lock:
            pause = self._pauses.get(workload)
            return None if pause is None or not pause.holds(now) else pause.says(workload)

    def paused(self, now: datetime | None) -> int:
        """How many workloads' new pods are left as they are."""
        with self._lock:
            return 0 if now is None else sum(pause.holds(now) for pause in self._pauses.values())

    def make(self, outcome: ActionFinished, cause: tuple[Place, ...]) -> bool:
        """Note an offer; whether it is a new one, and no further try of one that is open."""
        with self._lock:
            return self._offered(outcome, cause, own=True)

    def apply(self, event: Event, place: Place, cause: tuple[Place, ...]) -> None:
        """Take in one event of the log."""
        with self._lock:
            match event:
                case ActionFinished(action=Action.PATCH) if event.subject.cluster == self._cluster:
                    self._outcome(event, cause)
                case PodChanged() if event.workload.cluster == self._cluster:
                    self._seen(event, place)
                case ReplicaControllerChanged(cluster=self._cluster) | ReplicaControllerRemoved(cluster=self._cluster):
                    self._note_controller(event)
                case SourceReported(cluster=self._cluster) if "pod-changes" in event.sees:
                    self._heard = event.at if self._heard is None else max(self._heard, event.at)
                case _:
                    pass

    def is_overdue(self, now: datetime) -> bool:
        """Whether an offer is lost by now, if everything that was reported of pods has been read."""
        with self._lock:
            return any(True for _ in self._overdue(now))

    def lose(self, now: datetime) -> None:
        """Call the offers lost that are overdue. Everything that was reported of pods by now has been read."""
        with self._lock:
            for offer in self._overdue(now):
                offer.settled = True
                self._due.append((_lost(offer, self._refused(offer), self.patience), offer.cause))

    def conclude(self) -> list[OutcomeWithCause]:
        """The outcomes that are due: each once."""
        with self._lock:
            due, self._due = self._due, []
            return [each for each in due if self._remember(each[0])]

    def _offered(self, outcome: ActionFinished, cause: tuple[Place, ...], *, own: bool) -> bool:
        if outcome.admitted is None:
            return False
        key = outcome.admitted.offer
        known = self._offers.get(key)
        if known is not None and (known.outcome.id == outcome.id or outcome.at < known.outcome.at):
            return False
        if known is not None and not known.settled:
            known.tries += 1
            return False
        self._offers[key] = _Offer(outcome, outcome.admitted, cause, own)
        self._offers.move_to_end(key)
        _bound(self._offers)
        for fact, place in self._early.pop(key, {}).values():
            self._seen(fact, place)
        return True

    def _outcome(self, event: ActionFinished, cause: tuple[Place, ...]) -> None:
        """One of our outcomes, as the log has it."""
        if event.result is Result.OFFERED:
            self._offered(event, cause, own=False)
        elif event.result in (Result.DONE, Result.LOST) or event.detail is OutcomeDetail.MOVED:
            self._remember(event)

    def _remember(self, conclusion: ActionFinished) -> bool:
        """Draw the consequences of a conclusion; whether it is new."""
        if conclusion.id in self._concluded:
            return False
        self._concluded[conclusion.id] = None
        _bound(self._concluded)
        self._count_losses(conclusion)
        offer = None if conclusion.admitted is None else self._offers.get(conclusion.admitted.offer)
        older = timedelta() if conclusion.result is Result.LOST else self.patience
        if offer is not None and offer.outcome.at - older <= conclusion.at:
            offer.settled = True
        key = conclusion.subject.workload
        pause = admission_pauses.after(self._pauses.get(key), conclusion)
        if pause is None:
            self._pauses.pop(key, None)
        else:
            self._pauses[key] = pause
        return True

    def _count_losses(self, conclusion: ActionFinished) -> None:
        if conclusion.admitted is None:
            return
        key = conclusion.subject.namespace, conclusion.admitted.controller
        lost = self._vain.pop(key, 0) + 1
        if conclusion.result is Result.LOST:
            self._vain[key] = lost
            _bound(self._vain)

    def _seen(self, fact: PodChanged, place: Place) -> None:
        """A pod with a note was reported: the offer that it follows was taken.

        A report that comes later than that may show a resize, so other amounts say nothing of those with which the pod came.
        """
        if fact.admitted is None:
            return
        offer, is_late = self._offers.get(fact.admitted.offer), fact.at - fact.created > self.patience
        if offer is None and not is_late:
            self._early.setdefault(fact.admitted.offer, {}).setdefault(fact.pod.uid, (fact, place))
            _bound(self._early, _MOST_EARLY)
        if offer is None or fact.created < offer.outcome.at - self.patience:
            return
        offer.settled = True
        outcome = _taken(offer, fact)
        if not (is_late and outcome.result is not Result.DONE) and outcome.id not in self._concluded:
            self._due.append((outcome, (*offer.cause, place)))

    def _note_controller(self, fact: ReplicaControllerChanged | ReplicaControllerRemoved) -> None:
        key = fact.namespace, f"{fact.kind}/{fact.name}"
        self._refusals.pop(key, None)
        if isinstance(fact, ReplicaControllerChanged):
            self._refusals[key] = fact.refusal
            _bound(self._refusals)

    def _refused(self, offer: _Offer) -> str | None:
        """What the controller was answered that cannot make the pod; empty if nobody says, None if it can or tried only once.

        A process that has just begun has heard nothing of a controller, but the log has the pauses that were said before.
        """
        subject, controller = offer.outcome.subject, offer.admitted.controller
        said = self._refusals.get((subject.namespace, controller))
        if said is not None:
            return said or None
        if controller.partition("/")[0] in _SAY_WHY and subject.workload not in self._pauses:
            return None
        tries = offer.tries + self._vain.get((subject.namespace, controller), 0)
        return "" if tries >= _ENOUGH_TRIES else None

    def _overdue(self, now: datetime) -> Iterator[_Offer]:
        for offer in self._offers.values():
            end = offer.outcome.at + self.patience + (timedelta() if offer.own else _OTHERS)
            if not offer.settled and now >= end and self._heard is not None and self._heard >= offer.outcome.at + _HEARD:
                yield offer


def _taken(offer: _Offer, fact: PodChanged) -> ActionFinished:
    """The outcome for a pod that came: done, if it has the amounts.

    Its time is the pod's creation, not that of a report: of several webhooks one may know of the offer only at a later report.
    """
    offered, seen = offer.admitted.containers, fact.containers
    as_offered = meets({each.name: each.requests for each in seen}, {each.name: each.requests for each in offered})
    as_offered = as_offered and meets({each.name: each.limits for each in seen}, {each.name: each.limits for each in offered})
    what = offer.outcome.reason.removeprefix(_OFFERED)
    return replace(
        offer.outcome,
        id=str(OutcomeId(offer.outcome.decision, Action.PATCH, fact.pod.uid)),
        at=fact.created,
        result=Result.DONE if as_offered else Result.REFUSED,
        reason=f"{_GIVEN}{what}" if as_offered else f"the pod came with other amounts than {what}",
        subject=Subject.of_pod(fact.workload, fact.pod),
        detail=OutcomeDetail.APPLIED if as_offered else OutcomeDetail.MOVED,
    )


def _lost(offer: _Offer, refused: str | None, patience: timedelta) -> ActionFinished:
    """The outcome of an offer of which no pod came. `refused`: None unless the controller wants the pod and cannot make it."""
    made = offer.outcome
    tries = f" in {offer.tries} tries" if offer.tries >= _ENOUGH_TRIES else ""
    what = made.reason.removeprefix(_OFFERED)
    why = f" (the controller was answered: {refused})" if refused else ""
    reason = f"no pod of {offer.admitted.controller} came within {patience.seconds} s{tries}{why} with {what}"
    return replace(
        made,
        id=str(OutcomeId(made.decision, Action.PATCH, f"lost:{OutcomeId.parse(made.id).subject.removeprefix('offer:')}")),
        at=made.at + patience,
        result=Result.LOST,
        reason=reason,
        detail=OutcomeDetail.NONE if refused is None else OutcomeDetail.NOT_SEEN,
    )


def offer_of(outcome: ActionFinished, *, review: str, changes: str) -> ActionFinished:
    """The outcome that says that a patch was answered."""
    identifier = str(OutcomeId(outcome.decision, Action.PATCH, f"offer:{quote(review, safe='')[:_LONGEST_UID]}"))
    return replace(outcome, id=identifier, result=Result.OFFERED, reason=f"{_OFFERED}{changes}")


def _bound(remembered: "OrderedDict[Any, Any]", most: int = _MOST) -> None:
    while len(remembered) > most:
        remembered.popitem(last=False)
