"""What the containers of a workload should request, what a policy in shadow would recommend, and the risk delivered.

Nobody acts on a recommendation in shadow. The risk is what the policy `adaptive` promised and what came of it, which the grounds
of a recommendation say.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from math import isfinite

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
    pod_limit: Bytes | None = None
    """The memory limit of its pod itself, where it was killed at that and not at one of its own."""


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
    """A container whose memory only rises: the lowest use of each hour is above that of the hour before, for hours."""

    container: str
    pod: PodName  # The one that rises fastest.
    since: datetime
    memory: Bytes  # Its lowest use in the last whole hour.
    rate: Bytes  # Bytes an hour since `since`.
    # None where it has none, and then nobody knows when it is full.
    limit: Bytes | None
    full: datetime | None  # When it reaches the limit at that rate.
    target: Bytes  # What was recommended when the leak was found.
    most: Bytes  # What is recommended at most now because of it.
    # When `end` was seen, after which it leaks no longer; the bound stays for a day after its last hour of rising.
    ended: datetime | None = None
    end: LeakEnd | None = None


@dataclass(frozen=True, slots=True)
class TargetCuts:
    """What cut a workload's targets besides its policy. `nodes`: by resource, the largest node, which they were cut down to."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    leaks: tuple[MemoryLeak, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryLeakFound:
    """The recommender found that a container leaks memory, or, if `over`, that it no longer does.

    `leak.end` says what gave the memory back; without one it was only not seen to rise for a day.
    """

    id: str
    at: datetime
    workload: Workload
    leak: MemoryLeak
    over: bool = False
    again: bool = False  # It said so before, and says so each hour while that lasts.

    @property
    def subject(self) -> Subject:
        """The workload."""
        return Subject.of_workload(self.workload)


@dataclass(frozen=True, slots=True)
class RequestsRecommended:
    """The recommender concluded what a workload's containers should request. The newest turn wins."""

    id: str
    at: datetime
    workload: Workload
    containers: tuple[ContainerRecommendation, ...]  # None at all withdraw what was recommended before.
    because: Because
    # How many pods the workload had, where the recommender counted them.
    pods: int | None = None
    last_oom: LastOomKill | None = None  # None when it saw no kill.
    oom_source: OomSource | None = None
    # None where the log has no rules to cite; then `because` has the settings.
    rules: CitedRules | None = None
    other_recommender: str = ""
    """The recommender that the workload's VPA names where that is not ours: nobody acts on this decision then."""
    leaks: tuple[MemoryLeak, ...] = ()
    """The containers that leak memory, and so get no more than a bound of growth a day allows."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """The largest node, by the resource (`cpu`, `memory`) whose targets were cut down to it."""

    @property
    def cuts(self) -> TargetCuts:
        """What cut the targets."""
        return TargetCuts(self.nodes, self.leaks)

    @property
    def subject(self) -> Subject:
        """The workload."""
        return Subject.of_workload(self.workload)


@dataclass(frozen=True, slots=True)
class ShadowRecommended:
    """What the policy in shadow would recommend for a workload whose recommendation was published in the same turn."""

    id: str
    at: datetime
    workload: Workload
    # Its name and the digest of its source, as `steady@0f3a...`, or `built-in`.
    policy: str
    containers: tuple[ContainerRecommendation, ...]
    pods: int
    # Why it could not decide; then the containers are those of the built-in estimator.
    reason: str = ""
    rules: CitedRules | None = None

    @property
    def subject(self) -> Subject:
        """The workload."""
        return Subject.of_workload(self.workload)


@dataclass(frozen=True, slots=True)
class ContainerDifference:
    """The target of one container: as recommended, and as the policy in shadow would have it."""

    container: str
    in_force: Amounts
    shadow: Amounts


@dataclass(frozen=True, slots=True)
class ShadowCompared:
    """The paired difference for one workload in one turn: the same evidence, judged by two policies."""

    id: str
    at: datetime
    workload: Workload
    in_force: str
    shadow: str
    containers: tuple[ContainerDifference, ...]
    pods: int
    # The targets in shadow less those in force, summed over the containers of all `pods`: what the change of policy would add to
    # requests. A container that has no target of one of them counts in neither.
    cores: float
    bytes: float
    rules: CitedRules | None = None

    @property
    def subject(self) -> Subject:
        """The workload."""
        return Subject.of_workload(self.workload)


@dataclass(frozen=True, slots=True)
class DeliveredRisk:
    """Of one container of a workload. Shares of the time with more CPU used than requested; OOM kills since it was first seen."""

    container: str
    cpu_promised: float
    cpu_delivered: float
    kills_promised: float  # The share of the built-in estimator's kills that may happen.
    kills: float
    kills_built_in: float  # Those that it would have had on the same samples.

    @property
    def cpu_broken_by(self) -> float:
        """The share of time that goes beyond the promise; 0 or less where it is kept."""
        return self.cpu_delivered - self.cpu_promised

    @property
    def kills_allowed(self) -> float:
        """Kills that may have happened by the promise."""
        return self.kills_promised * self.kills_built_in


_NUMBERS = {
    "cpu_promised": "cpu_short_promised",
    "cpu_delivered": "cpu_short_delivered",
    "kills_promised": "memory_kills_promised",
    "kills": "memory_kills",
    "kills_built_in": "memory_kills_built_in",
}
"""Where the grounds have each number."""


def delivered_risks(because: Mapping[str, object]) -> Iterator[DeliveredRisk]:
    """Of each container for which `because` has all the numbers."""
    # `because` is for people, and nobody is bound to one form of it, so what has another is left out.
    of_containers = because.get("policy_grounds")
    for container, grounds in of_containers.items() if isinstance(of_containers, Mapping) else ():
        numbers = {name: grounds.get(key) for name, key in _NUMBERS.items()} if isinstance(grounds, Mapping) else {}
        readable = {name: float(value) for name, value in numbers.items() if isinstance(value, int | float) and isfinite(value)}
        if len(readable) == len(_NUMBERS):
            yield DeliveredRisk(str(container), **readable)
