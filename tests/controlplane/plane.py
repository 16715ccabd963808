"""A real Kubernetes control plane on loopback: etcd, kube-apiserver, controller manager, scheduler, and kwok for kubelets.

Started and stopped as a whole, the API server also by itself (same port, same data); the three that work for it are then stopped
and started with it, for left alone they would come back up to a minute later. What a test does with it stands in `world`.
"""

import itertools
import json
import os
import random
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread

import psutil
import yaml
from kubernetes import client as official

from tests.controlplane import api_audit, crane_types, flags, kwok_stages, metrics, pki
from tests.controlplane.api_audit import Change
from tests.controlplane.api_requests import Asking, Refused, wait_for
from tests.controlplane.flags import HOST, Place
from tests.controlplane.program import PlaneError, Program
from tests.controlplane.world import World

ROOT = Path(__file__).resolve().parents[2] / ".run" / "controlplane"
"""Every plane of this checkout lies below this folder, so that its processes are known by their command lines."""
_START_WAIT = 90.0
_STOP_WAIT = 3.0
_SYNC_EVERY = 15.0
_PORTS = range(20_000, 32_000)
_WORKERS = 12
"""Processes of pytest that may choose among different ports."""
_LEFT = list[int]()
"""Ports that this process of a test run has not given out since it had given out all."""
_numbers = itertools.count(1)


