"""Puts `ullage consumer autoscalers` together from the settings: the consumer that keeps objects, and the scaler."""

import threading
from collections.abc import Callable, Sequence

from agents.logic.replicas.generated_objects import LabelPropagation
from agents.processes.ehpa_object_generator import EhpaObjectGenerator
from agents.settings import cluster_factory
from agents.settings.all_settings import Settings
from streams.clients.kube.api import Api
from streams.clients.kube.applied_objects import AppliedObjects
from streams.clients.kube.label_selectors import LabelSelectedPods
from streams.clients.kube.scales import ScaleClient
from streams.consumers.executing.executor import Executor
from streams.consumers.executing.holder_lease import HolderLease
from streams.consumers.executing.object_events import RecordEvent
from streams.consumers.replicas.autoscaler_consumer import AutoscalerConsumer, AutoscalerOptions
from streams.consumers.replicas.ehpa_reconciler import EhpaReconciler, ReplicaClients
from streams.consumers.replicas.scale_subresource import scaler
from streams.log_context import LogContext

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
