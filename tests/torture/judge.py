"""Judges what consumers did to a cluster: the acts that the cluster accepted against plans, outcomes, pauses and expiry.

It knows nothing of how consumers work. Every act needs a plan of its own that was in the log and had no outcome yet; nothing is
done under a pause or after a plan has expired; "done" means that the cluster shows it; nothing else may have an act, except where
the consumer died in between. What was not done has a reason that is true: time was up, there was a pause, or the pod had changed.
Real times are seconds since the epoch, of one machine.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from schemas.names import Amounts
from schemas.outcomes import Action, Result
from streams.clients.kube.quantities import settled

PAUSE_GRACE = 1.0
"""Seconds of real time within which one act of each kind may already have been under way when a pause was written."""
EXPIRY_GRACE = timedelta(seconds=20)
"""Event time that may pass between a consumer's last look at the time and what the cluster calls the time."""
PAUSE_KNOWN = 40.0
"""Seconds after the end of a pause for which a consumer may not have read yet that it is over: the broker may be away."""
CHANGED_SINCE = 600.0
"""Seconds before a plan in which the pod may have changed without the planner's knowing."""
WOKEN_WITHIN = 2.0
"""Seconds after a consumer woke up in which the request goes out that it was sending when it was frozen."""
DEATH_WITHIN = 5.0
"""Seconds between an act and the kill that kept its outcome from being written."""
Asked = tuple[tuple[str, Amounts], ...]


def as_asked(requests: Mapping[str, Amounts], limits: Mapping[str, Amounts] | None = None) -> Asked:
    """Requests and limits as a cluster shows them: whole millicores and whole bytes."""
    limited = [(f"limits of {name}", amounts) for name, amounts in (limits or {}).items() if amounts != Amounts()]
    return tuple((name, settled(amounts)) for name, amounts in sorted([*requests.items(), *limited]))


@dataclass(frozen=True, slots=True)
class Act:
    """What the cluster accepted, and when: `at` in real time, `event_time` as the cluster had it."""

    action: Action
    uid: str
    asked: Asked
    at: float
    event_time: datetime

    def __str__(self) -> str:
        return f"{self.action.value} of {self.uid[:8]}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan in the log since `at`."""

    id: str
    action: Action
    uid: str
    asked: Asked
    void_after: datetime
    at: float


@dataclass(frozen=True, slots=True)
class Answer:
    """An outcome in the log since `at`, written at this moment of event time."""

    decision: str
    result: Result
    reason: str
    at: float
    event_time: datetime


@dataclass(slots=True)
class Pause:
    """In force from `begin`, when the log had it and consumers were at work, until just before it was lifted."""

    begin: float
    end: float

    def breaches(self, acts: Iterable[Act]) -> list[Act]:
        """The acts that it forbids: all, but for one of each kind that may have been under way when it came."""
        under = sorted((act for act in acts if self.begin <= act.at <= self.end), key=lambda act: act.at)
        first = {act.action: act for act in reversed(under)}
        return [act for act in under if act.at - self.begin > PAUSE_GRACE or first[act.action] is not act]


@dataclass(slots=True)
class ConsumerHistory:
    """What was done to a consumer: pauses, the times of kills and of all its ends, and after which acts it died by itself."""

    pauses: list[Pause] = field(default_factory=list)
    kills: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    deaths: Counter[tuple[Action, str]] = field(default_factory=Counter)
    wakes: list[float] = field(default_factory=list)
    """When it went on after it had been frozen: what it was sending then goes out late, one request of each kind."""
    deleted: dict[str, float] = field(default_factory=dict)
    """When somebody else deleted a pod, by its uid."""
    off_since: float = math.inf
    """From when on policies leave all pods alone, new ones too."""

    def sent_late(self, acts: Sequence[Act]) -> set[int]:
        """Of these acts those (by `id`) that were being sent when it was frozen: the first of each kind after it woke."""
        first: dict[tuple[float, Action], Act] = {}
        for act in sorted(acts, key=lambda act: act.at):
            for wake in self.wakes:
                if 0 <= act.at - wake <= WOKEN_WITHIN:
                    first.setdefault((wake, act.action), act)
        return {id(act) for act in first.values()}

    def explains(self, act: Act) -> bool:
        """Whether the consumer ended between this act and its outcome."""
        return bool(self.deaths[act.action, act.uid]) or any(0 <= kill - act.at <= DEATH_WITHIN for kill in self.kills)


