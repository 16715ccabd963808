"""A Prometheus server, or anything with its query API: queries in PromQL, results as numbers by label.

A query asks for values at one moment or over a range of time. There are no retries and no state. Credentials only go to the
server; no error and no log line has them.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3

from schemas.units import Bytes, Seconds
from streams import secret_files, typed_json
from streams.clients.bounded_answers import BodyTooLarge, read_body
from streams.clients.kube import refusals
from streams.errors import BadInput, GiveUp, TryAgain, Unreachable
from streams.url_redaction import without_password

_NOBODY_BEHIND = (502, 503, 504)  # without Prometheus' own words: a proxy in front of a dead server, or one that starts or ends
_FIRST_REFUSAL = 300
_FORM = "application/x-www-form-urlencoded"
_SHOWN = 120
_SENDABLE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
TIMEOUT = Seconds(300.0)
MOST_BYTES = Bytes(512 << 20)
"""The largest answer that is read by default, unpacked: some millions of samples."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Our credentials: a user with a password, or a token, each as text or in a file. `headers` go with every query."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: Path | None = None
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Raises BadInput for two kinds of credentials at once, and for half of one."""
        token, password = self.token is not None or self.token_file is not None, self.password is not None
        password = password or self.password_file is not None
        if token and (self.username is not None or password):
            raise BadInput("prometheus has both a token and a user or password: give one way or the other")
        if password != (self.username is not None):
            raise BadInput("prometheus.username and a password go together, and one of them is missing")

    def as_headers(self) -> dict[str, str]:
        """The headers of a query. Raises BadInput for a file that cannot be read and for text that no header may hold."""
        headers = dict(self.headers)
        if self.username is not None:
            both = f"{self.username}:{_secret(self.password, self.password_file)}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(both).decode()}"
        elif self.token is not None or self.token_file is not None:
            headers["Authorization"] = f"Bearer {_secret(self.token, self.token_file)}"
        for name, value in headers.items():
            if not _SENDABLE.fullmatch(value):
                raise BadInput(f"the header '{name}' for prometheus holds a line break or another character that none may hold")
        return headers


class Series(msgspec.Struct, frozen=True, gc=False):
    """One series of a result: its labels, and one sample or several as (seconds since the epoch, number as text)."""

    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    result: list[Series] = []


class _Answer(msgspec.Struct):
    data: _Data


class _Refusal(msgspec.Struct):
    error: str = ""
    kind: str = msgspec.field(default="", name="errorType")


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Moments from `first` to `last`, in seconds since the epoch, one each `step` seconds."""

    first: float
    last: float
    step: Seconds


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """What one answer may take: seconds, and bytes when unpacked."""

    timeout: Seconds = TIMEOUT
    bytes: Bytes = MOST_BYTES


_NO_ADDRESS = "prometheus.url '{}' is no address such as https://prometheus:9090 (and holds no user)"


