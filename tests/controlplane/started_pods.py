"""Starts the containers of pods that the API server has, as a kubelet would: command line, environment, files, user and rights.

There is no container runtime here. A container gets a mount namespace with a root of its own instead, in which its volumes lie at
the paths that it names: the test's Python in place of the image, nothing of this machine's configuration, and read-only where the
pod says so. The network is this machine's, unlike on a node: ports are given out here, and Services lead nowhere.
"""

import base64
import ctypes
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import readiness
from tests.controlplane.plane import Plane, free_ports
from tests.support.commands import ROOT
from tests.torture.forked_processes import ForkedProcess

IMAGE_USER = 10001
"""Of deploy/Dockerfile, as are the entry point and the environment below."""
IMAGE = {"PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT), "HOME": "/"}
ENTRY = (sys.executable, "-m", "agents")
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
SERVED = ("METRICS__PORT", "WEBHOOK__PORT", "METRICS_API__PORT", "RECEIVER__PORT")
WORK = "/tmp"  # noqa: S108  # the image's
PYTHON = tuple(dict.fromkeys((ROOT, Path(sys.prefix), Path(sys.base_prefix))))
SYSTEM = ("usr", "bin", "sbin", "lib", "lib64", "proc", "dev", "sys")
OF_ETC = ("passwd", "group", "nsswitch.conf", "ld.so.cache", "localtime")
multiprocessing.set_forkserver_preload(
    [
        __name__,
        "agents.app.worker",
        "agents.cli",
        *(f"agents.commands.{name}" for name in ("change.mode", "change.settings", "change.topics", "status.status")),
        *(f"agents.processes.{name}" for name in ("consumer_webhook", "one_process", "source_kube", "source_usage")),
    ]
)
_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNTS, _NO_NEW_PRIVILEGES = 0x20000, 38
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18


def needed() -> None:
    """Skips where no process may have mounts of its own; a failure where CI asks for the real thing."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        why = "NO MOUNTS: this user may not make a mount namespace"
        if os.environ.get("ULLAGE_REQUIRE_CONTROLPLANE") == "1":
            pytest.fail(why, pytrace=False)
        pytest.skip(why)


@dataclass(frozen=True)
class Confinement:
    """What a container runtime makes of the process that calls `enter`. `command`: what it then becomes, if not our program."""

    root: Path
    mounts: Sequence[tuple[Path, str, bool]]
    """Folder here, path there, and whether it may only be read."""
    files: Mapping[str, str]
    """Those of /etc that the kubelet writes."""
    environment: Mapping[str, str]
    user: int
    group: int
    escalates: bool
    read_only: bool
    command: Sequence[str]

    def enter(self) -> None:
        os.umask(0o022)
        _call("unshare", _NEW_MOUNTS)
        self._make_root()
        os.chroot(self.root)
        os.chdir(WORK)
        os.setgroups(())
        os.setresgid(self.group, self.group, self.group)
        os.setresuid(self.user, self.user, self.user)  # all rights of root go with it
        if not self.escalates:
            _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        if self.command:
            os.execvpe(self.command[0], [*self.command], self.environment)  # noqa: S606  # a kubelet has no shell either
        os.environ.clear()
        os.environ.update(self.environment)

    def _make_root(self) -> None:
        _mount("none", "/", _RECURSIVE | _PRIVATE)
        _call("mount", b"tmpfs", bytes(self.root), b"tmpfs", 0, b"mode=755")
        for name in SYSTEM:
            there, here = self.root / name, Path("/", name)
            if here.is_symlink():
                there.symlink_to(here.readlink())
            elif here.is_dir():
                there.mkdir()
                _mount(here, there, _BIND | _RECURSIVE)
        (self.root / WORK.lstrip("/")).mkdir()
        read = [*((folder, str(folder), True) for folder in PYTHON), (Path("/etc/ssl"), "/etc/ssl", True)]
        for source, path, read_only in [*read, *self.mounts]:
            there = self.root / path.lstrip("/")
            there.mkdir(parents=True, exist_ok=True)
            _mount(source, there, _BIND)
            if read_only:
                _mount(source, there, _REMOUNT | _BIND | _READ_ONLY)
        for name in OF_ETC:
            shutil.copy(f"/etc/{name}", self.root / "etc")
        for name, text in self.files.items():
            (self.root / "etc" / name).write_text(text)
        if self.read_only:
            _mount("tmpfs", self.root, _REMOUNT | _READ_ONLY)


def _mount(source: Path | str, target: Path | str, flags: int) -> None:
    _call("mount", os.fsencode(source), os.fsencode(target), None, flags, None)


def _call(name: str, *arguments: object) -> None:
    if getattr(_LIBC, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{name}{arguments}: {os.strerror(ctypes.get_errno())}")


@dataclass
class Node:
    """Where pods of one namespace run.

    `user` is the one whom OpenShift would give them; `drivers` has the files that CSI drivers mount, by the driver's name.
    """

    plane: Plane
    namespace: str
    folder: Path
    user: int | None = None
    drivers: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    injected: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Environment by account, as a webhook of others adds it: EKS' for IRSA, for instance."""
    imports: bool = False
    """Our program starts from nothing, as in an image, not forked from one that has imported it: ten times the CPU time."""
    running: list["Started"] = field(default_factory=list)

    def run(self, *pods: Mapping[str, Any]) -> dict[str, "Started"]:
        """Start these pods, each with its init containers one after another before the others; what goes on is given, by name."""
        made = [(pod, self._prepared(pod, c)) for pod in pods for c in pod["spec"].get("initContainers", [])]
        made += [(pod, self._prepared(pod, c)) for pod in pods for c in pod["spec"]["containers"]]
        going: dict[str, Started] = {}
        for pod, prepared in made:
            started = prepared.start(imports=self.imports)
            self.running.append(started)
            ends = prepared.container in pod["spec"].get("initContainers", []) or pod["spec"]["restartPolicy"] != "Always"
            started.ends_well() if ends else going.update({prepared.container["name"]: started})
        return going

    def ways(self, *pods: Mapping[str, Any]) -> set[str]:
        """How their containers would be started: equal for equal words, files by name, environment, user and rights."""
        return {
            self._prepared(pod, container).way
            for pod in pods
            for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
        }

    def _prepared(self, pod: Mapping[str, Any], container: Mapping[str, Any]) -> "PreparedContainer":
        """Its files are there when this returns."""
        spec, home = pod["spec"], self.folder / pod["metadata"]["name"]
        own = {**spec.get("securityContext", {}), **container.get("securityContext", {})}
        user = own.get("runAsUser", self.user or IMAGE_USER)
        assert user != 0 or not own.get("runAsNonRoot"), "container has runAsNonRoot and image will run as root"
        aliases = [f"{alias['ip']} {' '.join(alias['hostnames'])}" for alias in spec.get("hostAliases", ())]
        options = [f"{option['name']}:{option['value']}" for option in spec.get("dnsConfig", {}).get("options", ())]
        root = home / f"{container['name']}.root"
        root.mkdir(parents=True, exist_ok=True)
        confinement = Confinement(
            root,
            [*self._mounts(spec, container, home)],
            {
                "hosts": "\n".join(["127.0.0.1 localhost", *aliases, ""]),
                "resolv.conf": f"nameserver 127.0.0.1\noptions {' '.join(options)}\n",
            },
            self._environment(spec, container),
            user,
            own.get("runAsGroup", 0 if self.user else user),
            escalates=own.get("allowPrivilegeEscalation", True),
            read_only=own.get("readOnlyRootFilesystem", False),
            command=(),
        )
        return PreparedContainer(container, confinement, root.with_suffix(".log"))

    def close(self) -> None:
        for started in self.running:
            started.process.send_signal(signal.SIGTERM)
        for started in self.running:
            try:
                started.process.wait(60)
            except subprocess.TimeoutExpired:
                started.process.kill()

    def _mounts(self, spec: Mapping[str, Any], container: Mapping[str, Any], home: Path) -> Iterator[tuple[Path, str, bool]]:
        volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
        for mount in container.get("volumeMounts", ()):
            yield self._volume(home / mount["name"], volumes[mount["name"]]), mount["mountPath"], mount.get("readOnly", False)
        if spec.get("automountServiceAccountToken", True):
            yield self._account(home / "account", spec.get("serviceAccountName", "default")), ACCOUNT, True

    def _volume(self, place: Path, volume: Mapping[str, Any]) -> Path:
        """A folder with what the volume has."""
        if place.is_dir():
            return place
        place.mkdir(parents=True)
        if "emptyDir" in volume:
            place.chmod(0o777)
        elif "csi" in volume:
            _write(place, self.drivers[volume["csi"]["driver"]])
        for source in volume.get("projected", {}).get("sources", [volume]):
            for of, content in self._referred(source):
                items = {item["key"]: item["path"] for item in of.get("items", ())}
                assert items.keys() <= content.keys(), f"references non-existent key: {items.keys() - content.keys()}"
                _write(place, {items.get(key, key): value for key, value in content.items() if key in items or not items})
        return place

    def _account(self, place: Path, account: str) -> Path:
        """What the admission of service accounts mounts; the plane does without it."""
        if not place.is_dir():
            place.mkdir(parents=True)
            path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
            token = self.plane.ask.post(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
            _write(place, {"token": token.encode(), "ca.crt": self.plane.ca.read_bytes(), "namespace": self.namespace.encode()})
        return place

    def _environment(self, spec: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, str]:
        told = {
            **IMAGE,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": self.plane.url.rpartition(":")[2],
            **self.injected.get(spec.get("serviceAccountName", "default"), {}),
        }
        for source in container.get("envFrom", ()):
            for _, content in self._referred(source, "Ref"):
                told |= {source.get("prefix", "") + key: value.decode() for key, value in content.items()}
        for entry in container.get("env", ()):
            told |= {entry["name"]: entry["value"]} if "value" in entry else {}
            for of, content in self._referred(entry.get("valueFrom", {}), "KeyRef"):
                assert of["key"] in content or of.get("optional"), f"couldn't find key {of['key']} in '{of['name']}'"
                told |= {entry["name"]: content[of["key"]].decode()} if of["key"] in content else {}
        return told

    def _referred(self, source: Mapping[str, Any], suffix: str = "") -> Iterator[tuple[Mapping[str, Any], dict[str, bytes]]]:
        """The ConfigMap or Secret that is named there, and what it has. A pod waits for ever for one that is not there."""
        for kind in ("configMap", "secret"):
            if of := source.get(f"{kind}{suffix}"):
                name, plural = of.get("name") or of["secretName"], f"{kind.lower()}s"
                there = self.plane.ask.find(f"/api/v1/namespaces/{self.namespace}/{plural}/{name}")
                assert there is not None or of.get("optional"), f"MountVolume.SetUp failed: there is no '{name}' among {plural}"
                data = (there or {}).get("data", {})
                yield of, {k: base64.b64decode(v) if kind == "secret" else v.encode() for k, v in data.items()}


@dataclass(frozen=True)
class PreparedContainer:
    """One that can be started."""

    container: Mapping[str, Any]
    confinement: Confinement
    log: Path

    @property
    def way(self) -> str:
        ours, words = self.confinement, [self.container.get("command"), self.container.get("args")]
        mounts = [(sorted(file.name for file in source.iterdir()), path, read_only) for source, path, read_only in ours.mounts]
        return repr((words, mounts, ours.files, ours.environment, ours.user, ours.group, ours.escalates, ours.read_only))

    def start(self, *, imports: bool) -> "Started":
        ports = dict(zip(SERVED, free_ports(len(SERVED)), strict=True))
        environment = {**self.confinement.environment, **{f"ULLAGE_{name}": str(port) for name, port in ports.items()}}
        entry, arguments = self.container.get("command"), self.container.get("args", [])
        command = [*(entry or ENTRY), *arguments] if entry or imports else ()
        confinement = replace(self.confinement, environment=environment, command=command)
        return Started(ForkedProcess("agents", arguments, self.log, confinement.enter), self.container, self.log, ports)


@dataclass
class Started:
    """The process of a container, and the ports that it was given."""

    process: ForkedProcess
    container: Mapping[str, Any]
    log: Path
    ports: Mapping[str, int]

    def ends_well(self) -> None:
        assert self.process.wait(90.0) == 0, self.said()

    def said(self) -> str:
        return f"{self.container['name']}: {self.log.read_text(errors='replace')[-3000:]}"

    def ready(self) -> bool:
        return not self.unready()

    def unready(self) -> list[str]:
        """Why the kubelet's readiness probe fails."""
        if self.process.poll() is not None:
            pytest.fail(f"ended with {self.process.poll()}: {self.said()}")
        path = self.container["readinessProbe"]["httpGet"]["path"]
        answered = readiness.reasons(f"http://127.0.0.1:{self.ports['METRICS__PORT']}{path}")
        return ["nothing answers"] if answered is None else answered


def _write(place: Path, content: Mapping[str, bytes]) -> None:
    for name, value in content.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(value)
        (place / name).chmod(0o644)
