"""Whether a broker can start on this machine: a free port, disk space, and a data folder that nothing else uses."""

import contextlib
import shutil
import socket
import ssl
import struct
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
