"""What every container requests and should request, from the log alone: one row for each container, the largest saving first.

A recommendation is published again each hour and a pod every three, so the last hours of the log have all of them, however long
the log is; the newest stretch is read first, and no more than is needed. Only the newest record of each workload is decoded. To
sort by one number, a core counts as much as `CORE_IN_BYTES` of memory, about their ratio in clouds' prices.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from agents.inspect import namespace_patterns
from schemas.names import Amounts
from schemas.units import Bytes, Cores, Seconds
from streams import reverse_log_reader
from streams.codec.container_requests_reader import (
    ContainerRequestsReader,
    RecommendedAmounts,
    RecommendedRequests,
    RequestedAmounts,
)
from streams.codec.event_codec import header
from streams.log.log_port import Record
from streams.log_context import LogContext

CORE_IN_BYTES = 8 << 30
_POD_REACH = timedelta(hours=8)
"""How far before the newest tick pods are looked for: twice the time after which each is stated again, and more."""
_LATELY = timedelta(days=1)
_SAME = 0.01
"""Amounts that differ by less than this share are the same for a reader."""
_SHORT = 0.1
"""A request that is this share below its target, or more, is called short of it although it lies within the bounds."""


@dataclass(frozen=True, slots=True)
class RecommendedContainer:
    """One row. `saved` is for all pods together, negative where more is recommended; not set if unknown."""

    namespace: str
    kind: str
    workload: str
    container: str
    pods: int
    requests: Amounts | None
    target: Amounts
    lower: Amounts
    upper: Amounts
    saved: Amounts
    risk: str
    why: str
    cluster: str = ""
    limits: Amounts = Amounts()
    """What limits are now; None where there is none."""
    other_recommender: str = ""
    """The recommender that the workload's VPA names where that is not ours: nobody acts on the row then."""

    @property
    def remark(self) -> str:
        """Why the target is another, and who else recommends for the workload."""
        return f"{self.why}; VPA of '{self.other_recommender}'" if self.other_recommender else self.why

    @property
    def worth(self) -> float:
        """What the row saves, in cores."""
        return (self.saved.cpu or 0.0) + (self.saved.memory or 0) / CORE_IN_BYTES


def read(context: LogContext, now: datetime, namespaces: Iterable[str], *, heartbeat: Seconds) -> list[RecommendedContainer]:
    """The rows of the context's cluster, of the namespaces that match one of these patterns; none means all."""
    patterns = tuple(namespaces)

    def wanted(key: str) -> bool:
        cluster, namespace, *_ = key.split("/", 2)
        return cluster == context.cluster and namespace_patterns.takes(patterns, namespace)

    reader = ContainerRequestsReader(context.codec)
    decisions = list(_recommendations(context, reader, now - reach(heartbeat)["recommendations"], wanted))
    pods = _newest_pods(context, reader, now, {decision.workload.key for decision in decisions})
    return rows_of(decisions, pods, now)


def reach(heartbeat: Seconds) -> Mapping[str, timedelta]:
    """How far before the newest tick `read` looks into each topic."""
    return {"recommendations": 2 * timedelta(seconds=heartbeat), "pod-changes": _POD_REACH}


def rows_of(
    decisions: Iterable[RecommendedRequests], pods: Mapping[str, Sequence[RequestedAmounts]], now: datetime
) -> list[RecommendedContainer]:
    """The rows of some recommendations; `pods` has the containers of the newest pod of each workload by its key."""
    rows = [row for decision in decisions for row in _rows(decision, pods.get(decision.workload.key), now)]
    return sorted(rows, key=lambda row: (-row.worth, row.namespace, row.workload, row.container))


