"""A Prometheus server, or what speaks its query API: questions in PromQL, answers as numbers by label.

Three questions: a value now, the samples that a selector names, and values over a stretch of time. No retries and no state; a
token or password that lies in a file is read again for each question, because such files change. Credentials go to the server
and nowhere else: no error and no log line holds them.
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

from schemas.units import Seconds
from streams.clients.kube import refusals
from streams.errors import BadInput, GiveUp, TryAgain, Unreachable

_ACCEPTED = 300
_FORM = "application/x-www-form-urlencoded"
_SHOWN = 120
_SENDABLE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
PATIENCE = Seconds(300.0)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who we are: a user with a password, or a token; each as it is or in a file. `headers` go with every question."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: Path | None = None
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Raises BadInput for two ways at once, and for half a way."""
        token, password = self.token is not None or self.token_file is not None, self.password is not None
        password = password or self.password_file is not None
        if token and (self.username is not None or password):
            raise BadInput("prometheus has both a token and a user or password: give one way or the other")
        if password != (self.username is not None):
            raise BadInput("prometheus.username and a password go together, and one of them is missing")

    def given(self) -> dict[str, str]:
        """The headers of a question. Raises BadInput for a file that cannot be read, and for what no header may hold."""
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
    """One series of an answer: its labels, and one sample or several as (seconds since the epoch, number as text)."""

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
class Stretch:
    """Moments from `first` to `last`, each `step` seconds."""

    first: float
    last: float
    step: Seconds


class Prometheus:
    """One server at `url`, which may end in a path. `ca`: a file of authorities to trust instead of the system's."""

    def __init__(
        self,
        url: str,
        credentials: Credentials | None = None,
        *,
        timeout: Seconds = PATIENCE,
        insecure: bool = False,
        ca: Path | None = None,
    ) -> None:
        """Raises BadInput for what is no address."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
            raise BadInput(f"prometheus.url '{shown}' is no address such as https://prometheus:9090 (and holds no user)")
        self._url, self._timeout = url.rstrip("/"), timeout
        self._credentials = credentials or Credentials()
        self._pool = urllib3.PoolManager(
            retries=False, cert_reqs="CERT_NONE" if insecure else "CERT_REQUIRED", ca_certs=None if ca is None else str(ca)
        )

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._url

    def instant(self, query: str, at: datetime) -> list[Series]:
        """The value of each series at a moment. Raises TryAgain and GiveUp."""
        return self._ask("query", query, {"time": f"{at.timestamp():.3f}"})

    def over(self, query: str, stretch: Stretch) -> list[Series]:
        """The values of each series over a stretch. Raises as `instant`."""
        more = {"start": f"{stretch.first:.3f}", "end": f"{stretch.last:.3f}", "step": f"{stretch.step:.3f}"}
        return self._ask("query_range", query, more)

    def close(self) -> None:
        """Let go of connections."""
        self._pool.clear()

    def _ask(self, what: str, query: str, more: Mapping[str, str]) -> list[Series]:
        fields = {"query": query, "timeout": duration(self._timeout), **more}
        headers = {"Content-Type": _FORM, "Accept-Encoding": "gzip", **self._given(query)}
        url = f"{self._url}/api/v1/{what}"
        try:
            answer = self._pool.request("POST", url, body=urlencode(fields), headers=headers, timeout=self._timeout + 5.0)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            said = f"{type(error).__name__}: {error}"
            raise Unreachable(doing=_doing(query), to=self._url, answer=said, after=refusals.PATIENCE) from error
        if answer.status >= _ACCEPTED:
            raise self._refused(query, answer.status, answer.data)
        try:
            return msgspec.json.decode(answer.data, type=_Answer).data.result
        except ValueError as error:
            said = f"an answer that cannot be read: {error}"
            raise TryAgain(doing=_doing(query), to=self._url, answer=said, after=refusals.PATIENCE) from error

    def _given(self, query: str) -> dict[str, str]:
        """Who we are. A file that is not there now may be there soon: it is being renewed."""
        try:
            return self._credentials.given()
        except BadInput as error:
            raise TryAgain(doing=_doing(query), to=self._url, answer=str(error), after=refusals.PATIENCE) from error

    def _refused(self, query: str, code: int, body: bytes) -> TryAgain | GiveUp:
        try:
            refusal = msgspec.json.decode(body, type=_Refusal)
            message = f"{refusal.kind}: {refusal.error}"
        except ValueError:
            message = body[:200].decode(errors="replace")
        return refusals.refused(doing=_doing(query), to=self._url, code=code, message=message)


def duration(seconds: Seconds) -> str:
    """A length of time in PromQL, which knows neither fractions nor exponents."""
    return f"{seconds:.0f}s" if float(seconds).is_integer() else f"{seconds * 1000:.0f}ms"


def _doing(query: str) -> str:
    shown = query if len(query) <= _SHOWN else f"{query[:_SHOWN]}…"
    return f"asking for {shown} of"


def _secret(given: str | None, file: Path | None) -> str:
    if file is None:
        return given or ""
    try:
        return file.expanduser().read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BadInput(f"the credentials file '{file}' of prometheus cannot be read: {error.strerror}") from None
