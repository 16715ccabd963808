"""The consumer of autoscalers or a view of the metrics API, in a process that may die before or after any write that it makes.

    python -m tests.torture.faulty_replicas '{"role": "consumer", "brokers": ..., "api": ..., "leases": ..., "die": 0.02, ...}'

`die`: chance of that, for each write to the API server and for each append to the log. `mutant`: what else is wrong with it.
"""

import json
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kubernetes import client as official

from agents.logic.replicas import served_metrics
from agents.logic.replicas.generated_objects import LabelPropagation
from agents.logic.replicas.served_metrics import ServedMetrics
from agents.processes.consumer_autoscalers import AutoscalerConsumers, EhpaObjectGenerator, replica_clients
from schemas import times
from schemas.decisions.replica_plans import LoadForecast, ReplicasPlanned
from schemas.outcomes import OutcomeDetail, Result
from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.kube.controllers import ScaleClient
from streams.consumers.executing.handler import HandlerResult
from streams.consumers.executing.holder_lease import HolderLease, leases
from streams.consumers.metrics_api.metrics_api_consumer import MetricsView
from streams.consumers.metrics_api.metrics_endpoint import FrontProxyTrust, MetricsEndpoint
from streams.consumers.replicas import scale_subresource as scaling
from streams.consumers.replicas.autoscaler_consumer import AutoscalerConsumer, AutoscalerOptions
from streams.consumers.replicas.ehpa_reconciler import EhpaReconciler
from streams.consumers.replicas.pass_objects import ReplicaClients
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.serving.certificate_making import self_made
from streams.serving.https_server import CertificateHolder, HttpsServer
from streams.topics import Topics
from tests.torture import faulty_clock
from tests.torture.faulty_nodes import Deadly, DeadlyLog
from tests.torture.processes import end_with_any_thread

TIMEOUT = Seconds(3.0)
OPTIONS = AutoscalerOptions(resync=5.0, preview=5.0, writers=4)
WRITES = ("apply", "merge", "delete", "set")
"""Calls that change something. Nobody dies of reading: a successor has to wait for the Lease, and little would be done."""
LEASE = "ullage-autoscalers"


class DeadlyWrites(Deadly):
    """Ends the process before or after a write now and then."""

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name) if name in WRITES else getattr(self._target, name)


def consumer(told: Mapping[str, Any]) -> None:
    """One of two real consumers that share a Lease: what keeps objects, and the scaler."""
    die, api = told["die"], Api(_client(told["api"]), timeout=TIMEOUT)
    DeadlyLog.die, DeadlyLog.role = die, "consumer"
    real = replica_clients(api)
    clients = ReplicaClients(*(DeadlyWrites(getattr(real, name), die, "consumer") for name in ReplicaClients.__slots__))  # type: ignore[attr-defined]
    scales = DeadlyWrites(ScaleClient(Api(_client(told["api"]), timeout=TIMEOUT)), die, "consumer")
    name = f"{told['instance']}-{os.getpid()}"
    lease = HolderLease(leases(Api(_client(told["leases"]), timeout=TIMEOUT), "ullage"), LEASE, name)
    reconciler = EhpaReconciler(clients, EhpaObjectGenerator(LabelPropagation()))
    keeping = AutoscalerConsumer(_context(told, DeadlyLog), reconciler, OPTIONS, lease)
    AutoscalerConsumers(keeping, scaling.scaler(_context(told, DeadlyLog), scales, lease)).run(threading.Event())


def view(told: Mapping[str, Any]) -> None:
    """The real view and its endpoint behind TLS, on a port that is always the same."""
    context, stop = _context(told, KafkaLog), threading.Event()
    made = MetricsView(context)
    served = ServedMetrics(told["name"], made.latest)
    made.feed(served)
    endpoint = MetricsEndpoint(served, _Uncounted(), not_ready=made.reasons, now=lambda: _event_time(told))
    endpoint.trust = FrontProxyTrust(Path(told["authority"]).read_bytes(), ("aggregator",), ("X-Remote-User",))
    holder, certificate = CertificateHolder(asks_clients=True), self_made(("127.0.0.1",), datetime.now(UTC))
    holder.load(certificate.certificate, certificate.key)
    holder.trust(endpoint.trust.authorities)
    with HttpsServer(endpoint.routes, holder, address=("127.0.0.1", told["port"])):
        made.follow(stop)


class _Uncounted:
    def answered(self, metric: str, result: str, seconds: float) -> None:
        """The one who asks counts."""


def _event_time(told: Mapping[str, Any]) -> datetime:
    return times.from_ms(faulty_clock.now(told["epoch"], told["speed"]))


def _context(told: Mapping[str, Any], log: type[KafkaLog]) -> LogContext:
    return LogContext.of(log(KafkaConnection(told["brokers"])), Topics(told["prefix"], told["partitions"]), told["name"])


def _client(url: str) -> official.ApiClient:
    return official.ApiClient(official.Configuration(host=url))


def _idle() -> None:
    """A consumer that says done and does nothing."""

    def scale(_scales: Any, plan: ReplicasPlanned, _permit: Any) -> HandlerResult:
        return HandlerResult(Result.DONE, f"it asks for {plan.replicas} replicas", OutcomeDetail.APPLIED)

    scaling.scale = scale


def _twice() -> None:
    """A consumer that scales twice."""
    once = scaling.scale

    def scale(scales: Any, plan: ReplicasPlanned, permit: Any) -> HandlerResult | None:
        result = once(scales, plan, permit)
        if result is None:
            found = scaling._found(scales, plan)
            assert found is not None
            scales.set(found, plan.replicas)
        return result

    scaling.scale = scale


def _stale() -> None:
    """A view that goes on to answer from a forecast that has expired."""
    value = served_metrics.forecast_value

    def stale(forecast: LoadForecast, identifier: str, now: float) -> Any:
        return value(replace(forecast, expires=forecast.expires + timedelta(days=1)), identifier, now)

    served_metrics.forecast_value = stale


MUTANTS = {"answers what expired": _stale, "says done": _idle, "scales twice": _twice}


def main() -> None:
    told = json.loads(sys.argv[1])
    end_with_any_thread()
    if told["mutant"]:
        MUTANTS[told["mutant"]]()
    (view if told["role"] == "view" else consumer)(told)


if __name__ == "__main__":
    main()
