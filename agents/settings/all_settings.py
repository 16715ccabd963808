"""The settings as one tree: what can be set, what it means, and its default.

Only the context (command line, demo, app host) reads this tree; everything else is handed plain arguments. Where a value comes
from, and in which order, is `agents.settings.loading`. Importing it takes a tenth of a second, so commands do it when they run.

Bounds that types cannot express, of what would stop a process, do harm, or can only be a slip of the pen, give reasons here, and
loading raises the error. The stages' settings are plain dataclasses, so that the logic stays free of validation.
"""

import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr

from agents.logic import stage_rules
from agents.logic.nodes.scaler_settings import ScalerSettings
from agents.logic.replicas.forecaster_settings import ForecasterSettings
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.vertical.vertical_settings import VerticalSettings
from agents.settings.consumer_settings import (
    AutoscalerSettings,
    AwsSettings,
    ExpanderSettings,
    MetricsApiSettings,
    NodeDrainSettings,
    WebhookSettings,
)
from agents.settings.settings_group import SettingsGroup
from agents.settings.usage_source_settings import (
    HistorySettings,
    LoadSourceSettings,
    PrometheusSettings,
    ReceiverSettings,
    UsageSourceSettings,
)
from schemas.bounds import LAST_SECOND, MOST_ENTRIES, MOST_TEXT
from schemas.units import Seconds
from streams.topics import REACH_MS

DAY_MS = 86_400_000
LAST_MS = int(LAST_SECOND * 1000)
"""Milliseconds since the epoch that no clock shows."""
Port = Annotated[int, Field(ge=0, le=65535)]
InstallationName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$")]

_READY_WITHIN = 10.0
"""Seconds of real time that a task may be behind and still be ready."""


class SecuritySettings(SettingsGroup):
    """How to reach a Kafka that asks who we are. The files are PEM."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Kafka's security.protocol."""
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "AWS_MSK_IAM"] | None = None
    """Kafka's sasl.mechanism; `AWS_MSK_IAM` signs with an identity of AWS, with our extra msk and no user."""
    region: str = ""
    """The region of an Amazon MSK cluster, for `AWS_MSK_IAM`."""
    username: str | None = None
    """The user, for SASL."""
    password: SecretStr | None = None
    """The password, for SASL; best given as a file: ULLAGE_LOG__SECURITY__PASSWORD_FILE."""
    ca: Path | None = None
    """The certificate authorities that the brokers' certificates are checked against; none means the system's."""
    certificate: Path | None = None
    """Our own certificate, where brokers ask for one."""
    key: Path | None = None
    """The key of our own certificate."""
    folder: Path | None = None
    """A folder, such as a mounted Secret, with any of `ca.crt`, `user.crt` and `user.key`, for which no file is named above."""
    check_hostname: bool = True
    """Whether a broker's certificate must carry its host name."""


class LogSettings(SettingsGroup):
    """Where the log is."""

    kind: Literal["kafka", "memory", "file"] = "kafka"
    """Which log: `kafka` (a cluster or `ullage broker`), `file` (one file), `memory` (gone when the process ends)."""
    brokers: str = "127.0.0.1:9092"
    """Kafka's bootstrap servers, `host:port`, separated by commas."""
    path: Path = Path(".run/log.jsonl")
    """The file of a `file` log; one that ends in `.parquet` is an incident file, which can only be read."""
    at: str | None = None
    """Look at the log as it was at this moment of its own time: `2026-01-05T03:02`, `03:02`, or `30m` before its newest tick."""
    security: SecuritySettings = SecuritySettings()
    """How to reach a Kafka that asks who we are."""


class TopicSettings(SettingsGroup):
    """How the topics are named and cut."""

    prefix: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,150}$")] = "ullage"
    """What every topic name starts with; two installations on one Kafka need two prefixes."""
    partitions: Annotated[int, Field(ge=1, le=1000)] = 4
    """Partitions of every topic a stage reads or writes; the upper bound of useful workers. Cannot be changed later."""
    replication: Annotated[int, Field(ge=-1, le=15)] = -1
    """Copies of each partition; -1 leaves it to the brokers' own default."""