def _recommendations(
    context: LogContext, reader: ContainerRequestsReader, since: datetime, wanted: Callable[[str], bool]
) -> Iterator[RecommendedRequests]:
    """The newest of each workload: the highest turn, as a worker may have repeated an older one."""
    newest: dict[str, tuple[int, Record]] = {}
    stretches = reverse_log_reader.since(context.log, context.topics.wire("recommendations"), since)
    for record in chain.from_iterable(stretches):
        ident = (header(record, "ce_id") or "").split("/", 4)
        key = (record.key or b"").decode(errors="replace")
        if len(ident) == 5 and ident[2].isdecimal() and key.count("/") == 3 and wanted(key):  # noqa: PLR2004  # an id's and a key's parts
            turn = int(ident[2])
            if key not in newest or turn > newest[key][0]:
                newest[key] = turn, record
    for _, record in newest.values():
        recommended = reader.recommendation(record)
        if recommended is not None:
            yield recommended


def _newest_pods(
    context: LogContext, reader: ContainerRequestsReader, now: datetime, workloads: set[str]
) -> Mapping[str, Sequence[RequestedAmounts]]:
    """The containers of the newest pod of each workload."""
    found: dict[str, Sequence[RequestedAmounts]] = {}
    for stretch in reverse_log_reader.since(context.log, context.topics.wire("pod-changes"), now - _POD_REACH):
        newest: dict[str, Record] = {}
        for record in stretch:
            key = (record.key or b"").decode(errors="replace")
            if key in workloads and key not in found and "pod-changed" in (header(record, "ce_type") or ""):
                newest[key] = record
        for key, record in newest.items():
            containers = reader.pod(record)
            if containers is not None:
                found[key] = containers
        if len(found) == len(workloads):
            break
    return found


def _rows(decision: RecommendedRequests, pod: Sequence[RequestedAmounts] | None, now: datetime) -> Iterator[RecommendedContainer]:
    requested = {container.name: container.requests for container in pod or ()}
    limits = {container.name: container.limits for container in pod or ()}
    for each in decision.containers:
        requests, pods = requested.get(each.container), 1 if decision.pods is None else decision.pods
        oom = decision.oom_at is not None and decision.oom_container == each.container and now - decision.oom_at < _LATELY
        risk, why = _judged(requests, each, oom=oom)
        yield RecommendedContainer(
            decision.workload.namespace,
            decision.workload.kind,
            decision.workload.name,
            each.container,
            pods,
            requests,
            each.target,
            each.lower,
            each.upper,
            _saved(requests, each.target, pods),
            risk,
            why,
            decision.workload.cluster,
            limits.get(each.container, Amounts()),
            decision.other_recommender,
        )


def _saved(requests: Amounts | None, target: Amounts, pods: int) -> Amounts:
    if requests is None:
        return Amounts()
    cpu = None if requests.cpu is None or target.cpu is None else Cores((requests.cpu - target.cpu) * pods)
    memory = None if requests.memory is None or target.memory is None else Bytes((requests.memory - target.memory) * pods)
    return Amounts(cpu, memory)


def _judged(requests: Amounts | None, to: RecommendedAmounts, *, oom: bool) -> tuple[str, str]:
    """How much harm staying as it is may do (high, medium, low), and why the target is another, in at most three words."""
    now = requests or Amounts()
    cpu, memory = _over(now.cpu, to.target.cpu), _over(now.memory, to.target.memory)
    rules = (
        (oom, "high", "OOM killed lately"),
        (requests is None, "unknown", "no pod seen"),
        (now.cpu is None or now.memory is None, "medium", "no requests set"),
        (_below(now.memory, to.lower.memory), "high", "too little memory"),
        (_below(now.cpu, to.lower.cpu), "medium", "too little CPU"),
        (_short(now.memory, to.target.memory), "low", "needs more memory"),
        (_short(now.cpu, to.target.cpu), "low", "needs more CPU"),
        (cpu and memory, "low", "uses less"),
        (cpu, "low", "uses less CPU"),
        (memory, "low", "uses less memory"),
    )
    return next(((risk, why) for holds, risk, why in rules if holds), ("low", "fits"))


def _below(now: float | None, least: float | None) -> bool:
    return now is not None and least is not None and now < least


def _short(now: float | None, target: float | None) -> bool:
    return now is not None and target is not None and target >= now * (1 + _SHORT)


def _over(now: float | None, target: float | None) -> bool:
    return now is not None and target is not None and now > target * (1 + _SAME)
