"""EHPAs on the plane: the metrics API and the autoscalers consumer at work in this process, under their own roles.

`Replicas` has a log in memory with a tick each half second, mode apply, and a Service that is a name for loopback, so that the
API server passes questions on to us over TLS. `load(app, total)` is what the pods of a Deployment use together from then on.
"""

import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kubernetes import client as official
from prometheus_client import CollectorRegistry

from agents.logic.replicas.generated_objects import LabelPropagation
from agents.processes.consumer_autoscalers import AutoscalerConsumers, EhpaObjectGenerator, replica_clients
from agents.processes.consumer_metrics_api import event_clock, metrics_api
from agents.settings.all_settings import ClockSettings, Settings
from agents.telemetry import MetricsApiMetrics
from schemas.catalogue import Event
from schemas.decisions.replica_plans import LoadForecast, MetricForecast, ReplicasPlanned, ReplicasRefused
from schemas.names import Workload
from schemas.outcomes import ActionFinished, ObjectWritten
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.ehpa import EHPA_KIND, EhpaChanged, EhpaRemoved, ehpa_key
from schemas.policies.scaling import PredictionOptions, ScaleStrategy
from schemas.policies.vpa import TargetRef
from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.kube.controllers import ScaleClient
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.consumers.metrics_api import api_service
from streams.consumers.metrics_api.api_service import CUSTOM, EXTERNAL
from streams.consumers.replicas.autoscaler_consumer import AutoscalerConsumer, AutoscalerOptions
from streams.consumers.replicas.ehpa_reconciler import EhpaReconciler
from streams.consumers.replicas.scale_subresource import scaler
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS, Topics
from tests.controlplane import crane_types
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane, free_ports
from tests.controlplane.roles import Account
from tests.controlplane.world import World
from tests.support import ticks
from tests.support.attested_plans import with_attestations

CLUSTER = "real"
EHPAS, HPAS, SUBSTITUTES, TSPS = (
    "effectivehorizontalpodautoscalers",
    "horizontalpodautoscalers",
    "substitutes",
    "timeseriespredictions",
)
_SERVICES = [f"{api_service.PATH}/{group.api_service}" for group in (EXTERNAL, CUSTOM)]