class ClockSettings(SettingsGroup):
    """The clock source, which puts ticks into the log."""

    period_ms: Annotated[int, Field(ge=1, le=DAY_MS)] = 500
    """Milliseconds of event time between two ticks; a turn is taken at each."""
    speed: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """Event time that passes in one second of real time, in seconds; 1440 plays a day in a minute."""
    origin_ms: Annotated[int, Field(ge=0, lt=LAST_MS)] = 0
    """Event time at the real time `anchor_ms`, both in milliseconds since the epoch; equal means that event time is real time."""
    anchor_ms: Annotated[int, Field(ge=0, lt=LAST_MS)] = 0
    """See `origin_ms`. All clocks of one log must be given the same two."""
    fill_most: Annotated[int, Field(ge=0, le=1 << 40)] = 100_000
    """Records that a partition may have lost at its end, for the clock to fill it up by itself; who has looked may set more."""


class WorkerSettings(SettingsGroup):
    """A worker: the process that hosts the stages."""

    name: InstallationName = "ullage"
    """The worker group: workers of one name share the partitions among them (Faust's app id)."""
    checkpoint_least: Annotated[float, Field(gt=0, le=3600)] = 1.0
    """Seconds of real time between two checkpoints of a partition's state, at least."""
    checkpoint_most: Annotated[float, Field(gt=0, le=86_400)] = 30.0
    """... and at most, however large the state is."""
    checkpoint_rate: Annotated[int, Field(ge=1, le=1 << 40)] = 12_000_000
    """Bytes a second that checkpoints may cost, averaged over a round of partitions."""
    checkpoint_samples: Annotated[int, Field(ge=0, le=1 << 40)] = 100_000
    """Rows of usage of a partition that a restart may fold again, at about a million a second. Above that, and within 240 times
    `checkpoint_least`, a checkpoint is written. 0: one after each scrape."""
    buffer: Annotated[int, Field(ge=1 << 20, le=1 << 40)] = 64 << 20
    """Bytes of records that wait in all inputs of a worker together, beside what the next turns want. Beyond that, inputs that
    are ahead of the clock are read no further."""
    session_seconds: Annotated[float, Field(ge=3, le=60)] = 6.0
    """Seconds without a heartbeat after which Kafka gives the partitions of a worker to others. Those of one that is killed stand
    still for so long, and one that gets no CPU for so long loses them. The brokers' group.min.session.timeout.ms is the least."""
    policy_seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """Seconds of CPU time that one call of a policy as code may take; after that the worker ends and names it."""


class MetricsSettings(SettingsGroup):
    """Prometheus metrics and health of this process."""

    host: str = "127.0.0.1"
    """The address that /metrics, /healthz and /readyz answer on; 0.0.0.0 inside a container."""
    port: Port = 0
    """The port they answer on; 0 means none is opened."""


