"""Workloads and containers that somebody should look at: left alone, without more memory, leaking, or not patched.

Each is named by the newest record that says so. What is said of more than a few of them is in one row, with where to look.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

from agents.commands.recommend import target_caps
from agents.commands.recommend.target_caps import Refusals
from agents.commands.status import newest_records
from agents.commands.status.status_rows import StatusRow
from agents.logic.guards.guard_records import STOPPING, in_words
from agents.why import because_texts, leak_texts
from schemas import admission_pauses
from schemas.admission_pauses import AdmissionPause
from schemas.decisions.pod_updates import UpdateRefused
from schemas.decisions.recommendations import MemoryLeakFound
from schemas.decisions.vpa_conditions import (
    ConditionStatus,
    ConditionType,
    DecidedCondition,
    MemoryLimitFound,
    VpaConditionsDecided,
)
from schemas.outcomes import Action, ActionFinished
from streams.log_context import LogContext

MOST = 2_000
"""Records of one partition that are looked at. Of `vpa-conditions` compaction leaves one for each VPA and workload."""
SHOWN = 10
"""Names of one state that have a line of their own."""
_EVER = datetime(1970, 1, 2, tzinfo=UTC)
_LEAK_SAID_WITHIN = timedelta(hours=2)
"""The recommender says each leak every hour while it lasts."""


class _State(NamedTuple):
    kind: str
    name: str
    more: str
    """Where those are that have no line of their own."""


_LEFT_ALONE = _State("workload", "left alone", "more: `ullage tap pod-updates --type UpdateRefused` shows them")
_LEAKING = _State("memory", leak_texts.WORD, "more containers: `ullage recommendations` names them")
_LIMITED = "memory limited"
_LIMITED_VPA = _State("vpa", _LIMITED, "more: the condition MemoryLimited of each VPA says why")
_LIMITED_WORKLOAD = _State("workload", _LIMITED, "more: `ullage tap vpa-conditions --type MemoryLimitFound` shows why")
_NOT_PATCHED = _State("workload", "not patched", "more: `ullage tap outcomes --type ActionFinished` shows what was lost")


def _rows(state: _State, says: Mapping[str, str]) -> Iterator[StatusRow]:
    """A row for each of the first names, and one for all above the bound."""
    for name in list(says)[:SHOWN]:
        yield StatusRow(state.kind, name, state.name, says[name], warns=True)
    if len(says) > SHOWN:
        yield StatusRow(state.kind, "all", state.name, f"{len(says) - SHOWN} {state.more}", warns=True)


def left_alone(context: LogContext, now: datetime) -> Iterator[StatusRow]:
    """Workloads that the updater leaves alone until somebody helps, how many are held by what caps their targets, and OOM loops.

    New pods of the first do not come. VPAs, and workloads without one, whose containers are killed in a loop have one row each.
    Raises LogUnavailable.
    """
    refusals, limits = target_caps.refusals(context, now), _limits(context)
    newest: dict[str, UpdateRefused] = {}
    for (key, guard), event in sorted(refusals.items()):
        if guard in STOPPING and (key not in newest or newest[key].at <= event.at):
            newest[key] = event
    # a loop that the updater speaks of has its row below, under the VPA or workload that it is of
    with_own_row = {key for key, event in newest.items() if event.guard == "oom-bound" and _about(event) in limits}
    yield from _rows(_LEFT_ALONE, {key: _refusal(newest[key]) for key in sorted(newest) if key not in with_own_row})
    yield from _held(refusals)
    for state in (_LIMITED_VPA, _LIMITED_WORKLOAD):
        yield from _rows(state, {key: _loop(limit) for (of, key), limit in sorted(limits.items()) if of is state})


def _refusal(refused: UpdateRefused) -> str:
    name = f"{refused.workload.namespace}/{refused.workload.name}"
    return f"since {refused.at:%H:%M:%S} or before: {in_words(refused.guard, refused.reason)}; `ullage why-not {name}` says more"


def _held(refusals: Refusals) -> Iterator[StatusRow]:
    """How many workloads do not get what is recommended for them, by what caps it."""
    caps = {
        key: {word for event in events for word in target_caps.words(event)}
        for key, events in target_caps.of_guards(refusals).items()
    }
    if caps:
        counts = Counter(word for words in caps.values() for word in words)
        listed = ", ".join(f"{count} by {word}" for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
        are = "1 workload is" if len(caps) == 1 else f"{len(caps)} workloads are"
        says = f"{are} kept from the target: {listed}; `ullage recommendations` says what to change"
        yield StatusRow("workload", "capped", "held", says, warns=True)


def _about(refused: UpdateRefused) -> tuple[_State, str]:
    """What the row of a loop of kills is about."""
    vpa = because_texts.governing_vpa(refused.because)
    return (_LIMITED_VPA, vpa) if vpa else (_LIMITED_WORKLOAD, refused.workload.key)


def _loop(limit: DecidedCondition | MemoryLimitFound) -> str:
    """Since when, and why, a container is killed in a loop."""
    return f"since {limit.since:%Y-%m-%d %H:%M:%S} UTC: {limit.message}"


def _limits(context: LogContext) -> dict[tuple[_State, str], DecidedCondition | MemoryLimitFound]:
    """VPAs, and workloads without one, that are OOM-killed again and again and get no more memory, by the newest decisions.

    The updater names loops that a bound keeps going. Where nothing is recommended or applied at all (mode Off, memory not
    controlled, an opt-out), it has nothing to look at, and only these decisions know. Raises LogUnavailable.
    """
    newest: dict[tuple[_State, str], VpaConditionsDecided | MemoryLimitFound] = {}
    for record in newest_records.read(context.log, context.topics.wire("vpa-conditions"), _EVER, most=MOST).records:
        event = context.codec.decode_or_none(record)
        if isinstance(event, VpaConditionsDecided | MemoryLimitFound):
            about = (
                (_LIMITED_VPA, event.key) if isinstance(event, VpaConditionsDecided) else (_LIMITED_WORKLOAD, event.workload.key)
            )
            if about not in newest or newest[about].at <= event.at:
                newest[about] = event
    return {about: limit for about, event in newest.items() if (limit := _limit(event)) is not None}


def _limit(event: VpaConditionsDecided | MemoryLimitFound) -> DecidedCondition | MemoryLimitFound | None:
    """What says that a container is killed in a loop; None where none is."""
    if isinstance(event, MemoryLimitFound):
        return None if event.over else event
    limited = (condition for condition in event.conditions if condition.type is ConditionType.MEMORY_LIMITED)
    return next((c for c in limited if c.status is ConditionStatus.TRUE and not event.withdrawn), None)


def leaking(context: LogContext, now: datetime) -> Iterator[StatusRow]:
    """Containers that leak memory now, the one that is full first at the top. Raises LogUnavailable."""
    newest: dict[str, MemoryLeakFound] = {}
    for record in newest_records.read(context.log, context.topics.wire("memory-leaks"), now - _LEAK_SAID_WITHIN).records:
        event = context.codec.decode_or_none(record)
        if isinstance(event, MemoryLeakFound):
            key = f"{event.workload.key}/{event.leak.container}"
            newest[key] = max(event, newest.get(key, event), key=attrgetter("at"))
    # leaks that will never fill anything come last
    never = datetime.max.replace(tzinfo=now.tzinfo)
    lasting = sorted((event.leak.full or never, key, event) for key, event in newest.items() if not event.over)
    says = {key: f"{leak_texts.in_words(event.leak, now)}; pod {event.leak.pod.name}" for _, key, event in lasting}
    yield from _rows(_LEAKING, says)


def not_patched(context: LogContext, now: datetime) -> Iterator[StatusRow]:
    """Workloads whose new pods the webhook leaves as they are for a while, because patched ones did not come, by the outcomes.

    Raises LogUnavailable.
    """
    pauses = {key: pause for key, pause in _pauses(context, now).items() if pause.holds(now)}
    yield from _rows(_NOT_PATCHED, {key: pauses[key].says(key) for key in sorted(pauses)})


def _pauses(context: LogContext, now: datetime) -> dict[str, AdmissionPause]:
    """The newest pause of each workload, also those that are over."""
    since, pauses = now - admission_pauses.REMEMBERED, dict[str, AdmissionPause]()
    for record in newest_records.read(context.log, context.topics.wire("outcomes"), since, most=MOST).records:
        event = context.codec.decode_or_none(record)
        if isinstance(event, ActionFinished) and event.action is Action.PATCH:
            key = event.subject.workload
            pause = admission_pauses.after(pauses.get(key), event)
            if pause is None:
                pauses.pop(key, None)
            else:
                pauses[key] = pause
    return pauses
