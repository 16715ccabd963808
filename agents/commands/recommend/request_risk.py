"""How much harm staying with its requests may do to a container, and why its target is another: one judgement for all tables.

It rests on recorded kills and on how often what was recorded went over the requests, never on the bounds, which follow the
newest sample. docs/scan.md says what each word means.
"""

from collections.abc import Sequence
from typing import Literal

from agents.commands.recommend.workload_pods import RequestsOfPods
from schemas.names import Amounts
from streams.codec.container_requests_reader import ReachedAmounts, RecommendedAmounts

Risk = Literal["high", "medium", "unknown", "low"]
_RISKS: Sequence[Risk] = ("high", "medium", "unknown", "low")
OFTEN = 0.1
"""A share of the time, or of memory's daily peaks, from which being over the request is no exception."""
_SAME = 0.01
"""Amounts that differ by less than this share are the same for a reader."""
_SHORT = 0.1
"""A request that is this share below its target, or more, is called short of it although little went over it."""


def of_pods(of_pods: RequestsOfPods | None, to: RecommendedAmounts, *, oom: bool) -> tuple[Risk, str]:
    """The judgement of the pod that is worst off; of equal ones the first word but "fits"."""
    if of_pods is None:
        return _judged(None, to, oom=oom)
    judged = [_judged(requests, to, oom=oom) for requests in sorted(dict.fromkeys(of_pods.all), key=_order)]
    return min(judged, key=lambda risk_and_why: (_RISKS.index(risk_and_why[0]), risk_and_why[1] == "fits"))


def share_over(request: float | None, reached: ReachedAmounts) -> float | None:
    """In how large a share of the time, at least, the request was exceeded: 0 where nothing shows that; None if unknown."""
    if request is None or not reached:
        return None
    return max((share for share, amount in reached if amount > request), default=0.0)


def _order(requests: Amounts) -> tuple[float, float]:
    return requests.cpu or 0.0, requests.memory or 0


def _judged(requests: Amounts | None, to: RecommendedAmounts, *, oom: bool) -> tuple[Risk, str]:
    """The risk, and in at most four words why."""
    now = requests or Amounts()
    cpu, memory = _larger(now.cpu, to.target.cpu), _larger(now.memory, to.target.memory)
    cpu_over, memory_over = share_over(now.cpu, to.reached_cpu) or 0.0, share_over(now.memory, to.reached_memory) or 0.0
    # the first rule that holds gives the words: kills that happened before peaks, and memory, which kills, before CPU
    rules: Sequence[tuple[bool, Risk, str]] = (
        (oom, "high", "OOM killed lately"),
        (requests is None, "unknown", "no pod seen"),
        (now.cpu is None or now.memory is None, "medium", "no requests set"),
        (memory_over >= OFTEN, "high", "too little memory"),
        (memory_over > 0, "medium", "memory peaks over it"),
        (cpu_over >= OFTEN, "medium", "too little CPU"),
        (_short(now.memory, to.target.memory), "low", "needs more memory"),
        (_short(now.cpu, to.target.cpu), "low", "needs more CPU"),
        (cpu and memory, "low", "uses less"),
        (cpu, "low", "uses less CPU"),
        (memory, "low", "uses less memory"),
    )
    return next(((risk, why) for holds, risk, why in rules if holds), ("low", "fits"))


def _short(now: float | None, target: float | None) -> bool:
    return now is not None and target is not None and target >= now * (1 + _SHORT)


def _larger(now: float | None, target: float | None) -> bool:
    return now is not None and target is not None and now > target * (1 + _SAME)
