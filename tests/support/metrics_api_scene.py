"""The metrics API on a real HTTPS server in this process: a log in memory, its view, and clients that show who they are."""

import http.client
import json
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agents.logic.replicas.served_metrics import ServedMetrics
from schemas.catalogue import Event
from schemas.decisions.replica_plans import LoadForecast, MetricForecast
from schemas.names import Workload
from schemas.policies.ehpa import EHPA_KIND, EhpaChanged, ehpa_key
from schemas.policies.scaling import CronTrigger, PredictionOptions
from schemas.policies.vpa import TargetRef
from schemas.units import Seconds
from streams.codec.event_codec import Codec
from streams.consumers.metrics_api.metrics_api_consumer import MetricsView
from streams.consumers.metrics_api.metrics_endpoint import FrontProxyTrust, MetricsEndpoint
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.serving.certificate_making import self_made
from streams.serving.https_server import CertificateHolder, HttpsServer
from streams.topics import TOPICS, Topics
from tests.support import ticks
from tests.support.certificates import Authority

AT = datetime(2026, 1, 1, tzinfo=UTC)
CLUSTER, NAMESPACE = "demo", "shop"
_CERTIFICATE = self_made(("127.0.0.1",), datetime.now(UTC))


def ehpa(name: str = "web", **changed: Any) -> EhpaChanged:
    """An EHPA on a Deployment of its own name, with a forecast and a cron that is always active."""
    told = {
        "at": AT,
        "cluster": CLUSTER,
        "namespace": NAMESPACE,
        "name": name,
        "created": AT,
        "target_ref": TargetRef("Deployment", name, "apps/v1"),
        "max_replicas": 10,
        "crons": (CronTrigger("always", "0 0 * * *", "0 0 31 2 *", 4),),
        "prediction": PredictionOptions(3600, None),
        "uid": f"uid-{name}",
        **changed,
    }
    return EhpaChanged(**told)


def forecast(name: str = "web", *values: float, turn: int = 1, at: datetime = AT, **changed: Any) -> LoadForecast:
    """A forecast of the CPU of `web`: a value for each ten minutes from `at` on, good for an hour."""
    metric = MetricForecast("resource.cpu", "resource.cpu#1", at, Seconds(600.0), values or (3.0, 5.9, 4.0))
    told = {
        "id": f"forecaster/0/{turn}/forecast/{ehpa_key(CLUSTER, NAMESPACE, name)}",
        "at": at,
        "expires": at + timedelta(hours=1),
        "workload": Workload(CLUSTER, NAMESPACE, "Deployment", name),
        "object_kind": EHPA_KIND,
        "namespace": NAMESPACE,
        "name": name,
        "uid": f"uid-{name}",
        "generation": 1,
        "window": Seconds(3600.0),
        "metrics": (metric,),
        "because": {},
        **changed,
    }
    return LoadForecast(**told)


def selector(name: str = "web", identifier: str = "resource.cpu") -> dict[str, str]:
    """As a generated autoscaler asks."""
    return {"targetKind": "Deployment", "targetName": name, "targetNamespace": NAMESPACE, "resourceIdentifier": identifier}


def question(metric: str, labels: dict[str, str], namespace: str = NAMESPACE) -> str:
    """The path of a question."""
    text = quote(",".join(f"{key}={value}" for key, value in sorted(labels.items())))
    return f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}?labelSelector={text}"


@dataclass
class MetricsApiScene:
    """A log, a view that reads it, and an endpoint behind TLS that believes certificates of `authority`."""

    folder: Path
    now: datetime = AT
    topics: Topics = field(default_factory=lambda: Topics(partitions=2))
    log: MemoryLog = field(default_factory=MemoryLog)
    counted: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.codec = Codec(self.topics)
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), self.topics.partitions)
        self.view = MetricsView(LogContext.of(self.log, self.topics, CLUSTER))
        self.served = ServedMetrics(CLUSTER, self.view.latest)
        self.view.feed(self.served)
        self.endpoint = MetricsEndpoint(self.served, self, not_ready=self.view.reasons, now=lambda: self.now)
        self.authority = Authority.make(self.folder, "front")
        self.endpoint.trust = FrontProxyTrust(self.authority.file.read_bytes(), ("aggregator",), ("X-Remote-User",))
        self.holder = CertificateHolder(asks_clients=True)
        self.holder.load(_CERTIFICATE.certificate, _CERTIFICATE.key)
        self.holder.trust(self.endpoint.trust.authorities)

    def answered(self, metric: str, result: str, _seconds: float) -> None:
        """Counts, as the process's metrics do."""
        self.counted.append((metric, result))

    def say(self, *events: Event) -> None:
        """Put policies and forecasts where they belong."""
        for event in events:
            key = str(getattr(event, "key"))  # noqa: B009  # each of them has one
            topic = "load-forecasts" if isinstance(event, LoadForecast) else "policies"
            places = [self.topics.partition_of(key)] if topic == "load-forecasts" else range(self.topics.partitions)
            self.log.append(self.codec.encode(event, topic=topic, key=key, partition=p, source="/test") for p in places)

    def tick(self, at: datetime) -> None:
        """Time goes on."""
        number = int(at.timestamp() * 1000)
        ticks.append(self.log, self.topics, number)

    @contextmanager
    def serving(self) -> Iterator[HttpsServer]:
        """Listens on loopback while it is entered."""
        with HttpsServer(self.endpoint.routes, self.holder) as server:
            yield server

    def connect(self, server: HttpsServer, name: str | None = "aggregator", by: Authority | None = None) -> "Asker":
        """A connection with a client certificate `CN=name`, or without one."""
        context = ssl.create_default_context(cadata=_CERTIFICATE.authorities.decode())
        if name is not None:
            context.load_cert_chain((by or self.authority).sign(name, ["127.0.0.1"]))
        return Asker(http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=60.0))


@dataclass
class Asker:
    """One connection."""

    connection: http.client.HTTPSConnection

    def ask(self, path: str, **headers: str) -> tuple[int, Any]:
        """Code and body of the answer."""
        told = {"X-Remote-User": "system:serviceaccount:kube-system:horizontal-pod-autoscaler"}
        self.connection.request("GET", path, headers=told | {key.replace("_", "-"): value for key, value in headers.items()})
        answer = self.connection.getresponse()
        body = answer.read()
        return answer.status, json.loads(body) if "json" in (answer.getheader("Content-Type") or "") else body.decode()

    def value(self, metric: str, labels: dict[str, str]) -> str:
        """The one value of an answer that is one, else its sentence."""
        code, body = self.ask(question(metric, labels))
        return str(body["items"][0]["value"] if code == 200 else body["message"])


@contextmanager
def scene_in_a_folder() -> Iterator[MetricsApiScene]:
    """A scene with a folder of its own, for what runs outside pytest."""
    with tempfile.TemporaryDirectory(prefix="ullage-") as folder:
        yield MetricsApiScene(Path(folder))
