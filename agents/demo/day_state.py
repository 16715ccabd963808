"""What the demo shows, computed from the log alone: facts, decisions and outcomes in; sums, rows and sentences out.

It reads no clock, file or process, so the view can be checked against the log. Repeated decisions, outcomes and OOM kills (same
id) count once.
"""

import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter

from agents.demo import event_narration
from agents.demo.usage_curve import NodeCurve, ReplicaCurve, UsageCurve, UsageTotals
from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleUpPlanned
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import DeliveredRisk, RequestsRecommended, delivered_risks
from schemas.decisions.replica_plans import LoadForecast, ReplicasPlanned
from schemas.facts.nodes import NodeInstanceGone, NodeInstanceSeen
from schemas.facts.pods import PodChanged, PodDeleted, PodPhase
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.names import Amounts, PodName, Workload
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.control import ControlChanged, Mode
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.errors import BadRecord
from streams.log.log_port import Log
from streams.topics import KeySpace, Topics

TOPICS = (
    "control",
    "pod-changes",
    "oom-events",
    "pod-metrics",
    "recommendations",
    "pod-updates",
    "outcomes",
    "node-group-changes",
    "node-updates",
    "load-forecasts",
    "replica-plans",
)
"""The topics that the demo reads, by short name."""

_NOTHING = Amounts()
_LATELY = 32
"""How many recommendations of a workload are kept for the plans that rest on them."""


@dataclass(slots=True)
class WorkloadRow:
    """One line of the table: sums over the workload's live pods."""

    workload: Workload
    pods: int = 0
    usage: UsageTotals = UsageTotals()
    ooms: int = 0
    target: Amounts | None = None
    """What one pod should request, all its containers together; None before the first recommendation."""


