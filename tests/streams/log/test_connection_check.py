"""What a person is told within seconds about brokers that refuse, are silent or are frozen."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from schemas.units import Seconds
from streams.errors import BadInput, LogUnavailable
from streams.log.connection_check import find_fault, require_answer
from streams.log.kafka_connection import KafkaConnection

NOBODY = "127.0.0.1:1"
SHORT = Seconds(0.2)
NO_SASL_HERE = struct.pack(">iihi", 10, -1, 34, 0)


@contextmanager
def _listener() -> Iterator[tuple[socket.socket, str]]:
    """A port that the kernel answers at, as it does for a process that is frozen."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server, f"127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def _answering(answer: bytes) -> Iterator[str]:
    """A broker that gives one answer to the first request of each connection."""
    with _listener() as (server, address):

        def serve() -> None:
            with suppress(OSError):  # the server is closed at the end
                while True:
                    wire, _ = server.accept()
                    with closing(wire):
                        wire.recv(1024)
                        wire.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield address


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_a_broker_that_takes_connections_and_is_frozen_is_not_waited_for_by_the_client(protocol: str) -> None:
    with _listener() as (_, address), pytest.raises(LogUnavailable) as caught:
        require_answer(KafkaConnection(address, protocol, "PLAIN"), within=Seconds(1.0))
    assert f"'{address}' takes the connection and does not answer as Kafka does; is it overloaded, or frozen?" in str(
        caught.value
    )


def test_one_broker_that_answers_is_enough_while_others_are_frozen_or_away() -> None:
    with _listener() as (_, frozen), _answering(NO_SASL_HERE) as address:
        require_answer(KafkaConnection(f"{frozen},{NOBODY},{address}"), within=Seconds(10.0))


def test_each_broker_that_does_not_answer_is_named_with_its_own_reason() -> None:
    with _listener() as (_, frozen), pytest.raises(LogUnavailable) as caught:
        require_answer(KafkaConnection(f"{frozen},{NOBODY}"), within=SHORT)
    mute = f"'{frozen}' takes the connection and does not answer as Kafka does; is it overloaded, or frozen?"
    nobody = f"nobody answers at '{NOBODY}' (Connection refused): is Kafka running, and is log.brokers right?"
    whole = f"connecting to Kafka '{frozen},{NOBODY}' did not work: {mute}; {nobody} Start one with `ullage broker`"
    assert str(caught.value) == whole


def test_a_broker_that_answers_and_has_no_sasl_is_refused_to_those_who_would_log_in() -> None:
    with _answering(NO_SASL_HERE) as address:
        where = KafkaConnection(address, "SASL_PLAINTEXT", "PLAIN")
        with pytest.raises(LogUnavailable, match=r"asks for no user, and log\.security\.protocol is 'SASL_PLAINTEXT'"):
            require_answer(where, within=Seconds(10.0))
        fault = find_fault(where)
    assert fault is not None
    assert fault.refused


def test_a_login_is_left_to_the_client() -> None:
    with _answering(struct.pack(">iihih5s", 17, -1, 0, 1, 5, b"PLAIN")) as address:
        require_answer(KafkaConnection(address, "SASL_PLAINTEXT", "PLAIN"), within=Seconds(10.0))


def test_a_file_of_the_settings_that_cannot_be_used_is_said_as_such() -> None:
    with _listener() as (_, address), pytest.raises(BadInput, match=r"log\.security\.ca 'absent\.pem' cannot be used"):
        require_answer(KafkaConnection(address, "SSL", ssl_cafile="absent.pem"), within=Seconds(10.0))


def test_a_name_that_is_looked_up_for_ever_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    awake = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: awake.wait())
    try:
        with pytest.raises(LogUnavailable, match=r"'kafka\.example:9092' does not answer within 0\.2 s; is it running\?"):
            require_answer(KafkaConnection("kafka.example:9092"), within=SHORT)
    finally:
        awake.set()
