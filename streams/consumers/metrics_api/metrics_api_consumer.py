"""`ullage consumer metrics-api`: the server, its view, and the regular look at certificate, APIService and clients.

Each part goes on without the others: without the log the answers rest on the view of autoscalers and forecasts in it, and no
failure of the API server ends it.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

import structlog

from schemas.catalogue import Event
from schemas.decisions.replica_plans import LoadForecast
from schemas.units import Seconds
from streams import decision_view
from streams.clients.kube.json_objects import ObjectStore
from streams.consumers.executing.log_follower import LogFollower
from streams.consumers.metrics_api import metrics_endpoint
from streams.consumers.metrics_api.api_service import ApiServiceKeeper
from streams.consumers.metrics_api.metrics_endpoint import MetricsEndpoint
from streams.decision_view import DecisionView
from streams.errors import BadInput, EdgeError, Unreachable
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.serving.certificate_rotation import CertificateRotation
from streams.serving.https_server import CertificateHolder, HttpsServer, ServerLimits


class PolicyIndex(Protocol):
    """Collects policies for the code that answers."""

    def apply(self, event: Event) -> None:
        """Take in one event of `policies`."""


class MetricsView(LogFollower):
    """The view of one cluster. `clock` counts real seconds."""

    def __init__(self, context: LogContext, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(context, action="metrics", reads="policies and forecasts", clock=clock)
        self._index: PolicyIndex | None = None
        self._forecasts: DecisionView | None = None
        self._lock = threading.Lock()
        self._longest = Seconds(0.0)

    def feed(self, index: PolicyIndex) -> None:
        """Set where policies go, before the log is read."""
        self._index = index

    def latest(self, key: str) -> LoadForecast | None:
        """The newest forecast for the object with this key. Any thread may ask."""
        with self._lock:
            newest = None if self._forecasts is None else self._forecasts.get(key)
        return newest.decision if newest is not None and isinstance(newest.decision, LoadForecast) else None

    def _begin(self) -> int:
        log, topics = self._context.log, self._context.topics
        forecasts = topics.wire("load-forecasts")
        if self._forecasts is None:
            self._forecasts = DecisionView(log, self._context.codec, forecasts)
        count = self._read_present("policies", (topics.wire("policies"), 0))
        with self._forecasts.newest_first():
            # After the policies, which say how far back a forecast may lie.
            return count + self._read_last(forecasts, decision_view.forecast_span(self._longest))

    def _apply(self, record: Record) -> None:
        if self._context.topics.short(record.topic) == "load-forecasts":
            if self._forecasts is not None:
                with self._lock:
                    self._forecasts.apply(record)
        elif (event := self._context.codec.decode_or_none(record)) is not None and self._index is not None:
            self._index.apply(event)
            self._longest = max(self._longest, decision_view.forecast_window(event))


_ROUND = Seconds(5.0)
"""Seconds between two looks at certificate and APIService."""
_TRUST_AGAIN = timedelta(minutes=1)  # for so long what was read of the front proxy counts as new; its authority may be rotated
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class MetricsApiParts:
    """The parts of the consumer. `keeper` looks after the certificate; each of the `registered` announces it for one group."""

    view: MetricsView
    endpoint: MetricsEndpoint
    keeper: CertificateRotation
    holder: CertificateHolder
    config_maps: ObjectStore
    registered: Sequence[ApiServiceKeeper]


class MetricsApiConsumer:
    """`now` gives the real time, which certificates go by."""

    def __init__(
        self,
        parts: MetricsApiParts,
        address: tuple[str, int],
        now: Callable[[], datetime],
        limits: ServerLimits | None = None,
        every: Seconds = _ROUND,
    ) -> None:
        self._parts, self._address, self._now = parts, address, now
        self._limits, self._every = limits or ServerLimits(), every
        self._trusted_at: datetime | None = None
        self._faults: dict[str, str] = {}
        self._said: dict[str, str] = {}
        self._server: HttpsServer | None = None
        self.port = 0

    def run(self, stop: threading.Event) -> None:
        """Work until told to stop. Raises BadInput when the address cannot be used."""
        parts, ended = self._parts, threading.Event()
        with ExitStack() as stack:
            follower = threading.Thread(target=parts.view.follow, args=(ended,), name="view", daemon=True)
            stack.callback(follower.join, 3.0)
            stack.callback(ended.set)
            follower.start()
            self._look_after()
            server = self._server = HttpsServer(parts.endpoint.routes, parts.holder, address=self._address, limits=self._limits)
            self.port = stack.enter_context(server).port
            _log.info("serving", port=self.port)
            while not stop.is_set() and server.alive and follower.is_alive():
                server.faults.check()
                self._register()
                stop.wait(self._every)
                self._look_after()

    def reasons(self) -> Sequence[str]:
        """Why not ready; empty when ready."""
        unread = self._parts.endpoint.trust is None
        whom = [f"whom to believe is not known yet: {self._faults.get('trust', '')}"] if unread else []
        faults = () if self._server is None else self._server.faults.reasons()
        view, keeper = self._parts.view, self._parts.keeper
        return [*view.reasons(), *view.silence(), *keeper.reasons(self._now()), *whom, *faults]

    def _look_after(self) -> None:
        """Look after the certificate and the trusted clients."""
        at = self._now()
        self._parts.keeper.look(at)
        if self._trusted_at is None or at - self._trusted_at >= _TRUST_AGAIN:
            self._attempt("trust", self._read_trust)

    def _read_trust(self) -> None:
        trust = metrics_endpoint.read_trust(self._parts.config_maps)
        self._parts.holder.trust(trust.authorities)
        self._parts.endpoint.trust, self._trusted_at = trust, self._now()

    def _register(self) -> None:
        """Register with the API server, group by group, once our certificate can be shown."""
        for place, service in enumerate(self._parts.registered):
            self._attempt(f"registration {place}", partial(self._ensure, service))
        if not self._parts.registered:
            self._parts.keeper.trusted()

    def _ensure(self, service: ApiServiceKeeper) -> None:
        service.ensure(self._parts.keeper.authorities(), self._now())
        self._parts.keeper.trusted()

    def _attempt(self, what: str, action: Callable[[], None]) -> None:
        """What fails is tried again in the next round, and logged when the answer is another than before."""
        try:
            action()
            self._faults.pop(what, None)
            self._said.pop(what, None)
        except (EdgeError, BadInput) as error:
            self._faults[what] = text = str(error)
            if text != self._said.get(what) and not isinstance(error, Unreachable):  # the process logs that
                _log.warning("the metrics API could not keep something up", what=what, error=text)
                self._said[what] = text
