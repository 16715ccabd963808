"""The settings of consumers: webhook, metrics API, EHPAs' autoscalers, external expander, and node groups on AWS."""

import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from agents.settings.settings_group import SettingsGroup

_NAME = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
KubernetesName = Annotated[str, Field(pattern=_NAME)]
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]{1,3})?|[0-9]+m")


class ServerSettings(SettingsGroup):
    """A server that the API server asks: where it listens, its Service, and its certificate."""

    group: ClassVar[str]
    """The name of the group of settings."""
    host: str = "0.0.0.0"  # noqa: S104  # the API server comes from elsewhere
    """The address that it listens on."""
    port: Annotated[int, Field(ge=0, le=65535)]
    """The port that it listens on; 0 takes a free one."""
    namespace: KubernetesName = "ullage"
    """Its own namespace: there are its Service and its certificate's Secret."""
    service: KubernetesName
    """The Service through which the API server reaches it."""
    service_port: Annotated[int, Field(ge=1, le=65535)] = 443
    """The port of that Service."""
    certificate: Path | None = None
    """The certificate, with its chain, in PEM. Unset means that it makes and renews one itself."""
    key: Path | None = None
    """The key of the certificate."""
    ca: Path | None = None
    """The authorities that vouch for the certificate, to be put into what registers the server."""
    certificate_folder: Path | None = None
    """Where a certificate of its own is kept, for one replica; unset means in a Secret, for any number of replicas."""
    certificate_secret: KubernetesName
    """The Secret of a certificate of its own."""
    certificate_hours: Annotated[float, Field(ge=1, le=8760)] = 168.0
    """How long a certificate of its own holds, in hours."""
    renew_hours: Annotated[float, Field(gt=0, le=8760)] = 24.0
    """How long before its end it is renewed, in hours."""
    linger_seconds: Annotated[float, Field(ge=0, le=60)] = 2.0
    """How long it goes on answering when it was asked to stop: news of that take a while to get around."""

    @model_validator(mode="after")
    def _one_certificate(self) -> Self:
        group = self.group
        if (self.certificate is None) != (self.key is None):
            msg = f"{group}.certificate and {group}.key belong together: set both or none"
            raise ValueError(msg)
        if self.certificate is not None and self.certificate_folder is not None:
            msg = f"{group}.certificate is given, so {group}.certificate_folder, for one of its own, makes no sense"
            raise ValueError(msg)
        # else it would be renewed at every look
        if self.renew_hours >= self.certificate_hours:
            hours = f"{self.renew_hours:g}, which is not below certificate_hours, {self.certificate_hours:g}"
            raise ValueError(f"{group}.renew_hours is {hours}")
        return self


class WebhookSettings(ServerSettings):
    """The admission webhook."""

    group = "webhook"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """The port that it listens on; 0 takes a free one."""
    namespace: KubernetesName = "ullage"
    """Its own namespace: there are its Service, its certificate's Secret and its Lease, and pods there are left alone."""
    service: KubernetesName = "ullage-webhook"
    """The Service through which the API server reaches it."""
    certificate_secret: KubernetesName = "ullage-webhook-certificate"  # noqa: S105  # the name of a Secret is none
    """The Secret of a certificate of its own."""
    self_register: bool = True
    """Whether it registers its own MutatingWebhookConfiguration; else others do, and it only keeps the authorities in it up."""
    configuration: KubernetesName = "ullage-webhook"
    """The name of the MutatingWebhookConfiguration."""
    url: Annotated[str, Field(pattern=r"^https://[^/?#@]+(/[^?#]*)?$")] | None = None
    """Where the API server reaches it if not through a Service: `https://HOST:PORT`."""
    excluded_namespaces: tuple[KubernetesName, ...] = ("kube-node-lease", "kube-public", "kube-system")
    """Namespaces whose pods are left alone, beside its own."""
    failure_policy: Literal["Ignore", "Fail"] = "Ignore"
    """What the API server does when nobody answers: go on without a patch, or refuse the pod."""
    timeout_seconds: Annotated[int, Field(ge=1, le=30)] = 5
    """How long the API server waits for an answer."""
    lease: KubernetesName = "ullage-webhook"
    """The Lease that says that it is at work. A stock VPA's is called `vpa-admission-controller`."""
    lease_namespace: KubernetesName | None = None
    """The namespace of the Lease; unset means `webhook.namespace`."""
    lookup_seconds: Annotated[float, Field(gt=0, le=20)] = 1.0
    """How long a new pod waits at most for the API server to name its owners."""
    cpu_startup_boost: bool = False
    """Upstream's feature gate CPUStartupBoost."""
    per_vpa_config: bool = False
    """Upstream's feature gate PerVPAConfig."""
    in_place: bool = True
    """Upstream's feature gate InPlace: whether VPAs may have the update mode InPlace."""
    max_boosted_cpu: str | None = None
    """Upstream's `--max-allowed-cpu-boost`, such as `4` or `1500m`; unset means no bound."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.max_boosted_cpu is not None and not _QUANTITY.fullmatch(self.max_boosted_cpu):
            msg = f"webhook.max_boosted_cpu is '{self.max_boosted_cpu}', which is no amount of CPU such as '4' or '1500m'"
            raise ValueError(msg)
        return self


# The settings of the consumer that keeps what follows from EHPAs.


class AutoscalerSettings(SettingsGroup):
    """The consumer that keeps generated autoscalers, and scales."""

    resync_seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """How often each EHPA is looked at, in seconds, where nothing new is known of it: somebody may have changed its HPA."""
    preview_seconds: Annotated[float, Field(gt=0, le=3600)] = 15.0
    """How often one is looked at whose strategy is Preview; upstream's interval of Substitutes."""
    writers: Annotated[int, Field(ge=1, le=100)] = 8
    """EHPAs that are looked at at one time."""
    rate: Annotated[float, Field(gt=0, le=100_000)] = 20.0
    """EHPAs that are looked at in a second, on the long run; each costs some four requests."""
    burst: Annotated[int, Field(ge=1, le=100_000)] = 100
    """... and at once, after a rest."""
    label_prefixes: tuple[str, ...] = ()
    """Beginnings of labels that an EHPA hands on to its HPA; upstream's ehpa-propagation-label-prefixes."""
    labels: tuple[str, ...] = ()
    """Labels that it hands on; upstream's ehpa-propagation-labels."""
    annotation_prefixes: tuple[str, ...] = ()
    """Beginnings of annotations that it hands on; upstream's ehpa-propagation-annotation-prefixes."""
    annotations: tuple[str, ...] = ()
    """Annotations that it hands on; upstream's ehpa-propagation-annotations."""


