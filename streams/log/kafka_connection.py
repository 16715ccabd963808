"""How to reach a Kafka cluster. Only this module knows kafka-python's names for settings. It opens no connection."""

import ssl
from dataclasses import dataclass, field

from streams.errors import BadInput
from streams.log.msk_tokens import MskTokens

BOOTSTRAP_MS = 10_000
REQUEST_MS = 10_000
OAUTH = "OAUTHBEARER"
"""The mechanism in which a token of Amazon MSK goes over the wire."""


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
    msk: MskTokens | None = None
    """Signs tokens for Amazon MSK with IAM."""
    client_id: str = "ullage"

    @property
    def addresses(self) -> list[str]:
        """The brokers, one by one."""
        return [broker.strip() for broker in self.brokers.split(",") if broker.strip()]

    @property
    def secured(self) -> bool:
        """Whether TLS or authentication is configured."""
        return self.security_protocol != "PLAINTEXT"

    @property
    def logs_in(self) -> bool:
        """Whether the brokers learn who we are: by a password, a token or a certificate."""
        return self.security_protocol.startswith("SASL") or (self.security_protocol == "SSL" and self.ssl_certfile is not None)

    def ssl_context(self) -> ssl.SSLContext | None:
        """How to check the brokers' certificates and show ours; None without TLS. Raises BadInput for unusable files."""
        if not self.security_protocol.endswith("SSL"):
            return None
        try:
            context = ssl.create_default_context(cafile=self.ssl_cafile)
        except OSError as error:
            raise BadInput(f"log.security.ca '{self.ssl_cafile}' cannot be used: {_why(error)}") from error
        context.check_hostname = self.ssl_check_hostname
        if self.ssl_certfile:
            try:
                context.load_cert_chain(self.ssl_certfile, self.ssl_keyfile)
            except OSError as error:
                both = f"log.security.certificate '{self.ssl_certfile}' and log.security.key '{self.ssl_keyfile}'"
                raise BadInput(f"{both} cannot be used: {_why(error)}") from error
        return context

    def options(self) -> dict[str, object]:
        """What every kafka-python client takes. Raises BadInput as `ssl_context`."""
        return {
            "bootstrap_servers": self.addresses,
            "client_id": self.client_id,
            "security_protocol": self.security_protocol,
            "sasl_mechanism": self.sasl_mechanism if self.msk is None else OAUTH,
            "sasl_oauth_token_provider": self.msk,
            "sasl_plain_username": self.sasl_username,
            "sasl_plain_password": self.sasl_password,
            "ssl_context": self.ssl_context(),
            "bootstrap_timeout_ms": BOOTSTRAP_MS,
            "request_timeout_ms": REQUEST_MS,
            "reconnect_backoff_max_ms": 1_000,
        }


def split_address(broker: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[address]:port`; without a port it is Kafka's usual one."""
    host, _, port = broker.rpartition(":") if broker[-1:] != "]" else (broker, "", "")
    if not port.isdecimal():
        host, port = broker, "9092"
    return host.strip("[]"), int(port)


def _why(error: OSError) -> str:
    return error.strerror or str(error)
