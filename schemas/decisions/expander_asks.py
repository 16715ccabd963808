"""The decision to ask somebody else's program which group should grow: the question of upstream's external expander."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from schemas.decision_subjects import Subject
from schemas.decisions.recommendations import Because


@dataclass(frozen=True, slots=True)
class OfferedPods:
    """Waiting pods that are alike: where they are, what each asks for (CPU in thousandths, memory in bytes), and their names.

    `names` are the first of them; there may be more.
    """

    namespace: str
    labels: Mapping[str, str]
    node_selector: Mapping[str, str]
    requests: Mapping[str, int]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OfferedTaint:
    """A taint of a group's new node, as Kubernetes has it."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class OfferedGroup:
    """A group that could grow by so many nodes, how its new node looks, and how many of each kind of pods would run there.

    `pods` has a number for each of the kinds of the question, in their order.
    """

    group: str
    nodes: int
    pods: tuple[int, ...]
    labels: Mapping[str, str]
    taints: tuple[OfferedTaint, ...]
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ExpanderAsked:
    """Ask the configured server which of these groups should grow. Its answer is the outcome, in `ActionFinished.groups`.

    Nothing is changed by that, so it is done in every mode. After `expires` the scaler decides without an answer.
    """

    id: str
    at: datetime
    expires: datetime
    cluster: str
    groups: tuple[OfferedGroup, ...]
    pods: tuple[OfferedPods, ...]
    because: Because

    @property
    def subject(self) -> Subject:
        """The whole cluster."""
        return Subject.of_object(self.cluster, "Cluster", "", self.cluster)

    @property
    def void_after(self) -> datetime:
        """The last moment at which the server may be asked."""
        return self.expires