# The settings of the metrics API.


class MetricsApiSettings(ServerSettings):
    """The consumer that answers for external metrics."""

    group = "metrics_api"
    port: Annotated[int, Field(ge=0, le=65535)] = 6443
    """The port that it listens on; 0 takes a free one."""
    service: KubernetesName = "ullage-metrics-api"
    """The Service through which the API server reaches it."""
    certificate_secret: KubernetesName = "ullage-metrics-api-certificate"  # noqa: S105  # the name of a Secret is none
    """The Secret of a certificate of its own."""
    self_register: bool = True
    """Whether it makes its own APIService; else others do, and it only keeps the authorities in it up."""
    custom: bool = False
    """Whether it is registered for custom metrics, too; where another adapter serves them, that one is left alone."""


class ExpanderSettings(SettingsGroup):
    """The server of the expander `grpc`, which `ullage consumer expander` asks."""

    url: Annotated[str, Field(pattern=r"^([^\s/]+:\d{1,5})?$", max_length=300)] = ""
    """Where it answers, HOST:PORT; upstream's grpc-expander-url."""
    certificate: Path | None = None
    """The certificate of the server's authority, in PEM; upstream's grpc-expander-cert. Nobody is asked without TLS."""
    timeout_seconds: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Seconds that an answer may take, as upstream has it; how long pods wait for one is `nodes.expander_timeout`."""


class AwsSettings(SettingsGroup):
    """Node groups on AWS Auto Scaling Groups: `ullage source asg` and `ullage consumer asg`."""

    region: Annotated[str, Field(pattern=r"^[a-z0-9-]+$", max_length=63)] | None = None
    """The region; unset means AWS_REGION, else what the SDK finds (AWS_DEFAULT_REGION, the profile)."""
    endpoint: str | None = None
    """Where AWS's API answers; unset means AWS itself. A private endpoint, or a double of the API in tests."""
    groups: tuple[str, ...] = ()
    """Groups by name, with bounds that count instead of AWS's own: `min:max:name`; upstream's nodes."""
    discovery: tuple[str, ...] = ()
    """Groups by tags: `asg:tag=KEY,KEY=VALUE`, all of which a group must carry; upstream's node-group-auto-discovery."""
    prices: str | None = None
    """A CSV file with what nodes cost for an hour, by type of instance (`type,on_demand,spot`); for the expander `price`."""
    interruption_queue: str = ""
    """The URL of the SQS queue into which EventBridge puts what AWS announces of instances (docs/nodes.md); empty for none."""
    refresh_seconds: Annotated[float, Field(ge=1, le=3600)] = 5.0
    """Seconds between two looks at the groups when all of them have what they want."""
    busy_seconds: Annotated[float, Field(ge=0.2, le=3600)] = 1.0
    """... and while one of them has not, so that a failure becomes known within a second or two."""
    timeout_seconds: Annotated[float, Field(gt=0, le=300)] = 10.0
    """Seconds that AWS may take for each answer; each call is made three times at most."""
    protect_instances: bool = True
    """Whether instances are protected from being chosen by their own group, so that only a decision of ours ends one."""


class NodeDrainSettings(SettingsGroup):
    """How a node is emptied before its instance is terminated."""

    cordon: bool = True
    """Whether the node is cordoned besides being tainted; upstream's cordon-node-before-terminating."""
    delay_seconds: Annotated[float, Field(ge=0, le=3600)] = 5.0
    """Seconds from the taint to the first eviction, for the scheduler to see it; upstream's node-delete-delay-after-taint."""
    gone_margin_seconds: Annotated[float, Field(ge=0, le=3600)] = 30.0
    """Seconds beyond its grace period that a pod may take to be gone."""
    hooks_seconds: Annotated[float, Field(ge=0, le=3600)] = 120.0
    """Seconds that `delay-deletion` annotations may hold a node up; upstream's node-deletion-delay-timeout."""
    evictions: Annotated[int, Field(ge=1, le=100)] = 8
    """Pods of one node whose evictions are asked for at the same time."""
