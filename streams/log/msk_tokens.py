"""Tokens for Amazon MSK: a cluster with IAM accepts a signed request, valid for 15 minutes, in place of a password.

The identity is found as by AWS' own clients: a pod identity, an account's annotation, a profile, variables. AWS' own package
signs (our extra msk), and both clients of Kafka get a token here whenever they connect.
"""

import threading
import time

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
