"""Requests to a Kubernetes API server over the official client's connection: raw answers, typed decoding, streams of lines.

The official client brings credentials, TLS and connections. Its models stay unused because decoding into them costs a hundred
times as much. This module knows no resource, never retries and holds no state. Bodies of requests are plain mappings.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

import urllib3

from schemas.outcomes import OutcomeDetail
from schemas.units import Bytes, Seconds
from streams import typed_json
from streams.answer_bounds import asked_pause, pause
from streams.clients.bounded_answers import BodyTooLarge, read_body
from streams.clients.kube import refusals
from streams.clients.kube.official_client import client as official
from streams.clients.kube.official_client import config
from streams.errors import GiveUp, TryAgain, Unreachable

T = TypeVar("T")
TIMEOUT = Seconds(10.0)
WHOLE_TIMEOUTS = 6  # for the whole of a response: a server that sends a byte now and then must not keep us for ever
MOST_BYTES = Bytes(64 << 20)
"""The largest response that is read. A list that is asked for in pages has smaller pages then."""
MOST_IN_ONE_LIST = Bytes(512 << 20)
"""The largest list that the server gives as a whole: over a million containers' usage."""
# etcd takes objects of up to 1.5 MiB unless somebody sets it otherwise.
LONGEST_LINE = Bytes(16 << 20)
"""The largest line of a stream; no object that the API takes comes near it."""
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
MERGE_PATCH = "application/merge-patch+json"
"""The only kind of patch that custom resources accept."""
_JSON = "application/json"
_FIRST_REFUSAL = 300
_CHUNK_BYTES = 1 << 16
_FEWER = 8
"""How many times fewer objects the page has that is asked for after one that was too large."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. `doing` (a gerund phrase) and `to` (the object's name) go into the error if it fails.

    `most_bytes` bounds the response; None means `MOST_BYTES`. `accept`: the form in which it is wanted.
    """

    path: str
    doing: str
    to: str
    method: str = "GET"
    body: Mapping[str, object] | None = None
    content_type: str = _JSON
    most_bytes: Bytes | None = None
    accept: str = _JSON


