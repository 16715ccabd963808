"""Which topics each stage reads and writes.

The pipeline is built from it; code that only needs the names does not load the stages.
"""

from typing import NamedTuple

from streams.topics import TOPICS


class StageTopics(NamedTuple):
    """Short names of topics, in declared order: a turn's records are taken in that of `reads`."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


RECOMMENDER = StageTopics(
    "recommender",
    reads=("rules", "policies", "cluster-changes", "pod-changes", "oom-events", "pod-metrics"),
    writes=("recommendations", "recommendations-by-cluster", "shadow-recommendations", "shadow-differences", "memory-leaks"),
)
CONDITIONS = StageTopics(
    "conditions",
    reads=("rules", "policies", "cluster-changes", "pod-changes-by-cluster", "recommendations-by-cluster", "pod-updates"),
    writes=("vpa-conditions",),
)
UPDATER = StageTopics(
    "updater",
    reads=(
        "rules",
        "policies",
        "control",
        "cluster-changes",
        "node-group-changes",
        "pod-changes-by-cluster",
        "recommendations-by-cluster",
        "outcomes",
    ),
    writes=("pod-updates",),
)
SCALER = StageTopics(
    "scaler",
    reads=(
        "rules",
        "policies",
        "control",
        "cluster-changes",
        "node-group-changes",
        "scheduling-changes",
        "recommendations-by-cluster",
        "replica-plans-by-cluster",
        "outcomes",
    ),
    writes=("node-updates",),
)
FORECASTER = StageTopics(
    "forecaster",
    reads=("rules", "policies", "control", "pod-changes", "pod-metrics", "load-metrics"),
    writes=("replica-plans", "replica-plans-by-cluster", "load-forecasts"),
)
ALL = (RECOMMENDER, CONDITIONS, UPDATER, SCALER, FORECASTER)


def stage_names() -> tuple[str, ...]:
    """The names of all stages."""
    return tuple(stage.name for stage in ALL)


def input_topics() -> tuple[str, ...]:
    """The topics that some stage reads, in the order of `TOPICS`."""
    read = {name for stage in ALL for name in stage.reads}
    return tuple(topic.name for topic in TOPICS if topic.name in read)


def all_decision_topics() -> tuple[str, ...]:
    """The topics that together hold every decision once: all that stages write, without copies by cluster."""
    return tuple(name for stage in ALL for name in stage.writes if not name.endswith("-by-cluster"))
