"""Puts `ullage consumer autoscalers` together from the settings: the consumer that keeps objects, and the scaler.

The objects that follow from an EHPA are made with the pure functions of `agents.logic.replicas`.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from agents.logic.replicas import ehpa_crons, ehpa_manifest, generated_objects, hpa_metrics, hpa_reconcile
from agents.logic.replicas.ehpa_manifest import API, PREDICTED, Ehpa, PredictedMetric
from agents.logic.replicas.generated_objects import CannotGenerate, HpaSurroundings, LabelPropagation, TargetPod
from agents.settings import cluster_factory
from agents.settings.all_settings import Settings
from schemas import exact_quantity
from schemas.decisions.replica_plans import LoadForecast, MetricForecast
from schemas.times import to_seconds
from streams.clients.kube.api import Api
from streams.clients.kube.controllers import ScaleClient
from streams.clients.kube.event_recorder import RecordEvent
from streams.clients.kube.json_objects import AppliedObjects
from streams.clients.kube.label_selectors import LabelSelectedPods
from streams.consumers.executing.executor import Executor
from streams.consumers.executing.holder_lease import HolderLease
from streams.consumers.replicas.autoscaler_consumer import AutoscalerConsumer, AutoscalerOptions
from streams.consumers.replicas.desired_objects import Json, WantedObject
from streams.consumers.replicas.ehpa_reconciler import EhpaReconciler
from streams.consumers.replicas.pass_objects import ReplicaClients
from streams.consumers.replicas.scale_subresource import scaler
from streams.log_context import LogContext


class EhpaObjectGenerator:
    """`propagation` says which labels and annotations an EHPA hands on."""

    def __init__(self, propagation: LabelPropagation) -> None:
        self._propagation = propagation

    def needs_pods(self, ehpa: Mapping[str, Any]) -> bool:
        """Only a forecast of a utilisation has to be converted to amounts. If the object cannot be read, `hpa` says why."""
        if not (ehpa.get("spec") or {}).get("prediction"):
            return False
        try:
            metrics = [hpa_metrics.read(entry) for entry in ehpa["spec"].get("metrics") or ()]
        except ValueError:
            return False
        return any(metric.utilization is not None for metric in metrics)

    def hpa(
        self, ehpa: Mapping[str, Any], *, pods: Sequence[Mapping[str, Any]], forecast: LoadForecast | None, now: float
    ) -> WantedObject:
        """The HPA of an EHPA, or why there is none."""
        predicted = [
            {"resourceIdentifier": metric.identifier, "ready": True, "prediction": [{}]}
            for metric in _metrics(forecast, now)
            if metric.values
        ]
        around = HpaSurroundings([_pod(pod) for pod in pods], predicted, now, self._propagation)
        try:
            read = ehpa_manifest.read(ehpa)
            made = generated_objects.hpa(read, around)
        except (CannotGenerate, ValueError) as error:
            return WantedObject(None, str(error))
        spec: Any = made.manifest["spec"]
        # with all that the API server would add, so that what somebody changes of that is seen as a difference
        manifest = {**made.manifest, "spec": hpa_reconcile.defaulted(spec)}
        return WantedObject(manifest, left_out=(*made.left_out, *_cron_faults(read, now)))

    def cron_faults(self, ehpa: Mapping[str, Any], now: float) -> Sequence[str]:
        """None of an EHPA that cannot be read: there, `hpa` says why."""
        try:
            return _cron_faults(ehpa_manifest.read(ehpa), now)
        except ValueError:
            return ()

    def substitute(self, ehpa: Mapping[str, Any]) -> Json:
        """The object that it replaces."""
        read = ehpa_manifest.read(ehpa)
        target = {"apiVersion": read.target.api, "kind": read.target.kind, "name": read.target.name}
        about = ehpa_manifest.metadata(read)
        return {"apiVersion": API, "kind": "Substitute", "metadata": about, "spec": {"substituteTargetRef": target}}

    def tsp(self, ehpa: Mapping[str, Any]) -> WantedObject | None:
        """None where prediction is off, or nothing could be forecast anyway."""
        try:
            read = ehpa_manifest.read(ehpa)
            could_be_forecast = read.queries or any(metric.kind in PREDICTED for metric in read.metrics)
            if read.prediction is None or not could_be_forecast:
                return None
            made = generated_objects.tsp(read)
        except (CannotGenerate, ValueError) as error:
            return WantedObject(None, str(error))
        return WantedObject(made.manifest, left_out=made.left_out)

    def tsp_status(
        self, tsp: Mapping[str, Any], forecast: LoadForecast | None, now: float, *, unsupported: str = ""
    ) -> tuple[list[Json], Json]:
        """As of the decision: two windows from then on."""
        holds = forecast is not None and forecast.holds(now)
        if refused := unsupported or (forecast.refused if forecast is not None and holds else ""):
            return [], ehpa_manifest.condition(refused, ready=False)
        identifiers = [str(metric.get("resourceIdentifier")) for metric in tsp["spec"].get("predictionMetrics") or ()]
        forecasts = {metric.identifier: metric for metric in _metrics(forecast, now)}
        predicted = [_predicted(identifier, forecasts.get(identifier), forecast, now) for identifier in identifiers]
        at = now if forecast is None else to_seconds(forecast.at)
        window = int(tsp["spec"].get("predictionWindowSeconds") or 0) if forecast is None else int(forecast.window)
        return ehpa_manifest.status(predicted, now=at, window=window)

    def is_outdated(self, tsp: Mapping[str, Any], now: float) -> bool:
        """Whether what it holds ends within a window from now."""
        metrics = (tsp.get("status") or {}).get("predictionMetrics") or ()
        return ehpa_manifest.outdated(metrics, now=now, window=int(tsp["spec"].get("predictionWindowSeconds") or 0))


def _cron_faults(ehpa: Ehpa, now: float) -> Sequence[str]:
    return ehpa_crons.refusals(ehpa.crons, now, namespace=ehpa.namespace, ehpa=ehpa.name)


def _metrics(forecast: LoadForecast | None, now: float) -> Sequence[MetricForecast]:
    """The forecasts, unless they have expired."""
    return forecast.metrics if forecast is not None and forecast.holds(now) else ()


def _predicted(identifier: str, metric: MetricForecast | None, forecast: LoadForecast | None, now: float) -> PredictedMetric:
    if metric is None:
        expired = forecast is not None and not forecast.holds(now)
        until = f": the last one held until {forecast.expires.isoformat()}" if forecast is not None and expired else " yet"
        return PredictedMetric(identifier, why_not=f"there is no forecast{until}")
    first, step = int(to_seconds(metric.start)), int(metric.step)
    return PredictedMetric(identifier, first, step, metric.values, metric.message or metric.reason)


def _pod(pod: Mapping[str, Any]) -> TargetPod:
    """A pod as the API has it."""
    about, status, spec = pod["metadata"], pod.get("status") or {}, pod.get("spec") or {}
    ready: Mapping[str, Any] = next((c for c in status.get("conditions") or () if c.get("type") == "Ready"), {})
    since = ready.get("lastTransitionTime") if ready.get("status") == "True" else None
    sidecars = [container for container in spec.get("initContainers") or () if container.get("restartPolicy") == "Always"]
    return TargetPod(
        str(about["name"]),
        status.get("phase") == "Running",
        bool(about.get("deletionTimestamp")),
        None if since is None else datetime.fromisoformat(str(since)).timestamp(),
        tuple((str(container["name"]), _requests(container)) for container in (*(spec.get("containers") or ()), *sidecars)),
        _requests(spec),
    )


def _requests(container: Mapping[str, Any]) -> dict[str, int]:
    """Those of a container, or of the pod itself."""
    requests: Mapping[str, Any] = (container.get("resources") or {}).get("requests") or {}
    return {str(name): exact_quantity.read(value).thousandths for name, value in requests.items()}


_STOP = 10.0
"""Seconds for each of the two to finish what it began."""


class AutoscalerConsumers:
    """Both, side by side, under one Lease, which the scaler renews."""

    def __init__(self, keeping: AutoscalerConsumer, scaling: Executor) -> None:
        self._both: Sequence[AutoscalerConsumer | Executor] = (keeping, scaling)

    def reasons(self) -> Sequence[str]:
        """Why one of the two is not ready."""
        return list(dict.fromkeys(reason for consumer in self._both for reason in consumer.reasons()))

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set, or one of the two ends by itself."""
        ended = threading.Event()
        threads = [
            threading.Thread(target=consumer.run, args=(ended,), name=type(consumer).__name__, daemon=True)
            for consumer in self._both
        ]
        for thread in threads:
            thread.start()
        # whichever of the two ends, the other one must not go on alone
        while not stop.wait(0.2) and all(thread.is_alive() for thread in threads):
            pass
        ended.set()
        for thread in threads:
            thread.join(_STOP)


