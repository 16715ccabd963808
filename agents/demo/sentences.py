"""Events as sentences that a stranger understands: what happened, to which pod, and why."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.usage import ContainerOOMKilled
from schemas.ids import DecisionId
from schemas.names import Amounts
from schemas.outcomes import ActionFinished
from schemas.units import Bytes, Cores

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_NEARLY = 0.02
_SOON = timedelta(minutes=30)
"""How long after a kill a decision that gives more memory may be told as its consequence."""


def oom(killed: ContainerOOMKilled) -> str:
    """An OOM kill."""
    limit = "" if killed.memory_limit is None else f": it reached its memory limit of {memory(killed.memory_limit)}"
    return f"{clock(killed.at)} OOM-killed {killed.pod.name}{limit}"


def done(outcome: ActionFinished, decision: ResizePlanned | EvictionPlanned, recommended: RequestsRecommended | None) -> str:
    """A decision that was carried out, with what it changes and what it rests on."""
    before = together(decision.expect.values())
    if isinstance(decision, ResizePlanned):
        after = {**decision.expect, **decision.requests}
        what = f"resized {decision.pod.name}: {change(before, together(after.values()))}"
    else:
        target = together(c.target for c in recommended.containers) if recommended else before
        what = f"evicted {decision.pod.name}, successor gets {change(before, target)}"
    return f"{clock(outcome.at)} {what}{_why(decision.because)}"


def after_kill(decision: ResizePlanned | EvictionPlanned, recommended: RequestsRecommended | None) -> bool:
    """Whether it gives more memory soon after an OOM kill of its workload, and its own recommendation is later than that kill.

    `recommended` is any later recommendation of the workload: it names the last kill.
    """
    if recommended is None:
        return False
    before = together(decision.expect.values()).memory
    after = together(c.target for c in recommended.containers).memory
    if before is None or after is None or after <= before:
        return False
    if recommended.last_oom is None:
        return False
    killed = recommended.last_oom.at
    try:
        turn = datetime.fromtimestamp(DecisionId.parse(str(decision.because.get("recommendation"))).turn / 1000, UTC)
    except (ValueError, TypeError):
        return False
    return killed <= turn and decision.at - killed <= _SOON


def kills_and_restarts(kills: int, restarts: int) -> str:
    """Why the two counts differ, when they do; empty when they do not. Both are what a look at the cluster shows."""
    if restarts > kills:
        why = "of a container that is killed twice between two looks at the cluster, only the last kill is seen"
    elif kills > restarts:
        why = "a killed container waits before it is started again, or its pod was replaced meanwhile"
    else:
        return ""
    return f"{kills} kills and {restarts} restarts: {why}"


def change(before: Amounts, after: Amounts) -> str:
    """`cpu 0.50 → 0.21, memory 512 MiB → 301 MiB`; an amount that stays is left out."""
    parts = []
    if after.cpu is not None and _differ(before.cpu, after.cpu):
        parts.append(f"cpu {cpu(before.cpu)} → {cpu(after.cpu)}")
    if after.memory is not None and _differ(before.memory, after.memory):
        parts.append(f"memory {memory(before.memory)} → {memory(after.memory)}")
    return ", ".join(parts) or "next to no change"


def together(amounts: Iterable[Amounts]) -> Amounts:
    """The sum; an amount that no container sets stays unset."""
    every = list(amounts)
    cores = [a.cpu for a in every if a.cpu is not None]
    sizes = [a.memory for a in every if a.memory is not None]
    return Amounts(Cores(sum(cores)) if cores else None, Bytes(sum(sizes)) if sizes else None)


def cpu(cores: float | None) -> str:
    """Cores as people write them; none when not set."""
    return "none" if cores is None else f"{cores:.2f}" if cores < 10 else f"{cores:.1f}"  # noqa: PLR2004  # three digits


def memory(size: float | None) -> str:
    """Bytes in the unit that gives three digits or less before the point; none when not set."""
    if size is None:
        return "none"
    for unit, scale in _UNITS:
        if size >= scale:
            return f"{size / scale:.1f} {unit}" if size < 10 * scale else f"{size / scale:.0f} {unit}"
    return f"{size:.0f} B"


def clock(at: datetime) -> str:
    """The time of day."""
    return f"{at:%H:%M}"


def _differ(before: float | None, after: float) -> bool:
    return before is None or abs(after - before) > _NEARLY * before


def reason(because: Mapping[str, object]) -> str:
    """Why a pod was to be changed, from the decision's own numbers; empty when it gives none."""
    why = because.get("why")
    if isinstance(why, Sequence) and "quick OOM" in why:
        return "it was OOM-killed soon after its start"
    outside = [text for bounds in _mapping(because.get("containers")).values() for text in _outside(_mapping(bounds))]
    if outside:
        return " and ".join(dict.fromkeys(outside))
    share = because.get("difference")
    return f"{share:.0%} off what its usage asks for" if isinstance(share, int | float) else ""


def _outside(bounds: Mapping[str, object]) -> Iterator[str]:
    requests, lower, upper = (_mapping(bounds.get(name)) for name in ("requests", "lower", "upper"))
    for what, said in (("cpu", cpu), ("memory", memory)):
        asked, least, most = (_number(amounts.get(what)) for amounts in (requests, lower, upper))
        if asked is not None and least is not None and asked < least:
            yield f"{what} {said(asked)} is below its lower bound {said(least)}"
        if asked is not None and most is not None and asked > most:
            yield f"{what} {said(asked)} is above its upper bound {said(most)}"


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _why(because: Mapping[str, object]) -> str:
    said = reason(because)
    return f" ({said})" if said else ""
