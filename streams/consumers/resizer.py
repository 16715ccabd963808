"""The resizer: changes a pod's requests and limits in place, if the pod is still the one that was decided about.

Done means that the kubelet has put the new amounts into force. Until then the pod's conditions are followed: infeasible or failed
is an outcome at once, deferred or under way is one when following ends. A pod whose requests are not those that the decision
expected is left alone, and so is one whose memory limit would fall below its use. A plan of impossible amounts, or of far more or
less than before, is carried out by nobody, whoever wrote it: a log can be written to by mistake.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

import structlog

from schemas import bounds
from schemas.decisions.pod_updates import ResizePlanned
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import ContainerSeen, ResizeState
from schemas.names import Amounts
from schemas.outcomes import Action, OutcomeDetail, Result
from schemas.units import Bytes, Cores, amount_texts
from streams.clients.cluster_port import ClusterClient, Pod, find_live
from streams.clients.kube.event_recorder import RecordEvent, record_nothing, record_resize, spelled
from streams.clients.kube.quantities import meets, same
from streams.clock_log import ClockReader
from streams.consumers.executing.executor import Executor
from streams.consumers.executing.handler import LOOK_AGAIN, ActPermit, Handler, HandlerResult
from streams.consumers.executing.holder_lease import HolderLease
from streams.errors import GiveUp, TryAgain, UnderWay
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.log_range import Cursor, event_time_ms, offset_before_end

# Twice the time after which a source publishes a node again: the end of the topic names all nodes, and none that is gone.
REACH = timedelta(hours=6)


class LargestNodes:
    """The nodes of the context's cluster, according to the log. Nodes of impossible size are ignored."""

    def __init__(self, context: LogContext) -> None:
        self._context = context.reopened()
        self._cursor: Cursor | None = None
        self._nodes: dict[str, tuple[int, Amounts]] = {}
        """What each node has, and when its source said so, in milliseconds of event time; -1 where that is unknown."""
        self._clock = ClockReader(self._context.log, self._context.topics)

    def largest(self) -> Amounts | None:
        """The most of each resource that a node has now, after reading the log to its end; None where no node is known.

        Raises LogUnavailable.
        """
        self._clock.catch_up()
        if self._cursor is None:
            place = self._context.cluster_partition("cluster-changes")
            self._cursor = Cursor(self._context.log, {place: offset_before_end(self._context.log, *place, REACH)})
        for record in self._cursor.catch_up():
            self._apply(record)
        oldest = self._clock.counted.number - REACH // timedelta(milliseconds=1)
        self._nodes = {name: node for name, node in self._nodes.items() if node[0] < 0 or node[0] >= oldest}
        sizes = [size for _, size in self._nodes.values()]
        if not sizes:
            return None
        cpu = [size.cpu for size in sizes if size.cpu is not None]
        memory = [size.memory for size in sizes if size.memory is not None]
        return Amounts(Cores(max(cpu)) if cpu else None, Bytes(max(memory)) if memory else None)

    def _apply(self, record: Record) -> None:
        match self._context.codec.decode_or_none(record):
            case NodeChanged(cluster=self._context.cluster, node=name, allocatable=size):
                if not any(bounds.amounts("allocatable", size)):
                    self._nodes[name] = event_time_ms(record), size
            case NodeRemoved(cluster=self._context.cluster, node=name):
                self._nodes.pop(name, None)


MOST_FACTOR = 100
"""How many times more than before a container may request at once, ..."""
# ... counted from this much, because a small request may well have been a guess: 10 cores and 12.5 GiB are never too many.
LEAST_CORES, LEAST_MEMORY = 0.1, 128 << 20
MOST_CUT = 1000
"""How many times less than before a container may request at once."""
MOST_LIMIT = 10  # times what the largest node has, for a pod's limits in all; limits somewhat beyond a node are usual
SAME_RATIO = 1.01  # times the ratio that a limit has to its request now; amounts that follow a ratio are rounded


def objection(plan: ResizePlanned, largest_node: Amounts | None, now: Sequence[ContainerSeen] = ()) -> str | None:
    """A sentence on why this plan is not carried out; None if it may be.

    `largest_node`: what the largest node has for pods; `now`: the containers as they are.
    """
    return next(_objections(plan, largest_node, {container.name: container for container in now}), None)


