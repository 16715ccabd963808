"""What a report shows of a stretch of the log: the fleet, what was saved and at what risk, and the workloads that matter most.

Usage is only read for the workloads that are shown, and thinned out to the highest value in each of `POINTS` intervals, so that
peaks are kept and the page stays small.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from agents.commands.recommend import recommendation_table, request_totals
from agents.commands.recommend.recommendation_table import RecommendedContainer
from agents.commands.report.report_history import ReportHistory, act_name
from agents.commands.report.time_chart import ChartMark
from schemas.catalogue import Event
from schemas.decisions.node_updates import NodeRemovalPlanned
from schemas.decisions.pod_updates import UpdateRefused
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.nodes import NodeChanged, NodeDetailsChanged, NodeDetailsRemoved, NodeRemoved
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted
from schemas.facts.sources import SourceReported
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.outcomes import Action, ActionFinished, Result
from schemas.units import Seconds
from streams.log_context import LogContext
from streams.log_range import has_topic, read_range

POINTS = 400
MOST_ROWS = 50
"""Containers that the page shows, those that save most; their workloads have pages."""
TOPICS = (
    "cluster-changes",
    "scheduling-changes",
    "pod-changes",
    "oom-events",
    "pod-updates",
    "node-updates",
    "outcomes",
    "recommendations",
    "load-forecasts",
    "replica-plans",
    "pod-metrics",
)
_STANDING = ("cluster-changes", "scheduling-changes", "pod-changes", "node-updates", "recommendations", "outcomes")
"""Topics whose records hold until a newer one replaces them, so that a stretch begins with what came before it."""
_WHOLE = {"pod-changes", "cluster-changes"}
"""What a source must see for a picture of a cluster to be complete."""
_REACH = timedelta(hours=8)
"""How far before a stretch that is looked for: twice the time after which each is stated again, and more."""

Amount = tuple[float, float]
"""Cores and bytes."""


@dataclass(slots=True)
class ValueLine:
    """One value over time: moments, cores and bytes; NaN stands for nothing."""

    at: list[datetime] = field(default_factory=list)
    cpu: list[float | None] = field(default_factory=list)
    memory: list[float | None] = field(default_factory=list)

    def add(self, at: datetime, cpu: float | None, memory: float | None) -> None:
        """Add the value from a moment on. Equal values in a row are kept once."""
        if not self.at or (self.cpu[-1], self.memory[-1]) != (cpu, memory):
            self.at.append(at)
            self.cpu.append(cpu)
            self.memory.append(memory)


@dataclass(slots=True)
class ContainerChart:
    """One container of a workload: its highest use over all pods, and the requests, limits and recommendation of one pod."""

    workload: str
    container: str
    used: dict[int, tuple[datetime, float, float]] = field(default_factory=dict)
    """By number of the stretch: its end, and the highest use."""
    requests: ValueLine = field(default_factory=ValueLine)
    limits: ValueLine = field(default_factory=ValueLine)
    target: ValueLine = field(default_factory=ValueLine)
    marks: list[ChartMark] = field(default_factory=list)
    """Kills and actions."""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node at the end of the stretch: what it can give, and its pods with what they request."""

    name: str
    size: Amount
    pods: int
    requested: Amount


@dataclass(slots=True)
class ReportData:
    """Everything on the page. `requested` is the sum of running pods' requests when the stretch began and when it ended."""

    cluster: str
    since: datetime
    until: datetime
    rows: Sequence[RecommendedContainer] = ()
    charts: dict[tuple[str, str], ContainerChart] = field(default_factory=dict)
    history: ReportHistory = field(default_factory=lambda: ReportHistory(frozenset()))
    requested: tuple[Amount, Amount] = ((0.0, 0.0), (0.0, 0.0))
    pods: int = 0
    nodes: int = 0
    node_rows: Sequence[NodeRow] = ()
    node_size: Amount = (0.0, 0.0)
    removable: int = 0
    removed: int = 0
    fewer: int = 0
    """Nodes less at the end than at the beginning, at most as many as were removed: others may have come for them."""
    kills: int = 0
    kills_after_change: int = 0
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


