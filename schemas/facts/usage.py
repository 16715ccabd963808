"""Facts about usage: what containers used, what another recommender saved of it, and kills for lack of memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from schemas.names import PodName, Workload
from schemas.units import Bytes, Cores, Seconds


@dataclass(frozen=True, slots=True)
class MetricsScraped:
    """One scrape of the containers of one partition, as columns of equal length; a very long one comes in several.

    Row i says that container `containers[i]` of pod `pods[i]` of workload `workloads[i]` used `cores[i]` and `memory[i]`.
    Numbers are float64 arrays (or any sequence of floats).
    """

    at: datetime
    cluster: str
    # The codec interns the three columns of names: equal ones of two records are the same tuple, so that a reader may look a
    # whole scrape up by identity.
    workloads: tuple[str, ...]
    pods: tuple[str, ...]
    containers: tuple[str, ...]
    # An amount that the source did not see is NaN (null on the wire), never zero: zero would be counted as a sample.
    cores: Sequence[Cores]
    memory: Sequence[Bytes]
    window: Seconds = Seconds(60.0)  # The amounts are averages over so long, up to `at`.
    # How long before `at` each row was measured; empty where all were measured then.
    ages: Sequence[Seconds] = ()
    # A container's usage only counts if it is newer than what was counted last, so history has to come before anything live, into
    # an empty state. Of history `at` may lie days before the turn that takes it.
    history: bool = False
    # The highest use within the window; empty where the source only knows averages. Backtests score with them; no stage decides
    # by them.
    cores_max: Sequence[Cores] = ()
    memory_max: Sequence[Bytes] = ()


@dataclass(frozen=True, slots=True)
class ContainerOOMKilled:
    """The kernel killed a container that reached a memory limit. Deduplicated by pod uid, container and restart count."""

    at: datetime
    workload: Workload
    pod: PodName
    container: str
    # With the pod's uid and the container it identifies the kill, which a source may report again.
    restarts: int
    memory_request: Bytes | None
    memory_limit: Bytes | None
    memory_used: Bytes | None = None
    """The use that an eviction for lack of memory reports; it counts instead of the request."""
    started: datetime | None = None
    """When the run began that the kill ended; None where nobody says."""
    pod_limit: Bytes | None = None
    """The memory limit of the pod itself, for all its containers together; None where it has none."""

    @property
    def at_pod_limit(self) -> Bytes | None:
        """The limit of the pod itself, where the container has none that it could have reached; else None."""
        return self.pod_limit if self.memory_limit is None and self.memory_used is None else None


@dataclass(frozen=True, slots=True)
class SavedHistogram:
    """A histogram as a checkpoint object has it: weights of buckets in parts of ten thousand of the heaviest."""

    reference: float
    """Seconds since the epoch; the time from which weights are counted."""
    total: float
    weights: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckpointSeen:
    """A VerticalPodAutoscalerCheckpoint object was found: another recommender's usage history of one container name of a VPA."""

    at: datetime
    workload: Workload  # What the VPA targets, by which the event is keyed.
    vpa: str
    container: str
    version: str
    # Seconds since the epoch; -62135596800, which is Go's zero time, is "never".
    first: float
    last: float
    count: int
    cpu: SavedHistogram
    memory: SavedHistogram
