"""Facts about usage: what containers used, what another recommender saved of it, and kills for lack of memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from schemas.names import PodName, Workload
from schemas.units import Bytes, Cores, Seconds


@dataclass(frozen=True, slots=True)
class MetricsScraped:
    """One scrape of the containers of one partition, as columns of equal length; a very long one comes in several.

    Row i says that container `containers[i]` of pod `pods[i]` of workload `workloads[i]` used `cores[i]` and `memory[i]`,
    averaged over the `window` that ended at `at`, or `ages[i]` seconds before it where there are ages. An amount that the source
    did not see is NaN (null on the wire), never zero. `cores_max` and `memory_max` are the highest use within the window, empty
    where the source only knows averages. Backtests score with them; no stage decides by them.

    Numbers are float64 arrays (or any sequence of floats). `history` marks what a metrics store remembered: `at` may lie days
    before the turn that takes it.
    """

    at: datetime
    cluster: str
    # The codec interns the three columns of names: equal ones of two records are the same tuple, so that a reader may look a
    # whole scrape up by identity.
    workloads: tuple[str, ...]
    pods: tuple[str, ...]
    containers: tuple[str, ...]
    cores: Sequence[Cores]
    memory: Sequence[Bytes]
    window: Seconds = Seconds(60.0)
    ages: Sequence[Seconds] = ()
    # A container's usage only counts if it is newer than what was counted last, so history has to come before anything live, into
    # an empty state.
    history: bool = False
    cores_max: Sequence[Cores] = ()
    memory_max: Sequence[Bytes] = ()


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
    """The use that an eviction for lack of memory reports; it counts instead of the request."""
    started: datetime | None = None
    """When the run began that the kill ended; None where nobody says."""


@dataclass(frozen=True, slots=True)
class SavedHistogram:
    """A histogram as a checkpoint object has it: weights of buckets in parts of ten thousand of the heaviest."""

    reference: float
    """Seconds since the epoch; the time from which weights are counted."""
    total: float
    weights: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckpointSeen:
    """A VerticalPodAutoscalerCheckpoint object was found: another recommender's usage history of one container name of a VPA.

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
