"""What keeps targets from being what was estimated, or from being applied: a word for a table, and a sentence.

A recommendation says itself where a policy, a setting or a node cut it. What a guard of the updater says of a workload's pods is
said again each half an hour while it lasts, so that the newest records of the log are enough.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from agents.commands.status import newest_records
from agents.logic.guards.guard_records import CAPPING, LASTING, SAID_AGAIN, in_words
from agents.why import because_texts, event_descriptions
from schemas.decisions.pod_updates import UpdateRefused
from streams.codec.container_requests_reader import RecommendedAmounts, RecommendedRequests
from streams.log_context import LogContext

MOST = 2_000
"""Decisions of one partition that are looked at."""
WITHIN = timedelta(milliseconds=SAID_AGAIN) + timedelta(minutes=5)
_TOPIC = "pod-updates"
_HALVES = 0.5
"""What rounding alone may change of an amount, in thousandths of a core and in bytes."""


@dataclass(frozen=True, slots=True)
class TargetCap:
    """One cap: `word` is limit, LimitRange, leak, policy, settings, node, quota, HPA, class, or a guard's name."""

    word: str
    sentence: str
    by_guard: bool = False
    """Whether a guard keeps the target from being applied; else the target itself is another."""


Refusals = Mapping[tuple[str, str], UpdateRefused]
"""The newest refusal by workload and guard."""


def refusals(context: LogContext, now: datetime) -> Refusals:
    """What the lasting guards say of the workloads of the context's cluster. Raises LogUnavailable."""
    newest: dict[tuple[str, str], UpdateRefused] = {}
    for record in newest_records.read(context.log, context.topics.wire(_TOPIC), now - WITHIN, most=MOST).records:
        event = context.codec.decode_or_none(record)
        if isinstance(event, UpdateRefused) and event.guard in LASTING:
            key = event.workload.key, event.guard
            if key not in newest or newest[key].at <= event.at:
                newest[key] = event
    return newest


def of_guards(refused: Refusals) -> Mapping[str, list[UpdateRefused]]:
    """The refusals by guards that keep targets from being applied, by workload."""
    by_workload: dict[str, list[UpdateRefused]] = {}
    for (workload, guard), event in sorted(refused.items()):
        if guard in CAPPING:
            by_workload.setdefault(workload, []).append(event)
    return by_workload


def of_container(
    decision: RecommendedRequests, amounts: RecommendedAmounts, refused: Iterable[UpdateRefused]
) -> tuple[TargetCap, ...]:
    """What caps one container: its own recommendation first, then guards."""
    guards = (
        TargetCap(word, in_words(event.guard, event.reason), by_guard=True)
        for event in refused
        for word in words(event, amounts.container)
    )
    return (*_of_recommendation(decision, amounts), *guards)


def words(refused: UpdateRefused, container: str | None = None) -> tuple[str, ...]:
    """The words for what a guard says of a container, or of all; none where it concerns another one."""
    word = CAPPING[refused.guard]
    if word:
        # a guard with one meaning has its word; the others say in their numbers what caps which container
        return (word,)
    caps = because_texts.cap_words(refused.because)
    if not caps:
        return (refused.guard,)
    named = caps.values() if container is None else [caps.get(container, ())]
    return tuple(sorted({word for container_caps in named for word in container_caps}))


def _of_recommendation(decision: RecommendedRequests, amounts: RecommendedAmounts) -> Iterator[TargetCap]:
    node, policy = because_texts.capping_node(decision.because), because_texts.capping_policy(decision.because)
    for resource, scale in (("cpu", 1000.0), ("memory", 1.0)):
        free, target = getattr(amounts.uncapped, resource), getattr(amounts.target, resource)
        if free is None or target is None or abs(free - target) * scale < _HALVES:
            continue
        estimate = f"{resource} of container '{amounts.container}' would be {_text(resource, free)}"
        leak = next((leak for leak in decision.leaks if leak.container == amounts.container and resource == "memory"), None)
        # a leak's bound before others, for it alone says what has to be mended in the program
        if leak is not None and target <= leak.most < free:
            leaks = f"leaked until {leak.ended:%Y-%m-%d %H:%M}" if leak.ended else "leaks"
            yield TargetCap(
                "leak", f"{estimate}, but it {leaks}, and the growth of a leak is bounded to {_text(resource, leak.most)} today"
            )
        elif node and free > target:
            yield TargetCap("node", f"{estimate}, but the pod is cut down to node '{node}', the largest that is known")
        elif policy:
            bound, advice = ("at least", "lower its minAllowed") if free < target else ("at most", "raise its maxAllowed")
            yield TargetCap("policy", f"{estimate}, but {policy} bounds it to {_text(resource, target)} {bound}; {advice}")
        else:
            yield TargetCap("settings", f"{estimate}, but the settings bound it to {_text(resource, target)}")


def _text(resource: str, amount: float) -> str:
    return event_descriptions.amount(**{resource: amount})
