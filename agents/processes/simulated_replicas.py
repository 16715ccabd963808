"""Wires the scaled deployments of a simulated cluster to a log: EHPAs, their scales and their past, and the consumer that scales.

It stands for `source kube`, `source load` and the scaler of `consumer autoscalers`, on the cluster's own time. The past is what a
metrics store would remember: the deployment's own load shape, a value each five minutes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from schemas import times
from schemas.facts.replica_scaling import LoadHistoryRead, ScaleSeen, series_id
from schemas.names import Workload
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import AlgorithmOptions, DspOptions, MetricSpec, MetricTarget, PredictionOptions
from schemas.policies.vpa import TargetRef
from schemas.units import Seconds
from schemas.well_known_labels import SCALING
from streams.clients.kube.controllers import ControllerKey, FoundScale
from streams.consumers.replicas.scale_subresource import scaler
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.publishing.published_state import REPUBLISH_AFTER
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.cluster_spec import LoadMoment, SimulatedDeployment, SimulatedScaling
from streams.sources.kube.publish.publisher import SOURCE, Publisher

_STEP = 300
"""Seconds between two values of the past."""
_REF = ("Deployment", "apps/v1")


@dataclass(frozen=True, slots=True)
class SourceAndConsumer:
    """Of one part of a simulated cluster: `publish` publishes what is new, `act` carries out what was decided."""

    publish: Callable[[datetime], object]
    act: Callable[[], object] = lambda: None


class SimulatedScales:
    """The scale subresource of the cluster's deployments."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def find(self, key: ControllerKey) -> FoundScale | None:
        """The scale of a deployment; None when there is none."""
        cluster = self._cluster
        with cluster.lock:
            for deployment in cluster.deployments:
                if (deployment.namespace, deployment.name, key.kind) == (key.namespace, key.name, _REF[0]):
                    there = sum(pod.deployment is deployment for pod in cluster.pods_by_name.values())
                    name = f"{deployment.namespace}/{deployment.name}"
                    return FoundScale(
                        name, f"{_REF[0]} {name}", cluster.wanted(deployment), there, f"app={deployment.name}", "", ""
                    )
        return None

    def set(self, scale: FoundScale, replicas: int) -> None:
        """Ask for so many replicas."""
        namespace, _, name = scale.path.partition("/")
        self._cluster.scale(namespace, name, replicas)

    def forget_kinds(self) -> None:
        """There is one kind, and it stays."""


def open_replicas(cluster: SimulatedCluster, context: Callable[[], LogContext]) -> SourceAndConsumer:
    """Source and consumer, each with a `context` of its own."""
    scales = SimulatedScales(cluster)
    source = _ReplicaSource(cluster, scales, context())
    return SourceAndConsumer(source.publish, scaler(context(), scales).poll_once)


class _ReplicaSource:
    """The EHPAs first, then what is known of their targets' past, and their scales whenever they change."""

    def __init__(self, cluster: SimulatedCluster, scales: SimulatedScales, context: LogContext) -> None:
        self._cluster, self._scales, self._context = cluster, scales, context
        self._publisher, self._outbox = Publisher(context), Outbox(context)
        self._scaled = [(deployment, deployment.scaling) for deployment in cluster.deployments if deployment.scaling is not None]
        self._published: dict[str, ScaleSeen] = {}
        self._rounds = 0

    def publish(self, at: datetime) -> None:
        """Publish what is new at this time."""
        self._rounds += 1
        for deployment, scaling in self._scaled:
            # once, for they do not change
            if self._rounds == 1:
                self._publisher.publish(_ehpa(self._cluster.name, deployment, scaling, at))
            self._scale(deployment, at)
        records = [*self._publisher.drain()]
        if self._rounds == 2:  # noqa: PLR2004  # the forecaster keeps the past of loads that it knew before
            records += [record for deployment, scaling in self._scaled for record in self._past(deployment, scaling, at)]
        self._outbox.publish(facts=records, scrapes=())
        self._outbox.flush()

    def _scale(self, deployment: SimulatedDeployment, at: datetime) -> None:
        scale = self._scales.find(ControllerKey(deployment.namespace, _REF[0], deployment.name, _REF[1]))
        if scale is None:
            return
        workload, published = _workload(self._cluster.name, deployment), self._published.get(deployment.name)
        fact = ScaleSeen(at, workload, scale.replicas, scale.there, scale.selector)
        if (
            published is None
            or (published.replicas, published.status_replicas) != (scale.replicas, scale.there)
            or at - published.at > REPUBLISH_AFTER
        ):
            self._published[deployment.name] = fact
            self._publisher.publish(fact)

    def _past(self, deployment: SimulatedDeployment, scaling: SimulatedScaling, at: datetime) -> Iterator[NewRecord]:
        """What a metrics store would remember of the load."""
        workload, context = _workload(self._cluster.name, deployment), self._context
        partition = context.topics.partition_of(workload.key)
        # by day, because a record holds a bounded number of values
        for day in range(scaling.days, 0, -1):
            start = at - timedelta(days=day)
            moments = [times.to_seconds(start) + _STEP * n for n in range(86_400 // _STEP)]
            values = tuple(_together(deployment, Seconds(moment)) for moment in moments)
            event = LoadHistoryRead(at, workload, series_id("resource.cpu", ""), start, Seconds(float(_STEP)), values)
            yield context.codec.encode(event, topic="load-metrics", key=workload.key, partition=partition, source=SOURCE)


def _ehpa(cluster: str, deployment: SimulatedDeployment, scaling: SimulatedScaling, at: datetime) -> EhpaChanged:
    target = MetricTarget("Utilization", average_utilization=scaling.utilization)
    return EhpaChanged(
        at,
        cluster,
        deployment.namespace,
        deployment.name,
        at,
        TargetRef(_REF[0], deployment.name, _REF[1]),
        max_replicas=scaling.most,
        min_replicas=scaling.least,
        metrics=(MetricSpec("Resource", "cpu", target),),
        prediction=PredictionOptions(scaling.ahead, AlgorithmOptions("dsp", DspOptions("1m", f"{scaling.days}d"))),
        annotations={SCALING: "direct"},
        uid=f"ehpa-{deployment.namespace}-{deployment.name}",
        generation=1,
    )


def _together(deployment: SimulatedDeployment, time: Seconds) -> float:
    """Cores that all pods used together."""
    moment = LoadMoment(0, time, Seconds(86_400.0))
    return sum(container.shape(moment).cores for container in deployment.containers if container.shape is not None)


def _workload(cluster: str, deployment: SimulatedDeployment) -> Workload:
    return Workload(cluster, deployment.namespace, _REF[0], deployment.name)
