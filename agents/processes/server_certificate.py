"""The source of a server's certificate, by its settings: files, a folder of its own, or a Secret."""

from datetime import timedelta

from agents.settings.consumer_settings import ServerSettings
from streams.clients.kube.api import Api
from streams.clients.kube.json_objects import PlainObjects
from streams.serving.certificate_rotation import (
    CertificateFiles,
    CertificateFolder,
    CertificateSecret,
    CertificateSource,
    Renewal,
)


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
    # the API server asks for the first one
    return service, f"{service}.cluster.local", f"{ours.service}.{ours.namespace}", ours.service