class ClusterSettings(SettingsGroup):
    """The cluster that sources watch and consumers act on."""

    name: InstallationName = "demo"
    """The cluster's name: first part of every workload key."""
    url: str | None = None
    """Where a server answers that asks for no credentials, such as the simulated cluster on `http://127.0.0.1:8899`."""
    kubeconfig: Path | None = None
    """The kubeconfig file; unset, and no `url`, means what kubectl takes: `$KUBECONFIG`, the pod's account, `~/.kube/config`."""
    context: str | None = None
    """The context in the kubeconfig; unset means its current one."""
    in_cluster: bool = False
    """Whether to use the service account of the pod that this process runs in, whatever else there is."""
    namespaces: tuple[InstallationName, ...] = ()
    """The only namespaces to watch; none means all of them. Nodes are watched in any case."""
    nodes: bool = False
    """Whether to tell what node scaling needs: each node in detail, what pods ask of nodes, disruption budgets, controllers.

    The simulated cluster then has groups of nodes, and the consumer that acts on them."""
    priorities: str = "kube-system/cluster-autoscaler-priority-expander"
    """The ConfigMap (NAMESPACE/NAME) that says which node groups go first; read only if `nodes.expanders` names `priority`."""
    replicas: bool = False
    """Whether to watch EHPAs as well, and the scale of what they scale; their CRDs must be installed."""
    control: bool = False
    """Whether the object ClusterControl `ullage` commands (docs/cluster.md); its CRD should be installed."""
    policies: bool = False
    """Whether VerticalPolicy objects say how workloads of their namespaces are treated (docs/cluster.md); as above."""
    adapter_rules: Path | None = None
    """prometheus-adapter's configuration (YAML): its rules say how to ask for metrics; upstream's prometheus-adapter-config."""
    adapter_labels: tuple[Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*=.*$", max_length=1000)], ...] = ()
    """Labels, `name=value`, that every query of such a rule asks for; upstream's prometheus-adapter-extension-labels."""
    lease_namespace: InstallationName | None = None
    """Where two instances of a consumer take turns by Leases; unset means the pod's own namespace, or none outside."""
    start: datetime | None = None
    """When the simulated cluster begins, in event time with an offset; unset means at the first tick."""
    period_seconds: Annotated[int, Field(ge=1, le=86_400)] = 60
    """Seconds of event time between two scrapes."""
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 1
    """The seed of everything by chance in the simulated cluster: same seed, same day."""


class StatusSettings(SettingsGroup):
    """How hard the status consumer may work the cluster's API."""

    writers: Annotated[int, Field(ge=1, le=1000)] = 10
    """VPA objects that are written at one time."""
    rate: Annotated[float, Field(gt=0, le=1e6)] = 50.0
    """Reads and writes a second, on the long run."""
    burst: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """... and at once, after a rest."""


class EvictorSettings(SettingsGroup):
    """The consumer that evicts pods."""

    needs_webhook: bool = True
    """Whether nobody is evicted while no webhook is seen at work, by the Lease `webhook.lease`, that would change successors."""
    webhook_seconds: Annotated[float, Field(ge=10, le=86_400)] = 30.0
    """How old the renewal of that Lease may be, in seconds; upstream's updater takes 60."""


class DemoSettings(SettingsGroup):
    """`ullage demo`."""

    seconds: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    """How long the simulated day takes in real time, in seconds; longer on a machine that is too slow for it."""
    workers: Annotated[int, Field(ge=1, le=8)] = 2
    """How many workers share the work."""
    partitions: Annotated[int, Field(ge=1, le=16)] = 2
    """Partitions of the demo's topics."""
    tick_seconds: Annotated[int, Field(ge=1, le=86_400)] = 150
    """Seconds of simulated time between two ticks, and between two looks at the usage. 60 takes two thirds more CPU."""


class Settings(SettingsGroup):
    """All settings. `agents.settings.loading.load` makes one; the constructor itself reads neither environment nor file."""

    log: LogSettings = LogSettings()
    """Where the log is."""
    topics: TopicSettings = TopicSettings()
    """How the topics are named and cut."""
    clock: ClockSettings = ClockSettings()
    """The clock source."""
    worker: WorkerSettings = WorkerSettings()
    """The process that hosts the stages."""
    vertical: VerticalSettings = VerticalSettings()
    """How requests are recommended."""
    updates: UpdateSettings = UpdateSettings()
    """Which pods are changed, and when."""
    nodes: ScalerSettings = ScalerSettings()
    """When node groups grow and which nodes go."""
    replicas: ForecasterSettings = ForecasterSettings()
    """How load is forecast, and replicas planned from it."""
    cluster: ClusterSettings = ClusterSettings()
    """The cluster that sources watch and consumers act on."""
    usage: UsageSourceSettings = UsageSourceSettings()
    """Where usage is read."""
    prometheus: PrometheusSettings = PrometheusSettings()
    """The Prometheus server that usage or history is read from."""
    receiver: ReceiverSettings = ReceiverSettings()
    """What takes in the usage that others send."""
    load: LoadSourceSettings = LoadSourceSettings()
    """The loads by which workloads are scaled."""
    history: HistorySettings = HistorySettings()
    """How far back history goes."""
    status: StatusSettings = StatusSettings()
    """The consumer that writes the status of VPA objects."""
    evictor: EvictorSettings = EvictorSettings()
    """The consumer that evicts pods."""
    aws: AwsSettings = AwsSettings()
    """Node groups on AWS Auto Scaling Groups."""
    expander: ExpanderSettings = ExpanderSettings()
    """The external expander, which chooses among node groups."""
    drain: NodeDrainSettings = NodeDrainSettings()
    """How a node is emptied before its instance is terminated."""
    webhook: WebhookSettings = WebhookSettings()
    """The admission webhook."""
    autoscalers: AutoscalerSettings = AutoscalerSettings()
    """The consumer that keeps generated autoscalers, and scales."""
    metrics_api: MetricsApiSettings = MetricsApiSettings()
    """The consumer that answers for external metrics."""
    metrics: MetricsSettings = MetricsSettings()
    """Prometheus metrics and health."""
    demo: DemoSettings = DemoSettings()
    """The demo."""

    @property
    def ready_within(self) -> Seconds:
        """Event time by which a task may be behind and still be ready: 10 s of real time; with rare ticks, two tick periods."""
        return Seconds(max(_READY_WITHIN * max(1.0, self.clock.speed), 2 * self.clock.period_ms / 1000))


REACH = REACH_MS / 1000
_BROKER = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?):([0-9]{1,5})")
_PORTS = range(1, 65_536)


