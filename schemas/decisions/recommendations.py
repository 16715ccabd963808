"""The decision what the containers of a workload should request."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from schemas.decision_subjects import Subject
from schemas.names import Amounts, Place, PodName, Workload
from schemas.units import Bytes

Because = Mapping[str, object]
"""Names to numbers, texts, lists and mappings of these: what JSON can carry. For people alone; no code reads it to decide."""


@dataclass(frozen=True, slots=True)
class ContainerRecommendation:
    """VPA's four amounts for one container."""

    container: str
    lower: Amounts
    target: Amounts
    upper: Amounts
    uncapped: Amounts


@dataclass(frozen=True, slots=True)
class LastOomKill:
    """The last OOM kill of a workload. `counted`: whether it raised a memory peak; `place`: where the fact stands in the log."""

    at: datetime
    pod: PodName
    container: str
    memory_request: Bytes | None
    counted: bool
    place: Place


class OomSourceState(StrEnum):
    """Whether a source looks for OOM kills in a cluster. NONE: no source has reported that it does."""

    ALIVE = "alive"
    SILENT = "silent"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class OomSource:
    """The source of OOM kills that reported last, and when; both empty when there is none."""

    state: OomSourceState
    source: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CitedRules:
    """The rules that a decision was made by: their version, and the place of the StageRulesChanged that holds them."""

    version: str
    place: Place


class LeakEnd(StrEnum):
    """What gave the memory of a leaking container back."""

    RELEASED = "released"
    RESTARTED = "restarted"
    REPLACED = "replaced"
    """Its pod is gone, or another one has its name."""


@dataclass(frozen=True, slots=True)
class MemoryLeak:
    """A container whose memory only rises: the lowest use of each hour is above that of the hour before, for hours.

    `pod` is the one that rises fastest. `memory`: its lowest use in the last whole hour, in bytes; `rate`: bytes an hour since
    `since`; `limit`: None where it has none, and then nobody knows when it is full. `full`: when it reaches the limit at that
    rate. `target`: what was recommended when the leak was found; `most`: what is recommended at most now because of it. `ended`:
    when `end` was seen, after which it leaks no longer; the bound stays for a day after its last hour of rising.
    """

    container: str
    pod: PodName
    since: datetime
    memory: Bytes
    rate: Bytes
    limit: Bytes | None
    full: datetime | None
    target: Bytes
    most: Bytes
    ended: datetime | None = None
    end: LeakEnd | None = None


@dataclass(frozen=True, slots=True)
class MemoryLeakFound:
    """The recommender found that a container leaks memory, or, if `over`, that it no longer does.

    `leak.end` says what gave the memory back; without one it was only not seen to rise for a day.

    `again`: it said so before, and says so each hour while that lasts.
    """

    id: str
    at: datetime
    workload: Workload
    leak: MemoryLeak
    over: bool = False
    again: bool = False

    @property
    def subject(self) -> Subject:
        """The workload."""
        return Subject.of_workload(self.workload)


@dataclass(frozen=True, slots=True)
class RequestsRecommended:
    """The recommender concluded what a workload's containers should request. The newest turn wins.

    Without containers it withdraws what was recommended before. `pods` is how many pods the workload had, where the recommender
    counted them; `last_oom` is None when it saw no kill. `rules` is None where the log has no rules to cite; then `because` has
    the settings.
    """

    id: str
    at: datetime
    workload: Workload
    containers: tuple[ContainerRecommendation, ...]
    because: Because
    pods: int | None = None
    last_oom: LastOomKill | None = None
    oom_source: OomSource | None = None
    rules: CitedRules | None = None
    other_recommender: str = ""
    """The recommender that the workload's VPA names where that is not ours: nobody acts on this decision then."""
    leaks: tuple[MemoryLeak, ...] = ()
    """The containers that leak memory, and so get no more than a bound of growth a day allows."""

    @property
    def subject(self) -> Subject:
        """The workload."""
        return Subject.of_workload(self.workload)
