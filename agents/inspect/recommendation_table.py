"""What every container requests and should request, from the log alone: one row for each container, the largest saving first.

A recommendation is stated again each hour and a pod every three, so the last hours of the log hold all of them, however long
the log is; the newest stretch is read first, and no more than is needed. Nothing is decoded but the newest record of each
workload. To sort by one number, a core counts as much as `CORE_IN_BYTES` of memory, about what clouds ask for either.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import PodChanged
from schemas.names import Amounts
from schemas.units import Bytes, Cores, Seconds
from streams.codec.event_codec import header
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.log_range import has_topic, read_range

CORE_IN_BYTES = 8 << 30
_POD_REACH = (timedelta(minutes=10), timedelta(hours=1), timedelta(hours=4), timedelta(hours=8))
"""Stretches before the newest tick, read one after the other until every workload's pods are known."""
_LATELY = timedelta(days=1)
_SAME = 0.01
"""Amounts that differ by less than this share are the same for a reader."""


@dataclass(frozen=True, slots=True)
class RecommendedContainer:
    """One row. `saved` is for all pods together, negative where more is recommended; not set where nothing is known."""

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

    @property
    def worth(self) -> float:
        """What the row saves, in cores."""
        return (self.saved.cpu or 0.0) + (self.saved.memory or 0) / CORE_IN_BYTES


def read(context: LogContext, now: datetime, namespaces: Iterable[str], *, heartbeat: Seconds) -> list[RecommendedContainer]:
    """The rows of the context's cluster, of the namespaces that match one of these patterns; none means all."""
    patterns = tuple(namespaces)

    def wanted(key: str) -> bool:
        cluster, namespace, *_ = key.split("/", 2)
        return cluster == context.cluster and (not patterns or any(fnmatchcase(namespace, each) for each in patterns))

    decisions = list(_recommendations(context, now - 2 * timedelta(seconds=heartbeat), wanted))
    pods = _newest_pods(context, now, {decision.workload.key for decision in decisions})
    return rows_of(decisions, pods, now)


def rows_of(
    decisions: Iterable[RequestsRecommended], pods: Mapping[str, PodChanged], now: datetime
) -> list[RecommendedContainer]:
    """The rows of some recommendations; `pods` has the newest pod of each workload by its key."""
    rows = [row for decision in decisions for row in _rows(decision, pods.get(decision.workload.key), now)]
    return sorted(rows, key=lambda row: (-row.worth, row.namespace, row.workload, row.container))


def _recommendations(context: LogContext, since: datetime, wanted: Callable[[str], bool]) -> Iterator[RequestsRecommended]:
    """The newest of each workload: the highest turn, as a worker may have repeated an older one."""
    newest: dict[str, tuple[int, Record]] = {}
    for record in _read(context, "recommendations", since, None):
        ident = (header(record, "ce_id") or "").split("/", 4)
        key = (record.key or b"").decode(errors="replace")
        if len(ident) == 5 and ident[2].isdecimal() and key.count("/") == 3 and wanted(key):  # noqa: PLR2004  # an id's and a key's parts
            turn = int(ident[2])
            if key not in newest or turn > newest[key][0]:
                newest[key] = turn, record
    for _, record in newest.values():
        event = context.codec.decode_or_none(record)
        if isinstance(event, RequestsRecommended):
            yield event


def _newest_pods(context: LogContext, now: datetime, workloads: set[str]) -> Mapping[str, PodChanged]:
    """The newest pod of each workload."""
    found: dict[str, PodChanged] = {}
    until: datetime | None = None
    for reach in _POD_REACH:
        newest: dict[str, Record] = {}
        for record in _read(context, "pod-changes", now - reach, until):
            key = (record.key or b"").decode(errors="replace")
            if key in workloads and key not in found and "pod-changed" in (header(record, "ce_type") or ""):
                newest[key] = record
        for key, record in newest.items():
            event = context.codec.decode_or_none(record)
            if isinstance(event, PodChanged):
                found[key] = event
        until = now - reach
        if len(found) == len(workloads):
            break
    return found


def _read(context: LogContext, name: str, since: datetime, until: datetime | None) -> Iterator[Record]:
    wire = context.topics.wire(name)
    if has_topic(context.log, wire):
        yield from read_range(context.log, [wire], since=since, until=until)


def _rows(decision: RequestsRecommended, pod: PodChanged | None, now: datetime) -> Iterator[RecommendedContainer]:
    requested = {} if pod is None else {container.name: container.requests for container in pod.containers}
    limits = {} if pod is None else {container.name: container.limits for container in pod.containers}
    killed = decision.last_oom
    for each in decision.containers:
        requests, pods = requested.get(each.container), 1 if decision.pods is None else decision.pods
        oom = killed is not None and killed.container == each.container and now - killed.at < _LATELY
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
        )


def _saved(requests: Amounts | None, target: Amounts, pods: int) -> Amounts:
    if requests is None:
        return Amounts()
    cpu = None if requests.cpu is None or target.cpu is None else Cores((requests.cpu - target.cpu) * pods)
    memory = None if requests.memory is None or target.memory is None else Bytes((requests.memory - target.memory) * pods)
    return Amounts(cpu, memory)


def _judged(requests: Amounts | None, to: ContainerRecommendation, *, oom: bool) -> tuple[str, str]:
    """How much harm staying as it is may do (high, medium, low), and why the target is another, in at most three words."""
    now = requests or Amounts()
    cpu, memory = _over(now.cpu, to.target.cpu), _over(now.memory, to.target.memory)
    rules = (
        (oom, "high", "OOM killed lately"),
        (requests is None, "unknown", "no pod seen"),
        (now.cpu is None or now.memory is None, "medium", "no requests set"),
        (_below(now.memory, to.lower.memory), "high", "too little memory"),
        (_below(now.cpu, to.lower.cpu), "medium", "too little CPU"),
        (cpu and memory, "low", "uses less"),
        (cpu, "low", "uses less CPU"),
        (memory, "low", "uses less memory"),
    )
    return next(((risk, why) for holds, risk, why in rules if holds), ("low", "fits"))


def _below(now: float | None, least: float | None) -> bool:
    return now is not None and least is not None and now < least


def _over(now: float | None, target: float | None) -> bool:
    return now is not None and target is not None and now > target * (1 + _SAME)
