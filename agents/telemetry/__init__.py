"""What a process tells about itself: Prometheus metrics, health, and structured logs. docs/observability.md has every name.

Each component gets a small class that takes a registry and says what happened in plain words; nothing here is global but the
set-up of logging. It only counts: no decision ever depends on what is told here.
"""

from agents.telemetry.clock_metrics import ClockMetrics
from agents.telemetry.consumer_metrics import ConsumerMetrics
from agents.telemetry.health_server import HealthServer
from agents.telemetry.liveness import Liveness
from agents.telemetry.observed_log import ObservedLog
from agents.telemetry.readiness import Readiness
from agents.telemetry.source_metrics import SourceMetrics
from agents.telemetry.usage_metrics import UsageMetrics
from agents.telemetry.worker_metrics import WorkerMetrics

__all__ = [
    "ClockMetrics",
    "ConsumerMetrics",
    "HealthServer",
    "Liveness",
    "ObservedLog",
    "Readiness",
    "SourceMetrics",
    "UsageMetrics",
    "WorkerMetrics",
]
