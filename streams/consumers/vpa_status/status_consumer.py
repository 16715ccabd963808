"""The status consumer: keeps the status of VPA objects as the log says, with as few writes as that takes.

It reads policies, recommendations and pod facts to their end before it writes anything, then writes what is new, several objects
at a time. Writing a status changes no pod, so it is done in every mode, also while the cluster is paused, as upstream does it in
mode `Off`. Each write, and each refusal that is new, is an outcome in the log. The time in conditions is event time; without a
tick there is none, and nothing is written.
"""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

import structlog

from schemas.outcomes import Result, StatusWritten
from schemas.policies.vpa import VpaChanged, VpaRemoved
from streams.clients.kube.vpa_status_client import VpaStatusObject
from streams.codec.event_codec import tick_number
from streams.consumers.executing.cursor import Cursor
from streams.consumers.executing.rate_limit import RateLimit
from streams.consumers.vpa_status.conditions import Judging
from streams.consumers.vpa_status.projection import Desk, Order, Service
from streams.consumers.vpa_status.status_objects import Holder, Objects, Written
from streams.errors import BadRecord, EdgeError, LogUnavailable, TryAgain, Unreachable
from streams.log.port import Log, NewRecord, Record
from streams.log_context import LogContext
from streams.log_range import event_time_ms, offset_at

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IDLE = 0.2
"""Seconds between looks at the log."""
_AT_ONCE = 100
"""Objects that are settled between two looks at the log."""
_BEATS = 3
"""Heartbeats of recommendations that are read: within one, every recommendation is said again."""
_FACTS_BACK = timedelta(days=1)
"""How far back facts are read: sources tell every pod again each few hours, and that they are at work each minute."""
_PATIENCE = 30.0
"""Seconds until the objects are listed again, where that was refused for good: they may not be known to the API yet."""
_log = structlog.get_logger(__name__)


class Listed(Holder, Protocol):
    """Who holds the objects and can list them."""

    def all(self) -> Iterable[VpaStatusObject]:
        """All objects."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How hard the API may be worked: objects at one time, questions a second, and how many at once after a rest."""

    writers: int = 10
    rate: float = 50.0
    burst: int = 100


_Ended = Written | EdgeError | None


