"""`ullage consumer webhook`: the server, the view it answers from, and every few seconds the certificate, registration and Lease.

Each part goes on without the others: without the log the answers rest on the view, without the API server on cached owners, and
no failure of either ends it.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import structlog
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from schemas.units import Seconds
from streams.clients.kube.controllers import ControllerKey
from streams.consumers.webhook.admission import Admission, AdmissionView, AdmissionWatcher
from streams.consumers.webhook.controller_lookups import (
    Chain,
    ComingPods,
    LookupWatcher,
    OwnerLookups,
    WantedPods,
    coming_pods,
    owner_lookups,
)
from streams.consumers.webhook.outcome_queue import OutcomeQueue
from streams.consumers.webhook.registration import Registrar, StatusLease
from streams.consumers.webhook.review_interface import FoundOwner, Review, UnknownOwner
from streams.errors import BadInput, EdgeError, GiveUp, Unreachable
from streams.own_faults import OwnFaults
from streams.serving.certificate_rotation import CertificateRotation
from streams.serving.https_server import (
    LATE_ANSWER,
    MOST_FAULTS,
    CertificateHolder,
    HttpsServer,
    LateAnswer,
    ServerLimits,
    read_body,
)

LARGEST = 5 * 1024 * 1024
"""Bytes of a review that are read; upstream's bound. The rest is not kept, and the review is then let through."""
_INLINE = 64 * 1024  # bytes; a longer review is judged in a thread, so that others need not wait for it
_LONG_AT_ONCE = 2  # long reviews at one time, so that they leave the processor to short ones
_PATIENCE = Seconds(3.5)  # then a pod is let through as it is; API servers wait for five seconds
_ROUND = Seconds(5.0)
"""Seconds between two looks at certificate, registration and Lease."""
_UNSIGNED_ROUND = Seconds(1.0)  # until the Lease shows this replica, which is not ready before
_log = structlog.get_logger(__name__)


class OwnersClient(Chain, WantedPods, Protocol):
    """A client that finds owners of controllers, and how many pods these want."""


class WebhookWatcher(AdmissionWatcher, LookupWatcher, Protocol):
    """Measures answers."""

    def step(self, name: str, seconds: float) -> None:
        """One step of an answer took so long: upstream's read_request, admit, build_response, write_response and total."""


