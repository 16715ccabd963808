"""Why we cannot connect to a Kafka cluster: tries each broker step by step, and names the step that fails.

The clients of Kafka retry every error and then only report a time-out. This takes the same steps once (name, port, TLS,
mechanism, password) and says in a sentence what failed and which setting to check. It reads and changes nothing.
"""

import socket
import ssl
import struct
from contextlib import closing, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic

from kafka.net.sasl import get_sasl_mechanism

from schemas.units import Seconds
from streams.errors import LogUnavailable
from streams.log.kafka_connection import KafkaConnection, split_address

PATIENCE = Seconds(5.0)
"""Seconds for a connection and the first answer on it, and for each later answer."""
_LEAST = Seconds(0.1)  # for an answer even if connecting took all the time
_GRACE = 0.25  # seconds for a broker's own sentence when its time is over: it says more than that nobody answered
_HANDSHAKE, _AUTHENTICATE = 17, 36
_UNSUPPORTED_MECHANISM, _NO_SASL_HERE = 33, 34
_HOST_NAME, _ADDRESS = 62, 64
_EXPIRED = (9, 10)
_LARGEST_ANSWER = 1 << 20


@dataclass(frozen=True, slots=True)
class ConnectionFault:
    """What prevents a connection. `refused`: a broker answered and refused, so trying again is useless."""

    sentence: str
    refused: bool


class _Stopped(Exception):  # it ends the steps; `ConnectionFault` is what callers see
    def __init__(self, sentence: str, *, refused: bool = True) -> None:
        super().__init__(sentence)
        self.fault = ConnectionFault(sentence, refused)


def find_fault(where: KafkaConnection, patience: Seconds = PATIENCE) -> ConnectionFault | None:
    """Why no broker can be used; None when one accepts us. A refusal takes precedence over silence.

    Raises BadInput for unusable files in the settings.
    """
    faults = []
    for broker in where.addresses:
        try:
            _enter(where, broker, patience)
        except _Stopped as stopped:
            faults.append(stopped.fault)
        else:
            return None
    return next((fault for fault in faults if fault.refused), faults[0] if faults else None)


def require_entry(where: KafkaConnection) -> None:
    """Raises LogUnavailable with the reason when none of the brokers can be used."""
    fault = find_fault(where)
    if fault is not None:
        raise LogUnavailable(fault.sentence)


def refuse_at_once(where: KafkaConnection) -> None:
    """Raises LogUnavailable when a broker refuses. If brokers are silent, the client itself waits and retries."""
    fault = find_fault(where)
    if fault is not None and fault.refused:
        raise LogUnavailable(f"connecting to Kafka '{where.brokers}' did not work: {fault.sentence}")


def require_answer(where: KafkaConnection, *, within: Seconds) -> None:
    """Raises LogUnavailable with what was tried when none of the brokers answers like Kafka.

    For commands that a person waits for, so all brokers are asked at once. Raises BadInput for files of the settings that cannot
    be used.
    """
    answers: SimpleQueue[tuple[str, Exception | None]] = SimpleQueue()
    for broker in where.addresses:  # in threads, because name look-ups have no time limit
        Thread(target=_try_to_enter, args=(where, broker, within, answers), daemon=True).start()
    silent = {broker: _silence(broker, within) for broker in where.addresses}
    until = monotonic() + within + _GRACE
    with suppress(Empty):
        for _ in where.addresses:
            broker, error = answers.get(timeout=max(0.0, until - monotonic()))
            if error is None:
                return
            if not isinstance(error, _Stopped):
                raise error
            silent[broker] = error.fault.sentence
    raise LogUnavailable(f"connecting to Kafka '{where.brokers}' did not work: {'; '.join(silent.values())}")


def _try_to_enter(
    where: KafkaConnection, broker: str, patience: Seconds, answers: "SimpleQueue[tuple[str, Exception | None]]"
) -> None:
    try:
        _enter(where, broker, patience, log_in=False)  # which is left to the client: a second login would cost the person time
    except Exception as error:  # noqa: BLE001  # it is raised where it is waited for
        answers.put((broker, error))
    else:
        answers.put((broker, None))


def _enter(where: KafkaConnection, broker: str, patience: Seconds, *, log_in: bool = True) -> None:
    with closing(_connect(where, broker, patience)) as wire:
        try:
            _authenticate(where, broker, wire, log_in=log_in)
        except ssl.SSLError as error:  # with TLS 1.3 that only shows on reading
            raise _Stopped(f"'{broker}' refuses our TLS ({error.reason}): {_CLIENT_CERTIFICATE}") from error
        except TimeoutError as error:
            raise _Stopped(_muteness(broker), refused=False) from error
        except OSError as error:
            raise _Stopped(f"'{broker}' breaks the connection off ({error}): {_tls_hint(where)}", refused=False) from error


_CLIENT_CERTIFICATE = "it may want a certificate of ours: log.security.certificate and log.security.key"


def _connect(where: KafkaConnection, broker: str, patience: Seconds) -> socket.socket:
    until = monotonic() + patience
    plain = _dial(broker, patience)
    context = where.ssl_context()  # reading the authorities of a system takes a while on a busy machine
    plain.settimeout(max(_LEAST, until - monotonic()))
    return plain if context is None else _shake_hands(where, broker, plain, context)


def _dial(broker: str, patience: Seconds) -> socket.socket:
    host, port = split_address(broker)
    try:
        return socket.create_connection((host, port), timeout=patience)
    except socket.gaierror as error:
        raise _Stopped(f"the name '{host}' of log.brokers cannot be found ({error.strerror})", refused=False) from error
    except TimeoutError as error:
        raise _Stopped(_silence(broker, patience), refused=False) from error
    except OSError as error:
        sentence = f"nobody answers at '{broker}' ({error.strerror}): is Kafka running, and is log.brokers right?"
        raise _Stopped(f"{sentence} Start one with `ullage broker`", refused=False) from error


