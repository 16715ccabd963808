"""All stages on one screen. Every driver builds from this list, so live, backtest and verification cannot drift apart."""

from agents.engine.stage import Stage
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater import Updater
from agents.logic.validation.clock_ahead import ahead
from agents.logic.validation.events import refuse
from agents.logic.vertical.recommender import Recommender
from agents.logic.vertical.vertical_settings import VerticalSettings


def stages(vertical: VerticalSettings, updates: UpdateSettings) -> tuple[Stage, ...]:
    """The pipeline with these settings."""
    return (
        Stage(
            name="recommender",
            reads=("policies", "cluster-changes", "pod-changes", "oom-events", "pod-metrics"),
            writes=("recommendations", "recommendations-by-cluster"),
            open=lambda partition: Recommender(vertical, partition),
            refuse=refuse,
            ahead=ahead,
        ),
        Stage(
            name="updater",
            reads=("policies", "control", "pod-changes-by-cluster", "recommendations-by-cluster", "outcomes"),
            writes=("pod-updates",),
            open=lambda partition: Updater(updates, partition, vertical.recommender),
            refuse=refuse,
        ),
    )
