"""What a process tells about itself: Prometheus metrics, health, and structured logs. docs/observability.md has every name.

Each component gets a small class that takes a registry and says what happened in plain words; nothing here is global but the
set-up of logging. It only counts: no decision ever depends on what is told here.
"""

from agents.telemetry.clock import ClockMetrics
from agents.telemetry.consumers import ConsumerMetrics
from agents.telemetry.process import told
from agents.telemetry.pulse import Pulse
from agents.telemetry.readiness import CaughtUp
from agents.telemetry.server import HealthServer
from agents.telemetry.sources import SourceMetrics
from agents.telemetry.usage import UsageMetrics
from agents.telemetry.watched import WatchedLog
from agents.telemetry.worker import WorkerMetrics

__all__ = [
    "CaughtUp",
    "ClockMetrics",
    "ConsumerMetrics",
    "HealthServer",
    "Pulse",
    "SourceMetrics",
    "UsageMetrics",
    "WatchedLog",
    "WorkerMetrics",
    "told",
]