@dataclass(slots=True)
class DayState:
    """Everything that the demo knows of the day, from the events applied so far."""

    at: datetime | None = None
    mode: Mode = Mode.SHADOW
    paused: bool = False
    curve: UsageCurve = field(default_factory=UsageCurve)
    nodes: NodeCurve = field(default_factory=NodeCurve)
    replicas: ReplicaCurve = field(default_factory=ReplicaCurve)
    decided: Counter[str] = field(default_factory=Counter)
    done: Counter[Action] = field(default_factory=Counter)
    not_done: Counter[Result] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    ooms: int = 0
    samples: int = 0
    actions: deque[str] = field(default_factory=lambda: deque(maxlen=8))
    """The last kills, actions, pauses and first refusals of a guard as sentences, newest last."""
    explained: dict[Action, str] = field(default_factory=dict)
    """The id of the last decision of each kind that was carried out, for `ullage why`."""
    after_kill: str | None = None
    """The id of the first carried-out decision that gave a pod more memory soon after an OOM kill; None when there was none."""
    _pods: dict[str, PodChanged] = field(default_factory=dict)
    _names: dict[tuple[str, str], PodChanged] = field(default_factory=dict)
    """By workload key and pod name, which is how scrapes name pods."""
    _used: dict[tuple[str, str, str], tuple[float, float]] = field(default_factory=dict)
    _targets: dict[str, RequestsRecommended] = field(default_factory=dict)
    _lately: dict[str, deque[RequestsRecommended]] = field(default_factory=dict)
    """The last recommendations of each workload: a decision rests on the newest one that is older than itself."""
    _container_targets: dict[tuple[str, str], Amounts] = field(default_factory=dict)
    _replica_plans: dict[str, ReplicasPlanned] = field(default_factory=dict)
    _node_plans: dict[str, ScaleUpPlanned | NodeRemovalPlanned] = field(default_factory=dict)
    _planned: dict[str, tuple[event_narration.Planned, RequestsRecommended | None]] = field(default_factory=dict)
    """Plans by id, each with the recommendation it rests on."""
    _ooms: Counter[str] = field(default_factory=Counter)
    _restarts: dict[tuple[str, str], int] = field(default_factory=dict)
    _seen: set[object] = field(default_factory=set)

    def apply(self, event: object) -> None:
        """Take in one event; ignores events that the demo does not show."""
        match event:
            case MetricsScraped():
                self._scrape(event)
            case PodChanged():
                self._pod(event)
            case PodDeleted():
                self._gone(event.pod)
            case ContainerOOMKilled():
                self._oom(event)
            case RequestsRecommended():
                self._recommendation(event)
            case ResizePlanned() | EvictionPlanned() | UpdateRefused():
                self._decision(event)
            case ActionFinished():
                self._outcome(event)
            case ControlChanged():
                self._control(event)
            case _:
                self._node_event(event)

    def _node_event(self, event: object) -> None:
        match event:
            case NodeInstanceSeen():
                self.nodes.seen(event)
            case NodeInstanceGone():
                self.nodes.gone(event)
            case ScaleUpPlanned() | NodeRemovalPlanned():
                self._node_plans[event.id] = event
            case LoadForecast():
                self.replicas.forecast(event)
            case ReplicasPlanned():
                self._replica_plans[event.id] = event
            case _:
                pass

    @property
    def restarts(self) -> int:
        """How often containers were started again, over all pods of the day."""
        return sum(self._restarts.values())

    @property
    def pods(self) -> int:
        """How many pods there are now."""
        return len(self._pods)

    @property
    def recommended(self) -> int:
        """Workloads that have a recommendation."""
        return len(self._targets)

    @property
    def now(self) -> UsageTotals:
        """Requested and used now, over all running pods."""
        now = UsageTotals()
        for row in self.rows():
            now = now.plus(*row.usage)
        return now

    def rows(self) -> list[WorkloadRow]:
        """One row for each workload, in the order of their names."""
        rows: dict[str, WorkloadRow] = {}
        for pod in self._pods.values():
            key = pod.workload.key
            row = rows.setdefault(key, WorkloadRow(pod.workload, ooms=self._ooms[key], target=self._target(key)))
            row.pods += 1
            for container in pod.containers if pod.phase is PodPhase.RUNNING else ():
                cores, memory = self._used.get((key, pod.pod.name, container.name), (0.0, 0.0))
                requests = container.requests
                row.usage = row.usage.plus((requests.cpu or 0.0, cores, 0.0), (requests.memory or 0, memory, 0.0))
        return [rows[key] for key in sorted(rows)]

    def risks(self) -> list[DeliveredRisk]:
        """What `adaptive` promised and delivered for each container that it decides for."""
        return [risk for key in sorted(self._targets) for risk in delivered_risks(self._targets[key].because)]

    def _target(self, key: str) -> Amounts | None:
        recommended = self._targets.get(key)
        return None if recommended is None else event_narration.together(c.target for c in recommended.containers)

    def _recommendation(self, recommended: RequestsRecommended) -> None:
        key = recommended.workload.key
        self._targets[key] = recommended
        self._lately.setdefault(key, deque(maxlen=_LATELY)).append(recommended)
        self._container_targets.update({(key, c.container): c.target for c in recommended.containers})

    def _scrape(self, scrape: MetricsScraped) -> None:
        # partitions are read one after another, so a scrape may be older than what is shown
        if self.at is None or scrape.at > self.at:
            self.at = scrape.at
        totals, by_workload = UsageTotals(), dict[str, tuple[float, int]]()
        for pod, container, cores, memory in _columns(scrape):
            if pod[0] in self.replicas:
                used, pods = by_workload.get(pod[0], (0.0, 0))
                by_workload[pod[0]] = used + cores, pods + 1
            self._used[(*pod, container)] = (cores, memory)
            requests = self._requests(pod, container)
            # until there is a recommendation the request stands for it, else the curve would begin at zero
            target = self._container_targets.get((pod[0], container), requests)
            totals = totals.plus(
                (requests.cpu or 0.0, cores, target.cpu or 0.0), (requests.memory or 0, memory, target.memory or 0)
            )
        self.samples += len(scrape.pods)
        self.curve.add(scrape.at, totals)
        self.replicas.used(scrape.at, by_workload)

    def _requests(self, name: tuple[str, str], container: str) -> Amounts:
        pod = self._names.get(name)
        return next((c.requests for c in pod.containers if c.name == container), _NOTHING) if pod else _NOTHING

    def _pod(self, pod: PodChanged) -> None:
        # by uid, since names return; scrapes, though, know only names
        self._pods[pod.pod.uid] = self._names[pod.workload.key, pod.pod.name] = pod
        for container in pod.containers:
            name = (pod.pod.uid, container.name)
            self._restarts[name] = max(self._restarts.get(name, 0), container.restarts)

    def _gone(self, pod: PodName) -> None:
        changed = self._pods.pop(pod.uid, None)
        # a pod's end may be told twice, and a pod may have come before the log begins
        if changed is None:
            return
        name = (changed.workload.key, pod.name)
        # a StatefulSet's next pod has the name already
        if self._names.get(name) is changed:
            del self._names[name]
        for container in changed.containers:
            self._used.pop((*name, container.name), None)

    def _oom(self, killed: ContainerOOMKilled) -> None:
        # a kill that is told twice has the same count of restarts
        if self._first((killed.pod.uid, killed.container, killed.restarts)):
            self.ooms += 1
            self._ooms[killed.workload.key] += 1
            self.actions.append(event_narration.oom(killed))

    def _decision(self, decision: ResizePlanned | EvictionPlanned | UpdateRefused) -> None:
        if not self._first(decision.id):
            return
        self.decided[type(decision).__name__] += 1
        if isinstance(decision, UpdateRefused):
            self.refusals[decision.guard] += 1
            # only the first: a guard that holds back a whole fleet would fill the screen
            if self.refusals[decision.guard] == 1:
                self.actions.append(event_narration.refused(decision))
        else:
            lately = self._lately.get(decision.workload.key, ())
            # the next recommendation is often read before the plan, which lies in another topic
            rests_on = max((advice for advice in lately if advice.at < decision.at), key=attrgetter("at"), default=None)
            self._planned[decision.id] = decision, rests_on

    def _control(self, control: ControlChanged) -> None:
        # the mode may change without a pause, and then there is nothing to say here
        if control.paused != self.paused:
            self.actions.append(event_narration.paused(control))
        self.mode, self.paused = control.mode, control.paused

    def _outcome(self, outcome: ActionFinished) -> None:
        if not self._first(outcome.id):
            return
        if outcome.result is Result.OFFERED:
            return  # what becomes of it is an outcome of its own
        if outcome.result is not Result.DONE:
            self.not_done[outcome.result] += 1
            return
        replica_plan = self._replica_plans.get(outcome.decision)
        if replica_plan is not None and replica_plan.replicas == replica_plan.current:
            return  # it only says that the replicas stay
        self.done[outcome.action] += 1
        if outcome.action is Action.PATCH:
            self.actions.append(event_narration.admitted(outcome))
        node_plan = self._node_plans.get(outcome.decision)
        if node_plan is not None:
            self.actions.append(event_narration.nodes_changed(outcome, node_plan))
        if replica_plan is not None:
            self.actions.append(event_narration.scaled(outcome, replica_plan))
        decision, recommended = self._planned.get(outcome.decision, (None, None))
        if decision is not None:
            self.explained[outcome.action] = decision.id
            if self.after_kill is None and event_narration.after_kill(decision, recommended):
                self.after_kill = decision.id
            self.actions.append(event_narration.done(outcome, decision, recommended))

    def _first(self, name: object) -> bool:
        if name in self._seen:
            return False
        self._seen.add(name)
        return True