def _objections(plan: ResizePlanned, largest_node: Amounts | None, now: Mapping[str, ContainerSeen]) -> Iterator[str]:
    for what, amounts in (("requests", plan.requests), ("limits", plan.limits)):
        for name, amount in amounts.items():
            yield from bounds.amounts(f"{what}['{name}']", amount)
    for name, amount in plan.requests.items():
        before = plan.expect.get(name, Amounts())
        yield from _leap(f"requests['{name}'].cpu", before.cpu, amount.cpu, LEAST_CORES)
        yield from _leap(f"requests['{name}'].memory", before.memory, amount.memory, LEAST_MEMORY)
        yield from _cut(f"requests['{name}'].cpu", before.cpu, amount.cpu)
        yield from _cut(f"requests['{name}'].memory", before.memory, amount.memory)
    if largest_node is not None:
        for resource in ("cpu", "memory"):
            largest = getattr(largest_node, resource)
            yield from _beyond("the plan requests", resource, _sum(plan.requests, resource), largest, 1)
            # A limit of 4 cores beside a request of a millicore is the owner's word, and so is what follows in that ratio.
            raised = {name: amounts for name, amounts in plan.limits.items() if not _follows(plan, now.get(name), resource)}
            yield from _beyond("the plan limits the pod to", resource, _sum(raised, resource), largest, MOST_LIMIT)


def _leap(path: str, before: float | None, after: float | None, least: float) -> Iterator[str]:
    most = MOST_FACTOR * max(before or 0.0, least)
    if after is not None and after > most:
        yield f"{path} is {after:g}, more than {MOST_FACTOR} times what it was ({before or 0:g}, counted as {least:g} at least)"


def _cut(path: str, before: float | None, after: float | None) -> Iterator[str]:
    if before is not None and after is not None and after * MOST_CUT < before:
        yield f"{path} is {after:g}, less than a {MOST_CUT}th of what it was ({before:g})"


def _follows(plan: ResizePlanned, now: ContainerSeen | None, resource: str) -> bool:
    """Whether a container's limit is to be in the ratio to its request that it has now."""
    if now is None:
        return False
    after = tuple(getattr(amounts.get(now.name), resource, None) for amounts in (plan.requests, plan.limits))
    before = tuple(getattr(amounts, resource) for amounts in (now.requests, now.limits))
    if not (after[0] and after[1] and before[0] and before[1]):
        return False
    return bool(after[1] / after[0] <= before[1] / before[0] * SAME_RATIO)


def _beyond(says: str, resource: str, total: float, largest: float | None, times: int) -> Iterator[str]:
    if largest is not None and total > largest * times:
        most = "" if times == 1 else f", of which {times} times as much is the most"
        asked, there = amount_texts(resource, total, largest)
        yield f"{says} {asked} in all, and the largest node has {there} for pods{most}"


def _sum(requests: Mapping[str, Amounts], resource: str) -> float:
    return sum(getattr(request, resource) or 0 for request in requests.values())


_log = structlog.get_logger(__name__)
_VERDICTS = {
    ResizeState.INFEASIBLE: (OutcomeDetail.INFEASIBLE, "the node could never hold it"),
    ResizeState.ERROR: (OutcomeDetail.NODE_ERROR, "the kubelet could not do it"),
}
_WAITS = {
    ResizeState.DEFERRED: (OutcomeDetail.DEFERRED, "the kubelet defers it"),
    ResizeState.UNKNOWN: (OutcomeDetail.IN_PROGRESS, "the kubelet gives a reason that nobody knows"),
}


def resizer(
    context: LogContext, client: ClusterClient, lease: HolderLease | None = None, record: RecordEvent = record_nothing
) -> Executor:
    """A consumer that carries out ResizePlanned on `client`, while it holds the `lease` if there is one.

    `record` writes Kubernetes Events.
    """
    permit = ActPermit(lease)
    nodes, resizes = LargestNodes(context), Resizes(client, permit, record)
    return Executor(
        context,
        Handler(
            "pod-updates",
            ResizePlanned,
            Action.RESIZE,
            act=lambda plan: resizes.act(plan, nodes.largest()),
            look=resizes.look,
        ),
        permit=permit,
    )


class Resizes:
    """Asks for resizes, and looks what became of them. Both calls raise UnderWay while the kubelet is at it, TryAgain, GiveUp."""

    def __init__(self, client: ClusterClient, permit: ActPermit, record: RecordEvent = record_nothing) -> None:
        """`permit` is asked before a resize; `record` writes Kubernetes Events."""
        self._client, self._permit, self._record = client, permit, record

    def act(self, plan: ResizePlanned, largest_node: Amounts | None = None) -> HandlerResult | None:
        """Look, refuse what is absurd, act, then record an Event."""
        pod = find_live(self._client, plan.pod)
        absurd = objection(plan, largest_node, () if pod is None else pod.containers)
        if absurd is not None:
            return HandlerResult(Result.REFUSED, absurd, OutcomeDetail.INVALID)
        if pod is None:
            return _gone(plan)
        refused = _ended(pod, plan) or _moved(pod, plan) or memory_refusal(self._client, pod, plan)
        if refused is not None:
            return refused
        self._permit.check("resizing", f"{pod.pod.namespace}/{pod.pod.name}")
        self._client.resize(pod, requests=plan.requests, limits=plan.limits)
        record_resize(self._record, plan)
        return None

    def look(self, plan: ResizePlanned) -> HandlerResult | str:
        """How a resize ended that was requested; else what the pod asks for."""
        pod = find_live(self._client, plan.pod)
        if pod is None:
            return _gone(plan)
        return _ended(pod, plan) or _moved(pod, plan) or "the pod asks for what it did before"


