"""Reads only those fields of pods and recommendations that a table of requests shows, and skips the rest of the JSON.

The codec reads records of other versions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from schemas import event_bounds
from schemas.bounds import MOST_ENTRIES, MOST_NUMBER, MOST_TEXT
from schemas.decisions.recommendations import Because, MemoryLeak, RequestsRecommended
from schemas.facts.pods import ENDED_PHASES, PodChanged, PodDeleted
from schemas.names import Amounts, Workload
from schemas.units import Bytes, Cores
from streams import typed_json
from streams.codec.event_codec import Codec
from streams.errors import BadRecord
from streams.log.log_port import Record

_IN_BOUNDS = Meta(ge=-MOST_NUMBER, le=MOST_NUMBER)
_WHOLE_IN_BOUNDS = Meta(ge=-int(MOST_NUMBER), le=int(MOST_NUMBER))
_Count = Annotated[int, _WHOLE_IN_BOUNDS]
_Text = Annotated[str, Meta(max_length=MOST_TEXT)]
_FIRST_YEAR, _LAST_YEAR = 1970, 2199


ReachedAmounts = tuple[tuple[float, float], ...]
"""A share of the time, and an amount that was reached in it or in more."""


@dataclass(frozen=True, slots=True)
class RecommendedAmounts:
    """What is recommended for one container."""

    container: str
    lower: Amounts
    target: Amounts
    upper: Amounts
    uncapped: Amounts = Amounts()
    """The target before policies, settings and nodes capped it."""
    reached_cpu: ReachedAmounts = ()
    reached_memory: ReachedAmounts = ()
    """Of memory, shares of its daily peaks; empty where the recommendation does not say it."""


@dataclass(frozen=True, slots=True)
class RecommendedRequests:
    """What is recommended for a workload. `oom_at`, `oom_container`: its last OOM kill, None and empty if there was none.

    `because` has the node that its pods were cut down to, the policy, and the grounds of a policy as code, at least.
    """

    workload: Workload
    containers: tuple[RecommendedAmounts, ...]
    pods: int | None
    oom_at: datetime | None = None
    oom_container: str = ""
    other_recommender: str = ""
    because: Because = field(default_factory=dict)
    leaks: tuple[MemoryLeak, ...] = ()

    @classmethod
    def of(cls, event: RequestsRecommended) -> "RecommendedRequests":
        """The same of a whole event."""
        containers = tuple(
            RecommendedAmounts(c.container, c.lower, c.target, c.upper, c.uncapped, *_reached(event.because, c.container))
            for c in event.containers
        )
        oom = event.last_oom
        at, container = (None, "") if oom is None else (oom.at, oom.container)
        return cls(event.workload, containers, event.pods, at, container, event.other_recommender, event.because, event.leaks)


@dataclass(frozen=True, slots=True)
class RequestedAmounts:
    """What one container of a pod requests, and its limits."""

    name: str
    requests: Amounts
    limits: Amounts


@dataclass(frozen=True, slots=True)
class PodContainers:
    """The containers of one pod. `is_there`: it has not ended and is not being deleted."""

    uid: str
    containers: tuple[RequestedAmounts, ...]
    is_there: bool = True


# Ten thousand workloads in under a second leave no time to build objects that no table shows.
class _Amounts(msgspec.Struct, frozen=True):
    cpu: Annotated[Cores, _IN_BOUNDS] | None = None
    memory: Annotated[Bytes, _WHOLE_IN_BOUNDS] | None = None


_NONE = _Amounts()


class _Recommended(msgspec.Struct):
    container: _Text
    lower: _Amounts
    target: _Amounts
    upper: _Amounts
    uncapped: _Amounts = _NONE


class _Kill(msgspec.Struct):
    at: datetime
    container: _Text


class _Workload(msgspec.Struct):
    cluster: _Text
    namespace: _Text
    kind: _Text
    name: _Text


class _Because(msgspec.Struct, frozen=True):
    """What a table shows of it; nobody is bound to one form, so it is checked where it is shown."""

    node: object = None
    policy: object = None
    containers: object = None
    policy_grounds: object = None


_UNSAID = _Because()


class _Recommendation(msgspec.Struct):
    workload: _Workload
    containers: Annotated[list[_Recommended], Meta(max_length=MOST_ENTRIES)]
    pods: _Count | None = None
    last_oom: _Kill | None = None
    other_recommender: _Text = ""
    because: _Because = _UNSAID
    leaks: Annotated[tuple[MemoryLeak, ...], Meta(max_length=MOST_ENTRIES)] = ()


class _Container(msgspec.Struct):
    name: _Text
    requests: _Amounts = _NONE
    limits: _Amounts = _NONE


class _PodName(msgspec.Struct):
    uid: _Text


class _Pod(msgspec.Struct):
    pod: _PodName
    containers: Annotated[list[_Container], Meta(max_length=MOST_ENTRIES)] = []
    phase: _Text = ""
    leaving: bool = False


class ContainerRequestsReader:
    """Reads the records of one log; serves one thread, as its codec does."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._recommendations, self._pods = typed_json.decoder(_Recommendation), typed_json.decoder(_Pod)

    def recommendation(self, record: Record) -> RecommendedRequests | None:
        """The recommendation in a record; None if there is none that can be read."""
        try:
            # Only the codec knows how older versions become newer ones.
            if self._codec.older_version(record):
                event = self._codec.decode_or_none(record)
                return RecommendedRequests.of(event) if isinstance(event, RequestsRecommended) else None
            fields = self._recommendations.decode(record.value or b"")
        except (BadRecord, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        kill, because = fields.last_oom, fields.because
        # The bounds of all events hold here, too: what the codec would refuse is not shown.
        if kill is not None and not (kill.at.tzinfo is not None and _FIRST_YEAR <= kill.at.year <= _LAST_YEAR):
            return None
        name, reasons = fields.workload, {"containers": because.containers}
        return RecommendedRequests(
            Workload(name.cluster, name.namespace, name.kind, name.name),
            tuple(
                RecommendedAmounts(
                    c.container,
                    _amounts(c.lower),
                    _amounts(c.target),
                    _amounts(c.upper),
                    _amounts(c.uncapped),
                    *_reached(reasons, c.container),
                )
                for c in fields.containers
            ),
            fields.pods,
            None if kill is None else kill.at,
            "" if kill is None else kill.container,
            fields.other_recommender,
            {"node": because.node, "policy": because.policy, "policy_grounds": because.policy_grounds},
            tuple(leak for leak in fields.leaks if event_bounds.fault(leak) is None),
        )

    def pod(self, record: Record) -> PodContainers | None:
        """The pod of a record about one, which has no containers if it says that the pod is gone; None if it cannot be read."""
        try:
            if self._codec.older_version(record):
                event = self._codec.decode_or_none(record)
                return _pod_of(event) if isinstance(event, PodChanged | PodDeleted) else None
            fields = self._pods.decode(record.value or b"")
        except (BadRecord, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        containers = tuple(
            RequestedAmounts(container.name, _amounts(container.requests), _amounts(container.limits))
            for container in fields.containers
        )
        return PodContainers(fields.pod.uid, containers, fields.phase not in ENDED_PHASES and not fields.leaving)


def containers_of(pod: PodChanged) -> tuple[RequestedAmounts, ...]:
    """The same of a whole event."""
    return tuple(RequestedAmounts(container.name, container.requests, container.limits) for container in pod.containers)


def _pod_of(event: PodChanged | PodDeleted) -> PodContainers:
    if isinstance(event, PodDeleted):
        return PodContainers(event.pod.uid, ())
    return PodContainers(event.pod.uid, containers_of(event), event.phase not in ENDED_PHASES and not event.leaving)


def _reached(because: Because, container: str) -> tuple[ReachedAmounts, ReachedAmounts]:
    """What `because` says of CPU and memory."""
    # It has no fixed form, because its numbers are for people; a table shows those that it can read.
    about = _mapping(_mapping(because.get("containers")).get(container))
    cpu, memory = (_pairs(_mapping(_mapping(about.get(resource)).get("reached"))) for resource in ("cpu", "memory"))
    return cpu, memory


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _pairs(reached: Mapping[str, object]) -> ReachedAmounts:
    try:
        return tuple((float(share), float(amount)) for share, amount in reached.items() if isinstance(amount, int | float))
    except (ValueError, OverflowError):
        return ()


def _amounts(fields: _Amounts) -> Amounts:
    return Amounts(fields.cpu, fields.memory)
