"""Sources of the server's certificate: files that others renew, or one that we make and renew ourselves.

What we make is kept in a Secret, so that all replicas show the same one, or in a folder, where there is only one replica.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from streams.clients.kube.json_objects import ObjectStore
from streams.errors import BadInput
from streams.serving import certificates
from streams.serving.certificates import ServingCertificate

_FILES = ("tls.crt", "tls.key", "ca.crt")
"""The names that Kubernetes and cert-manager give them, in folders as in Secrets."""


class CertificateSource(Protocol):
    """Provides the certificate to show now. As a string it is its place, for people."""

    def current(self, at: datetime) -> ServingCertificate:
        """The certificate, renewed if that is due. Raises BadInput, OSError, TryAgain and GiveUp."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """Our own certificates: their names, how long they are valid, and how long before their end they are renewed."""

    names: tuple[str, ...]
    life: timedelta = certificates.LIFE
    before: timedelta = certificates.RENEW_BEFORE

    def good(self, certificate: ServingCertificate, at: datetime) -> bool:
        """Whether a certificate can go on being used. Raises BadInput."""
        return certificate.ends - at > self.before and certificate.covers(self.names) and certificates.fit(certificate)

    def make(self, at: datetime) -> ServingCertificate:
        """A new one."""
        return certificates.self_made(self.names, at, self.life)


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


@dataclass(frozen=True, slots=True)
class CertificateFolder:
    """A certificate of our own in a folder, for one replica."""

    folder: Path
    renewal: Renewal

    def __str__(self) -> str:
        return f"the folder '{self.folder}'"

    def current(self, at: datetime) -> ServingCertificate:
        """What is there, or a new one."""
        with suppress(OSError, BadInput):
            present = ServingCertificate(*((self.folder / name).read_bytes() for name in _FILES))
            if self.renewal.good(present, at):
                return present
        made = self.renewal.make(at)
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, content in zip(_FILES, (made.certificate, made.key, made.authorities), strict=True):
            path = self.folder / name
            path.touch(mode=0o600)  # before the key is in it
            path.write_bytes(content)
        return made


@dataclass(frozen=True, slots=True)
class CertificateSecret:
    """A certificate of our own in a Secret, for any number of replicas. `labels` go on the Secret when it is made."""

    objects: ObjectStore
    name: str
    renewal: Renewal
    labels: Sequence[tuple[str, str]] = ()

    def __str__(self) -> str:
        return f"the Secret '{self.name}'"

    def current(self, at: datetime) -> ServingCertificate:
        """What is there, or a new one."""
        secret = self.objects.find(self.name)
        if secret is None:
            made = self.renewal.make(at)
            metadata = {"name": self.name, "labels": dict(self.labels)}
            body = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata}
            self.objects.create(self.name, {**body, "data": _encoded(made)})
            return made
        with suppress(BadInput):
            present = _decoded(secret.get("data") or {})
            if self.renewal.good(present, at):
                return present
        made = self.renewal.make(at)
        # Two replicas may do this at one time: the server takes one of the two, and the other replica reads that the next time.
        self.objects.replace(self.name, {**secret, "data": {**(secret.get("data") or {}), **_encoded(made)}})
        return made


def _encoded(made: ServingCertificate) -> dict[str, str]:
    contents = (made.certificate, made.key, made.authorities)
    return {name: base64.b64encode(content).decode() for name, content in zip(_FILES, contents, strict=True)}


def _decoded(data: Mapping[str, str]) -> ServingCertificate:
    try:
        return ServingCertificate(*(base64.b64decode(data[name], validate=True) for name in _FILES))
    except (KeyError, binascii.Error, TypeError) as error:
        raise BadInput(f"the Secret holds no certificate: {error!r}") from error