class StatusConsumer:
    """The consumer of one cluster. `vpas` is its API; `clock` counts real seconds, for pauses after a refusal."""

    def __init__(  # noqa: PLR0913  # wired once, in one place, by keyword
        self,
        context: LogContext,
        vpas: Listed,
        service: Service,
        *,
        judging: Judging,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context, self._vpas, self._service, self._clock = context, vpas, service, clock
        self._desk = Desk(context.cluster, service, context.topics.partition_of)
        self._objects = Objects(vpas, RateLimit(limits.rate, limits.burst, clock=clock), judging, service.recommender)
        self._pool = ThreadPoolExecutor(limits.writers, thread_name_prefix="status")
        self._reading: Cursor | None = None
        self._now: datetime | None = None
        self._listed = False
        self._due: dict[str, float] = {}
        """Keys to look at, and the real time before which not."""
        self._away = float("-inf")
        self._silence: Unreachable | None = None
        """Why nothing is asked before `_away`."""
        self._refused: dict[str, str] = {}
        self._unsaid: list[NewRecord] = []

    def poll_once(self) -> int:
        """Read the log to its end and settle some objects; how many outcomes were appended. Raises LogUnavailable."""
        said = self._say()
        self._read()
        if self._now is None or self._clock() < self._away or not self._list():
            return said
        for key, order, ended in self._settle(self._now):
            self._take(key, order, ended, self._now)
        return said + self._say()

    @property
    def waiting(self) -> int:
        """Objects that could be looked at now."""
        now = self._clock()
        return 0 if now < self._away else sum(at <= now for at in self._due.values())

    def run(self, stop: threading.Event) -> None:
        """Work until told to stop. While the log is away nothing is done."""
        try:
            while not stop.is_set():
                try:
                    self.poll_once()
                except LogUnavailable as error:
                    _log.warning("the log is away, nothing is done", action="status", error=str(error))
                stop.wait(0.0 if self._listed and self.waiting else _IDLE)
        finally:
            self._pool.shutdown(cancel_futures=True)

    def _begin(self) -> Cursor:
        """Policies from their beginning, as they are told once; of the rest what is told again anyway."""
        log, place = self._context.log, self._context.cluster_partition
        back = {
            "recommendations-by-cluster": timedelta(seconds=_BEATS * self._service.heartbeat),
            "pod-changes-by-cluster": _FACTS_BACK,
            "cluster-changes": _FACTS_BACK,
        }
        places = {place(name): _since(log, place(name), span) for name, span in back.items()}
        return Cursor(log, {place("policies"): log.begin(*place("policies")), **places})

    def _read(self) -> None:
        """A bad record is left out here: the stages that read it, too, set it aside."""
        self._reading = self._reading or self._begin()
        for record in self._reading.catch_up():
            number = tick_number(record)
            if number is not None:
                at = _EPOCH + timedelta(milliseconds=number)
                self._now = at if self._now is None else max(at, self._now)
                continue
            try:
                self._event(record)
            except BadRecord:
                continue
        for key in self._desk.take_changed():
            self._due.setdefault(key, float("-inf"))

    def _event(self, record: Record) -> None:
        event = self._context.codec.decode(record)
        self._desk.take(event, record.place)
        if isinstance(event, VpaChanged) and event.cluster == self._context.cluster:
            self._objects.told(event)
        elif isinstance(event, VpaRemoved) and event.cluster == self._context.cluster:
            self._objects.forget(event.namespace, event.name)
            self._refused.pop(event.key, None)

    def _list(self) -> bool:
        """List the objects, once. One question for each would take minutes where there are many."""
        if self._listed or not self._due:
            return self._listed
        try:
            self._objects.remember(list(self._vpas.all()))
            self._listed = True
        except EdgeError as error:
            self._away = self._clock() + (error.after if isinstance(error, TryAgain) else _PATIENCE)
            _log.warning("VPA objects cannot be listed", error=str(error))
        return self._listed

    def _settle(self, at: datetime) -> list[tuple[str, Order, _Ended]]:
        """Settle what is due, several at one time, and give how each ended."""
        now = self._clock()
        keys = [key for key, since in self._due.items() if since <= now][:_AT_ONCE]
        orders = [(key, self._desk.order(key)) for key in keys]
        for key in keys:
            del self._due[key]
        asked = [(key, order) for key, order in orders if order is not None]
        return list(self._pool.map(lambda pair: (*pair, self._attempt(pair[1], at)), asked))

    def _attempt(self, order: Order, at: datetime) -> _Ended:
        """One object, in a thread of the pool. When nobody answers, the others wait as well."""
        if self._silence is not None and self._clock() < self._away:
            return self._silence
        try:
            return self._objects.settle(order, at)
        except Unreachable as error:
            self._silence, self._away = error, self._clock() + error.after
            return error
        except EdgeError as error:
            return error

    def _take(self, key: str, order: Order, ended: _Ended, at: datetime) -> None:
        match ended:
            case None:
                self._refused.pop(key, None)
            case Written(status, version):
                self._refused.pop(key, None)
                reason = ", ".join(f"{condition.type} {condition.status}" for condition in status.conditions)
                self._outcome(order, Result.DONE, reason, at, version)
            case TryAgain():
                self._due[key] = self._clock() + ended.after
            case EdgeError():
                if self._refused.get(key) != str(ended):
                    self._refused[key] = str(ended)
                    self._outcome(order, Result.FAILED, str(ended), at, f"refused/{order.vpa.generation}/{order.decision}")

    def _outcome(self, order: Order, result: Result, reason: str, at: datetime, which: str) -> None:
        vpa, context = order.vpa, self._context
        identifier = f"{vpa.key}/status/{which}"
        event = StatusWritten(identifier, at, vpa.cluster, vpa.namespace, vpa.name, order.decision, result, reason)
        partition = context.topics.partition_of(context.cluster)
        source = "/ullage/consumer/status"
        self._unsaid.append(
            context.codec.encode(
                event, topic="outcomes", key=context.cluster, partition=partition, source=source, cause=order.cause
            )
        )
        _log.info("finished", action="status", decision=order.decision, result=result.value, reason=reason, vpa=vpa.key)

    def _say(self) -> int:
        """Append what is not in the log yet. Until the log takes it nothing else is begun."""
        if self._unsaid:
            self._context.log.append(self._unsaid)
        said, self._unsaid = len(self._unsaid), []
        return said


def _since(log: Log, place: tuple[str, int], span: timedelta) -> int:
    """The offset from which the last `span` of event time in this partition is read."""
    begin, end = log.begin(*place), log.end(*place)
    newest = max((event_time_ms(record) for record in log.poll({place: max(begin, end - 1)})), default=-1) if end > begin else -1
    return begin if newest < 0 else offset_at(log, *place, _EPOCH + timedelta(milliseconds=newest) - span)
