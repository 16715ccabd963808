"""Debian's package of Prometheus, unpacked into a cache folder: the server, and promtool.

Skipped with the reason where the package cannot be had; a failure where CI asks for the real thing and there is apt.
"""

import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "ullage" / "prometheus"


def programs() -> Path:
    """The folder with prometheus and promtool; the environment may name another."""
    if "PROMETHEUS_FOLDER" in os.environ:
        return Path(os.environ["PROMETHEUS_FOLDER"])
    binaries = CACHE / "usr" / "bin"
    if not (binaries / "prometheus").is_file():
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            pytest.skip("NO PROMETHEUS: there is no apt-get here to fetch Debian's package with")
        _fetch()
    return binaries


def _fetch() -> None:
    fresh = CACHE.with_name(f"prometheus.{os.getpid()}")
    fresh.mkdir(parents=True)
    try:
        _download(fresh)
        (package,) = fresh.glob("prometheus_*.deb")
        run(["dpkg-deb", "-x", str(package), str(fresh)], fresh)
        package.unlink()
        with suppress(OSError):  # another session was first
            fresh.rename(CACHE)
    except (subprocess.SubprocessError, ValueError, OSError) as error:
        why = f"NO PROMETHEUS: Debian's package cannot be had: {error} {getattr(error, 'stderr', '')}"
        if os.environ.get("ULLAGE_REQUIRE_CONTROLPLANE") == "1":
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _download(folder: Path) -> None:
    """A machine that was just made has no list of packages yet."""
    try:
        run(["apt-get", "download", "prometheus"], folder)
    except subprocess.CalledProcessError:
        run(["apt-get", "update"], folder)
        run(["apt-get", "download", "prometheus"], folder)


def run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=180)


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """The address of a server at work on the folder's prometheus.yml and data; with a web.yml there it speaks TLS."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    scheme = "https" if (folder / "web.yml").is_file() else "http"
    flags = ["--web.config.file=web.yml"] if scheme == "https" else []
    flags += ["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--storage.tsdb.retention.time=30d"]
    with (folder / "log").open("w") as log:
        command = [str(programs() / "prometheus"), *flags, f"--web.listen-address={address}"]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        _wait(f"{scheme}://{address}/-/ready", process, folder / "log")
        yield f"{scheme}://{address}"
    finally:
        process.terminate()
        process.wait(timeout=60.0)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    unseen = ssl._create_unverified_context()  # noqa: S323  # who asks is the code under test
    for _ in range(300):
        with suppress(OSError), urllib.request.urlopen(url, timeout=1, context=unseen) as answer:  # noqa: S310  # loopback
            if answer.status == 200:
                return
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    pytest.fail(f"prometheus was not ready after 30 s: {log.read_text()}")