@dataclass(frozen=True, slots=True)
class Serving:
    """Where we listen, and how long an answer and a look-up of owners may take."""

    address: tuple[str, int]
    limits: ServerLimits = ServerLimits()
    lookup: Seconds = Seconds(1.0)
    lookups: int = 8
    """Owners that are looked up at one time."""
    every: Seconds = _ROUND


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the webhook. `registrar` and `lease` may be None."""

    view: AdmissionView
    outcomes: OutcomeQueue
    chain: OwnersClient
    keeper: CertificateRotation
    holder: CertificateHolder
    watcher: WebhookWatcher
    registrar: Registrar | None
    lease: StatusLease | None


class WebhookConsumer:
    """`now` gives the real time, which certificates and Leases go by."""

    def __init__(self, parts: Parts, serving: Serving, now: Callable[[], datetime]) -> None:
        self._parts, self._serving, self._now = parts, serving, now
        self._admission = Admission(parts.view, parts.outcomes, parts.watcher)
        self._fault, self._said, self._faults = "", "", OwnFaults("webhook", MOST_FAULTS)
        self._signed = parts.lease is None
        self.port = 0

    def run(self, stop: threading.Event) -> None:
        """Work until told to stop. Raises BadInput when the address cannot be used."""
        parts, ended = self._parts, threading.Event()
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(self._serving.lookups, thread_name_prefix="owners"))
            threads = [
                threading.Thread(target=parts.view.follow, args=(ended,), name="view", daemon=True),
                threading.Thread(target=parts.outcomes.write, args=(ended, self._admission.settle), name="outcomes", daemon=True),
            ]
            stack.callback(_join, threads)
            stack.callback(ended.set)
            for thread in threads:
                thread.start()
            lookups = owner_lookups(parts.chain, pool, parts.watcher, self._serving.lookup)
            coming = coming_pods(parts.chain, pool, self._serving.lookup)
            endpoint = ReviewEndpoint(self._admission, lookups, parts.watcher, coming, self._faults)
            server = HttpsServer(endpoint.serve, parts.holder, address=self._serving.address, limits=self._serving.limits)
            parts.keeper.look(self._now())
            self.port = stack.enter_context(server).port
            stack.callback(self._leave)  # before the server ends, so that no API server asks one that is gone
            _log.info("serving", port=self.port)
            while not stop.wait(0.0) and server.alive and all(thread.is_alive() for thread in threads):
                self._faults.check()
                self._round()
                stop.wait(self._serving.every if self._signed else min(_UNSIGNED_ROUND, self._serving.every))

    def reasons(self) -> Sequence[str]:
        """Why not ready; empty when ready."""
        return [*(self._speechless() or self._unsigned()), *self._parts.view.silence(), *self._faults.reasons()]

    def _unsigned(self) -> Sequence[str]:
        # A rollout ends the older replica once this one is ready, and that one ends the registration if the Lease shows no other.
        # A Lease that is refused holds no replica back, for reviews are answered without it.
        return [] if self._signed or self._fault else ["the Lease does not show this replica yet"]

    def _speechless(self) -> Sequence[str]:
        """Why reviews cannot be answered. Answers that rest on an old view are still answers."""
        return [*self._parts.view.reasons(), *self._parts.keeper.reasons(self._now())]

    def _round(self) -> None:
        """Look after certificate, registration and Lease. What fails is tried again in the next round."""
        at = self._now()
        self._parts.keeper.look(at)
        try:
            self._keep_up(at)
            self._fault = self._said = ""
        except (EdgeError, BadInput) as error:
            self._fault = str(error)
            if self._fault != self._said and not isinstance(error, Unreachable):  # that is said for the whole process
                _log.warning("the registration or the status lease could not be kept up", error=self._fault)
                self._said = self._fault

    def _keep_up(self, at: datetime) -> None:
        """Look after registration and Lease. Raises EdgeError and BadInput."""
        parts = self._parts
        if parts.registrar is not None:
            parts.registrar.ensure(parts.keeper.authorities(), at)
        parts.keeper.trusted()
        if parts.lease is None:
            return
        if parts.registrar is not None and not parts.registrar.registered:
            # It would say that new pods are changed.
            raise GiveUp(doing="renewing", to="the status lease", answer="the API server does not ask us, as the registration is")
        if not self._speechless():
            self._signed = parts.lease.renew(at) or self._signed

    def _leave(self) -> None:
        """Sign off; the last replica deletes the registration."""
        try:
            last = self._parts.lease is None or self._parts.lease.leave(self._now())
            if last and self._parts.registrar is not None:
                self._parts.registrar.remove()
        except EdgeError as error:
            _log.warning("the registration could not be taken away", error=str(error))


class ReviewEndpoint:
    """Answers reviews over HTTP: always 200, and within the deadline, whatever arrives."""

    def __init__(
        self,
        admission: Admission,
        lookups: OwnerLookups,
        watcher: WebhookWatcher,
        coming: ComingPods | None = None,
        faults: OwnFaults | None = None,
    ) -> None:
        self._admission, self._lookups, self._watcher, self._coming = admission, lookups, watcher, coming
        self._long = asyncio.Semaphore(_LONG_AT_ONCE)
        self._faults = faults or OwnFaults("webhook", MOST_FAULTS)

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """One review, at whatever path."""
        began = time.perf_counter()
        if request.method != "POST":
            return web.Response(status=405, headers={"Allow": "POST"}, text="reviews are sent by POST\n")
        if (encoding := request.headers.get("Content-Encoding", "identity").strip().lower()) not in ("", "identity"):
            return web.Response(status=415, text=f"a review is sent as it is, not as '{encoding[:40]}'\n")  # nothing is unpacked
        body = await read_body(request, LARGEST)
        read = time.perf_counter()
        answer = self._at_once(body, began)
        if answer is None:
            request[LATE_ANSWER] = LateAnswer(lambda: web.Response(body=self._late(body, began), content_type="application/json"))
            answer = await self._in_time(body, began)
            del request[LATE_ANSWER]  # from here on an answer is on its way, and a second one would spoil it
        return _Answer(answer, self._watcher, began, read)

    def _at_once(self, body: bytes, began: float) -> bytes | None:
        """The answer, where nothing has to be waited for: nearly always."""
        if len(body) > _INLINE:
            return None
        try:
            # Judging is pure: it is done once to learn which owners it wants, and again when they are there.
            owners = _KnownOwners(self._lookups, self._coming)
            review = self._admission.judge(body, owners.topmost, owners.coming)
            if owners.wanted or owners.uncounted:
                return None
            answer = self._admission.conclude(review, time.perf_counter() - began)
        except Exception as fault:  # noqa: BLE001  # a fault of ours must not keep a pod from starting
            return self._faulty(fault, body, began)
        self._faults.none()
        return answer

    async def _in_time(self, body: bytes, began: float) -> bytes:
        try:
            async with asyncio.timeout(began + _PATIENCE - time.perf_counter()):  # the time to read it counts, too
                answer = await self._answer(body, began)
        except TimeoutError:
            return self._late(body, began)
        except Exception as fault:  # noqa: BLE001  # a fault of ours must not keep a pod from starting
            return self._faulty(fault, body, began)
        self._faults.none()
        return answer

    def _faulty(self, fault: Exception, body: bytes, began: float) -> bytes:
        self._faults.happened("judging a review, so the object is let through as it is", fault)
        why = f"a fault of the webhook's own, {type(fault).__name__}"
        return self._admission.let_through(body, why, time.perf_counter() - began)

    def _late(self, body: bytes, began: float) -> bytes:
        taken = time.perf_counter() - began
        return self._admission.let_through(body, f"its review of {len(body)} bytes took longer than {taken:.1f} s", taken)

    async def _answer(self, body: bytes, began: float) -> bytes:
        owners = _KnownOwners(self._lookups, self._coming)
        review = await self._judge(body, owners)
        if owners.wanted:
            owners.found[owners.wanted[0]] = await self._lookups.find(owners.wanted[0])
            review = await self._judge(body, owners)
        if owners.uncounted and self._coming is not None:
            owners.counted[owners.uncounted[0]] = await self._coming.find(owners.uncounted[0])
            review = await self._judge(body, owners)
        return self._admission.conclude(review, time.perf_counter() - began)

    async def _judge(self, body: bytes, owners: "_KnownOwners") -> Review:
        if len(body) <= _INLINE:
            return self._admission.judge(body, owners.topmost, owners.coming)
        async with self._long:
            return await asyncio.to_thread(self._admission.judge, body, owners.topmost, owners.coming)


class _KnownOwners:
    """Answers from the caches and from what was found, and collects the owners that have to be looked up."""

    def __init__(self, lookups: OwnerLookups, coming: ComingPods | None) -> None:
        self._lookups, self._coming = lookups, coming
        self.wanted: list[ControllerKey] = []
        self.uncounted: list[ControllerKey] = []
        self.found: dict[ControllerKey, FoundOwner] = {}
        self.counted: dict[ControllerKey, int | None] = {}

    def coming(self, owner: ControllerKey) -> int | None:
        if owner in self.counted or self._coming is None:
            return self.counted.get(owner)
        cached = self._coming.cached(owner)
        if cached is not None:
            return cached[0]
        self.uncounted.append(owner)
        return None

    def topmost(self, owner: ControllerKey) -> FoundOwner:
        if owner in self.found:
            return self.found[owner]
        cached = self._lookups.cached(owner)
        if cached is not None:
            return cached[0]
        self.wanted.append(owner)
        return UnknownOwner("it is being looked up")


class _Answer(web.Response):
    """An answer that counts how long each step of it took, once it is written."""

    def __init__(self, body: bytes, watcher: WebhookWatcher, began: float, read: float) -> None:
        super().__init__(body=body, content_type="application/json")
        self._count, self._began, self._read = watcher.step, began, read
        self._admitted = self._built = time.perf_counter()

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        writer = await super().prepare(request)
        self._built = time.perf_counter()
        return writer

    async def write_eof(self, data: bytes = b"") -> None:
        await super().write_eof(data)
        written, count = time.perf_counter(), self._count
        count("read_request", self._read - self._began)
        count("admit", self._admitted - self._read)
        count("build_response", self._built - self._admitted)
        count("write_response", written - self._built)
        count("total", written - self._began)


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.join(timeout=3.0)
