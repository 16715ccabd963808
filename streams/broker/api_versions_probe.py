"""Whether a Kafka broker answers: a TCP connection is not enough, so it is asked for its ApiVersions."""

import socket
import ssl
import struct

from schemas.units import Seconds
from streams.broker.server_properties import HOST

_API_VERSIONS = 18
_CORRELATION = 0x5EAD


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