def judge(
    plans: Sequence[Plan], answers: Sequence[Answer], acts: Sequence[Act], history: ConsumerHistory
) -> tuple[Counter[str], list[str]]:
    """Figures, and sentences about what is wrong."""
    first = {answer.decision: answer for answer in reversed(answers)}
    late = history.sent_late(acts)
    carried_out, wrong = _match(plans, first, acts, late)
    wrong += [f"{act} was done under a pause" for pause in history.pauses for act in pause.breaches(acts)]
    for plan, act in carried_out:
        wrong += () if id(act) in late else _forbidden(plan, act, first.get(plan.id), history)
    wrong += [
        f"{a.decision} is called done, but the cluster does not show it" for a in _undone(plans, answers, acts, history.deleted)
    ]
    wrong += _made_up({plan.id: plan for plan in plans}, answers, acts, history)
    ids, counts = {plan.id for plan in plans}, Counter(answer.decision for answer in answers)
    repeated = Counter(a.decision for a in answers if any(0 <= a.at - wake <= WOKEN_WITHIN for wake in history.wakes))
    wrong += [f"decision {i} has {n} outcomes" for i, n in counts.items() if n > 1 + bool(repeated[i])]
    wrong += [f"outcome of unknown decision {i}" for i in counts if i not in ids]
    wrong += [f"decision {i} has no outcome" for i in ids if i not in counts]
    results = Counter(answer.result for answer in answers)
    figures = Counter(
        {
            "plans": len(plans),
            "acts": len(acts),
            "resizes": sum(act.action is Action.RESIZE for act in acts),
            "evictions": sum(act.action is Action.EVICT for act in acts),
            **{result.value: results[result] for result in Result},
            "refused under a pause": sum("is paused" in answer.reason for answer in answers),
        }
    )
    return figures, wrong


def _match(
    plans: Sequence[Plan], answers: Mapping[str, Answer], acts: Iterable[Act], late: Collection[int]
) -> tuple[list[tuple[Plan, Act]], list[str]]:
    """The plan of each act: one that was open then, and that no other act has taken.

    A pod may have a plan that expired while no consumer was at work, called done because a later plan for it was carried out. So
    an act is that of a plan in force, where there is one.
    """
    of: dict[tuple[Action, str, Asked], list[Plan]] = {}
    for plan in sorted(plans, key=lambda plan: plan.at):
        of.setdefault((plan.action, plan.uid, plan.asked), []).append(plan)
    matched, wrong = [], []
    for act in sorted(acts, key=lambda act: act.at):
        waiting = of.get((act.action, act.uid, act.asked), [])
        still_open = [p for p in waiting if p.at <= act.at and (p.id not in answers or answers[p.id].at >= act.at)]
        if still_open:
            taken = min(still_open, key=lambda p: (_is_late(act, p), not _is_done(answers.get(p.id)), p.at))
            waiting.remove(taken)
            matched.append((taken, act))
        elif id(act) not in late:
            wrong.append(f"{act} was done, but no plan for it was open, or twice")
    return matched, wrong


def _is_late(act: Act, plan: Plan) -> bool:
    return act.event_time > plan.void_after + EXPIRY_GRACE


def _is_done(answer: Answer | None) -> bool:
    return answer is not None and answer.result is Result.DONE


def _forbidden(plan: Plan, act: Act, answer: Answer | None, history: ConsumerHistory) -> Iterable[str]:
    if _is_late(act, plan):
        yield f"{act} was done {(act.event_time - plan.void_after).total_seconds():.0f} s after its plan had expired"
    if answer is not None and not _is_done(answer) and not history.explains(act):
        yield f"{act} was done, but its outcome is '{answer.result.value}': {answer.reason}"


def _made_up(
    plans: Mapping[str, Plan], answers: Sequence[Answer], acts: Sequence[Act], history: ConsumerHistory
) -> Iterable[str]:
    """Reasons for not doing it that are not true."""
    for answer in answers:
        plan = plans.get(answer.decision)
        if plan is None or _is_done(answer):
            continue
        says = f"{answer.decision} is called {answer.result.value}: '{answer.reason}', but"
        if answer.result is Result.EXPIRED:
            if answer.event_time <= plan.void_after:
                yield f"{says} it was not void before {plan.void_after}"
        elif "is paused" in answer.reason:
            if not any(pause.begin <= answer.at <= pause.end + PAUSE_KNOWN for pause in history.pauses):
                yield f"{says} there was no pause"
        elif history.deleted.get(plan.uid, math.inf) > answer.at and not any(
            act.uid == plan.uid and plan.at - CHANGED_SINCE <= act.at <= answer.at for act in acts
        ):
            yield f"{says} nobody had changed the pod"


def _undone(
    plans: Sequence[Plan], answers: Sequence[Answer], acts: Sequence[Act], deleted: Mapping[str, float]
) -> Iterable[Answer]:
    """Answers that say done without the cluster showing it: the pod is not gone, or was not last asked for these amounts."""
    of = {plan.id: plan for plan in plans}
    for answer in answers:
        plan = of.get(answer.decision)
        if plan is None or not _is_done(answer):
            continue
        if plan.action is Action.EVICT and deleted.get(plan.uid, math.inf) <= answer.at:
            continue
        before = [act for act in acts if act.uid == plan.uid and act.at <= answer.at and act.action is plan.action]
        if not before or max(before, key=lambda act: act.at).asked != plan.asked:
            yield answer
