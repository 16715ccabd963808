"""All stages on one screen. Every driver builds from this list, so live, backtest and verification cannot drift apart.

Whoever needs a list of stages, or of the topics that stages read or write, derives it here.
"""

from dataclasses import asdict
from functools import cache, partial

from agents.engine.stage import Stage
from agents.logic.conditions import conditions_stage
from agents.logic.nodes import scaler_stage, scaling_plans
from agents.logic.nodes.scaler_settings import ScalerSettings
from agents.logic.replicas import forecaster
from agents.logic.replicas.forecaster_settings import ForecasterSettings
from agents.logic.stage_rules import StageRules
from agents.logic.updates import updater
from agents.logic.updates.update_settings import UpdateRules
from agents.logic.validation.events import refuse
from agents.logic.validation.future_events import ahead
from agents.logic.vertical import recommender_stage, shadow_comparison, vertical_checks
from agents.logic.vertical.vertical_settings import VerticalSettings
from agents.settings import policy_sources
from agents.settings.tree import Settings
from streams.topics import TOPICS, partition_of


def stages(settings: Settings) -> tuple[Stage, ...]:
    """The pipeline with these settings. Settings tune the stages; they never add or remove one, or change its topics.

    Raises BadInput for a policy written as code that is not there or is refused.
    """
    update_rules = UpdateRules(**asdict(settings.updates), recommender=settings.vertical.recommender)
    code = policy_sources.resolved(settings.vertical)
    vertical = code.settings
    place = partial(partition_of, partitions=settings.topics.partitions)
    return (
        Stage(
            name="recommender",
            reads=("policies", "cluster-changes", "pod-changes", "oom-events", "pod-metrics"),
            writes=("recommendations", "recommendations-by-cluster", *shadow_comparison.TOPICS),
            open=lambda partition: recommender_stage.Recommender(vertical, partition, code.policy_of),
            refuse=refuse,
            ahead=ahead,
            vouches=vertical_checks.is_surely_good,
            program=recommender_stage.PROGRAM,
            rules=asdict(vertical),
            defaults=asdict(VerticalSettings()),
        ),
        Stage(
            name="conditions",
            reads=("policies", "cluster-changes", "pod-changes-by-cluster", "recommendations-by-cluster"),
            writes=("vpa-conditions",),
            open=lambda partition: conditions_stage.VpaConditions(StageRules("recommender", vertical), partition, place),
            refuse=refuse,
            ahead=ahead,
            program=conditions_stage.PROGRAM,
        ),
        Stage(
            name="updater",
            reads=("policies", "control", "pod-changes-by-cluster", "recommendations-by-cluster", "outcomes"),
            writes=("pod-updates",),
            open=lambda partition: updater.Updater(settings.updates, partition, settings.vertical.recommender),
            refuse=refuse,
            ahead=ahead,
            program=updater.PROGRAM,
            rules=asdict(update_rules),
            defaults=asdict(UpdateRules()),
        ),
        Stage(
            name=scaling_plans.NAME,
            reads=("policies", "control", "cluster-changes", "node-group-changes", "scheduling-changes", "outcomes"),
            writes=(scaling_plans.TOPIC,),
            open=lambda partition: scaler_stage.Scaler(settings.nodes, partition, lambda cluster: place(cluster) == partition),
            refuse=refuse,
            program=scaler_stage.PROGRAM,
            rules=asdict(settings.nodes),
            defaults=asdict(ScalerSettings()),
        ),
        _forecaster(settings),
    )


def _forecaster(settings: Settings) -> Stage:
    """The stage that says what load will be, and how many replicas there should be for it."""
    return Stage(
        name="forecaster",
        reads=("policies", "control", "pod-changes", "pod-metrics", "load-metrics"),
        writes=("replica-plans", "load-forecasts"),
        open=lambda partition: forecaster.Forecaster(
            settings.replicas, partition, lambda key: partition_of(key, settings.topics.partitions)
        ),
        refuse=refuse,
        ahead=ahead,
        program=forecaster.PROGRAM,
        rules=asdict(settings.replicas),
        defaults=asdict(ForecasterSettings()),
    )


@cache
def stage_names() -> tuple[str, ...]:
    """The names of all stages."""
    return tuple(stage.name for stage in stages(Settings()))


@cache
def ticked_topics() -> tuple[str, ...]:
    """Short names of the topics that some stage reads, in the order of `TOPICS`: each tick goes into every one of them."""
    read = {name for stage in stages(Settings()) for name in stage.reads}
    return tuple(topic.name for topic in TOPICS if topic.name in read)


@cache
def decision_topics() -> dict[str, str]:
    """For each stage, the short name of the topic that holds its decisions to act, each once: the first that it writes."""
    return {stage.name: stage.writes[0] for stage in stages(Settings())}


@cache
def told_topics() -> tuple[str, ...]:
    """Short names of the topics that together hold every decision once: all that stages write, without copies by cluster."""
    return tuple(name for stage in stages(Settings()) for name in stage.writes if not name.endswith("-by-cluster"))