def collect(context: LogContext, since: datetime, until: datetime, *, top: int, heartbeat: Seconds) -> ReportData:
    """Read the stretch. Raises LogUnavailable."""
    rows = request_totals.marked(
        recommendation_table.read(context, until, (), heartbeat=heartbeat), request_totals.policies_in_force(context)
    )
    history = ReportHistory(frozenset(row.workload_key for row in rows[:MOST_ROWS]))
    data = ReportData(context.cluster, since, until, rows, history=history)
    for row in rows[:top]:
        data.charts[row.workload_key, row.container] = ContainerChart(row.workload_key, row.container)
    shown = {workload for workload, _ in data.charts}
    reading = _Reading(data, shown)
    for event in _events(context, _STANDING, shown, since - _REACH, since):
        reading.stood(event)
    reading.begin()
    for event in _events(context, TOPICS, shown, since, until):
        reading.take(event)
    reading.settle()
    return data


def _events(context: LogContext, topics: Sequence[str], shown: set[str], since: datetime, until: datetime) -> Iterator[Event]:
    """The events of these topics in order of time, each once; recommendations of the workloads that are shown alone."""
    wires = [wire for name in topics if has_topic(context.log, wire := context.topics.wire(name))]
    broadcast, recommendations = context.topics.wire("cluster-changes"), context.topics.wire("recommendations")
    keys = {workload.encode() for workload in shown}
    idents: set[bytes] = set()
    for record in read_range(context.log, wires, since=since, until=until, merged=True):
        ident = next((value for name, value in record.headers if name == "ce_id"), b"")
        unwanted = record.partition if record.topic == broadcast else record.topic == recommendations and record.key not in keys
        if unwanted or ident in idents:
            continue
        event = context.codec.decode_or_none(record)
        if event is not None:
            if not isinstance(event, MetricsScraped):  # many, and the highest of equal values is the same
                idents.add(ident)
            yield event


