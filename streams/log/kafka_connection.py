"""How to reach a Kafka cluster, and with which token Amazon's MSK. Only this module knows kafka-python's names for settings.

It opens no connection. The identity for MSK is found as by AWS' own clients, and AWS' own package signs (our extra msk).
"""

import ssl
import threading
import time
from dataclasses import dataclass, field

from kafka.net.sasl.oauth import AbstractTokenProvider

from streams.errors import BadInput, LogUnavailable

MECHANISM = "AWS_MSK_IAM"
_SPARE_MS = 120_000  # before its end a token is no longer given out: a connection takes its time, and clocks differ


class MskTokens(AbstractTokenProvider):  # type: ignore[misc]  # the client ships no types
    """The tokens of one region. Threads may share it."""

    def __init__(self, region: str) -> None:
        super().__init__()
        self.region = region
        self._lock = threading.Lock()
        self._token, self._ends_ms = "", 0

    def token(self) -> str:
        """A token that stays valid for a while. Raises BadInput without the package, LogUnavailable without credentials."""
        with self._lock:
            if self._ends_ms - _SPARE_MS < time.time_ns() // 1_000_000:
                self._token, self._ends_ms = _signed(self.region)
            return self._token


def _signed(region: str) -> tuple[str, int]:
    """A token, and when it ends in milliseconds since the epoch."""
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError as error:
        raise BadInput(
            f"log.security.mechanism is '{MECHANISM}', and the package that signs for AWS is not installed: "
            "pip install -e '.[msk]' (the image has it)"
        ) from error
    try:
        if Session().get_credentials() is None:
            raise ValueError("there are no credentials")  # noqa: TRY301  # one sentence for all of these
        token, ends_ms = MSKAuthTokenProvider.generate_auth_token(region)
    except (BotoCoreError, ValueError) as error:
        raise LogUnavailable(
            f"no token for Amazon MSK in region '{region}': {error}. Give the process an identity of AWS: a pod identity, "
            "an annotated service account, AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
    return str(token), int(ends_ms)


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