def _columns(scrape: MetricsScraped) -> Iterable[tuple[tuple[str, str], str, float, float]]:
    """Pod, container, cores and bytes of each row. What was not measured counts as zero, because only sums are shown."""
    names = zip(scrape.workloads, scrape.pods, strict=True)
    for pod, container, cores, memory in zip(names, scrape.containers, scrape.cores, scrape.memory, strict=True):
        yield pod, container, 0.0 if math.isnan(cores) else float(cores), 0.0 if math.isnan(memory) else float(memory)


class LogWatcher:
    """Follows the log into `state`. `skipped` counts records that could not be read."""

    def __init__(self, log: Log, topics: Topics, names: Sequence[str] = TOPICS) -> None:
        self.state, self.skipped = DayState(), 0
        self._log, self._codec = log, Codec(topics)
        self._positions: dict[tuple[str, int], int] = {}
        for name in names:
            wire = topics.wire(name)
            # all partitions of a broadcast topic hold the same
            count = 1 if topics.topic(wire).keyed is KeySpace.BROADCAST else topics.partitions
            self._positions |= {(wire, p): log.begin(wire, p) for p in range(count)}

    def poll_once(self) -> int:
        """Apply the next records; returns how many there were."""
        records = self._log.poll(self._positions)
        for record in records:
            self._positions[record.topic, record.partition] = record.offset + 1
            if not is_of_a_clock(record):
                try:
                    self.state.apply(self._codec.decode(record))
                except BadRecord:
                    self.skipped += 1
        return len(records)

    def catch_up(self) -> DayState:
        """Read to the end of the log."""
        while self.poll_once():
            pass
        return self.state
