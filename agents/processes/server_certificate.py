"""The source of a server's certificate, by its settings: files, a folder of its own, or a Secret."""

from datetime import timedelta
from pathlib import Path
from typing import Protocol

from streams.clients.kube.api import Api
from streams.clients.kube.json_objects import PlainObjects
from streams.serving.certificate_sources import CertificateFiles, CertificateFolder, CertificateSecret, CertificateSource, Renewal


class ServerSettings(Protocol):
    """The settings of a server's certificate and Service."""

    @property
    def certificate(self) -> Path | None:
        """The file of a certificate that others renew; None for one of our own."""

    @property
    def key(self) -> Path | None:
        """The file of its key."""

    @property
    def ca(self) -> Path | None:
        """The file of the authorities that vouch for it."""

    @property
    def certificate_folder(self) -> Path | None:
        """Where a certificate of our own is kept; None for a Secret."""

    @property
    def certificate_secret(self) -> str:
        """The name of that Secret."""

    @property
    def certificate_hours(self) -> float:
        """How long a certificate of our own holds."""

    @property
    def renew_hours(self) -> float:
        """How long before its end it is renewed."""

    @property
    def namespace(self) -> str:
        """The server's own namespace."""

    @property
    def service(self) -> str:
        """The Service through which it is reached."""


def certificate_source(ours: ServerSettings, names: tuple[str, ...], api: Api) -> CertificateSource:
    """Files if there are any, else a certificate of our own that holds for these host names."""
    if ours.certificate is not None and ours.key is not None:
        return CertificateFiles(ours.certificate, ours.key, ours.ca)
    renewal = Renewal(names, timedelta(hours=ours.certificate_hours), timedelta(hours=ours.renew_hours))
    if ours.certificate_folder is not None:
        return CertificateFolder(ours.certificate_folder, renewal)
    secrets = PlainObjects(api, f"/api/v1/namespaces/{ours.namespace}/secrets", "Secret")
    return CertificateSecret(secrets, ours.certificate_secret, renewal, (("app.kubernetes.io/managed-by", "ullage"),))


def service_names(ours: ServerSettings) -> tuple[str, ...]:
    """The host names by which a cluster may ask for the server's Service."""
    service = f"{ours.service}.{ours.namespace}.svc"
    return service, f"{service}.cluster.local", f"{ours.service}.{ours.namespace}", ours.service