def _gone(plan: ResizePlanned) -> HandlerResult:
    reason = f"it moved: pod '{plan.pod.name}' with uid '{plan.pod.uid}' is gone"
    return HandlerResult(Result.REFUSED, reason, OutcomeDetail.MOVED)


def _ended(pod: Pod, plan: ResizePlanned) -> HandlerResult | None:
    """How it ended; None for a pod that asks for other amounts than planned."""
    if not (meets(pod.asked_requests, plan.requests) and meets(pod.asked_limits, plan.limits)):
        return None
    if pod.resize in _VERDICTS:
        detail, verdict = _VERDICTS[pod.resize]
        return HandlerResult(Result.FAILED, _quoting(verdict, pod), detail)
    if pod.resize in _WAITS:
        raise _under_way(plan, _WAITS[pod.resize][0], _quoting(_WAITS[pod.resize][1], pod))
    requests, limits = {c.name: c.requests for c in pod.containers}, {c.name: c.limits for c in pod.containers}
    if pod.resize is ResizeState.NONE and meets(requests, plan.requests) and meets(limits, plan.limits):
        return HandlerResult(Result.DONE, "the new amounts are in force", OutcomeDetail.ALREADY_DONE)
    raise _under_way(plan, OutcomeDetail.IN_PROGRESS, _quoting("the kubelet is at it", pod))


def _moved(pod: Pod, plan: ResizePlanned) -> HandlerResult | None:
    """The refusal for a pod that is not as the decision expected."""
    seen = {container.name: container.requests for container in pod.containers}
    # While a resize was open when this was decided, the pod asked for something else than it had.
    asked = {name: plan.asked.get(name, amounts) for name, amounts in plan.expect.items()}
    for what, requests, expect in (("requests", seen, plan.expect), ("asks for", pod.asked_requests, asked)):
        now = {name: requests.get(name, Amounts()) for name in expect}
        if not same(now, expect):
            amounts, expected = spelled(now, expect)
            reason = f"it moved: the pod {what} {amounts}, expected {expected}"
            return HandlerResult(Result.REFUSED, reason, OutcomeDetail.MOVED)
    return None


def _quoting(verdict: str, pod: Pod) -> str:
    return f"{verdict}: {pod.resize_message}" if pod.resize_message else verdict


def _under_way(plan: ResizePlanned, detail: OutcomeDetail, answer: str) -> UnderWay:
    to = f"{plan.pod.namespace}/{plan.pod.name}"
    return UnderWay(doing="resizing", to=to, answer=answer, after=LOOK_AGAIN, detail=detail)


def memory_refusal(client: ClusterClient, pod: Pod, plan: ResizePlanned) -> HandlerResult | None:
    """The refusal if a memory limit would fall below what its container uses, which would be killed at once; else None."""
    # From Kubernetes 1.34 on the kubelet checks this, too, but only after it has accepted the resize.
    lowered = dict(_lowered(pod, plan))
    used = _used(client, pod) if lowered else {}
    for name, limit in lowered.items():
        memory = used.get(name, Amounts()).memory
        if memory is not None and memory > limit:
            use, lowest = amount_texts("memory", memory, limit)
            reason = f"container '{name}' uses {use} of memory, and its limit would be lowered to {lowest}"
            return HandlerResult(Result.REFUSED, reason, OutcomeDetail.BELOW_USE)
    return None


def _lowered(pod: Pod, plan: ResizePlanned) -> list[tuple[str, Bytes]]:
    """The containers whose memory limit is lowered while they run, and the new limits."""
    lowered = []
    for container in pod.containers:
        after, before = plan.limits.get(container.name, Amounts()).memory, container.limits.memory
        # A container that the resize restarts begins again, with little in use.
        if after is not None and (before is None or after < before) and "memory" not in container.restarts_on:
            lowered.append((container.name, after))
    return lowered


def _used(client: ClusterClient, pod: Pod) -> dict[str, Amounts]:
    try:
        usage = client.pod_usage(pod.pod.namespace, pod.pod.name)
    except (TryAgain, GiveUp) as error:
        _log.warning("use cannot be read, the kubelet looks at it", pod=f"{pod.pod.namespace}/{pod.pod.name}", error=str(error))
        return {}  # use that is not measured holds nothing back
    return {} if usage is None else dict(usage.containers)
