"""Opens the log for one command of an operator, with the event time and the author that its policies carry."""

import getpass
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from agents.settings import log_factory
from agents.settings.all_settings import Settings
from schemas.policies.control import Author, KnownBy
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog


@contextmanager
def operator_session(settings: Settings) -> Iterator[tuple[OperatorLog, datetime]]:
    """An OperatorLog that signs for these settings, and event time."""
    topics = log_factory.topics(settings)
    with log_factory.log_to_write(settings) as log:
        operator = OperatorLog(LogContext.of(log, topics), author(settings))
        # policies are dated in event time, as facts are, and not by the clock of an operator's machine
        tick = operator.newest_tick()
        yield operator, datetime.now(UTC) if tick is None else tick.at  # noqa: TID251  # a driver, and the log has no time yet


# Says who writes when a command of these settings publishes policies, control, rules or reverts.


_LONGEST = 200
"""Characters of a name; a certificate's subject may be longer."""


def author(settings: Settings) -> Author:
    """The principal that Kafka asks for, as our own credentials name it; else the user and host of the operating system."""
    if settings.log.kind == "kafka":
        connection = log_factory.connection(settings)
        # Kafka tells no client its principal, so it is read from the credentials
        if connection.sasl_username:
            return Author(connection.sasl_username[:_LONGEST], KnownBy.KAFKA)
        if connection.ssl_certfile and connection.security_protocol == "SSL":
            subject = _subject(Path(connection.ssl_certfile))
            if subject:
                return Author(subject[:_LONGEST], KnownBy.KAFKA)
    return Author(f"{_user()}@{socket.gethostname()}"[:_LONGEST], KnownBy.SYSTEM)


def _user() -> str:
    # A container may run as a number without a name, and then the number is all that is known.
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return "unknown"


def _subject(certificate: Path) -> str:
    """The subject as Kafka spells a principal; empty when the file is no certificate, which the connection itself will tell."""
    from cryptography import x509  # heavy, and only needed with client certificates

    try:
        return x509.load_pem_x509_certificate(certificate.read_bytes()[: 1 << 20]).subject.rfc4514_string()
    except (OSError, ValueError):
        return ""
