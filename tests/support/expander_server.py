"""A real gRPC server of upstream's external expander on loopback, over TLS, whose answers a test writes."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from tests.support.certificates import Authority

SERVICE, METHOD = "grpcplugin.Expander", "BestOptions"


@dataclass
class ExpanderServer:
    """Where it answers, its authority's certificate, and the questions that came."""

    url: str
    certificate: Path
    questions: list[bytes] = field(default_factory=list)


@contextmanager
def expander_server(folder: Path, answer: Callable[[bytes, grpc.ServicerContext], bytes]) -> Iterator[ExpanderServer]:
    """A server that gives the answer of this function, in bytes, to a question in bytes."""
    authority = Authority.make(folder)
    pem = authority.sign("expander", ["127.0.0.1", "localhost"]).read_bytes()
    certificate = pem[pem.index(b"-----BEGIN CERTIFICATE") :]
    running = ExpanderServer("", authority.file)

    def best(question: bytes, context: grpc.ServicerContext) -> bytes:
        running.questions.append(question)
        return answer(question, context)

    server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0), ("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(SERVICE, {METHOD: grpc.unary_unary_rpc_method_handler(best)})]
    )
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(pem, certificate)]))
    running.url = f"127.0.0.1:{port}"
    server.start()
    try:
        yield running
    finally:
        server.stop(grace=None).wait()


def chosen(*groups: str) -> bytes:
    """An answer of options with these ids, as protobuf writes them."""
    return b"".join(_field(1, _field(1, group.encode()) + b"\x10\x03") for group in groups)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    digits = []
    while value > 127:  # seven bits a byte
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])
