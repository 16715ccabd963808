"""What the updater remembers of pods, recommendations, switches and its own plans. Frozen values, put into tables."""

from dataclasses import dataclass
from datetime import datetime

from schemas.decisions.recommendations import ContainerRecommendation
from schemas.facts.pods import PodChanged
from schemas.names import Place
from schemas.outcomes import Action
from schemas.policies.control import ControlChanged


@dataclass(frozen=True, slots=True)
class Pod:
    """The newest fact about a pod, without its labels, and its place in the log."""

    fact: PodChanged
    place: Place


@dataclass(frozen=True, slots=True)
class Recommended:
    """The newest recommendation of a workload: by turn, as the log may hold an older one after it."""

    id: str
    turn: int
    at: datetime
    place: Place
    containers: tuple[ContainerRecommendation, ...]
    oom_at: datetime | None = None
    oom_uid: str = ""


@dataclass(frozen=True, slots=True)
class Control:
    """The switch of a cluster in force, and its place in the log."""

    event: ControlChanged
    place: Place


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan that is not known to be finished. `done`: the cluster accepted an eviction, and the pod is on its way out."""

    id: str
    action: Action
    expires: int
    done: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """What happened to a pod because of us. Times are turn numbers."""

    plan: Plan | None = None
    acted: int | None = None
    resize_failed: bool = False
    resizing: int | None = None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Marks:
    """First and last turn taken."""

    first: int
    turn: int


@dataclass(frozen=True, slots=True)
class Facts:
    """The last turn that held a pod fact of a cluster."""

    seen: int


NO_NOTE = Note()
