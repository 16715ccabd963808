"""Throw-away keys and certificates, made by the `openssl` program: nothing that is secret stands in the repository.

Clients of the API server show tokens, so few certificates are needed: an authority and one server certificate for everything
that listens on loopback, an authority and a client certificate for the API server when it passes questions on, and a key for
service accounts.
"""

import shutil
import subprocess
from pathlib import Path

_CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"]
_CONFIG = """
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, DNS:kubernetes, DNS:kubernetes.default, DNS:kubernetes.default.svc, IP:127.0.0.1, IP:10.0.0.1
[client]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = clientAuth
"""


class PkiError(Exception):
    """Why there are no certificates."""


def make(folder: Path) -> None:
    """Write ca, server, front-ca, front (each .crt and .key), sa.key and sa.pub into `folder`. Raises PkiError."""
    if shutil.which("openssl") is None:
        raise PkiError("No 'openssl' on the PATH: the control plane's certificates are made with it (3.0 or newer).")
    folder.mkdir(parents=True)
    (folder / "openssl.cnf").write_text(_CONFIG, encoding="utf-8")
    _sign(folder, "ca", extensions="authority")
    _sign(folder, "server", extensions="server", by="ca")
    _sign(folder, "front-ca", extensions="authority")
    _sign(folder, "front", extensions="client", by="front-ca")
    _openssl(folder, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "sa.key")
    _openssl(folder, "pkey", "-in", "sa.key", "-pubout", "-out", "sa.pub")


def _sign(folder: Path, name: str, *, extensions: str, by: str | None = None) -> None:
    signer = [] if by is None else ["-CA", f"{by}.crt", "-CAkey", f"{by}.key"]
    files = ["-keyout", f"{name}.key", "-out", f"{name}.crt"]
    about = ["-subj", f"/CN={name}", "-extensions", extensions, "-days", "2", "-config", "openssl.cnf"]
    _openssl(folder, "req", "-x509", *_CURVE, *about, *files, *signer)


def _openssl(folder: Path, *arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PkiError(f"'openssl {arguments[0]}' ended with code {done.returncode}: {done.stderr.strip()[-300:]}")
