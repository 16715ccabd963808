"""Questions to a Kubernetes API server, over the official client's connection: raw answers, typed decoding, streams of lines.

The official client brings credentials, TLS and connections; its models are left out because they cost a hundred times the
decoding. It knows no resource, does not retry and holds no state. Bodies of patches and objects are plain mappings.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import urllib3
from kubernetes import client as official
from kubernetes.client import exceptions
from kubernetes.config import ConfigException

from schemas.units import Seconds
from streams.clients.kube import pod_objects, refusals
from streams.errors import GiveUp, TryAgain, Unreachable

T = TypeVar("T")
PATIENCE = Seconds(10.0)
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
"""The patch that custom resources take."""
_JSON = "application/json"
_ACCEPTED = 300
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. `doing` and `to` are for the error: a gerund phrase, and the object's name."""

    path: str
    doing: str
    to: str
    method: str = "GET"
    body: Mapping[str, object] | None = None
    content: str = _JSON


@dataclass(frozen=True, slots=True)
class Answer:
    """Status code, body, and the server's own wish for a pause (`Retry-After`), if it had one."""

    code: int
    body: bytes
    after: str | None = None


class Api:
    """One API server."""

    def __init__(self, api: official.ApiClient, *, timeout: Seconds = PATIENCE) -> None:
        """`timeout` bounds each question, in seconds."""
        self._api, self._timeout = api, timeout

    def ask(self, question: Question) -> Answer:
        """Whatever it answers. Raises Unreachable when there is no answer."""
        try:
            response = self._send(question, self._timeout)
            return Answer(response.status, response.data, response.headers.get("Retry-After"))
        except _NO_ANSWER as error:
            raise _unreachable(question, error) from error

    def read(self, question: Question, kind: type[T]) -> T:
        """A good answer as `kind`. Raises Unreachable, TryAgain and GiveUp."""
        return decoded(accepted(self.ask(question), question), kind, question)

    def find(self, question: Question, kind: type[T]) -> T | None:
        """As `read`; None when the server says that there is no such thing."""
        answer = self.ask(question)
        return None if answer.code == 404 else decoded(accepted(answer, question), kind, question)  # noqa: PLR2004  # "not found"

    def lines(self, question: Question, *, silence: Seconds) -> Iterator[bytes]:
        """The lines of an answer that goes on, until the server ends it. `silence`: seconds without a byte that break it.

        It has begun when this returns. Raises TryAgain and GiveUp when the server refuses, Unreachable also when it breaks.
        """
        try:
            response = self._send(question, (self._timeout, silence))
            if response.status >= _ACCEPTED:
                raise refusal(Answer(response.status, response.data, response.headers.get("Retry-After")), question)
        except _NO_ANSWER as error:
            raise _unreachable(question, error) from error
        return _lines(response, question)

    def close(self) -> None:
        """Let go of connections."""
        self._api.rest_client.pool_manager.clear()

    def _send(self, question: Question, timeout: float | tuple[float, float]) -> urllib3.BaseHTTPResponse:
        """Credentials are read anew now and then. What they say is in no error, so that of an odd header is not passed on."""
        headers = {"Accept": _JSON}
        if question.body is not None:
            headers["Content-Type"] = question.content
        try:
            call = self._api.param_serialize(
                question.method, question.path, header_params=headers, body=question.body, auth_settings=["BearerToken"]
            )
            response: urllib3.BaseHTTPResponse = self._api.call_api(*call, _request_timeout=timeout).response
        except (ConfigException, ValueError) as error:
            if isinstance(error, _NO_ANSWER):
                raise
            answer = f"the credentials cannot be used ({type(error).__name__}); nothing was sent"
            raise TryAgain(doing=question.doing, to=question.to, answer=answer, after=refusals.PATIENCE) from None
        return response


_NO_ANSWER = (urllib3.exceptions.HTTPError, exceptions.OpenApiException, OSError)


def accepted(answer: Answer, question: Question) -> bytes:
    """The body of a good answer. Raises TryAgain and GiveUp for a refusal."""
    if answer.code < _ACCEPTED:
        return answer.body
    raise refusal(answer, question)


def refusal(answer: Answer, question: Question) -> TryAgain | GiveUp:
    """The server's own words where it speaks Kubernetes, else the beginning of what it said."""
    try:
        status = msgspec.json.decode(answer.body, type=pod_objects.Status)
    except ValueError:
        status = pod_objects.Status(message=answer.body[:200].decode(errors="replace"))
    wait = float(answer.after) if answer.after is not None and answer.after.isdecimal() else 0.0
    if status.details is not None:
        wait = wait or status.details.retry_after_seconds
    message = status.message or status.reason
    after = Seconds(wait) if wait else None
    return refusals.refused(doing=question.doing, to=question.to, code=answer.code, message=message, after=after)


def decoded(body: bytes, kind: type[T], question: Question) -> T:
    """The body as `kind`. Raises TryAgain for what cannot be read."""
    try:
        return msgspec.json.decode(body, type=kind)
    except ValueError as error:
        raise nonsense(error, question) from error


def nonsense(error: ValueError, question: Question) -> TryAgain:
    """The error for an answer that makes no sense."""
    answer = f"an answer that cannot be read: {error}"
    return TryAgain(doing=question.doing, to=question.to, answer=answer, after=refusals.PATIENCE)


def _unreachable(question: Question, error: Exception) -> Unreachable:
    answer = f"{type(error).__name__}: {error}"
    return Unreachable(doing=question.doing, to=question.to, answer=answer, after=refusals.PATIENCE)


def _lines(response: urllib3.BaseHTTPResponse, question: Question) -> Iterator[bytes]:
    try:
        with closing(response):
            yield from _split(response)
    except _NO_ANSWER as error:
        raise _unreachable(question, error) from error


def _split(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    while piece := response.read1(_PIECE):
        *whole, rest = (rest + piece).split(b"\n")
        yield from filter(None, whole)
    if rest:
        yield rest
