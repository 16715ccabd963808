"""The status consumer: keeps the status of VPA objects as the conditions stage decides, with as few writes as possible.

It reads the decisions to their end before it writes anything, then writes what is new, several objects at a time. Writing a
status changes no pod, so it is done in every mode and while the cluster is paused, as upstream does it in mode `Off`. Each
write, and each refusal by the API that is new, is an outcome in the log.
"""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

import structlog

from schemas.decisions.vpa_conditions import (
    ConditionStatus,
    ConditionType,
    DecidedCondition,
    MemoryLimitFound,
    VpaConditionsDecided,
)
from schemas.ids import DecisionId
from schemas.outcomes import Result, StatusWritten
from schemas.policies.vpa import DEFAULT_RECOMMENDER, VpaChanged, VpaRemoved
from streams.clients.kube.vpa_status_client import VpaStatusObject
from streams.consumers.executing.acting_consumer import AT_REST, ActingConsumer, RateLimit, encode_outcome
from streams.consumers.executing.control_state import TickSilence
from streams.consumers.executing.holder_lease import HolderLease
from streams.consumers.vpa_status_writer import Contended, StatusApi, StatusWriter, WrittenStatus
from streams.errors import BadRecord, EdgeError, TryAgain, Unreachable
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.log_range import Cursor, offset_before_end

_SOURCE = "/ullage/consumer/status"
_AT_ONCE = 100
"""Objects that are written between two looks at the log."""
_RECENT = timedelta(minutes=1)  # of `policies` at the start: objects that changed before are listed later
_LIST_AGAIN = 30.0  # seconds after a refusal for good: the CRD may not be known to the API yet
_REFUSED_AGAIN = 600.0  # seconds after a refusal for good: the missing right may have been given since
_log = structlog.get_logger(__name__)


class ListingApi(StatusApi, Protocol):
    """A client that reads, writes and lists the objects."""

    def all(self) -> Iterable[VpaStatusObject]:
        """All objects."""