def autoscalers(
    context: Callable[[], LogContext], settings: Settings, lease: HolderLease | None, record: RecordEvent
) -> AutoscalerConsumers:
    """The consumer. `context` opens the log, once for each thread."""
    how = settings.autoscalers
    clients = replica_clients(Api(cluster_factory.connection(settings.cluster)))
    reconciler = EhpaReconciler(clients, generator(settings), record)
    options = AutoscalerOptions(how.resync_seconds, how.preview_seconds, how.writers, how.rate, how.burst)
    keeping = AutoscalerConsumer(context(), reconciler, options, lease)
    # a log and a client for each of the two threads
    return AutoscalerConsumers(keeping, scaler(context(), ScaleClient(Api(cluster_factory.connection(settings.cluster))), lease))


def replica_clients(api: Api) -> ReplicaClients:
    """The objects of one API server."""
    scaling, prediction = "autoscaling.crane.io/v1alpha1", "prediction.crane.io/v1alpha1"
    return ReplicaClients(
        AppliedObjects(api, scaling, "effectivehorizontalpodautoscalers", "EffectiveHorizontalPodAutoscaler"),
        AppliedObjects(api, "autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
        AppliedObjects(api, prediction, "timeseriespredictions", "TimeSeriesPrediction"),
        AppliedObjects(api, scaling, "substitutes", "Substitute"),
        ScaleClient(api),
        LabelSelectedPods(api),
    )


def generator(settings: Settings) -> EhpaObjectGenerator:
    """The generator of the objects."""
    how = settings.autoscalers
    return EhpaObjectGenerator(LabelPropagation(how.label_prefixes, how.labels, how.annotation_prefixes, how.annotations))