class Replicas:
    """The consumers of one file of tests. `home` is the namespace that they run in, `world` that of the workloads."""

    def __init__(
        self, plane: Plane, home: World, world: World, clock: ClockSettings | None = None, *, custom: bool = False
    ) -> None:
        """With a `clock` that is not real time, its event time is that of the log and of both consumers.

        `custom`: the metrics API is also registered for custom metrics.
        """
        self._custom = custom
        self.plane, self.home, self.world, self._clock = plane, home, world, clock or ClockSettings()
        self.now, self.ticked = event_clock(self._clock), {"control", "load-forecasts"}
        self.topics, self.log = Topics(partitions=2), MemoryLog()
        self.codec, self._stop = Codec(self.topics), threading.Event()
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), self.topics.partitions)
        self.accounts = [Account(plane, home, f"consumer-{name}") for name in ("metrics-api", "autoscalers")]
        self.loads: dict[str, float] = {}
        self._turn = 0
        self.tick()
        self.control(Mode.APPLY)
        self._settings, self._served = self._metrics_api_settings(), threading.Event()
        self._answering: threading.Thread | None = None
        self.start_metrics_api()
        works: list[Any] = [self._autoscalers(), self]
        self._threads = [threading.Thread(target=work.run, args=(self._stop,), daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def start_metrics_api(self) -> None:
        """A new process of it would begin so, at the same address."""
        self._served = threading.Event()
        serving = metrics_api(self._context, self._settings, MetricsApiMetrics(CollectorRegistry()))
        self._answering = threading.Thread(target=serving.run, args=(self._served,), daemon=True)
        self._answering.start()

    def stop_metrics_api(self) -> None:
        """Nobody listens at its address any more; its APIService stays, as after a kill."""
        self._served.set()
        if self._answering is not None:
            self._answering.join(60.0)

    def close(self) -> None:
        self._stop.set()
        self.stop_metrics_api()
        for thread in self._threads:
            thread.join(60.0)
        for service in _SERVICES:
            with suppress(Exception):
                self.plane.ask.delete(service)
        for account in self.accounts:
            account.close()

    def run(self, stop: threading.Event) -> None:
        """Time goes on, and pods use what `loads` says."""
        while not stop.wait(0.3):
            self.tick()
            now = datetime.now(UTC)
            for app, total in list(self.loads.items()):
                pods = self.world.pods(app)
                for pod in pods:
                    usage = {"app": {"cpu": f"{round(1000 * total / len(pods))}m"}}
                    self.plane.metrics.serve(self.world.namespace, pod["metadata"]["name"], usage, at=now, labels={"app": app})
                self.plane.metrics.keep(self.world.namespace, {"app": app}, {pod["metadata"]["name"] for pod in pods})

    def registered(self) -> None:
        """Wait until the API server passes questions on to us."""

        def available() -> bool:
            found = [self.plane.ask.find(service) or {} for service in _SERVICES[: 1 + self._custom]]
            conditions = [(each.get("status") or {}).get("conditions") or () for each in found]
            return all(any(c["type"] == "Available" and c["status"] == "True" for c in each) for each in conditions)

        wait_for(available, timeout=40.0, what="each APIService is available")

    def ehpa(self, name: str, *, direct: bool = False, **spec: Any) -> Any:
        """The object at the API server, and what a source would publish of it. Its metric: 50m of CPU for each pod."""
        target = {"type": "AverageValue", "averageValue": "50m"}
        dsp = {"sampleInterval": "60s", "historyLength": "7d"}
        whole: dict[str, Any] = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 2,
            "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            "prediction": {"predictionWindowSeconds": 3600, "predictionAlgorithm": {"algorithmType": "dsp", "dsp": dsp}},
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
            **spec,
        }
        annotations = {"ullage/scaling": "direct"} if direct else {}
        body = {
            "apiVersion": "autoscaling.crane.io/v1alpha1",
            "kind": EHPA_KIND,
            "metadata": {"name": name, "annotations": annotations},
            "spec": whole,
        }
        made = crane_types.make(self.world.ask, self.world.namespace, EHPAS, body)
        event = EhpaChanged(
            datetime.now(UTC),
            CLUSTER,
            self.world.namespace,
            name,
            datetime.fromisoformat(made["metadata"]["creationTimestamp"]),
            TargetRef("Deployment", whole["scaleTargetRef"]["name"], "apps/v1"),
            max_replicas=10,
            min_replicas=2,
            strategy=ScaleStrategy(whole.get("scaleStrategy", "Auto")),
            prediction=PredictionOptions(3600, None),
            annotations=annotations,
            uid=made["metadata"]["uid"],
            generation=1,
        )
        self.say(event)
        return made

    def removed(self, name: str) -> None:
        self.world.ask.delete(crane_types.path(self.world.namespace, EHPAS, name))
        self.say(EhpaRemoved(datetime.now(UTC), CLUSTER, self.world.namespace, name))

    def forecast(self, made: Any, value: float, *, lasts: float = 3600.0, of: str = "resource.cpu") -> None:
        """The EHPA's metric will have this value in an hour's time at most; the forecast holds for so many seconds."""
        self._turn += 1
        name, at = made["metadata"]["name"], datetime.now(UTC)
        metric = MetricForecast(of, f"{of}#1", at, Seconds(600.0), (0.05, *[value] * 11))
        key = ehpa_key(CLUSTER, self.world.namespace, name)
        self.say(
            LoadForecast(
                id=f"forecaster/0/{self._turn}/forecast/{key}",
                at=at,
                expires=at + timedelta(seconds=lasts),
                workload=Workload(CLUSTER, self.world.namespace, "Deployment", name),
                object_kind=EHPA_KIND,
                namespace=self.world.namespace,
                name=name,
                uid=made["metadata"]["uid"],
                generation=1,
                window=Seconds(3600.0),
                metrics=(metric,),
                because={},
            )
        )

    def control(self, mode: Mode) -> None:
        self.say(ControlChanged(datetime.now(UTC), CLUSTER, mode))

    def say(self, event: Event) -> None:
        """Put an event where it belongs."""
        match event:
            case ControlChanged():
                places, topic, key = range(2), "control", CLUSTER
            case LoadForecast():
                topic, key = "load-forecasts", event.key
                places = range(self.topics.partition_of(key), self.topics.partition_of(key) + 1)
            case ReplicasPlanned() | ReplicasRefused():
                topic, key = "replica-plans", event.workload.key
                places = range(self.topics.partition_of(key), self.topics.partition_of(key) + 1)
            case _:
                places, topic, key = range(2), "policies", str(getattr(event, "key"))  # noqa: B009  # a policy has one
        records = [Codec(self.topics).encode(event, topic=topic, key=key, partition=p, source="/test") for p in places]
        self.log.append(with_attestations(records, self.topics))

    def tick(self) -> None:
        now = int(self.now().timestamp() * 1000)
        ticks.append(self.log, self.topics, now)

    def outcomes(self) -> list[ActionFinished | ObjectWritten]:
        places = {(self.topics.wire("outcomes"), p): 0 for p in range(2)}
        records = [record for record in self.log.poll(places, limit=100_000) if not is_of_a_clock(record)]
        found = [Codec(self.topics).decode(record) for record in records]
        return [event for event in found if isinstance(event, ActionFinished | ObjectWritten)]

    def found(self, plural: str, name: str) -> Any:
        return self.world.ask.find(crane_types.path(self.world.namespace, plural, name))

    def replicas(self, name: str) -> int:
        return int(self.world.ask.get(self.world.path("deployments", name))["spec"]["replicas"])

    def ready(self, name: str, kind: str = "Ready") -> tuple[str, str] | None:
        """Status and reason of a condition of the EHPA."""
        conditions = ((self.found(EHPAS, name) or {}).get("status") or {}).get("conditions") or ()
        return next(((each["status"], each["reason"]) for each in conditions if each["type"] == kind), None)

    def _context(self) -> LogContext:
        return LogContext.of(self.log, self.topics, CLUSTER)

    def _api(self, account: Account) -> official.ApiClient:
        settings = official.Configuration(host=self.plane.url, retries=False)
        settings.ssl_ca_cert = str(self.plane.ca)
        settings.api_key, settings.api_key_prefix = {"authorization": account.token}, {"authorization": "Bearer"}
        settings.proxy = None
        return official.ApiClient(settings)

    def _metrics_api_settings(self) -> Settings:
        """As the command is given them, with a kubeconfig of its account."""
        (port,) = free_ports(1)
        spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
        services = f"/api/v1/namespaces/{self.home.namespace}/services"
        self.home.ask.post(services, {"metadata": {"name": "ullage-metrics-api"}, "spec": spec})
        folder = Path(self.plane.folder, self.home.namespace)
        folder.mkdir()
        return Settings(
            cluster={"name": CLUSTER, "kubeconfig": self.accounts[0].kubeconfig(folder)},
            metrics_api={
                "host": "127.0.0.1",
                "port": port,
                "service_port": port,
                "namespace": self.home.namespace,
                "custom": self._custom,
            },
            clock=self._clock,
        )

    def _autoscalers(self) -> Any:
        api = self._api(self.accounts[1])
        reconciler = EhpaReconciler(replica_clients(Api(api)), EhpaObjectGenerator(LabelPropagation(("team.",))))
        options = AutoscalerOptions(resync=1.0, preview=4.0, rate=1000.0, burst=1000)
        keeping = AutoscalerConsumer(self._context(), reconciler, options)
        return AutoscalerConsumers(keeping, scaler(self._context(), ScaleClient(Api(api))))