def for_partitions(settings: Settings, partitions: int) -> Settings:
    """The settings of a log that has so many partitions; stages share among these what there is."""
    return settings.model_copy(update={"topics": settings.topics.model_copy(update={"partitions": partitions})})


def reasons(settings: Settings) -> Iterator[tuple[str, str]]:
    """The dotted name of each setting with a value out of bounds, and why."""
    for branch in type(settings).model_fields:
        part = getattr(settings, branch)
        if is_dataclass(part) and not isinstance(part, type):
            for name, why in stage_rules.odd(part):
                yield f"{branch}.{name}", why
    yield from _texts(settings, "")
    yield from _stages(settings)
    if wrong := _broker_fault(settings.log.brokers):
        yield "log.brokers", wrong
    for name, url in _addresses(settings):
        if url is not None and not _is_url(url):
            yield name, "it must be an address such as http://127.0.0.1:8899"
    if settings.worker.checkpoint_least > settings.worker.checkpoint_most:
        yield "worker.checkpoint_least", f"it is above worker.checkpoint_most, {settings.worker.checkpoint_most:g}"


def _addresses(settings: Settings) -> tuple[tuple[str, str | None], ...]:
    return (
        ("cluster.url", settings.cluster.url),
        ("prometheus.url", settings.prometheus.url),
        ("aws.endpoint", settings.aws.endpoint),
    )


def _stages(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.replicas.coverage > 1:
        yield "replicas.coverage", "it is a share of the time, at most 1"
    for name, expires in (("updates.expires", settings.updates.expires), ("replicas.expires", settings.replicas.expires)):
        if expires > REACH:
            yield name, f"consumers remember what they did for {REACH:g} s, and a plan must not outlive that"


def _texts(part: object, before: str) -> Iterator[tuple[str, str]]:
    """Texts and lists that are too long, or hold what no name, path or address holds."""
    names = type(part).model_fields if isinstance(part, BaseModel) else getattr(type(part), "__dataclass_fields__", ())
    for name in names:
        value = getattr(part, name)
        if isinstance(value, BaseModel) or is_dataclass(value):
            yield from _texts(value, f"{before}{name}.")
        elif isinstance(value, SecretStr):
            if len(value.get_secret_value()) > MOST_TEXT:
                yield before + name, f"more than {MOST_TEXT} characters are no secret of a server"
        elif isinstance(value, str | Path) and (wrong := _text_fault(str(value))):
            yield before + name, wrong
        elif isinstance(value, tuple | list):
            if len(value) > MOST_ENTRIES:
                yield before + name, f"it has {len(value)} entries; at most {MOST_ENTRIES} make sense"
            yield from ((before + name, wrong) for entry in value if isinstance(entry, str) and (wrong := _text_fault(entry)))


def _text_fault(text: str) -> str:
    if len(text) > MOST_TEXT:
        return f"it has {len(text)} characters; at most {MOST_TEXT} make sense"
    return "" if text.isprintable() else "it holds a character that cannot be printed"


def _broker_fault(brokers: str) -> str:
    """Why these are no bootstrap servers; empty when they are."""
    for entry in brokers.split(","):
        match = _BROKER.fullmatch(entry.strip())
        if match is None or int(match.group(3)) not in _PORTS:
            return f"'{entry.strip()}' is no HOST:PORT, as in 127.0.0.1:9092 or kafka-0:9092,kafka-1:9092"
    return ""


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        # `port` itself raises ValueError for what is none
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
