"""Says who writes when a command of these settings publishes policies, control, rules or reverts."""

import getpass
import socket
from contextlib import suppress
from pathlib import Path

from agents.settings import log_factory
from agents.settings.all_settings import Settings
from schemas.policies.authors import Author, KnownBy

_LONGEST = 200
"""Characters of a name; a certificate's subject may be longer."""


def author(settings: Settings) -> Author:
    """The principal that Kafka asks for, as our own credentials name it; else the user and host of the operating system."""
    if settings.log.kind == "kafka":
        connection = log_factory.connection(settings)
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
