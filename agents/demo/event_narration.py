"""Events as simple sentences: what happened, to which pod, and why."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleUpPlanned
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.decisions.replica_plans import ProposalOrigin, ReplicasPlanned
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Amounts
from schemas.outcomes import ActionFinished
from schemas.policies.control import ControlChanged
from schemas.units import Bytes, Cores, counted

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_NEARLY = 0.02
_SOON = timedelta(minutes=30)
"""How long after a kill a decision that gives more memory counts as its consequence."""

Planned = ResizePlanned | EvictionPlanned


def oom(killed: ContainerOOMKilled) -> str:
    """An OOM kill."""
    limit = "" if killed.memory_limit is None else f": it reached its memory limit of {memory(killed.memory_limit)}"
    return f"{clock(killed.at)} OOM-killed {killed.pod.name}{limit}"


def done(outcome: ActionFinished, decision: Planned, recommended: RequestsRecommended | None) -> str:
    """A decision that was carried out, with what it changes and why. `recommended` is what it rests on."""
    before = together(decision.expect.values())
    if isinstance(decision, ResizePlanned):
        # containers that the plan does not name stay as they are, and count in the sums
        after = {**decision.expect, **decision.requests}
        what = f"resized {decision.pod.name}: {change(before, together(after.values()))}"
    else:
        # an eviction names no amounts: the successor gets what was recommended
        target = together(c.target for c in recommended.containers) if recommended else before
        what = f"evicted {decision.pod.name}, successor gets {change(before, target)}"
    why = "" if recommended is None else reason(decision, recommended)
    return f"{clock(outcome.at)} {what}{f' ({why})' if why else ''}"


def admitted(outcome: ActionFinished) -> str:
    """A new pod that came with what the webhook gave it."""
    containers = () if outcome.admitted is None else outcome.admitted.containers
    before, after = (
        together(requests) for requests in ([c.requests_before for c in containers], [c.requests for c in containers])
    )
    return f"{clock(outcome.at)} new pod {outcome.subject.name} was given {change(before, after)}"


def nodes_changed(outcome: ActionFinished, plan: ScaleUpPlanned | NodeRemovalPlanned) -> str:
    """A group of nodes that grows or shrinks."""
    if isinstance(plan, ScaleUpPlanned):
        waits = f"{counted(plan.pods, 'pod')} wait{'s' if plan.pods == 1 else ''}"
        what = f"group {plan.group} grows from {plan.before} to {counted(plan.after, 'node')}: {waits}"
    else:
        why = (
            "it is empty"
            if not plan.evict
            else f"its {counted(len(plan.evict), 'pod')} find{'s' if len(plan.evict) == 1 else ''} room elsewhere"
        )
        what = f"node {plan.node or plan.instance} of group {plan.group} goes: {why}"
    return f"{clock(outcome.at)} {what}"


def scaled(outcome: ActionFinished, plan: ReplicasPlanned) -> str:
    """A workload that was given another number of replicas, and what asked for that."""
    asking = next(
        # whoever asked for as many or more decided; smaller proposals did not
        (proposal for proposal in plan.proposals if proposal.replicas is not None and proposal.replicas >= plan.replicas),
        None,
    )
    live = max((proposal.replicas or 0 for proposal in plan.proposals if proposal.origin is ProposalOrigin.LIVE), default=0)
    why = ""
    if asking is not None and plan.replicas > plan.current:
        # what it uses now would not have asked for it yet
        ahead = asking.origin is not ProposalOrigin.LIVE and live < plan.replicas
        why = f" (by its {asking.origin.value}; what it uses now asks for {live})" if ahead else " (by what it uses now)"
    return f"{clock(outcome.at)} {plan.workload.name} scaled from {plan.current} to {plan.replicas} replicas{why}"


def refused(refusal: UpdateRefused) -> str:
    """A guard that holds pods back."""
    more = f" and {refusal.pods - 1} more" if refusal.pods > 1 else ""
    return f"{clock(refusal.at)} left {refusal.pod.name}{more} alone: {refusal.reason}"


def paused(control: ControlChanged) -> str:
    """An operator's pause, or its end."""
    what = "paused by an operator" if control.paused else "resumed by an operator"
    return f"{clock(control.at)} {what}{f': {control.reason}' if control.reason else ''}"


def after_kill(decision: Planned, recommended: RequestsRecommended | None) -> bool:
    """Whether it gives more memory soon after an OOM kill of its workload that the recommendation it rests on knows."""
    if recommended is None or recommended.last_oom is None:
        return False
    before = together(decision.expect.values()).memory
    after = together(c.target for c in recommended.containers).memory
    gives_more = before is not None and after is not None and after > before
    return gives_more and decision.at - recommended.last_oom.at <= _SOON


def kills_and_restarts(kills: int, restarts: int) -> str:
    """Why the counts of kills and restarts differ; empty if they do not."""
    if restarts > kills:
        why = "of a container that is killed twice between two looks at the cluster, only the last kill is seen"
    elif kills > restarts:
        why = "a killed container waits before it is started again, or its pod was replaced meanwhile"
    else:
        return ""
    return f"{counted(kills, 'kill')} and {counted(restarts, 'restart')}: {why}"


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


def reason(decision: Planned, recommended: RequestsRecommended) -> str:
    """Why a pod was to be changed, from what it requested and what was recommended; empty when they hardly differ."""
    kill = recommended.last_oom
    # only a kill of this pod itself is its own reason
    if kill is not None and kill.pod.uid == decision.pod.uid and decision.at - kill.at <= _SOON:
        return f"it was OOM-killed at {clock(kill.at)}"
    by_name = {container.container: container for container in recommended.containers}
    outside = [
        text for name, requests in decision.expect.items() if name in by_name for text in _outside(requests, by_name[name])
    ]
    if outside:
        # several containers of a pod often leave their bounds by the same sentence
        return " and ".join(dict.fromkeys(outside))
    share = _share_off(together(decision.expect.values()), together(container.target for container in recommended.containers))
    return f"{share:.0%} off what its usage asks for" if share >= _NEARLY else ""


def _outside(requests: Amounts, recommended: ContainerRecommendation) -> Iterator[str]:
    lower, upper = recommended.lower, recommended.upper
    for what, text, request, least, most in (
        ("cpu", cpu, requests.cpu, lower.cpu, upper.cpu),
        ("memory", memory, requests.memory, lower.memory, upper.memory),
    ):
        if request is not None and least is not None and request < least:
            yield f"{what} {text(request)} is below its lower bound {text(least)}"
        if request is not None and most is not None and request > most:
            yield f"{what} {text(request)} is above its upper bound {text(most)}"


def _share_off(requests: Amounts, target: Amounts) -> float:
    """The sum over both resources of |request - target| / request, as the updater ranks pods."""
    pairs = ((requests.cpu, target.cpu), (requests.memory, target.memory))
    return sum(abs(request - recommended) / request for request, recommended in pairs if request and recommended is not None)