@dataclass(frozen=True, slots=True)
class StatusOptions:
    """The load on the API: objects at the same time, requests per second, and how many at once after a pause.

    `humanize` shows memory with two decimals and a unit. `recommender` is the name under which we serve.
    """

    writers: int = 10
    rate: float = 50.0
    burst: int = 100
    recommender: str = DEFAULT_RECOMMENDER
    humanize: bool = False


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest decision about an object, and its place in the log."""

    decision: VpaConditionsDecided
    turn: int
    record: Record


_Ended = WrittenStatus | EdgeError | None


class StatusConsumer(ActingConsumer):
    """The consumer of the context's cluster. `clock` counts real seconds, for pauses after a refusal."""

    def __init__(
        self,
        context: LogContext,
        api: ListingApi,
        options: StatusOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        lease: HolderLease | None = None,
    ) -> None:
        super().__init__(context, lease, renews_as="status")
        self._api, self._clock = api, clock
        limit = RateLimit(options.rate, options.burst, clock=clock)
        self._writer = StatusWriter(api, limit, options.recommender, humanize=options.humanize, clock=clock)
        self._pool = ThreadPoolExecutor(options.writers, thread_name_prefix="status")
        self._cursor: Cursor | None = None
        self._now: datetime | None = None
        self._newest: dict[str, _Newest] = {}
        self._limited: dict[str, tuple[int, bool]] = {}
        """Of workloads without a VPA: the turn of the newest word, and whether memory is kept from them."""
        self._silence, self._read_to_end = TickSilence(clock), False
        self._listed = False
        self._unlisted: list[str] = []
        """Why the objects cannot be listed."""
        self._due: dict[str, float] = {}
        """Keys of objects to look at, and the real time before which not."""
        self._away = float("-inf")
        """The real time before which no request goes out."""
        self._outage: Unreachable | None = None
        self._refused: dict[str, str] = {}

    def poll_once(self) -> int:
        """Read the log to its end and write some objects; how many outcomes were appended. Raises LogUnavailable."""
        appended = self._flush()
        self._read()
        # Before the first tick nothing is written, because the outcome of a write has event time.
        if self._now is None or not self._may_act or self._clock() < self._away or not self._list():
            return appended
        for newest, ended in self._write_due():
            self._finish(newest, ended, self._now)
        return appended + self._flush()

    @property
    def waiting(self) -> int:
        """How many objects could be looked at now."""
        now = self._clock()
        return 0 if now < self._away or not self._may_act else sum(at <= now for at in self._due.values())

    @property
    def memory_limited(self) -> int:
        """How many VPAs, and workloads without one, are OOM-killed in a loop and get no more memory."""
        decisions = [newest.decision for newest in list(self._newest.values())]
        vpas = sum(not decision.withdrawn and any(map(_limits_memory, decision.conditions)) for decision in decisions)
        return vpas + sum(limited for _, limited in list(self._limited.values()))

    def reasons(self) -> list[str]:
        """Why not ready; empty when ready. An instance that stands by is."""
        if not self._read_to_end:
            return ["the decisions in the log were not read to their end yet"]
        return [*self._silence.reasons(), *self._unlisted]

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set, then give the Lease back. While the log is away nothing is done."""
        try:
            super().run(stop)
        finally:
            self._pool.shutdown(cancel_futures=True)

    @property
    def _pause(self) -> float:
        return 0.0 if self._listed and self.waiting > 0 else AT_REST

    @property
    def _news(self) -> Callable[[], bool] | None:
        if self._unpublished or self._due or self._cursor is None:
            return None
        return partial(self._cursor.has_more, besides=self._silence.place)

    def _start(self) -> Cursor:
        """Begin with all decisions, and of policies with what is recent."""
        log, wire, policies = self._context.log, self._context.topics.wire, self._context.cluster_partition("policies")
        decisions = ((wire("vpa-conditions"), partition) for partition in range(self._context.topics.partitions))
        return Cursor(
            log,
            {
                **self._silence.begin(log, self._context.topics),
                policies: offset_before_end(log, *policies, _RECENT),
                # The newest decision of an object may be the oldest in the topic: compaction keeps it.
                **{place: log.begin(*place) for place in decisions},
            },
        )

    def _read(self) -> None:
        self._cursor = self._cursor or self._start()
        self._cursor.go_to(self._silence.begin_again(self._context.log, self._context.topics))
        for record in self._cursor.catch_up():
            if self._silence.take(record):
                continue
            try:
                self._apply(record)
            except BadRecord as error:
                self._set_aside(record, error)
        self._now = self._silence.now
        self._read_to_end = True

    def _apply(self, record: Record) -> None:
        """Take in a decision, or a version of an object. A change by anybody else makes its object due."""
        event, cluster = self._context.codec.decode(record), self._context.cluster
        match event:
            case VpaConditionsDecided() if event.cluster == cluster:
                self._apply_decision(event, record)
            case MemoryLimitFound() if event.workload.cluster == cluster:
                turn, key = _turn_of(event.id), event.workload.key
                # A worker that recovers publishes turns again, so the highest turn wins and not the last record.
                if turn > self._limited.get(key, (-1, False))[0]:
                    self._limited[key] = turn, not event.over
            case VpaChanged() if event.cluster == cluster:
                self._writer.observe(event)
                if event.key in self._newest:
                    self._due.setdefault(event.key, float("-inf"))
            case VpaRemoved() if event.cluster == cluster:
                self._writer.forget(event.namespace, event.name)
                self._refused.pop(event.key, None)
            case _:
                pass

    def _apply_decision(self, event: VpaConditionsDecided, record: Record) -> None:
        """Apply a decision: for each object the highest turn wins."""
        turn = _turn_of(event.id)
        before = self._newest.get(event.key)
        if before is None or turn > before.turn:
            self._newest[event.key] = _Newest(event, turn, record)
            self._due[event.key] = float("-inf")

    def _set_aside(self, record: Record, error: BadRecord) -> None:
        """Append a dead letter for a bad decision."""
        # Nobody else reads these decisions, whereas stages set bad policies aside.
        if record.topic == self._context.topics.wire("vpa-conditions"):
            self._unpublished.append(self._context.codec.dead_letter(record, error, by=_SOURCE))

    def _list(self) -> bool:
        """List the objects, once; whether that is done."""
        if self._listed or not self._due:
            return self._listed
        try:  # one list, because a request for each object would take minutes where there are many
            self._writer.remember(self._api.all())
            self._listed, self._unlisted = True, []
        except EdgeError as error:
            self._away = self._clock() + (error.after if isinstance(error, TryAgain) else _LIST_AGAIN)
            if not self._unlisted and not isinstance(error, Unreachable):  # the process logs that the server does not answer
                _log.warning("VPA objects cannot be listed", error=str(error))
            self._unlisted = [f"VPA objects cannot be listed: {error}"]
        return self._listed

    def _write_due(self) -> list[tuple[_Newest, _Ended]]:
        """Write what is due, several objects at one time; gives how each ended."""
        now = self._clock()
        keys = [key for key, since in self._due.items() if since <= now][:_AT_ONCE]
        for key in keys:
            del self._due[key]
        current = [newest for key in keys if not (newest := self._newest[key]).decision.withdrawn]
        return list(self._pool.map(lambda newest: (newest, self._write(newest.decision)), current))

    def _write(self, decision: VpaConditionsDecided) -> _Ended:
        """Write one object, in a thread of the pool. When the API does not answer, the others wait as well."""
        if self._outage is not None and self._clock() < self._away:
            return self._outage
        try:
            return self._writer.write(decision)
        except Unreachable as error:
            self._outage, self._away = error, self._clock() + error.after
            return error
        except EdgeError as error:
            return error

    def _finish(self, newest: _Newest, ended: _Ended, at: datetime) -> None:
        decision = newest.decision
        match ended:
            case None:
                self._refused.pop(decision.key, None)
            case WrittenStatus(status, version):
                self._refused.pop(decision.key, None)
                reason = ", ".join(f"{condition.type} {condition.status}" for condition in status.conditions)
                self._publish(newest, Result.DONE, reason, at, version)
            case TryAgain():
                self._due[decision.key] = self._clock() + ended.after
                if isinstance(ended, Contended):
                    self._publish_refusal(newest, str(ended), at)
            case EdgeError():
                # A refusal that repeats is not published again: it would be an outcome each ten minutes for each object.
                self._due.setdefault(decision.key, self._clock() + _REFUSED_AGAIN)
                self._publish_refusal(newest, str(ended), at)

    def _publish_refusal(self, newest: _Newest, reason: str, at: datetime) -> None:
        decision = newest.decision
        if self._refused.get(decision.key) != reason:
            self._refused[decision.key] = reason
            self._publish(newest, Result.FAILED, reason, at, f"refused/{decision.id}")

    def _publish(self, newest: _Newest, result: Result, reason: str, at: datetime, which: str) -> None:
        """Queue the outcome of a write; `which` tells it from other writes of the same object."""
        decision = newest.decision
        about = decision.cluster, decision.namespace, decision.name
        event = StatusWritten(f"{decision.key}/status/{which}", at, *about, decision.id, result, reason)
        self._unpublished.append(encode_outcome(self._context, event, source=_SOURCE, cause=(newest.record.place,)))
        _log.info("finished", action="status", decision=decision.id, result=result.value, reason=reason, vpa=decision.key)


def _turn_of(decision: str) -> int:
    """The turn of a decision by its id."""
    try:
        return DecisionId.parse(decision).turn
    except ValueError as error:
        raise BadRecord(str(error), "$.id") from None


def _limits_memory(condition: DecidedCondition) -> bool:
    return condition.type is ConditionType.MEMORY_LIMITED and condition.status is ConditionStatus.TRUE
