"""Asks one of several webhooks about each new pod, as an API server asks a Service: those that do not answer get a rest."""

import itertools
import time
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException

REVIEW_WITHIN = 1.0
"""Seconds that a webhook has to answer."""
REST = 4.0
"""Seconds that nobody is asked who did not answer."""


class ReviewService:
    """The webhooks at these ports on loopback, in turn."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._turns = itertools.cycle(ports)
        self._count = len(ports)
        self._silent_until = dict.fromkeys(ports, 0.0)

    def __call__(self, body: bytes) -> bytes | None:
        """The answer; None when there is none. Whoever took the question is the only one that is asked."""
        for port in itertools.islice(self._turns, self._count):
            if self._silent_until[port] <= time.monotonic():
                try:
                    return self._ask(port, body)
                except ConnectionRefusedError:
                    continue
                except (OSError, HTTPException):
                    self._silent_until[port] = time.monotonic() + REST
                    return None
        return None

    def _ask(self, port: int, body: bytes) -> bytes:
        connection = HTTPConnection("127.0.0.1", port, timeout=REVIEW_WITHIN)
        try:
            connection.request("POST", "/", body)
            return connection.getresponse().read()
        finally:
            connection.close()
