"""Throw-away authorities and certificates for tests, made on the spot."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates. `file` is its own, as PEM."""

    file: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def make(cls, folder: Path, name: str = "authority") -> "Authority":
        """A new one; its certificate is written to `folder/name.crt`."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _begun(name, name, key).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        signed = certificate.sign(key, hashes.SHA256())
        file = folder / f"{name}.crt"
        file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return cls(file, key, signed)

    def sign(self, name: str, hosts: Sequence[str]) -> Path:
        """A certificate `CN=name` for these hosts (names or addresses), in one PEM file with its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        names = x509.SubjectAlternativeName([_general(host) for host in hosts])
        signed = _begun(name, str(issuer), key).add_extension(names, critical=False).sign(self.key, hashes.SHA256())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ) + signed.public_bytes(serialization.Encoding.PEM)
        file = self.file.with_name(f"{name}.pem")
        file.write_bytes(pem)
        return file


def _begun(name: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
