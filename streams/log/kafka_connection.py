"""How to reach a Kafka cluster, and what a person can do when that fails.

Only this module knows how kafka-python spells its settings and its errors. It opens nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafka import errors

from streams.errors import LogUnavailable

BOOTSTRAP_MS = 10_000
REQUEST_MS = 10_000
MAX_RECORD_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Brokers (`host:port`, separated by commas) and security. The files are PEM."""

    brokers: str
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_check_hostname: bool = True
    client_id: str = "ullage"

    def options(self) -> dict[str, object]:
        """The settings of every kafka-python client."""
        return {
            "bootstrap_servers": [broker.strip() for broker in self.brokers.split(",") if broker.strip()],
            "client_id": self.client_id,
            "security_protocol": self.security_protocol,
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_plain_username": self.sasl_username,
            "sasl_plain_password": self.sasl_password,
            "ssl_cafile": self.ssl_cafile,
            "ssl_certfile": self.ssl_certfile,
            "ssl_keyfile": self.ssl_keyfile,
            "ssl_check_hostname": self.ssl_check_hostname,
            "bootstrap_timeout_ms": BOOTSTRAP_MS,
            "request_timeout_ms": REQUEST_MS,
            "reconnect_backoff_max_ms": 1_000,
        }


_ADVICE: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    (
        (errors.SaslAuthenticationFailedError, errors.IllegalSaslStateError, errors.AuthorizationError),
        "look at the user, the password and the rights it has (settings log.security...)",
    ),
    (
        (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError),
        f"a record may have {MAX_RECORD_BYTES} bytes; run `ullage topics apply`, which sets max.message.bytes",
    ),
    (
        (errors.UnknownTopicOrPartitionError, errors.InvalidTopicError),
        "make the topics with `ullage topics apply`",
    ),
    (
        (errors.NotEnoughReplicasError, errors.NotEnoughReplicasAfterAppendError),
        "too few replicas are in sync; look at the brokers",
    ),
    (
        (errors.RetriableError, OSError),
        "is it running, and are log.brokers and log.security right? Start one with `ullage broker`",
    ),
)


@contextmanager
def translated_errors(connection: KafkaConnection, doing: str) -> Iterator[None]:
    """Raise any error of the client as LogUnavailable: what was being done, where, the answer, and what to do."""
    try:
        yield
    except (errors.KafkaError, OSError) as error:
        answer = " ".join(f"{type(error).__name__}: {error}".split())
        raise LogUnavailable(f"{doing} at Kafka '{connection.brokers}' did not work ({answer}); {_advice(error)}") from error


def _advice(error: Exception) -> str:
    for kinds, advice in _ADVICE:
        if isinstance(error, kinds):
            return advice
    return "look at the brokers' own log"