class _Reading:
    """The figures of the stretch while its events are read."""

    def __init__(self, data: ReportData, shown: set[str]) -> None:
        self._data, self._shown = data, shown
        self._pods: dict[str, tuple[str | None, Amount]] = {}
        """Of each pod by uid, its node and requests."""
        self._containers: dict[tuple[str, str], ContainerSeen] = {}
        """What each container was last seen with before the stretch, by workload and name."""
        self._targets: dict[str, RequestsRecommended] = {}
        """What was recommended last before the stretch, by workload."""
        self._begun: Amount | None = None
        self._begun_at: datetime | None = None
        self._nodes_begun: int | None = None
        self._complete = False
        """Whether a source has said that it sees the pods and nodes that there are, and the picture was taken after that."""
        self._sees: set[str] = set()
        self._nodes: dict[str, Amount] = {}
        self._removable: set[str] = set()
        self._given: set[str] = set()
        """Uids of pods whose amounts are ours: by a resize, or by their admission."""
        self._evicted: dict[str, datetime] = {}
        """When we first evicted a pod of a workload."""
        self._created: dict[str, datetime] = {}
        """When each pod began, by uid."""
        self._step = max((data.until - data.since).total_seconds() / POINTS, 1.0)

    def stood(self, event: Event) -> None:
        """The next event from before the stretch, in order of time."""
        match event:
            case PodChanged():
                self._pods[event.pod.uid] = (event.node, _requested(event))
                self._created[event.pod.uid] = event.created
                self._admitted(event)
                self._containers.update(((event.workload.key, container.name), container) for container in event.containers)
            case PodDeleted():
                self._forget(event)
            case RequestsRecommended():
                self._targets[event.workload.key] = event
            case SourceReported():
                self._sees |= set(event.sees)
            case ActionFinished():
                self._changed(event)
            case _:
                self._about_nodes(event)

    def begin(self) -> None:
        """Everything from before the stretch has been read."""
        # what was removed before the stretch is not of it
        self._data.removed = 0
        self._count_nodes(self._data.since)
        for (workload, _), container in self._containers.items():
            self._draw(workload, container, self._data.since)
        for target in self._targets.values():
            self._recommended(target, self._data.since)

    def take(self, event: Event) -> None:
        """The next event, in order of time."""
        self._data.history.take(event)
        match event:
            case SourceReported():
                self._sees |= set(event.sees)
            case MetricsScraped():
                self._begin(event.at)
                self._scrape(event)
                self._count_nodes(event.at)
            case PodChanged():
                self._pod(event)
            case PodDeleted():
                self._forget(event)
            case ContainerOOMKilled():
                self._kill(event)
            case ActionFinished():
                self._finished(event)
            case UpdateRefused():
                self._data.refused[event.guard] += event.pods
            case RequestsRecommended():
                self._recommended(event, event.at)
            case _:
                self._about_nodes(event)

    def _count_nodes(self, at: datetime) -> None:
        if self._nodes:  # called with each scrape only: nodes that a source has just begun to list did not come one by one
            self._data.history.count_nodes(at, len(self._nodes))

    def _about_nodes(self, event: Event) -> None:
        """A source publishes nodes in short form, in detail, or both."""
        match event:
            case NodeRemovalPlanned():
                self._removable.add(event.node)
            case NodeChanged():
                self._nodes[event.node] = (event.allocatable.cpu or 0.0, event.allocatable.memory or 0)
            case NodeDetailsChanged(allocatable=size):
                # a node that is listed late was there at the beginning if it was created before
                if self._nodes_begun is not None and event.node not in self._nodes and self._was_there(event.created):
                    self._nodes_begun += 1
                self._nodes[event.node] = (size.get("cpu", 0) / 1000.0, float(size.get("memory", 0)))
            case NodeRemoved() | NodeDetailsRemoved():
                self._nodes.pop(event.node, None)
                # others remove nodes, too, so only those that we planned count, and a node that is gone twice counts once
                self._data.removed += event.node in self._removable
                self._removable.discard(event.node)
            case _:
                pass

    def _begin(self, at: datetime) -> None:
        """The first complete picture is what there was when the stretch began."""
        complete = self._sees >= _WHOLE
        # with the first usage a source may still be publishing pods and nodes, so it is taken again once the source sees all
        if self._pods and (self._begun is None or complete > self._complete):
            self._begun, self._begun_at, self._nodes_begun, self._complete = self._sum(), at, len(self._nodes), complete

    def _was_there(self, created: datetime) -> bool:
        """Whether something that is seen for the first time was there when the stretch began."""
        return self._begun_at is not None and created <= self._begun_at

    def _sum(self) -> Amount:
        amounts = [amount for _, amount in self._pods.values()]
        return sum(cpu for cpu, _ in amounts), sum(memory for _, memory in amounts)

    def _scrape(self, event: MetricsScraped) -> None:
        self._data.history.use(event.at, event.workloads, event.cores)
        number = int((event.at - self._data.since).total_seconds() // self._step)
        for i, (workload, container) in enumerate(zip(event.workloads, event.containers, strict=True)):
            chart = self._data.charts.get((workload, container)) if workload in self._shown else None
            if chart is not None:
                _, cpu, memory = chart.used.get(number, (event.at, 0.0, 0.0))
                chart.used[number] = (event.at, max(cpu, float(event.cores[i])), max(memory, float(event.memory[i])))

    def _pod(self, event: PodChanged) -> None:
        if self._begun is not None and event.pod.uid not in self._created and self._was_there(event.created):
            cpu, memory = _requested(event)
            self._begun = (self._begun[0] + cpu, self._begun[1] + memory)
        self._pods[event.pod.uid] = (event.node, _requested(event))
        self._created[event.pod.uid] = event.created
        self._admitted(event)
        for container in event.containers:
            self._draw(event.workload.key, container, event.at)

    def _admitted(self, event: PodChanged) -> None:
        # the note shows that the amounts are ours also where the outcome is older than what is read
        if event.admitted is not None:
            self._given.add(event.pod.uid)

    def _draw(self, workload: str, container: ContainerSeen, at: datetime) -> None:
        chart = self._data.charts.get((workload, container.name))
        if chart is not None:
            chart.requests.add(at, container.requests.cpu, container.requests.memory)
            chart.limits.add(at, container.limits.cpu, container.limits.memory)

    def _forget(self, event: PodDeleted) -> None:
        self._pods.pop(event.pod.uid, None)
        self._created.pop(event.pod.uid, None)

    def _recommended(self, event: RequestsRecommended, at: datetime) -> None:
        for container in event.containers:
            chart = self._data.charts.get((event.workload.key, container.container))
            if chart is not None:
                chart.target.add(at, container.target.cpu, container.target.memory)

    def _kill(self, event: ContainerOOMKilled) -> None:
        self._data.kills += 1
        self._data.kills_after_change += self._is_ours(event.workload.key, event.pod.uid)
        mark = ChartMark(event.at, "OOM kill", event.pod.name, event.pod.uid)
        self._mark(event.workload.key, event.container, mark)

    def _finished(self, event: ActionFinished) -> None:
        self._data.done[f"{event.action.value} {event.result.value}"] += 1
        if self._changed(event):
            mark = ChartMark(event.at, act_name(event.action), f"{event.subject.name}: {event.reason}", event.decision)
            self._mark(event.subject.workload, "", mark)

    def _changed(self, event: ActionFinished) -> bool:
        """Whether we changed a pod; the answer is cached."""
        if event.result is not Result.DONE or event.action not in {Action.RESIZE, Action.EVICT, Action.PATCH}:
            return False
        if event.action in {Action.RESIZE, Action.PATCH}:
            self._given.add(event.subject.uid)
        else:
            # Kubernetes dates pods by whole seconds
            self._evicted.setdefault(event.subject.workload, event.at.replace(microsecond=0))
        return True

    def _is_ours(self, workload: str, uid: str) -> bool:
        """Whether we did not leave this pod alone: its amounts are ours, or it began after our first eviction in its workload."""
        evicted, created = self._evicted.get(workload), self._created.get(uid)
        return uid in self._given or (evicted is not None and created is not None and created >= evicted)

    def _mark(self, workload: str, container: str, mark: ChartMark) -> None:
        """Mark the container's chart, or all charts of the workload if no container is named."""
        for (key, name), chart in self._data.charts.items():
            if key == workload and container in {"", name}:
                chart.marks.append(mark)

    def settle(self) -> None:
        """Everything has been read."""
        data, end = self._data, self._sum()
        data.requested = (self._begun or end, end)
        data.pods, data.nodes = len(self._pods), len(self._nodes)
        data.removable = len(self._removable & self._nodes.keys())
        data.fewer = min(data.removed, max(0, (self._nodes_begun or 0) - len(self._nodes)))
        data.node_rows = [self._node(name) for name in sorted(self._nodes)]
        sizes = list(self._nodes.values())
        if sizes:
            data.node_size = (sum(cpu for cpu, _ in sizes) / len(sizes), sum(memory for _, memory in sizes) / len(sizes))

    def _node(self, name: str) -> NodeRow:
        on_it = [amount for node, amount in self._pods.values() if node == name]
        return NodeRow(name, self._nodes[name], len(on_it), (sum(cpu for cpu, _ in on_it), sum(memory for _, memory in on_it)))


def _requested(pod: PodChanged) -> Amount:
    requests = [container.requests for container in pod.containers]
    return sum(request.cpu or 0.0 for request in requests), float(sum(request.memory or 0 for request in requests))
