"""The HTTP server for metrics and health: /metrics, /healthz (or /health-check) and /readyz, in a thread and a loop of its own.

The thread is its own, so that others notice when the process's event loop hangs. It listens on loopback by default, only answers
GET, never makes a request to Kafka, and has the admission policy of all that we serve.
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Protocol, Self

from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, Metric
from prometheus_client.exposition import choose_encoder

from agents.engine.turn_aligner import Wait
from schemas import times
from schemas.units import Seconds
from streams import own_faults
from streams.errors import BadInput
from streams.serving.https_server import HttpsServer, ServerLimits

Reasons = Callable[[], Sequence[str]]
"""Gives sentences that say why the answer is no; none means yes."""

_LIMITS = ServerLimits(drain=Seconds(0.1))
"""Nobody waits for a probe or a scrape when the process ends."""
ALIVE = ("/healthz", "/health-check")
"""The second is what the VPA and the Cluster Autoscaler call it, for probes that were made for them."""
PATHS = ("/metrics", *ALIVE, "/readyz")


def all_well() -> Sequence[str]:
    """Always yes."""
    return ()


class Collected(Protocol):
    """Gives all metrics of a page, as a registry does."""

    def collect(self) -> Iterable[Metric]:
        """Every family once."""


class HealthServer:
    """Serves until closed. Each request calls `ready` or `alive`."""

    def __init__(
        self, registry: CollectorRegistry, *, ready: Reasons = all_well, alive: Reasons = all_well, page: Collected | None = None
    ) -> None:
        """Opens no port before `listen`. `page` is served instead of the registry, which is among what it collects."""
        self._page, self._ready, self._alive = page or registry, ready, alive
        self._server: HttpsServer | None = None
        # Here, because every process serves this page.
        faults = Gauge("ullage_own_faults", "Faults of our own since the start", registry=registry)
        faults.set_function(lambda: float(own_faults.TOTALS.total()))
        Gauge("ullage_ready", "1 when /readyz answers 200", registry=registry).set_function(lambda: float(not ready()))

    def listen(self, host: str = "127.0.0.1", port: int = 0) -> Self:
        """Start to serve; port 0 takes any free one. Raises BadInput when the address cannot be used."""
        server = HttpsServer(
            [web.get(path, self._answer) for path in (*PATHS, "/{path:.*}")], None, address=(host, port), limits=_LIMITS
        )
        try:
            self._server = server.__enter__()
        except BadInput as error:
            msg = f"metrics cannot be served on {host}:{port} ({error}): choose another with metrics.port, or 0 for none"
            raise BadInput(msg) from error
        return self

    @property
    def port(self) -> int:
        """The port in use; 0 when nothing listens."""
        return self._server.port if self._server is not None else 0

    def close(self) -> None:
        """Stop serving."""
        server, self._server = self._server, None
        if server is not None:
            server.__exit__(None, None, None)

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()

    async def _answer(self, request: web.Request) -> web.Response:
        path = request.path
        if path == "/metrics":
            encode, kind = choose_encoder(request.headers.get("Accept", ""))
            return web.Response(body=encode(self._page), headers={"Content-Type": kind})
        if path not in PATHS:
            return web.Response(status=HTTPStatus.NOT_FOUND, text=f"there is {', '.join(PATHS)}\n")
        reasons = list((self._alive if path in ALIVE else self._ready)())
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        body = json.dumps({"ok": not reasons, "reasons": reasons}).encode() + b"\n"
        return web.Response(body=body, status=status, content_type="application/json")


# Readiness of a worker: it is ready when every partition that it owns is open and near the end of the log.
# "Near" is event time between the last turn and the newest tick. A worker without partitions is ready, because it has nothing to
# catch up with. A process is alive while its event loop runs: one that waits for a broker or recovers for minutes must not be
# restarted, and one whose loop hangs must be.

StagePartition = tuple[str, int]
"""A stage and a partition."""


class Readiness:
    """The worker's loop updates it and the health server's thread reads it; each call is one dictionary operation."""

    def __init__(self, bound: Seconds) -> None:
        """With a lag above `bound` the worker is not ready."""
        self.bound = bound
        self._joined = False
        self._lags: dict[StagePartition, Seconds | None] = {}
        self._waits: dict[StagePartition, Wait | None] = {}

    def assigned(self, tasks: Iterable[StagePartition]) -> None:
        """The worker owns these tasks and no others. A task that it owned and that was open stays open."""
        before = self._lags
        self._lags = {task: before.get(task) for task in tasks}
        self._joined = True

    def closed(self, stage: str, partition: int) -> None:
        """The task takes no turns until it is opened again."""
        if (stage, partition) in self._lags:
            self._lags[stage, partition] = None

    def lag(self, stage: str, partition: int, seconds: Seconds, *, wait: Wait | None = None) -> bool:
        """The task is open and this far behind; `wait` is what its next turn waits for. True: it was not open before."""
        if (stage, partition) not in self._lags:
            return False
        before, self._lags[stage, partition] = self._lags[stage, partition], seconds
        self._waits[stage, partition] = wait
        return before is None

    def open_partitions(self, stage: str) -> int:
        """How many partitions of the stage take turns here."""
        return sum(lag is not None for (name, _), lag in self._lags.items() if name == stage)

    def reasons(self) -> list[str]:
        """Sentences that say why the worker is not ready; none when it is."""
        # A worker that was given no partition in a group of many is ready; one that has not joined yet is not.
        if not self._joined:
            return ["the worker was not given any partition yet"]
        # A copy, because the worker's loop goes on meanwhile; copying is one operation of the interpreter.
        lags = sorted(self._lags.copy().items())
        return [sentence for task, lag in lags if (sentence := self._behind(task, lag))]

    def _behind(self, task: StagePartition, lag: Seconds | None) -> str:
        name, wait = f"{task[0]}/{task[1]}", self._waits.get(task)
        if lag is None:
            return f"{name} is not open: its state is being recovered"
        if lag <= self.bound:
            return ""
        behind = f"{name} is {lag:.1f} s of event time behind, more than {self.bound:.1f} s"
        if wait is None:
            return behind
        inputs = ", ".join(f"'{name}'" for name in wait.inputs)
        return f"{behind}: the turn of {times.from_ms(wait.tick):%Y-%m-%d %H:%M:%S} UTC waits for records of {inputs}"


PATIENCE = Seconds(60.0)
LONG_TURN, LONGEST_TURN = Seconds(5.0), Seconds(900.0)
"""After so long in one turn a worker is not ready, and after so long it counts as hung."""


class Liveness:
    """A timer of the event loop calls `beat`; the health server's thread calls `reasons`."""

    def __init__(self, patience: Seconds = PATIENCE, clock: Callable[[], float] = time.monotonic) -> None:
        """A process that has not beaten for longer than `patience` counts as hung. It starts alive."""
        self.patience, self._clock = patience, clock
        self._last = clock()
        self._turn: tuple[str, float] | None = None

    def beat(self) -> None:
        """The event loop runs."""
        self._last = self._clock()

    def turn_began(self, whose: str) -> None:
        """The loop takes a turn of this task and nothing else until it is over."""
        self._turn = whose, self._clock()

    def turn_ended(self) -> None:
        """The turn is over, which is a sign of life."""
        self._turn = None
        self.beat()

    def long_turn(self) -> list[str]:
        """Why not ready: a turn takes long; empty if none does."""
        turn = self._turn
        took = 0.0 if turn is None else self._clock() - turn[1]
        return [f"{turn[0]} has been taking one turn for {took:.0f} s"] if turn is not None and took > LONG_TURN else []

    def reasons(self) -> list[str]:
        """Why not alive; empty when alive."""
        turn = self._turn
        # A long turn is work, and a restarted worker would get the same turn again.
        if turn is not None and self._clock() - turn[1] <= LONGEST_TURN:
            return []
        silent = self._clock() - self._last
        return [f"the loop has not come round for {silent:.0f} s"] if silent > self.patience else []
