"""Makes our own certificates, reads any certificate's validity and authorities, and keeps ours in a bundle that replicas share.

A renewal makes a new authority, which is why clients learn of it before it is used. Time is an argument.
"""

import ipaddress
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from schemas.units import Seconds
from streams.errors import BadInput

LIFE = timedelta(days=7)
RENEW_BEFORE = timedelta(hours=24)
"""How long before its end a certificate of our own is renewed."""
_SKEW = timedelta(minutes=5)  # the clocks of those who check may be so far behind ours


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """A certificate (with its chain), its key, and its authorities, all in PEM.

    `authorities` is empty if the supplier of the certificate distributes them.
    """

    certificate: bytes
    key: bytes
    authorities: bytes = b""

    @property
    def ends(self) -> datetime:
        """When it expires. Raises BadInput."""
        return _first(self.certificate).not_valid_after_utc

    def covers(self, names: Iterable[str]) -> bool:
        """Whether it is for all of these host names and addresses. Raises BadInput."""
        try:
            names_in_it = _first(self.certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return False
        covered = {str(name.value) for name in names_in_it}
        return covered.issuperset(names)


def fit(pair: ServingCertificate) -> bool:
    """Whether the key and one of the authorities belong to the certificate. Raises BadInput for unreadable files."""
    try:  # a writer that died midway leaves one without the other
        key = serialization.load_pem_private_key(pair.key, None)
    except (ValueError, TypeError) as error:
        raise BadInput(f"the key of a certificate cannot be read: {error}") from error
    certificate = _first(pair.certificate)
    return key.public_key() == certificate.public_key() and any(_issued(certificate, by) for by in read(pair.authorities))


def self_made(names: Sequence[str], at: datetime, life: timedelta = LIFE) -> ServingCertificate:
    """A certificate for these host names and addresses, by an authority that exists for it alone."""
    # The authority's key is forgotten when this returns, so that nobody can ever sign another certificate with it.
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"ullage authority {at:%Y-%m-%d %H:%M:%S}")])
    authority = (
        _builder(issuer, issuer, authority_key.public_key(), (at, life))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    certificate = (
        _builder(subject, issuer, key.public_key(), (at, life))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )  # fmt: skip
    return ServingCertificate(_pem(certificate), plain, _pem(authority))


def joined(bundles: Iterable[bytes], at: datetime) -> bytes:
    """The authorities of several bundles as one: without duplicates and expired ones, in an order that does not depend on theirs.

    Raises BadInput for a bundle that cannot be read.
    """
    unexpired = {
        certificate.fingerprint(hashes.SHA256()): certificate
        for bundle in bundles
        for certificate in read(bundle)
        if certificate.not_valid_after_utc > at
    }
    return b"".join(_pem(unexpired[fingerprint]) for fingerprint in sorted(unexpired))


def singles(bundle: bytes) -> list[bytes]:
    """The certificates of a PEM file one by one, spelled so that equal ones are equal. Raises BadInput."""
    return [_pem(certificate) for certificate in read(bundle)]


def read(bundle: bytes) -> list[x509.Certificate]:
    """All certificates of a PEM file; none of an empty one. Raises BadInput."""
    if not bundle.strip():
        return []
    try:
        return x509.load_pem_x509_certificates(bundle)
    except ValueError as error:
        raise BadInput(f"a certificate cannot be read: {error}") from error


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _first(chain: bytes) -> x509.Certificate:
    certificates = read(chain)
    if not certificates:
        raise BadInput("a certificate cannot be read: the file is empty")
    return certificates[0]


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, span: tuple[datetime, timedelta]
) -> x509.CertificateBuilder:
    at, life = span
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - _SKEW)
        .not_valid_after(at + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


_UNCLAIMED = Seconds(600.0)  # an authority that we do not know stays so long: another replica may show its certificate
_MOST_FOREIGN = 8
"""Authorities of others that are kept: those of more replicas than make certificates of their own in one round.

Others may come at any pace, and each API server reads the whole bundle again whenever it changes.
"""


class CaBundle:
    """The bundle as this replica would have it. `clock` counts real seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._foreign: dict[bytes, float] = {}
        """Authorities that are not ours, and since when we have seen them."""

    def merged(self, there: Iterable[bytes], ours: Sequence[bytes], at: datetime) -> bytes:
        """The wanted bundle, given the present ones. Raises BadInput for one of ours that cannot be read."""
        own = {certificate for bundle in ours for certificate in singles(bundle)}
        foreign = {certificate for bundle in there for certificate in _readable(bundle)} - own
        if ours:
            foreign = _newest(foreign, at)
        now = self._clock()
        self._foreign = {certificate: self._foreign.get(certificate, now) for certificate in foreign}
        kept = (
            [certificate for certificate, since in self._foreign.items() if now - since < _UNCLAIMED] if ours else list(foreign)
        )
        return joined([*ours, *kept], at)


def _newest(authorities: Iterable[bytes], at: datetime) -> set[bytes]:
    """Those that have not ended, and of these no more than we keep: all replicas keep the same."""
    dated = {single: read(single)[0] for single in authorities}
    unended = [single for single, authority in dated.items() if authority.not_valid_after_utc > at]
    return set(sorted(unended, key=lambda single: (dated[single].not_valid_before_utc, single))[-_MOST_FOREIGN:])


def _readable(bundle: bytes) -> list[bytes]:
    """The authorities in a bundle; none if it cannot be read."""
    try:
        return singles(bundle)
    except BadInput:
        return []