class Prometheus:
    """One server at `url`, which may end in a path. `ca` is a file of authorities to trust instead of the system's."""

    def __init__(
        self,
        url: str,
        credentials: Credentials | None = None,
        *,
        limits: AnswerLimits | None = None,
        insecure: bool = False,
        ca: Path | None = None,
    ) -> None:
        """Raises BadInput for a `url` that is no address."""
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise BadInput(_NO_ADDRESS.format(without_password(url))) from error
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise BadInput(_NO_ADDRESS.format(without_password(url)))
        self._url, self._limits = url.rstrip("/"), limits or AnswerLimits()
        self._credentials, self._ca = credentials or Credentials(), ca
        # Without retries urllib3 follows no redirect either, so credentials go to no other server.
        self._pool = urllib3.PoolManager(
            retries=False, cert_reqs="CERT_NONE" if insecure else "CERT_REQUIRED", ca_certs=None if ca is None else str(ca)
        )

    @property
    def url(self) -> str:
        """The server's address, for people."""
        return without_password(self._url)

    def query(self, query: str, at: datetime) -> list[Series]:
        """The value of each series at a moment, or the samples that a range selector names. Raises TryAgain and GiveUp."""
        return self._post("query", query, {"time": f"{at.timestamp():.3f}"})

    def query_range(self, query: str, over: TimeRange) -> list[Series]:
        """The values of each series over a range of time. Raises as `query`."""
        parameters = {"start": f"{over.first:.3f}", "end": f"{over.last:.3f}", "step": f"{over.step:.3f}"}
        return self._post("query_range", query, parameters)

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()

    def _post(self, endpoint: str, query: str, parameters: Mapping[str, str]) -> list[Series]:
        # In the body of a POST, because queries grow longer than servers take in a URL.
        fields = {"query": query, "timeout": duration(self._limits.timeout), **parameters}
        headers = {"Content-Type": _FORM, "Accept-Encoding": "gzip", **self._headers(query)}
        url = f"{self._url}/api/v1/{endpoint}"
        try:
            response = self._pool.request(
                # Five seconds more than the server has, so that its own sentence about a query that takes too long arrives.
                "POST",
                url,
                body=urlencode(fields),
                headers=headers,
                timeout=self._limits.timeout + 5.0,
                preload_content=False,
            )
            body = read_body(response, most=self._limits.bytes, within=Seconds(self._limits.timeout + 5.0))
        except BodyTooLarge as error:
            answer = f"{error}: ask for fewer series, or for a shorter time, at once"
            raise GiveUp(doing=_doing(query), to=self._url, answer=answer) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(doing=_doing(query), to=self._url, answer=self._why(error), after=refusals.RETRY_AFTER) from error
        if response.status >= _FIRST_REFUSAL:
            raise self._refused(query, response.status, body)
        try:
            return typed_json.decode(body, _Answer).data.result
        except ValueError as error:
            answer = f"an answer that cannot be read: {error}"
            raise TryAgain(doing=_doing(query), to=self._url, answer=answer, after=refusals.RETRY_AFTER) from error

    def _why(self, error: urllib3.exceptions.HTTPError | OSError) -> str:
        if isinstance(error, urllib3.exceptions.NewConnectionError):
            return "nobody answers there: is the address right?"
        if isinstance(error, urllib3.exceptions.SSLError):  # also what is wrong with the file, which is read with each connection
            authorities = "the system's authorities" if self._ca is None else f"those of prometheus.ca '{self._ca}'"
            return f"TLS fails with {authorities}: {error}; prometheus.ca names a PEM file with the authority of its certificate"
        return f"{type(error).__name__}: {error}"

    def _headers(self, query: str) -> dict[str, str]:
        try:
            return self._credentials.as_headers()  # read anew for each query, because files of tokens and passwords change
        except BadInput as error:  # a file that is missing now may be there soon: somebody is renewing it
            raise TryAgain(doing=_doing(query), to=self._url, answer=str(error), after=refusals.RETRY_AFTER) from error

    def _refused(self, query: str, code: int, body: bytes) -> TryAgain | GiveUp:
        try:
            refusal = typed_json.decode(body, _Refusal)
            message = f"{refusal.kind}: {refusal.error}"
        except ValueError:
            message = body[:200].decode(errors="replace")
            if code in _NOBODY_BEHIND:
                answer = f"{code} {message}".rstrip()
                return Unreachable(doing=_doing(query), to=self._url, answer=answer, after=refusals.RETRY_AFTER)
        return refusals.error_for_status(doing=_doing(query), to=self._url, code=code, message=message)


def duration(seconds: Seconds) -> str:
    """A length of time in PromQL, which has neither fractions nor exponents."""
    return f"{seconds:.0f}s" if float(seconds).is_integer() else f"{seconds * 1000:.0f}ms"


def _doing(query: str) -> str:
    shown = query if len(query) <= _SHOWN else f"{query[:_SHOWN]}…"
    return f"asking for {shown} of"


def _secret(given: str | None, file: Path | None) -> str:
    if file is None:
        return given or ""
    return secret_files.read(file.expanduser(), f"the credentials file '{file}' of prometheus")
