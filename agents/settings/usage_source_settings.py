"""The settings of what is measured: where usage and loads are read, how a Prometheus server is reached, and how far back."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator

from agents.settings.settings_group import SettingsGroup

LabelName = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=1000)]
Metric = Annotated[str, Field(pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:]*$", max_length=1000)]


class UsageSourceSettings(SettingsGroup):
    """`ullage source usage`: what containers use."""

    reads: Literal["metrics-api", "prometheus", "remote-write"] = "metrics-api"
    """Who is asked: the cluster's metrics API (`metrics.k8s.io`), or the server of `prometheus`; or, with `remote-write`, nobody:
    senders bring it (`receiver`)."""
    interval_seconds: Annotated[float, Field(ge=1, le=86_400)] = 60.0
    """Seconds between two questions; upstream's recommender-interval. Confidence counts samples, so it changes the bounds."""
    timeout_seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """Seconds that an answer of the metrics API may take."""
    missing_is_zero: bool = False
    """Whether a resource that an answer leaves out counts as none used, as upstream has it; otherwise it was not seen."""
    rate_seconds: Annotated[float, Field(ge=1, le=86_400)] = 300.0
    """What Prometheus averages CPU over, in seconds; four times its own scrape interval is good."""


class ReceiverSettings(SettingsGroup):
    """`ullage source remote-write`: what Prometheus and OpenTelemetry Collectors bring. Names are those of `prometheus`."""

    host: str = "0.0.0.0"  # noqa: S104  # senders come from elsewhere
    """The address that it listens on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 9365
    """The port that it listens on; 0 takes a free one."""
    certificate: Path | None = None
    """The certificate, with its chain, in PEM, as somebody renews it. Unset means plain HTTP."""
    key: Path | None = None
    """The key of the certificate."""
    token_file: Path | None = None
    """A file with the bearer token that senders must show, or with one on each line for each of them, whose room is then its own
    wherever it sends from; read for each request. Unset means that anybody may send."""
    most_series: Annotated[int, Field(ge=1, le=10_000_000)] = 1_000_000
    """Series that are kept, at most: about three a container. Samples of others are refused and counted."""
    most_bytes: Annotated[int, Field(ge=1 << 16, le=1 << 26)] = 8 << 20
    """Bytes of one request, packed and unpacked: 2,000 samples, which Prometheus sends at once, are less than 1 MB."""
    silence_seconds: Annotated[float, Field(ge=5, le=86_400)] = 120.0
    """Seconds without a sample of a container after which it is not ready."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            msg = "receiver.certificate and receiver.key belong together: set both or none"
            raise ValueError(msg)
        return self


class PrometheusSettings(SettingsGroup):
    """How to reach a Prometheus server, and what things are called there."""

    url: str = "http://prometheus.monitoring.svc"
    """Where it answers; upstream's prometheus-address."""
    username: str | None = None
    """The user, for basic authentication."""
    password: SecretStr | None = None
    """The password of that user."""
    password_file: Path | None = None
    """A file that holds the password; read for each question."""
    token: SecretStr | None = None
    """A bearer token."""
    token_file: Path | None = None
    """A file that holds the bearer token; read for each question, as such tokens are renewed."""
    headers: SecretStr | None = None
    """More headers for each question, a line each, as in `X-Scope-OrgID: shop`; best by file: ULLAGE_PROMETHEUS__HEADERS_FILE."""
    ca: Path | None = None
    """The certificate authorities (PEM) that its certificate is checked against; none means the system's."""
    insecure: bool = False
    """Whether to take any certificate; upstream's prometheus-insecure."""
    timeout_seconds: Annotated[float, Field(gt=0, le=3600)] = 300.0
    """Seconds that an answer may take; upstream's prometheus-query-timeout."""
    labels: tuple[Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*=.*$", max_length=1000)], ...] = ()
    """Labels, `name=value`, that every question asks for, where one server holds several clusters (`cluster=prod`). Queries that
    annotations or rules of prometheus-adapter give stay as they are; upstream's extension-labels."""
    job: str = "kubernetes-cadvisor"
    """The job that scrapes containers, upstream's prometheus-cadvisor-job-name (`kubelet` with kube-prometheus); empty: any."""
    cpu_metric: Metric = "container_cpu_usage_seconds_total"
    """The counter of CPU seconds; upstream's history-cpu-metric."""
    memory_metric: Metric = "container_memory_working_set_bytes"
    """Memory in use; upstream's history-memory-metric."""
    namespace_label: LabelName = "namespace"
    """The label of both that holds the namespace; upstream's container-namespace-label."""
    pod_label: LabelName = "pod"
    """... the pod; cAdvisor's own, where upstream's container-pod-name-label is `pod_name`."""
    container_label: LabelName = "container"
    """... the container; cAdvisor's own, where upstream's container-name-label is `name`."""
    pod_labels: str = "kube_pod_labels"
    """The metric that carries pods' labels, for pods that are gone: a metric, or a selector with a range as upstream asks for."""
    pod_labels_prefix: str = "label_"
    """What the names of pods' labels begin with there; upstream's pod-label-prefix is `pod_label_`."""
    pod_labels_namespace: LabelName = "namespace"
    """Its label that holds the namespace; upstream's pod-namespace-label is `kubernetes_namespace`."""
    pod_labels_pod: LabelName = "pod"
    """Its label that holds the pod's name; upstream's pod-name-label is `kubernetes_pod_name`."""


class HistorySettings(SettingsGroup):
    """`ullage source history`: what a Prometheus server remembers of the time before."""

    length_seconds: Annotated[float, Field(ge=1, le=10 * 366 * 86_400)] = 8 * 86_400.0
    """How far back; upstream's history-length of 8 days."""
    resolution_seconds: Annotated[float, Field(ge=1, le=7 * 86_400)] = 3600.0
    """Seconds between two samples, and what CPU is averaged over; upstream's history-resolution."""


class LoadSourceSettings(SettingsGroup):
    """`ullage source load`: what the loads are by which workloads are scaled."""

    interval_seconds: Annotated[float, Field(ge=1, le=3600)] = 60.0
    """Seconds between two questions for each load; upstream's default of `sampleInterval`."""
    history_seconds: Annotated[float, Field(ge=0, le=15 * 86_400 + 3600)] = 15 * 86_400.0 + 3600
    """How far back a load is asked for when it is first seen; upstream's default of `historyLength`, and an hour."""
    histories: Annotated[int, Field(ge=1, le=1000)] = 50
    """Histories that are read in one round, at most; the other new loads have their turn in the next ones."""
    concurrency: Annotated[int, Field(ge=1, le=100)] = 10
    """Questions at one time; upstream's prometheus-query-concurrency."""
    tenant_queries: bool = True
    """Whether PromQL that tenants write is asked: queries in annotations and TimeSeriesPredictions, names of metrics in EHPAs.

    If not, there are queries for CPU and memory and those of `cluster.adapter_rules`; others are refused in the object's status.
    """
    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 30.0
    """Seconds that the answer to one query may take."""
    most_bytes: Annotated[int, Field(ge=1 << 16, le=1 << 28)] = 4 << 20
    """Bytes of one answer, at most: the query of a load gives one series, and 10,000 values of one are less than 1 MB."""
