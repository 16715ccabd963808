"""`ullage consumer webhook` as processes before a real API server, and a log in a file that a test writes.

The plane has no Service network, so a small balancer on loopback stands where the Service would: it passes connections to the
replicas that listen. `Hooks.start("one")` starts a replica, under its own role of deploy/helm/ullage/rbac.
"""

import asyncio
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schemas.catalogue import Event
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.names import Amounts, Workload
from schemas.outcomes import ActionFinished
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.limit_ranges import Limit, LimitRangeChanged
from schemas.policies.vertical import StartupBoost, UpdateMode
from schemas.policies.vpa import Operator, Requirement, TargetRef, VpaChanged
from schemas.units import Bytes, Cores
from streams.codec.event_codec import Codec
from streams.consumers.webhook.registration import PATH
from streams.log.file_log import FileLog
from streams.topics import TOPICS, Topics
from tests.controlplane import readiness
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane, free_ports
from tests.controlplane.roles import Account
from tests.controlplane.world import World
from tests.support import ticks

NAMES = Topics(partitions=2)
CLUSTER = "real"
MIB = 1 << 20
CONFIGURATION = f"{PATH}/ullage-webhook"


class Balancer:
    """Passes each connection to the next of `backends` that takes it."""

    def __init__(self) -> None:
        self.backends: list[int] = []
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._turn = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait(60.0)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60.0)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._pass_on, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._turn += 1
        for n in range(len(self.backends)):
            with suppress(OSError):
                there, back = await asyncio.open_connection("127.0.0.1", self.backends[(self._turn + n) % len(self.backends)])
                await asyncio.gather(_pump(reader, back), _pump(there, writer))
                return
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
    with suppress(OSError):
        writer.close()


