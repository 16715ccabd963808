"""What a report says of workloads and nodes over time: acts and kills to ask about, replicas, forecasts, node counts."""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from schemas.catalogue import Event
from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleUpPlanned
from schemas.decisions.replica_plans import LoadForecast, ReplicasPlanned
from schemas.facts.usage import ContainerOOMKilled
from schemas.outcomes import Action, ActionFinished, Result
from schemas.units import counted

MOST_ACTS = 40
"""Of a workload, and of all nodes together: the newest."""
_CPU = "resource.cpu"


def act_name(action: Action) -> str:
    """What an act is called on the page."""
    return "admission" if action is Action.PATCH else action.value


@dataclass(frozen=True, slots=True)
class ReportedAct:
    """A kill, a plan or an outcome: `asked` is what `ullage why` is asked about it."""

    at: datetime
    what: str
    about: str
    says: str
    asked: str


@dataclass(slots=True)
class ScaledWorkload:
    """A workload whose replicas are planned: pods that it asked for, replicas planned for it, cores used, and cores forecast."""

    pods: list[tuple[datetime, float | None]] = field(default_factory=list)
    planned: list[tuple[datetime, float | None]] = field(default_factory=list)
    used: dict[datetime, float] = field(default_factory=dict)
    expected: dict[datetime, float] = field(default_factory=dict)
    """By the moment that was forecast; what was forecast for it last, before it came."""


@dataclass(slots=True)
class ReportHistory:
    """Read in order of time. Only workloads of which `shown` has the key are kept; nodes always are."""

    shown: frozenset[str]
    acts: Mapping[str, deque[ReportedAct]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=MOST_ACTS)))
    """By workload's key; of nodes and their groups, by the empty one. The newest come last."""
    scaled: dict[str, ScaledWorkload] = field(default_factory=dict)
    nodes: list[tuple[datetime, float | None]] = field(default_factory=list)

    def take(self, event: Event) -> None:
        """The next event."""
        match event:
            case ActionFinished(subject=subject) if event.result is not Result.OFFERED:  # what came of it follows
                act = ReportedAct(
                    event.at,
                    f"{act_name(event.action)} {event.result.value}",
                    f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name,
                    event.reason,
                    event.decision,
                )
                self._add(subject.workload, act, of_nodes=not subject.namespace)
            case ContainerOOMKilled():
                says = f"container {event.container} ran out of memory"
                act = ReportedAct(event.at, "OOM kill", f"{event.pod.namespace}/{event.pod.name}", says, event.pod.uid)
                self._add(event.workload.key, act)
            case ReplicasPlanned():
                self._replicas(event)
            case LoadForecast():
                self._forecast(event)
            case ScaleUpPlanned():
                says = f"{event.before} to {counted(event.after, 'node')} for {counted(event.pods, 'pod')}, by {event.expander}"
                self._add("", ReportedAct(event.at, "growth planned", event.group, says, event.id), of_nodes=True)
            case NodeRemovalPlanned():
                act = ReportedAct(event.at, "removal planned", event.node, event.reason.value, event.id)
                self._add("", act, of_nodes=True)
            case _:
                pass

    def count_nodes(self, at: datetime, number: int) -> None:
        """So many nodes there were from a moment on."""
        if not self.nodes or self.nodes[-1][1] != number:
            self.nodes.append((at, number))

    def use(self, at: datetime, workloads: Sequence[str], cores: Sequence[float]) -> None:
        """One scrape: a value for each container."""
        for key, amount in zip(workloads, cores, strict=True):
            if key in self.scaled:
                used = self.scaled[key].used
                used[at] = used.get(at, 0.0) + float(amount)

    def _add(self, workload: str, act: ReportedAct, *, of_nodes: bool = False) -> None:
        if workload in self.shown or of_nodes:
            self.acts[workload].append(act)

    def _replicas(self, event: ReplicasPlanned) -> None:
        key = event.workload.key
        if key not in self.shown:
            return
        scaled = self.scaled.setdefault(key, ScaledWorkload())
        before = scaled.planned[-1][1] if scaled.planned else None
        scaled.pods.append((event.at, event.current))
        scaled.planned.append((event.at, event.replicas))
        # a plan is stated again and again; only another number is an act
        if before != event.replicas:
            says = f"{event.current} to {counted(event.replicas, 'replica')}"
            about = f"{event.workload.namespace}/{event.workload.name}"
            self._add(key, ReportedAct(event.at, "replicas planned", about, says, event.id))

    def _forecast(self, event: LoadForecast) -> None:
        if event.workload.key not in self.shown:
            return
        expected = self.scaled.setdefault(event.workload.key, ScaledWorkload()).expected
        for metric in event.metrics:
            if metric.identifier != _CPU:
                continue
            step = timedelta(seconds=metric.step)
            for number, value in enumerate(metric.expected or metric.values):
                at = metric.start + number * step
                if at >= event.at:
                    # what was forecast last before the moment came overwrites older forecasts of it
                    expected[at.replace(second=0, microsecond=0)] = value
