"""Facts: what a source saw. Past tense, never a judgement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes, Cores, Seconds


@dataclass(frozen=True, slots=True)
class MetricsScraped:
    """One scrape of the containers of one partition, as columns of equal length; a very long one comes in several.

    Row i says that container `containers[i]` of pod `pods[i]` of workload `workloads[i]` used `cores[i]` and `memory[i]`,
    averaged over the `window` that ended at `at`, or `ages[i]` seconds before it where there are ages. An amount that the
    source did not see is NaN (null on the wire), never zero.

    The three name columns are interned by the codec: equal names in two records are the same tuple object, so a reader may
    look a whole scrape up by identity. Numbers are float64 arrays (or any sequence of floats).

    `history` marks what a metrics store remembered: `at` may lie days before the turn that takes it. Only usage from after what
    was counted of a container last counts, so history is for a start with an empty state, before anything live.
    """

    at: datetime
    cluster: str
    workloads: tuple[str, ...]
    pods: tuple[str, ...]
    containers: tuple[str, ...]
    cores: Sequence[Cores]
    memory: Sequence[Bytes]
    window: Seconds = Seconds(60.0)
    ages: Sequence[Seconds] = ()
    history: bool = False


@dataclass(frozen=True, slots=True)
class ContainerOOMKilled:
    """The kernel killed a container that reached its memory limit. Deduplicated by pod uid, container and restart count."""

    at: datetime
    workload: Workload
    pod: PodName
    container: str
    restarts: int
    memory_request: Bytes | None
    memory_limit: Bytes | None
    memory_used: Bytes | None = None
    """What an eviction for want of memory says that it used; counts instead of the request."""


class PodPhase(StrEnum):
    """Kubernetes' pod phases."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class ResizeState(StrEnum):
    """What the kubelet says of an in-place resize; NONE when none is asked for or all is done."""

    NONE = "None"
    IN_PROGRESS = "InProgress"
    DEFERRED = "Deferred"
    INFEASIBLE = "Infeasible"


@dataclass(frozen=True, slots=True)
class ContainerSeen:
    """One container of a pod, as its spec and status stand."""

    name: str
    requests: Amounts = Amounts()
    limits: Amounts = Amounts()
    restarts: int = 0
    ready: bool = False


@dataclass(frozen=True, slots=True)
class PodChanged:
    """A pod was created or its spec or status changed. Key: the workload; a copy is keyed by cluster."""

    at: datetime
    workload: Workload
    pod: PodName
    phase: PodPhase
    created: datetime
    containers: tuple[ContainerSeen, ...]
    node: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    resize: ResizeState = ResizeState.NONE
    started: datetime | None = None
    init_containers: tuple[ContainerSeen, ...] = ()
    qos: str = ""


@dataclass(frozen=True, slots=True)
class PodDeleted:
    """A pod is gone from the cluster."""

    at: datetime
    workload: Workload
    pod: PodName


@dataclass(frozen=True, slots=True)
class SavedHistogram:
    """A histogram as a checkpoint object has it: weights of buckets in parts of ten thousand of the heaviest."""

    reference: float
    """Seconds since the epoch; the time from which weights are counted."""
    total: float
    weights: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckpointSeen:
    """A VerticalPodAutoscalerCheckpoint object was found: what another recommender knew of one container name of a VPA.

    Keyed by the workload that the VPA targets. Times are seconds since the epoch; -62135596800 is "never".
    """

    at: datetime
    workload: Workload
    vpa: str
    container: str
    version: str
    first: float
    last: float
    count: int
    cpu: SavedHistogram
    memory: SavedHistogram


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node joined or changed. `allocatable` is what it has for pods; `schedulable` is false while it is cordoned."""

    at: datetime
    cluster: str
    node: str
    allocatable: Amounts
    ready: bool = True
    schedulable: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """A node is gone from the cluster."""

    at: datetime
    cluster: str
    node: str


@dataclass(frozen=True, slots=True)
class SourceReported:
    """A source says that it is at work: it sees what it would have to tell. Said again each `period`, so silence can be told.

    `sees`: the topics (short names) whose facts it would tell. A source that cannot see something leaves its topic out.
    """

    at: datetime
    cluster: str
    source: str
    sees: tuple[str, ...]
    period: Seconds = Seconds(60.0)


Fact = MetricsScraped | ContainerOOMKilled | PodChanged | PodDeleted | CheckpointSeen | NodeChanged | NodeRemoved | SourceReported
