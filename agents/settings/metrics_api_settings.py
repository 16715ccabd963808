"""The settings of the metrics API."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from agents.settings.settings_group import SettingsGroup
from agents.settings.webhook_settings import KubernetesName


class MetricsApiSettings(SettingsGroup):
    """The consumer that answers for external metrics."""

    host: str = "0.0.0.0"  # noqa: S104  # the API server comes from elsewhere
    """The address that it listens on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 6443
    """The port that it listens on; 0 takes a free one."""
    namespace: KubernetesName = "ullage"
    """Its own namespace: there are its Service and its certificate's Secret."""
    service: KubernetesName = "ullage-metrics-api"
    """The Service through which the API server reaches it."""
    service_port: Annotated[int, Field(ge=1, le=65535)] = 443
    """The port of that Service."""
    self_register: bool = True
    """Whether it makes its own APIService; else others do, and it only keeps the authorities in it up."""
    custom: bool = False
    """Whether it is registered for custom metrics, too; where another adapter serves them, that one is left alone."""
    certificate: Path | None = None
    """The certificate, with its chain, in PEM. Unset means that it makes and renews one itself."""
    key: Path | None = None
    """The key of the certificate."""
    ca: Path | None = None
    """The authorities that vouch for the certificate, to be put into the APIService."""
    certificate_folder: Path | None = None
    """Where a certificate of its own is kept, for one replica; unset means in a Secret, for any number of replicas."""
    certificate_secret: KubernetesName = "ullage-metrics-api-certificate"  # noqa: S105  # the name of a Secret is none
    """The Secret of a certificate of its own."""
    certificate_hours: Annotated[float, Field(ge=1, le=8760)] = 168.0
    """How long a certificate of its own holds, in hours."""
    renew_hours: Annotated[float, Field(gt=0, le=8760)] = 24.0
    """How long before its end it is renewed, in hours."""
    linger_seconds: Annotated[float, Field(ge=0, le=60)] = 2.0
    """How long it goes on answering when it was asked to stop: news of that take a while to get around."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            msg = "metrics_api.certificate and metrics_api.key belong together: set both or none"
            raise ValueError(msg)
        if self.certificate is not None and self.certificate_folder is not None:
            msg = "metrics_api.certificate is given, so metrics_api.certificate_folder, for one of its own, makes no sense"
            raise ValueError(msg)
        if self.renew_hours >= self.certificate_hours:
            hours = f"{self.renew_hours:g}, which is not below certificate_hours, {self.certificate_hours:g}"
            raise ValueError(f"metrics_api.renew_hours is {hours}")
        return self
