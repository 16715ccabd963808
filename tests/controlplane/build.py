"""Builds the programs of a real Kubernetes control plane from Go modules: `python tests/controlplane/build.py`.
With the word `helm` after it, it builds Helm instead, for the tests of the chart; with `senders`, an OpenTelemetry Collector and
a sender of remote-write 2.0.

They lie in the user's cache, in a folder named after everything that decides what is built, so a second checkout builds nothing.
Two builds at once: the second waits. A folder that is there is complete. Upstream's YAML for tests lies beside the programs.
Knows the standard library only, so that it may run before there is an environment. Downloads nothing but Go modules.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent / "build"
HELM_HERE = Path(__file__).parent / "helm_build"
SENDERS_HERE = Path(__file__).parent / "senders_build"
HELM = "helm.sh/helm/v3/cmd/helm"
VERSION = "1.36.3"
GO = (1, 26)
NEEDED_BYTES = 5 << 30
ETCD = "go.etcd.io/etcd/server/v3"
KWOK = "sigs.k8s.io/kwok"
OTHERS = (
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler",
    f"{KWOK}/cmd/kwok",
)
VPA = "k8s.io/autoscaler/vertical-pod-autoscaler@v1.8.1"
VPA_SUM = "h1:Pe8bV1wozN4gOKO1rleiIY5alIyAXN+DnXDbXQcL4fI="
VPA_CRDS = "deploy/vpa-v1-crd-gen.yaml"
STAGES = (
    "kustomize/stage/node/fast/node-initialize.yaml",
    "kustomize/stage/node/heartbeat/node-heartbeat.yaml",
    "kustomize/stage/pod/fast/pod-complete.yaml",
    "kustomize/stage/pod/fast/pod-delete.yaml",
)
PLAIN = ["-mod=readonly", "-trimpath", "-gcflags=all=-dwarf=false"]
_STAMP = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = VERSION.split(".")
STAMPED = f"-s -w -X {_STAMP}.gitVersion=v{VERSION} -X {_STAMP}.gitMajor={_MAJOR} -X {_STAMP}.gitMinor={_MINOR}"


class BuildError(Exception):
    """Why there is no control plane, in one sentence."""


def folder() -> Path:
    """Where the programs of this go.mod lie, or would lie."""
    return _folder("controlplane", HERE, (ETCD, OTHERS, VPA, VPA_CRDS, STAGES, PLAIN, STAMPED))


def helm() -> Path:
    """Where the program `helm` lies, or would lie."""
    return _folder("helm", HELM_HERE, (HELM, PLAIN)) / "helm"


def _folder(name: str, here: Path, decides: tuple[object, ...]) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parts = [(here / file).read_bytes() for file in ("go.mod", "go.sum")]
    parts.append(repr(decides).encode())
    return cache / "ullage" / name / hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def ensure() -> Path:
    """The folder with the programs, built if need be. Raises BuildError."""
    made = folder()
    if made.is_dir():
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    with _alone(made.with_suffix(".lock")):
        if not made.is_dir():
            _check_go()
            _check_space(made.parent)
            _make(made)
    return made


def ensure_helm() -> Path:
    """The program `helm`, built if need be. Raises BuildError."""
    made = helm()
    if made.is_file():
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    with _alone(made.with_suffix(".lock")):
        if not made.is_file():
            _check_go()
            _say("building helm (minutes when Go's cache is cold)")
            making = made.with_suffix(".new")
            _go(["build", *PLAIN, "-ldflags", "-s -w", "-o", str(making), HELM], here=HELM_HERE)
            making.rename(made)
    return made


def senders() -> Path:
    """The folder with `collector` and `writer`, or where it would lie."""
    programs = [(SENDERS_HERE / name / "main.go").read_bytes() for name in ("collector", "writer")]
    return _folder("senders", SENDERS_HERE, (programs, PLAIN))


def ensure_senders() -> Path:
    """The folder with `collector` and `writer`, built if need be. Raises BuildError."""
    made = senders()
    made.parent.mkdir(parents=True, exist_ok=True)
    with _alone(made.with_suffix(".lock")):
        if not made.is_dir():
            _check_go()
            _say("building an OpenTelemetry Collector and a sender of remote-write (minutes when Go's cache is cold)")
            making = made.with_suffix(".new")
            _go(["build", *PLAIN, "-ldflags", "-s -w", "-o", f"{making}/", "./collector", "./writer"], here=SENDERS_HERE)
            making.rename(made)
    return made


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another build is under way; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(made: Path) -> None:
    """In a folder of its own that gets its name when all is there."""
    for torn in made.parent.glob(f"{made.name}-*"):
        shutil.rmtree(torn)
    making = Path(tempfile.mkdtemp(prefix=f"{made.name}-", dir=made.parent))
    try:
        _copy(_module(VPA), (VPA_CRDS,), making / "crds")
        _copy(_module(KWOK), STAGES, making / "stages")
        _compile(making / "bin")
        making.chmod(0o755)
        making.rename(made)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _compile(into: Path) -> None:
    """etcd by itself: its folder is called "server", and without a name so would be the program."""
    _say("building kube-apiserver, kube-controller-manager, kube-scheduler, kwok and etcd (minutes when Go's cache is cold)")
    began = time.monotonic()
    _go(["build", *PLAIN, "-ldflags", STAMPED, "-o", f"{into}/", *OTHERS])
    _go(["build", *PLAIN, "-ldflags", "-s -w", "-o", str(into / "etcd"), ETCD])
    _say(f"built in {time.monotonic() - began:.0f} s")


def _module(name: str) -> Path:
    """Where a module's files lie, downloaded if need be. The answer of a missing proxy becomes our sentence."""
    try:
        found = json.loads(_go(["mod", "download", "-json", name]))
    except BuildError as error:
        proxy = _go(["env", "GOPROXY"]).strip()
        raise BuildError(f"The module '{name}' could not be had from the Go module proxy '{proxy}': {error}") from error
    if name == VPA and found["Sum"] != VPA_SUM:
        raise BuildError(f"The module '{name}' has the sum '{found['Sum']}' where '{VPA_SUM}' is expected.")
    return Path(found["Dir"])