class Hooks:
    """The replicas of one test, its log, and what the API server has of them."""

    def __init__(self, plane: Plane, home: World, world: World, folder: Path) -> None:
        self.plane, self.home, self.world, self.folder = plane, home, world, folder
        self.balancer, self.account = Balancer(), Account(plane, home, "consumer-webhook")
        self.kubeconfig = self.account.kubeconfig(folder)
        self.running: dict[str, tuple[subprocess.Popen[bytes], int]] = {}
        self.path, self.codec = folder / "log.jsonl", Codec(NAMES)
        self.log = FileLog.open_or_create(self.path)
        for topic in TOPICS:
            self.log.create(NAMES.wire(topic.name), NAMES.partitions)
        self.tick()

    def close(self) -> None:
        for name in list(self.running):
            self.stop(name)
        with suppress(Exception):
            self.plane.ask.delete(CONFIGURATION)
        self.account.close()
        self.balancer.close()
        self.log.close()

    def start(self, name: str = "one", *, wait: bool = True, **settings: str) -> None:
        """A replica; ready and registered when this returns."""
        port, health = free_ports(2)
        told = {
            **self._told(),
            "cluster.kubeconfig": str(self.kubeconfig),
            "metrics.port": str(health),
            "webhook.host": "127.0.0.1",
            "webhook.port": str(port),
            "webhook.url": f"https://127.0.0.1:{self.balancer.port}/",
            "webhook.namespace": self.home.namespace,
            "webhook.linger_seconds": "0.5",
            **{key.replace("__", "."): value for key, value in settings.items()},
        }
        command = [sys.executable, "-m", "agents", "consumer", "webhook", *_set(told)]
        with (self.folder / f"{name}.log").open("ab") as said:
            self.running[name] = subprocess.Popen(command, stdout=said, stderr=said), health
        if wait:
            wait_for(lambda: self.reasons(name) == [], timeout=40.0, what=f"replica '{name}' is ready")
            wait_for(lambda: self.plane.ask.find(CONFIGURATION), what="it is registered")
        self.balancer.backends.append(port)

    def kill(self, name: str = "one") -> None:
        """kill -9."""
        process, _ = self.running.pop(name)
        process.kill()
        process.wait(60.0)

    def stop(self, name: str = "one") -> None:
        """SIGTERM; it must end well."""
        process, _ = self.running.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(60.0) == 0, self.said(name)
        finally:
            process.kill()

    def said(self, name: str = "one") -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def reasons(self, name: str) -> list[str] | None:
        """Why it is not ready; None while nothing answers."""
        assert self.running[name][0].poll() is None, self.said(name)[-3000:]
        return readiness.reasons(f"http://127.0.0.1:{self.running[name][1]}/readyz")

    def metric(self, line: str, name: str = "one") -> float:
        """The value of a sample, by its name and labels as they are exposed; 0 when it is not there."""
        for row in self._health(name, "metrics").splitlines():
            if row.startswith(f"{line} "):
                return float(row.rsplit(" ", 1)[1])
        return 0.0

    def _health(self, name: str, path: str) -> str:
        url = f"http://127.0.0.1:{self.running[name][1]}/{path}"
        with urllib.request.urlopen(url, timeout=5.0) as answer:  # loopback
            return answer.read().decode()  # type: ignore[no-any-return]  # bytes

    def ullage(self, *words: str) -> str:
        """What a command prints that reads this test's log."""
        command = [sys.executable, "-m", "agents", *words, *_set(self._told())]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    def tick(self) -> None:
        now = int(datetime.now(UTC).timestamp() * 1000)
        ticks.append(self.log, NAMES, now)

    @contextmanager
    def ticking(self) -> Iterator[None]:
        """A clock at work."""
        stop = threading.Event()

        def tick() -> None:
            while not stop.wait(0.5):
                self.tick()

        thread = threading.Thread(target=tick, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(60.0)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """`ullage source kube` on the same log."""
        (port,) = free_ports(1)
        told = {**self._told(), "cluster.kubeconfig": str(self.plane.kubeconfig), "metrics.port": str(port)}
        command = [sys.executable, "-m", "agents", "source", "kube", *_set(told)]
        with (self.folder / "source.log").open("ab") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            yield
        finally:
            process.terminate()
            process.wait(60.0)

    def _told(self) -> dict[str, str]:
        """The settings of whatever reads or writes this test's log."""
        return {"log.kind": "file", "log.path": str(self.path), "topics.partitions": "2", "cluster.name": CLUSTER}

    def control(self, mode: Mode = Mode.APPLY, *, paused: bool = False) -> None:
        event = ControlChanged(datetime.now(UTC), CLUSTER, mode, paused=paused)
        self._everywhere(event, "control", CLUSTER)

    def limit_range(self, *limits: Limit) -> None:
        """What a source would publish of LimitRange `lr`."""
        event = LimitRangeChanged(datetime.now(UTC), CLUSTER, self.world.namespace, "lr", limits)
        self._everywhere(event, "policies", event.key)

    def vpa(
        self,
        name: str = "web",
        target: str = "web",
        *,
        spec: Mapping[str, object] | None = None,
        boost: StartupBoost | None = None,
    ) -> Any:
        """The object at the API server, and what a source would publish of it."""
        made = self.world.vpa(name, target, spec=spec)
        event = VpaChanged(
            at=datetime.now(UTC),
            cluster=CLUSTER,
            namespace=self.world.namespace,
            name=name,
            created=datetime.fromisoformat(made["metadata"]["creationTimestamp"]),
            target_ref=TargetRef("Deployment", target, "apps/v1"),
            selector=(Requirement("app", Operator.IN, (target,)),),
            update_mode=UpdateMode.RECREATE,
            uid=made["metadata"]["uid"],
            boost=boost,
        )
        self._everywhere(event, "policies", event.key)
        return made

    def recommend(self, target: str = "web", *, cpu: float = 0.25, mebibytes: int = 200) -> str:
        """The decision's id."""
        workload = Workload(CLUSTER, self.world.namespace, "Deployment", target)
        amounts = Amounts(Cores(cpu), Bytes(mebibytes * MIB))
        at = datetime.now(UTC)
        identifier = f"recommender/0/{int(at.timestamp() * 1000)}/requests/{workload.key}"
        event = RequestsRecommended(
            identifier, at, workload, (ContainerRecommendation("app", amounts, amounts, amounts, amounts),), {}
        )
        partition = NAMES.partition_of(workload.key)
        self.log.append(
            [self.codec.encode(event, topic="recommendations", key=workload.key, partition=partition, source="/test")]
        )
        return identifier

    def outcomes(self) -> list[ActionFinished]:
        records = [r for p in range(2) for r in self.log.poll({(NAMES.wire("outcomes"), p): 0})]
        return [event for event in map(self.codec.decode, records) if isinstance(event, ActionFinished)]

    def _everywhere(self, event: Event, topic: str, key: str) -> None:
        self.log.append(self.codec.encode_for_all(event, topic=topic, key=key, source="/test"))


def _set(told: Mapping[str, str]) -> list[str]:
    return [part for key, value in told.items() for part in ("--set", f"{key}={value}")]
