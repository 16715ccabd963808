"""Reads only those fields of pods and recommendations that a table of requests shows, and skips the rest of the JSON.

Ten thousand workloads in under a second leave no time to build unused objects. The bounds of all events hold here, too; the codec
reads records of other versions.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from schemas.bounds import MOST_ENTRIES, MOST_NUMBER, MOST_TEXT
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.pods import PodChanged
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


@dataclass(frozen=True, slots=True)
class RecommendedAmounts:
    """What is recommended for one container."""

    container: str
    lower: Amounts
    target: Amounts
    upper: Amounts


@dataclass(frozen=True, slots=True)
class RecommendedRequests:
    """What is recommended for a workload. `oom_at`, `oom_container`: its last OOM kill, None and empty if there was none."""

    workload: Workload
    containers: tuple[RecommendedAmounts, ...]
    pods: int | None
    oom_at: datetime | None = None
    oom_container: str = ""
    other_recommender: str = ""

    @classmethod
    def of(cls, event: RequestsRecommended) -> "RecommendedRequests":
        """The same of a whole event."""
        containers = tuple(RecommendedAmounts(each.container, each.lower, each.target, each.upper) for each in event.containers)
        oom = event.last_oom
        at, container = (None, "") if oom is None else (oom.at, oom.container)
        return cls(event.workload, containers, event.pods, at, container, event.other_recommender)


@dataclass(frozen=True, slots=True)
class RequestedAmounts:
    """What one container of a pod requests, and its limits."""

    name: str
    requests: Amounts
    limits: Amounts


class _Amounts(msgspec.Struct, frozen=True):
    cpu: Annotated[Cores, _IN_BOUNDS] | None = None
    memory: Annotated[Bytes, _WHOLE_IN_BOUNDS] | None = None


_NONE = _Amounts()


class _Recommended(msgspec.Struct):
    container: _Text
    lower: _Amounts
    target: _Amounts
    upper: _Amounts


class _Kill(msgspec.Struct):
    at: datetime
    container: _Text


class _Workload(msgspec.Struct):
    cluster: _Text
    namespace: _Text
    kind: _Text
    name: _Text


class _Recommendation(msgspec.Struct):
    workload: _Workload
    containers: Annotated[list[_Recommended], Meta(max_length=MOST_ENTRIES)]
    pods: _Count | None = None
    last_oom: _Kill | None = None
    other_recommender: _Text = ""


class _Container(msgspec.Struct):
    name: _Text
    requests: _Amounts = _NONE
    limits: _Amounts = _NONE


class _Pod(msgspec.Struct):
    containers: Annotated[list[_Container], Meta(max_length=MOST_ENTRIES)]


class ContainerRequestsReader:
    """Reads the records of one log; serves one thread, as its codec does."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._recommendations, self._pods = typed_json.decoder(_Recommendation), typed_json.decoder(_Pod)

    def recommendation(self, record: Record) -> RecommendedRequests | None:
        """The recommendation in a record; None if there is none that can be read."""
        try:
            if self._codec.older_version(record):
                event = self._codec.decode_or_none(record)
                return RecommendedRequests.of(event) if isinstance(event, RequestsRecommended) else None
            found = self._recommendations.decode(record.value or b"")
        except (BadRecord, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        kill = found.last_oom
        if kill is not None and not (kill.at.tzinfo is not None and _FIRST_YEAR <= kill.at.year <= _LAST_YEAR):
            return None
        name = found.workload
        return RecommendedRequests(
            Workload(name.cluster, name.namespace, name.kind, name.name),
            tuple(
                RecommendedAmounts(c.container, _amounts(c.lower), _amounts(c.target), _amounts(c.upper))
                for c in found.containers
            ),
            found.pods,
            None if kill is None else kill.at,
            "" if kill is None else kill.container,
            found.other_recommender,
        )

    def pod(self, record: Record) -> tuple[RequestedAmounts, ...] | None:
        """The containers of the pod in a PodChanged record; None if it cannot be read."""
        try:
            if self._codec.older_version(record):
                event = self._codec.decode_or_none(record)
                return containers_of(event) if isinstance(event, PodChanged) else None
            found = self._pods.decode(record.value or b"")
        except (BadRecord, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return tuple(RequestedAmounts(each.name, _amounts(each.requests), _amounts(each.limits)) for each in found.containers)


def containers_of(pod: PodChanged) -> tuple[RequestedAmounts, ...]:
    """The same of a whole event."""
    return tuple(RequestedAmounts(each.name, each.requests, each.limits) for each in pod.containers)


def _amounts(found: _Amounts) -> Amounts:
    return Amounts(found.cpu, found.memory)
