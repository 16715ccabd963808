"""Plain questions to the API server, as the tests' own hand: set up the world, and look at it without the code under test."""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tests.support.slow_machines import SLOWER

T = TypeVar("T")
PATIENCE = 30.0
PATCHES = {
    "strategic": "application/strategic-merge-patch+json",
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
}


class Refused(Exception):
    """The server answered with an error. `code` and `status` are its own."""

    def __init__(self, code: int, status: Any, question: str) -> None:
        super().__init__(f"{question} was answered with {code}: {status}")
        self.code, self.status = code, status


def wait_for(
    condition: Callable[[], T | None], *, timeout: float = PATIENCE, what: str = "", instead: Callable[[], object] = str
) -> T:
    """What `condition` gives as soon as it is true. Raises TimeoutError with `what`, or else the condition's name, and what
    there is `instead` then.
    """
    until = time.monotonic() + SLOWER * timeout
    while not (found := condition()):
        if time.monotonic() > until:
            awaited = what or getattr(condition, "__name__", condition)
            raise TimeoutError(f"after {SLOWER * timeout:.0f} s still not: {awaited} {instead()}")
        time.sleep(0.05)
    return found


class Asking:
    """One server, one token."""

    def __init__(self, url: str, token: str, ca: str | None) -> None:
        self.url, self._token = url, token
        self._context = ssl.create_default_context(cafile=ca) if ca else None
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self._context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=self._context))
        self._opener = urllib.request.build_opener(*handlers)

    def request(
        self, method: str, path: str, body: object = None, *, patch: str = "strategic", timeout: float = SLOWER * 10.0
    ) -> Any:
        """The decoded answer. Raises Refused, and OSError when nobody answers. `patch` names the kind of a PATCH."""
        said = None if body is None else json.dumps(body).encode()
        content = PATCHES[patch] if method == "PATCH" else "application/json"
        headers = {"Content-Type": content, "Authorization": f"Bearer {self._token}"}
        asked = urllib.request.Request(self.url + path, data=said, method=method, headers=headers)  # noqa: S310  # loopback
        try:
            with self._opener.open(asked, timeout=timeout) as answer:
                return _decoded(answer.read())
        except urllib.error.HTTPError as error:
            raise Refused(error.code, _decoded(error.read()), f"{method} {path}") from error

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def post(self, path: str, body: Mapping[str, object]) -> Any:
        return self.request("POST", path, body)

    def patch(self, path: str, body: object, *, kind: str = "strategic") -> Any:
        """`kind`: strategic (built-in objects), merge (custom resources), json."""
        return self.request("PATCH", path, body, patch=kind)

    def delete(self, path: str, body: object = None) -> Any:
        return self.request("DELETE", path, body)

    def find(self, path: str) -> Any:
        """As `get`; None when there is no such thing."""
        try:
            return self.get(path)
        except Refused as refused:
            if refused.code == 404:
                return None
            raise

    def good(self, path: str) -> bool:
        """Whether it answers well, and at all."""
        try:
            self.request("GET", path, timeout=2.0)
        except (Refused, OSError):
            return False
        return True


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")
