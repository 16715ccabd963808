"""Renews the server's certificate without a moment in which clients would refuse it.

A new certificate usually has a new authority. So clients learn of the new authority first, and the new certificate is shown some
seconds later. The keeper only says which authorities to trust; its caller passes that on. A certificate comes from files that
others renew, or is ours, in a Secret that all replicas share or in a folder.
"""

import base64
import binascii
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Protocol, TypeGuard

import structlog

from schemas.units import Seconds
from streams.clients.kube import json_objects
from streams.clients.kube.json_objects import Json, ObjectStore
from streams.contested_writes import KeptObject
from streams.errors import BadInput, EdgeError
from streams.serving import certificate_making
from streams.serving.certificate_making import ServingCertificate
from streams.serving.https_server import CertificateHolder

_FILES = ("tls.crt", "tls.key", "ca.crt")
"""The names that Kubernetes and cert-manager give them, in folders as in Secrets."""
_DELETED, _TAKEN = "it was deleted", "the certificate in it"
"""What others did to a certificate of ours."""
_WISHES = timedelta(hours=3)
"""A deletion wishes for a new certificate when there was none for so long."""


class CertificateSource(Protocol):
    """Provides the certificate to show now. As a string it is its place, for people."""

    def current(self, at: datetime) -> ServingCertificate:
        """The certificate, renewed if that is due. Raises BadInput, OSError, TryAgain and GiveUp."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """Our own certificates: their names, how long they are valid, and how long before their end they are renewed."""

    names: tuple[str, ...]
    life: timedelta = certificate_making.LIFE
    before: timedelta = certificate_making.RENEW_BEFORE

    def good(self, certificate: ServingCertificate, at: datetime) -> bool:
        """Whether a certificate can go on being used. Raises BadInput."""
        return certificate.ends - at > self.before and certificate.covers(self.names) and certificate_making.fit(certificate)

    def make(self, at: datetime) -> ServingCertificate:
        """A new one."""
        return certificate_making.self_made(self.names, at, self.life)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Files that somebody else renews. Without `authorities` no authority is announced."""

    certificate: Path
    key: Path
    authorities: Path | None = None

    def __str__(self) -> str:
        return f"the files '{self.certificate}' and '{self.key}'"

    def current(self, _at: datetime) -> ServingCertificate:
        """As they stand."""
        authorities = self.authorities.read_bytes() if self.authorities is not None else b""
        return ServingCertificate(self.certificate.read_bytes(), self.key.read_bytes(), authorities)


class _OwnCertificate:
    """A certificate of our own as this process has it. Where others take it away it is put back, and made anew only when due.

    Who deletes it wishes for a new one, as where its key has become known; who deletes it again and again does not.
    """

    # One made anew each time would never be shown, as the next one comes before its authority is trusted, and each would leave
    # its authority in the bundle.
    def __init__(self, renewal: Renewal, kept: KeptObject) -> None:
        self._renewal, self._kept = renewal, kept
        self._latest: ServingCertificate | None = None
        self._gone: datetime | None = None
        """When we saw last that it had been deleted."""

    def current(
        self, present: ServingCertificate | None, what: str, write: Callable[[ServingCertificate], None], at: datetime
    ) -> ServingCertificate:
        """`present` if it is good, else ours, which is written; raises as `write`. `what` says what became of it otherwise."""
        if self._good(present, at):
            self._latest = present
            self._kept.settled(present.certificate)
            return present
        if what == _DELETED and self._latest is not None:
            if self._gone is None or at - self._gone >= _WISHES:
                self._latest = None
            self._gone = at
        if not self._good(self._latest, at):
            self._latest = self._renewal.make(at)
        latest = self._latest
        self._kept.write(latest.certificate, what, partial(write, latest))
        return latest

    def _good(self, certificate: ServingCertificate | None, at: datetime) -> TypeGuard[ServingCertificate]:
        with suppress(BadInput):
            return certificate is not None and self._renewal.good(certificate, at)
        return False


@dataclass(slots=True)
class CertificateFolder:
    """A certificate of our own in a folder, for one replica. `clock` counts real seconds."""

    folder: Path
    renewal: Renewal
    clock: Callable[[], float] = time.monotonic
    _own: _OwnCertificate = field(init=False)

    def __post_init__(self) -> None:
        self._own = _OwnCertificate(self.renewal, KeptObject("folder", str(self.folder), self.clock))

    def __str__(self) -> str:
        return f"the folder '{self.folder}'"

    def current(self, at: datetime) -> ServingCertificate:
        """What is there, or ours."""
        # What is damaged is written anew, because it is our own.
        present = None
        with suppress(OSError):
            present = ServingCertificate(*((self.folder / name).read_bytes() for name in _FILES))
        return self._own.current(present, _DELETED if present is None else _TAKEN, self._write, at)

    def _write(self, made: ServingCertificate) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, content in zip(_FILES, (made.certificate, made.key, made.authorities), strict=True):
            path = self.folder / name
            path.touch(mode=0o600)  # before the key is in it
            path.write_bytes(content)


