"""What a process reports about itself: Prometheus metrics, health, and structured logs. docs/observability.md has every name.

Each component has a small class that takes a registry and has one method for each thing that can happen. Only the set-up of
logging is global. No decision ever depends on anything in here.
"""

from agents.telemetry.consumer_metrics import ConsumerMetrics, MetricsApiMetrics, WebhookMetrics
from agents.telemetry.dependency_health import DependencyMonitor, DependencyStatus
from agents.telemetry.health_server import HealthServer, Liveness, Readiness
from agents.telemetry.observed_log import ObservedLog
from agents.telemetry.source_metrics import ClockMetrics, NodeGroupMetrics, ReceiverMetrics, SourceMetrics, UsageMetrics
from agents.telemetry.worker_metrics import WorkerMetrics

__all__ = [
    "ClockMetrics",
    "ConsumerMetrics",
    "DependencyMonitor",
    "DependencyStatus",
    "HealthServer",
    "Liveness",
    "MetricsApiMetrics",
    "NodeGroupMetrics",
    "ObservedLog",
    "Readiness",
    "ReceiverMetrics",
    "SourceMetrics",
    "UsageMetrics",
    "WebhookMetrics",
    "WorkerMetrics",
]
