"""Renews the server's certificate without a moment in which clients would refuse it.

A new certificate usually has a new authority. So clients learn of the new authority first, and the new certificate is shown some
seconds later. The keeper only says which authorities to trust; its caller passes that on.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import structlog

from schemas.units import Seconds
from streams.errors import BadInput, EdgeError
from streams.serving import certificates
from streams.serving.certificate_sources import CertificateSource
from streams.serving.certificates import ServingCertificate
from streams.serving.https_server import CertificateHolder

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
        certificates.read(certificate.authorities)
        CertificateHolder().load(certificate.certificate, certificate.key)

    def _show(self, found: ServingCertificate) -> None:
        self._holder.load(found.certificate, found.key)
        self._shown = found
        self._watcher.shown(found.ends)
        _log.info("a certificate is shown", ends=found.ends.isoformat())