class ResponseTooLarge(GiveUp):
    """The response has more bytes than the request allows. Asking for less of it may help."""

    def smaller_page(self, size: int) -> int:
        """How many objects to ask for after a page of `size` was too large, so that nobody's large objects hide those of others.

        Raises this error for a page of one object.
        """
        if size == 1:
            raise self
        return max(1, size // _FEWER)


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """Status code, body, the pause that the server asked for in `Retry-After`, if it did, and its time as its `Date` has it."""

    code: int
    body: bytes
    retry_after: str | None = None
    date: str | None = None


class Api:
    """One API server."""

    def __init__(self, api: official.ApiClient, *, timeout: Seconds = TIMEOUT) -> None:
        """`timeout` bounds each wait for the server, in seconds, and six of them a whole response."""
        self._api, self._timeout = api, timeout

    def send(self, request: ApiRequest) -> ApiResponse:
        """The response, whatever its status code. Raises Unreachable when there is none."""
        try:
            return self._whole(self._send(request, self._timeout), request)
        except _NO_ANSWER as error:
            raise _unreachable(request, error) from error

    def read(self, request: ApiRequest, kind: type[T]) -> T:
        """The body of a successful response, decoded. Raises Unreachable, TryAgain and GiveUp."""
        return decode_body(accepted_body(self.send(request), request), kind, request)

    def find(self, request: ApiRequest, kind: type[T]) -> T | None:
        """As `read`, but None when the server answers 404."""
        response = self.send(request)
        return None if response.code == 404 else decode_body(accepted_body(response, request), kind, request)  # noqa: PLR2004  # "not found"

    def stream_lines(self, request: ApiRequest, *, idle_timeout: Seconds) -> Iterator[bytes]:
        """The lines of a response that goes on until the server ends it; after `idle_timeout` without a byte it counts as broken.

        The stream is open when this returns. Raises TryAgain and GiveUp when the server refuses it, and Unreachable also later,
        when it breaks.
        """
        try:
            response = self._send(request, (self._timeout, idle_timeout))
            if response.status >= _FIRST_REFUSAL:
                raise refusal_error(self._whole(response, request), request)
        except _NO_ANSWER as error:
            raise _unreachable(request, error) from error
        return _lines(response, request)

    def close(self) -> None:
        """Close all connections."""
        self._api.rest_client.pool_manager.clear()

    def _whole(self, response: urllib3.BaseHTTPResponse, request: ApiRequest) -> ApiResponse:
        try:
            body = read_body(response, most=request.most_bytes or MOST_BYTES, within=Seconds(self._timeout * WHOLE_TIMEOUTS))
        except BodyTooLarge as error:
            raise ResponseTooLarge(doing=request.doing, to=request.to, answer=str(error)) from error
        return ApiResponse(response.status, body, response.headers.get("Retry-After"), response.headers.get("Date"))

    def _send(self, request: ApiRequest, timeout: float | tuple[float, float]) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": request.accept}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        try:
            # This also reads the credentials again when they are due.
            call = self._api.param_serialize(
                request.method, request.path, header_params=headers, body=request.body, auth_settings=["BearerToken"]
            )
            response: urllib3.BaseHTTPResponse = self._api.call_api(*call, _request_timeout=timeout).response
        except (config.ConfigException, ValueError) as error:
            # Some of urllib3's errors are ValueErrors, too, and have nothing to do with credentials.
            if isinstance(error, _NO_ANSWER):
                raise
            # Its text is not quoted, because it may hold a secret.
            answer = f"the credentials cannot be used ({type(error).__name__}); nothing was sent"
            raise TryAgain(doing=request.doing, to=request.to, answer=answer, after=refusals.RETRY_AFTER) from None
        return response


_DISTRUSTED = "CERTIFICATE_VERIFY_FAILED"
"""What Python's ssl says of a certificate that it does not trust."""
_NO_ANSWER = (urllib3.exceptions.HTTPError, official.OpenApiException, OSError)


def accepted_body(response: ApiResponse, request: ApiRequest) -> bytes:
    """The body of a successful response. Raises TryAgain and GiveUp for a refusal."""
    if response.code < _FIRST_REFUSAL:
        return response.body
    raise refusal_error(response, request)


def refusal_error(response: ApiResponse, request: ApiRequest) -> TryAgain | GiveUp:
    """The error for a refusal: in the server's words where it sent a Kubernetes Status, else with the beginning of the body."""
    try:
        status = typed_json.decode(response.body, refusals.ApiStatus)
    except ValueError:
        # A proxy before the server answers in its own form.
        status = refusals.ApiStatus(message=response.body[:200].decode(errors="replace"))
    after = asked_pause(response.retry_after, response.date)
    if after is None and status.details is not None and status.details.retry_after_seconds > 0:
        after = pause(status.details.retry_after_seconds)
    message = status.message or status.reason
    causes = () if status.details is None else tuple(cause.reason for cause in status.details.causes)
    return refusals.error_for_status(
        doing=request.doing, to=request.to, code=response.code, message=message, after=after, causes=causes
    )


def decode_body(body: bytes, kind: type[T], request: ApiRequest) -> T:
    """The body, decoded. Raises TryAgain for one that cannot be read."""
    try:
        return typed_json.decode(body, kind)
    except ValueError as error:
        raise unreadable_error(error, request) from error


def unreadable_error(error: ValueError, request: ApiRequest) -> TryAgain:
    """The error for a response that makes no sense."""
    answer = f"an answer that cannot be read: {error}"
    return TryAgain(doing=request.doing, to=request.to, answer=answer, after=refusals.RETRY_AFTER)


def _unreachable(request: ApiRequest, error: Exception) -> Unreachable:
    return Unreachable(
        doing=request.doing, to=request.to, answer=_why_none(error), after=refusals.RETRY_AFTER, detail=OutcomeDetail.NO_ANSWER
    )


def _why_none(error: Exception) -> str:
    """Why there was no answer, in one line."""
    text = " ".join(str(error).split())
    _, distrusts, why = text.partition(_DISTRUSTED)
    if distrusts:
        why = why.partition("certificate verify failed: ")[2].partition(" (_ssl")[0].rstrip(")'")
        return f"the server's certificate is not one that we trust ({why}): look at certificate-authority in the kubeconfig"
    return f"{type(error).__name__}: {text}"


def _lines(response: urllib3.BaseHTTPResponse, request: ApiRequest) -> Iterator[bytes]:
    try:
        with closing(response):
            yield from _split_lines(response)
    except _NO_ANSWER as error:
        raise _unreachable(request, error) from error


def _split_lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    while chunk := response.read1(_CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from filter(None, whole)
        if len(rest) > LONGEST_LINE:
            msg = f"a line has more than {LONGEST_LINE} bytes"
            raise OSError(msg)
    if rest:
        yield rest