def _copy(module: Path, names: tuple[str, ...], into: Path) -> None:
    """Upstream's files, writable so that the cache can be deleted."""
    into.mkdir()
    for name in names:
        (into / Path(name).name).write_bytes((module / name).read_bytes())


def source_of_kubernetes() -> Path:
    """Where Go keeps the source that the control plane was built from, if it still has it."""
    cache = _go(["env", "GOMODCACHE"]).strip() if shutil.which("go") else ""
    return Path(cache or "absent") / "k8s.io" / f"kubernetes@v{VERSION}"


def _check_go() -> None:
    if shutil.which("go") is None:
        raise BuildError(f"No 'go' on the PATH: the control plane is built with Go {GO[0]}.{GO[1]} or newer.")
    said = _go(["env", "GOVERSION"]).strip()
    numbers = said.removeprefix("go").split(".")[:2]
    if not all(number.isdigit() for number in numbers) or tuple(map(int, numbers)) < GO:
        raise BuildError(f"Go is '{said}', and Kubernetes {VERSION} needs {GO[0]}.{GO[1]} or newer.")


def _check_space(cache: Path) -> None:
    for place in (str(cache), *_go(["env", "GOCACHE", "GOMODCACHE"]).split("\n")):
        there = next((p for p in (Path(place), *Path(place).parents) if p.exists()), Path("/"))
        free = shutil.disk_usage(there).free
        if place and free < NEEDED_BYTES:
            raise BuildError(f"Only {free / 1e9:.1f} GB are free for '{place}'; building needs {NEEDED_BYTES / 1e9:.1f} GB.")


def _go(arguments: list[str], *, here: Path = HERE) -> str:
    """What Go printed. Its own newer toolchains are not fetched: that would be a download nobody asked for."""
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    done = subprocess.run(["go", *arguments], cwd=here, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = " | ".join((done.stderr or done.stdout).strip().splitlines()[-3:])
        raise BuildError(f"'go {arguments[0]}' ended with code {done.returncode}: {last}")
    return done.stdout


def _say(sentence: str) -> None:
    sys.stderr.write(f"control plane: {sentence}\n")
    sys.stderr.flush()


def main() -> int:
    """Build, and print the folder; of the program `helm` or of senders when these are asked for."""
    makers = {"helm": ensure_helm, "senders": ensure_senders}
    try:
        sys.stdout.write(f"{makers.get(' '.join(sys.argv[1:]), ensure)()}\n")
    except BuildError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