def _silence(broker: str, patience: Seconds) -> str:
    return f"'{broker}' does not answer within {patience:g} s; is it running?"


def _muteness(broker: str) -> str:
    return f"'{broker}' takes the connection and does not answer as Kafka does; is it overloaded, or frozen?"


def _shake_hands(where: KafkaConnection, broker: str, plain: socket.socket, context: ssl.SSLContext) -> socket.socket:
    host, _ = split_address(broker)
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise _Stopped(_bad_certificate(where, broker, error)) from error
    except ssl.SSLError as error:
        sentence = (
            f"'{broker}' does not speak TLS with us ({error.reason}), and log.security.protocol is '{where.security_protocol}'"
        )
        raise _Stopped(sentence) from error
    except TimeoutError as error:
        raise _Stopped(_muteness(broker), refused=False) from error
    except OSError as error:
        raise _Stopped(f"'{broker}' breaks the connection off in the TLS handshake ({error})", refused=False) from error
    finally:
        if not isinstance(plain, ssl.SSLSocket) and plain.fileno() >= 0:
            plain.close()


def _bad_certificate(where: KafkaConnection, broker: str, error: ssl.SSLCertVerificationError) -> str:
    why = error.verify_message.rstrip(".")
    if error.verify_code in (_HOST_NAME, _ADDRESS):
        host, _ = split_address(broker)
        return f"the certificate of '{broker}' is for another host than '{host}' ({why}): log.brokers must use a name it carries"
    if error.verify_code in _EXPIRED:
        return f"the certificate of '{broker}' is not valid at this time ({why})"
    authorities = f"in '{where.ssl_cafile}'" if where.ssl_cafile else "that this system trusts"
    return f"the certificate of '{broker}' is not signed by an authority {authorities} ({why}): look at log.security.ca"


def _authenticate(where: KafkaConnection, broker: str, wire: socket.socket, *, log_in: bool) -> None:
    """Ask for the mechanism, and log in with it."""
    wanted = str(where.options()["sasl_mechanism"] or "PLAIN") if where.security_protocol.startswith("SASL") else ""
    answer = _Answer(_ask(wire, _HANDSHAKE, _text(wanted)))
    code, offered = answer.number(), answer.texts()
    if code == _NO_SASL_HERE or not wanted:
        # A port without SASL refuses the question, which is right for a client without SASL.
        if (code == _NO_SASL_HERE) == (not wanted):
            return
        asks = "asks for no user" if wanted else f"asks for a user and a password ({', '.join(offered)})"
        raise _Stopped(f"'{broker}' {asks}, and log.security.protocol is '{where.security_protocol}'")
    if code == _UNSUPPORTED_MECHANISM:
        raise _Stopped(f"'{broker}' does not take log.security.mechanism '{wanted}', but {', '.join(offered)}")
    if log_in:
        _log_in(where, broker, wire, wanted)


def _log_in(where: KafkaConnection, broker: str, wire: socket.socket, wanted: str) -> None:
    if where.msk is None and (where.sasl_username is None or where.sasl_password is None):
        raise _Stopped(f"'{broker}' asks for a user and a password: set log.security.username and log.security.password")
    mechanism = get_sasl_mechanism(wanted)(**{**where.options(), "sasl_mechanism": wanted, "host": split_address(broker)[0]})
    while not mechanism.is_done():
        token = mechanism.auth_bytes()
        answer = _Answer(_ask(wire, _AUTHENTICATE, struct.pack(">i", len(token)) + token))
        code, message = answer.number(), answer.text()
        if code:
            raise _Stopped(f"'{broker}' does not know {_who(where)}: {message or f'code {code}'}")
        mechanism.receive(answer.data())


def _who(where: KafkaConnection) -> str:
    if where.msk is not None:
        return f"our identity of AWS, or it may not connect (kafka-cluster:Connect; log.security.region is '{where.msk.region}')"
    return f"user '{where.sasl_username}' (log.security.username), or the password is wrong"


def _tls_hint(where: KafkaConnection) -> str:
    if where.ssl_context() is None:
        return f"it may speak TLS, and log.security.protocol is '{where.security_protocol}'"
    return "is it Kafka?"


def _ask(wire: socket.socket, api: int, body: bytes) -> bytes:
    """One request of version 1 and the body of its answer."""
    request = struct.pack(">hhih", api, 1, 1, -1) + body
    wire.sendall(struct.pack(">i", len(request)) + request)
    (length,) = struct.unpack(">i", _read(wire, 4))
    if not 0 < length < _LARGEST_ANSWER:
        msg = "its answer is none of Kafka's"
        raise ConnectionError(msg)
    return _read(wire, length)[4:]


def _read(wire: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = wire.recv(count - len(data))
        if not more:
            msg = "it closed the connection"
            raise ConnectionError(msg)
        data += more
    return data


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


class _Answer:
    """Parses an answer from its beginning."""

    def __init__(self, body: bytes) -> None:
        self._rest = body

    def _take(self, count: int) -> bytes:
        taken, self._rest = self._rest[: max(0, count)], self._rest[max(0, count) :]
        return taken

    def number(self) -> int:
        """A number of two bytes."""
        return int.from_bytes(self._take(2), signed=True)

    def text(self) -> str:
        """A text with its length before it; -1 for none."""
        return self._take(self.number()).decode(errors="replace")

    def texts(self) -> list[str]:
        """Several texts with their number before them."""
        return [self.text() for _ in range(int.from_bytes(self._take(4), signed=True))]

    def data(self) -> bytes:
        """Bytes with their length before them."""
        return self._take(int.from_bytes(self._take(4), signed=True))