class Plane:
    """One control plane. `built`: the folder that the build gave."""

    def __init__(self, built: Path) -> None:
        self._built = built
        self.folder = ROOT / f"{os.getpid()}-{next(_numbers)}"
        numbers = free_ports(6)
        self.at = Place(self.folder, built / "bin", *numbers)
        self.url, self.token = self.at.url, self.at.token("ullage")
        self.ca, self.kubeconfig = self.at.pki("ca.crt"), self.at.kubeconfig("ullage")

    def start(self) -> None:
        """Raises PlaneError and PkiError; leaves no process behind then."""
        _sweep()
        self.folder.mkdir(parents=True)
        pki.make(self.folder / "pki")
        flags.write_files(self.at)
        kwok_stages.write(self._built / "stages", self.folder / "stages.yaml")
        self.metrics = metrics.MetricsApi(self.at.pki("server.crt"), self.at.pki("server.key"))
        self.ask = Asking(self.url, self.at.token("admin"), str(self.ca))
        self._etcd = Asking(f"http://{HOST}:{self.at.etcd}", "", None)
        self._make_programs()
        self._ended = Event()
        try:
            self._launch()
        except BaseException:
            self.stop()
            raise
        Thread(target=self._sync_pods, daemon=True).start()

    def stop(self) -> None:
        """Those that ask first, then the API server, then etcd. Keeps the folder with the logs."""
        self._ended.set()
        for program in reversed(self.programs[2:]):
            program.ask_to_stop()
        for program in reversed(self.programs):
            program.stop()
        self.metrics.close()

    def delete_folder(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def programs(self) -> list[Program]:
        """In the order of starting."""
        return [self._store, self.apiserver, *self._others]

    def api_client(self) -> official.ApiClient:
        """A connection of the official client, as the user `ullage`, who may do everything."""
        settings = official.Configuration(host=self.url, retries=False)
        settings.ssl_ca_cert = str(self.ca)
        settings.api_key = {"authorization": self.token}
        settings.api_key_prefix = {"authorization": "Bearer"}
        settings.proxy = None
        return official.ApiClient(settings)

    def stop_apiserver(self, *, kill: bool = False) -> None:
        """In order, so that streams end well, or with `kill` in the middle of a word."""
        for program in self._others:
            program.kill()
        self.apiserver.kill() if kill else self.apiserver.stop_within(_STOP_WAIT)

    def start_apiserver(self) -> None:
        """Again, on the same port and data; all is as before when this returns: a new Deployment's pod has run."""
        self.apiserver.start()
        self.apiserver.wait_ready(_START_WAIT)
        self._start_others()
        world = World(self.ask)
        try:
            world.deployment("first")  # each of the three says that it is well before it has seen anything
        finally:
            world.close()

    @contextmanager
    def down(self, *, kill: bool = False) -> Iterator[None]:
        """Without an API server meanwhile."""
        self.stop_apiserver(kill=kill)
        try:
            yield
        finally:
            self.start_apiserver()

    def restart_apiserver(self, *, kill: bool = False) -> None:
        with self.down(kill=kill):
            pass

    def expire_versions(self) -> None:
        """Every version from before is too old: watches and pages get 410. The API server, which remembers, restarts."""
        with self.down():
            put = self._etcd.post("/v3/kv/put", {"key": "dWxsYWdl", "value": "bW92ZWQ="})
            self._etcd.post("/v3/kv/compaction", {"revision": put["header"]["revision"], "physical": True})

    def changes(self, namespace: str, resource: str, *, user: str = "ullage") -> list[Change]:
        """What `user` tried to change there so far, in order, by the API server's own audit log."""
        return api_audit.read(self.at.audit, namespace, resource, user=user)

    def _sync_pods(self) -> None:
        """Change what has waited long on its node, so that kwok looks at it again."""
        # A kubelet looks at each of its pods once a minute; kwok, once, and a pod whose first patch fails would wait for ever.
        while not self._ended.wait(_SYNC_EVERY):
            before = datetime.now(UTC) - timedelta(seconds=_SYNC_EVERY)
            with suppress(OSError, Refused):
                for pod in self.ask.get("/api/v1/pods?fieldSelector=status.phase%3DPending")["items"]:
                    since = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
                    if pod["spec"].get("nodeName") and since < before:
                        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
                        self.ask.patch(path, {"metadata": {"annotations": {kwok_stages.SYNCED: before.isoformat()}}})

    def _make_programs(self) -> None:
        def program(command: list[str], asking: Asking, path: str) -> Program:
            name = Path(command[0]).name
            return Program(command, self.folder / f"{name}.log", lambda: asking.good(path))

        def local(scheme: str, port: int) -> Asking:
            ca = str(self.ca) if scheme == "https" else None
            return Asking(f"{scheme}://{HOST}:{port}", self.at.token("admin"), ca)

        self._store = program(flags.etcd(self.at), self._etcd, "/health")
        self.apiserver = program(flags.apiserver(self.at), self.ask, "/readyz")
        self._others = [
            program(flags.controllers(self.at), local("https", self.at.controllers), "/healthz"),
            program(flags.scheduler(self.at), local("https", self.at.scheduler), "/healthz"),
            program(flags.kwok(self.at), local("http", self.at.kwok), "/healthz"),
        ]

    def _launch(self) -> None:
        for program in (self._store, self.apiserver):
            program.start()
            program.wait_ready(_START_WAIT)
        self._register()
        self._start_others()

    def _start_others(self) -> None:
        for program in self._others:
            program.start()
        for program in self._others:
            program.wait_ready(_START_WAIT, restarts=2)  # kwok 0.8.0 may panic beside an API server that has just started
        wait_for(self._all_known, timeout=_START_WAIT, what="the VPA and metrics APIs are served")

    def _register(self) -> None:
        """The VPA's types, those of deploy/crds, and who answers for metrics.k8s.io."""
        files = sorted((self._built / "crds").iterdir())
        files += sorted(crane_types.CRDS.iterdir())
        documents = [document for file in files for document in yaml.safe_load_all(file.read_text(encoding="utf-8")) if document]
        asked = [("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document) for document in documents]
        asked += metrics.registration(self.metrics.port)
        wait_for(lambda: self.ask.find("/api/v1/namespaces/kube-system"), what="the namespace kube-system")
        with ThreadPoolExecutor(4) as at_once:
            list(
                at_once.map(
                    lambda pair: self.ask.post(f"{pair[0]}?fieldValidation=Strict", json.loads(json.dumps(pair[1], default=str))),
                    asked,
                )
            )

    def _all_known(self) -> bool:
        kinds = ("verticalpodautoscalers", "verticalpodautoscalercheckpoints")
        served = [f"/apis/autoscaling.k8s.io/v1/{kind}" for kind in kinds]
        served += [f"{crane_types.ROOTS[plural]}/{plural}" for plural in crane_types.CUSTOM]
        return all(self.ask.good(path) for path in [*served, f"{metrics.ROOT}/nodes", "/api/v1/namespaces/default"])


def _sweep() -> None:
    """Folders whose owner is gone: what a run left that was killed, or that failed and wanted its logs read."""
    for left in ROOT.glob("*") if ROOT.is_dir() else ():
        if not psutil.pid_exists(int(left.name.partition("-")[0])):
            shutil.rmtree(left, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on, and that the kernel gives to no connection: ours stays ours over a restart.

    Each process of a test run has its own to choose from, and one comes again only after all others, because it takes seconds
    until it is listened on.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ours, found = _PORTS[worker % _WORKERS :: _WORKERS], list[int]()
    for _ in range(2):
        while _LEFT and len(found) < count:
            port = _LEFT.pop()
            with socket.socket() as probe, suppress(OSError):
                probe.bind((HOST, port))
                found.append(port)
        if len(found) == count:
            return found
        _LEFT.extend(set(ours).difference(found))
        random.shuffle(_LEFT)
    raise PlaneError(f"no {count} free ports between {_PORTS.start} and {_PORTS.stop}")