@dataclass(slots=True)
class CertificateSecret:
    """A certificate of our own in a Secret, for any number of replicas. `labels` go on the Secret when it is made.

    `clock` counts real seconds.
    """

    objects: ObjectStore
    name: str
    renewal: Renewal
    labels: Sequence[tuple[str, str]] = ()
    clock: Callable[[], float] = time.monotonic
    _own: _OwnCertificate = field(init=False)

    def __post_init__(self) -> None:
        self._own = _OwnCertificate(self.renewal, KeptObject("Secret", self.name, self.clock))

    def __str__(self) -> str:
        return f"the Secret '{self.name}'"

    def current(self, at: datetime) -> ServingCertificate:
        """What is there, or ours."""
        secret = self.objects.find(self.name)
        if secret is None:
            return self._own.current(None, _DELETED, self._create, at)
        present = None
        with suppress(BadInput):
            present = _decoded(secret.get("data") or {})
        # Two replicas may do this at one time: the server takes one of the two, and the other replica reads that the next time.
        return self._own.current(present, _TAKEN + json_objects.last_writer(secret), partial(self._replace, secret), at)

    def _create(self, made: ServingCertificate) -> None:
        metadata = {"name": self.name, "labels": dict(self.labels)}
        body = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata}
        self.objects.create(self.name, {**body, "data": _encoded(made)})

    def _replace(self, secret: Json, made: ServingCertificate) -> None:
        self.objects.replace(self.name, {**secret, "data": {**(secret.get("data") or {}), **_encoded(made)}})


def _encoded(made: ServingCertificate) -> dict[str, str]:
    contents = (made.certificate, made.key, made.authorities)
    return {name: base64.b64encode(content).decode() for name, content in zip(_FILES, contents, strict=True)}


def _decoded(data: Mapping[str, str]) -> ServingCertificate:
    try:
        return ServingCertificate(*(base64.b64decode(data[name], validate=True) for name in _FILES))
    except (KeyError, binascii.Error, TypeError) as error:
        raise BadInput(f"the Secret holds no certificate: {error!r}") from error


SETTLE = Seconds(15.0)  # from telling of a new authority to showing its certificate: API servers hear of it by a watch
_log = structlog.get_logger(__name__)


class CertificateWatcher(Protocol):
    """Observes renewals."""

    def shown(self, ends: datetime) -> None:
        """A certificate that holds until `ends` is shown from now on."""

    def refused(self) -> None:
        """A new certificate was unusable, or there was none."""


@dataclass(slots=True)
class _Next:
    """The next certificate to show, and since when its authority is trusted (by the monotonic clock)."""

    certificate: ServingCertificate
    trusted: float | None = None


class CertificateRotation:
    """`clock` counts real seconds."""

    def __init__(
        self,
        source: CertificateSource,
        holder: CertificateHolder,
        watcher: CertificateWatcher,
        *,
        settle: Seconds = SETTLE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._holder, self._watcher = source, holder, watcher
        self._settle, self._clock = settle, clock
        self._shown: ServingCertificate | None = None
        self._next: _Next | None = None
        self._fault = "there is no certificate yet"

    def look(self, at: datetime) -> None:
        """Check which certificate to show."""
        try:
            current = self._source.current(at)
            if self._shown is None:  # at once, because there is none before it
                self._show(current)
            elif current == self._shown:
                self._next = None
            elif self._next is None or self._next.certificate != current:
                # Before anybody is told of it: an unusable one must not take the place of one that works.
                self._check(current)
                self._next = _Next(current)
            self._fault = ""
        except (BadInput, EdgeError, OSError) as error:
            fault = f"{self._source}: {error}"
            if fault != self._fault:
                _log.warning("the certificate could not be renewed or read", error=fault)
            self._fault = fault
            self._watcher.refused()

    def authorities(self) -> Sequence[bytes]:
        """The authorities to trust now: that of the present certificate, and that of the next one."""
        both = (self._shown, None if self._next is None else self._next.certificate)
        return [certificate.authorities for certificate in both if certificate is not None and certificate.authorities]

    def trusted(self) -> None:
        """All of `authorities` are trusted now: the caller has passed them on."""
        if self._next is None:
            return
        if self._next.trusted is None:
            self._next.trusted = self._clock()
        # With the same authority there is nobody to wait for.
        same = self._shown is not None and self._next.certificate.authorities == self._shown.authorities
        if same or self._clock() - self._next.trusted >= self._settle:
            self._show(self._next.certificate)
            self._next = None

    def reasons(self, at: datetime) -> list[str]:
        """Why clients cannot trust our certificate; empty when they can."""
        if self._shown is None:
            return [f"there is no certificate to serve with: {self._fault}"]
        if self._shown.ends <= at:
            return [f"the certificate ended at {self._shown.ends.isoformat()}: {self._fault or 'nobody has renewed it'}"]
        return []

    def _check(self, certificate: ServingCertificate) -> None:
        """Raises BadInput before the certificate is announced."""
        certificate_making.read(certificate.authorities)
        CertificateHolder().load(certificate.certificate, certificate.key)

    def _show(self, found: ServingCertificate) -> None:
        self._holder.load(found.certificate, found.key)
        self._shown = found
        self._watcher.shown(found.ends)
        _log.info("a certificate is shown", ends=found.ends.isoformat())
