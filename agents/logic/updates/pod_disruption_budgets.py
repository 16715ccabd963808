"""PodDisruptionBudgets for planning: which pods each selects, and whether one more pod of a workload may be evicted.

The API server decides in the end, by each pod's own labels. With what is known here, a plan that would be refused is not made,
and the refusal names the budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.engine.tables.chunked_state import StatePart
from agents.engine.tables.object_table import ObjectTable
from schemas.catalogue import Event
from schemas.facts.scheduled_pods import LabelDemand, LabelQuery
from schemas.facts.update_facts import PodDisruptionBudgetChanged, PodDisruptionBudgetRemoved
from schemas.units import counted_are

_OF_ONE_POD = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "controller-revision-hash",
        "pod-template-generation",
        "pod-template-hash",
        "statefulset.kubernetes.io/pod-name",
        "batch.kubernetes.io/job-completion-index",
    }
)
"""Labels in which the pods of a workload differ."""
MOST = 100
"""Budgets of one namespace that planning looks at; of a namespace with more the API server alone decides."""


@dataclass(frozen=True, slots=True)
class BudgetRecord:
    """A budget as its newest fact has it. `key`: cluster/namespace/name."""

    key: str
    selector: LabelQuery | None
    allowed: int
    healthy: int
    desired: int
    expected: int
    unready_go: bool = False

    @property
    def name(self) -> str:
        """Its name within its namespace."""
        return self.key.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class WorkloadLabels:
    """The labels that the pods of a workload share."""

    labels: Mapping[str, str] = field(default_factory=dict)


class PodDisruptionBudgets:
    """All budgets, and the labels of all workloads."""

    def __init__(self) -> None:
        self.budgets: ObjectTable[BudgetRecord] = ObjectTable("disruption-budgets", BudgetRecord, 64)
        self.labels: ObjectTable[WorkloadLabels] = ObjectTable("workload-labels", WorkloadLabels, 256)
        self._by_namespace: dict[str, list[BudgetRecord]] | None = None

    def tables(self) -> tuple[StatePart, ...]:
        """Both tables."""
        return (self.budgets, self.labels)

    def loaded(self) -> None:
        """A chunk was loaded."""
        self._by_namespace = None

    def ingest(self, event: Event) -> None:
        """Take a fact about a budget in; others are passed over."""
        if isinstance(event, PodDisruptionBudgetChanged):
            numbers = event.allowed, event.healthy, event.desired, event.expected
            key = f"{event.cluster}/{event.namespace}/{event.name}"
            self.budgets.upsert(key, BudgetRecord(key, event.selector, *numbers, event.unready_go))
            self._by_namespace = None
        elif isinstance(event, PodDisruptionBudgetRemoved):
            self.budgets.remove(f"{event.cluster}/{event.namespace}/{event.name}")
            self._by_namespace = None

    def note_labels(self, workload: str, labels: Mapping[str, str]) -> None:
        """A pod of a workload was seen with these labels."""
        # A workload has the labels of its last seen pod, without those that differ from pod to pod, which no budget selects by.
        shared = WorkloadLabels({name: value for name, value in labels.items() if name not in _OF_ONE_POD})
        if self.labels.get(workload) != shared:
            self.labels.upsert(workload, shared)

    def forget(self, workload: str) -> None:
        """A workload has no pod any more."""
        self.labels.remove(workload)

    def of(self, workload: str) -> Sequence[BudgetRecord]:
        """The budgets that select the pods of a workload, by name."""
        shared = self.labels.get(workload)
        if shared is None or not len(self.budgets):
            return ()
        if self._by_namespace is None:
            self._by_namespace = {}
            for _, budget in sorted(self.budgets.items()):
                self._by_namespace.setdefault(budget.key.rpartition("/")[0], []).append(budget)
        cluster, namespace, *_ = workload.split("/")
        budgets = self._by_namespace.get(f"{cluster}/{namespace}", ())
        # A tenant may make any number of them, and each is matched with each workload of the namespace.
        if len(budgets) > MOST:
            return ()
        return [budget for budget in budgets if budget.selector is not None and _selects(budget.selector, shared.labels)]


def objection(budgets: Sequence[BudgetRecord], *, begun: Mapping[str, int], ready: bool) -> str | None:
    """Why no further pod that these select may be evicted; None while one may. `begun`: evictions planned for each, by its key.

    `ready`: the pod is. Source: the eviction subresource in pkg/registry/core/pod/storage/eviction.go.
    """
    if len(budgets) > 1:
        # The eviction subresource answers 500 for such a pod, whatever the budgets allow.
        names = " and ".join(f"'{budget.name}'" for budget in budgets)
        return f"PodDisruptionBudgets {names} both select the pod, and no such pod can be evicted"
    for budget in budgets:
        planned = begun.get(budget.key, 0)
        # A pod that is not ready counts in no budget's healthy pods, so that its eviction leaves them as many.
        if budget.allowed > planned or (not ready and (budget.unready_go or budget.healthy >= budget.desired > 0)):
            continue
        healthy = f"{budget.healthy} of {budget.expected} pods are healthy, {budget.desired} have to be"
        if not budget.expected:
            why = "its status counts no pods, as that of a budget whose controller finds no scale of their owner"
            return f"PodDisruptionBudget '{budget.name}' allows no eviction now: {why}. Its condition DisruptionAllowed says why"
        also = f", and {counted_are(planned, 'eviction')} planned" if planned else ""
        return f"PodDisruptionBudget '{budget.name}' allows no eviction now: {healthy}{also}"
    return None


def _selects(query: LabelQuery, labels: Mapping[str, str]) -> bool:
    """Whether labels meet a selector; one without demands takes all."""
    return all(labels.get(name) == value for name, value in query.labels.items()) and all(
        _meets(demand, labels.get(demand.key)) for demand in query.expressions
    )


def _meets(demand: LabelDemand, value: str | None) -> bool:
    """Source: Requirement.Matches in apimachinery's pkg/labels. A budget with another operator cannot be created."""
    match demand.operator:
        case "In":
            return value in demand.values
        case "NotIn":
            return value not in demand.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False
