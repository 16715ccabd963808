"""All stages on one screen. Every driver builds from this list, so live, backtest and verification cannot drift apart.

Which topics they read and write stands in `stage_topics`. The code of a stage is loaded when a partition of it is opened first.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial

from agents.engine.stage import Stage
from agents.engine.turn import State
from agents.logic.conditions import conditions_stage
from agents.logic.event_validation import ahead, refuse
from agents.logic.nodes import scaler_settings
from agents.logic.nodes.scaler_settings import ScalerSettings
from agents.logic.replicas import forecaster_settings
from agents.logic.replicas.forecaster_settings import ForecasterSettings
from agents.logic.stage_rules import StageRules
from agents.logic.updates import update_settings
from agents.logic.updates.update_settings import UpdateRules
from agents.logic.vertical import vertical_event_validation, vertical_settings
from agents.logic.vertical.vertical_settings import VerticalSettings
from agents.policies import policy_sources
from agents.policies.policy_sources import ResolvedPolicies
from agents.run import stage_topics
from agents.settings.all_settings import Settings
from streams.topics import partition_of


def stages(settings: Settings) -> tuple[Stage, ...]:
    """The pipeline with these settings. Settings tune the stages; they never add or remove one, or change its topics.

    Raises BadInput for a policy written as code that is missing or refused.
    """
    return tuple(replace(stage, partitions=settings.topics.partitions) for stage in _stages(settings))


def _stages(settings: Settings) -> tuple[Stage, ...]:
    update_rules = UpdateRules(**asdict(settings.updates), recommender=settings.vertical.recommender)
    code = policy_sources.resolved(settings.vertical)
    vertical, place = code.settings, partial(partition_of, partitions=settings.topics.partitions)
    return (
        Stage(
            *stage_topics.RECOMMENDER,
            open=_recommender(code, place),
            refuse=refuse,
            ahead=ahead,
            vouches=vertical_event_validation.is_surely_good,
            program=vertical_settings.PROGRAM,
            rules=asdict(vertical),
            defaults=asdict(VerticalSettings()),
        ),
        Stage(
            *stage_topics.CONDITIONS,
            open=lambda partition: conditions_stage.VpaConditions(StageRules("recommender", vertical), partition, place),
            refuse=refuse,
            ahead=ahead,
            program=conditions_stage.PROGRAM,
        ),
        Stage(
            *stage_topics.UPDATER,
            open=_updater(settings, place),
            refuse=refuse,
            ahead=ahead,
            program=update_settings.PROGRAM,
            rules=asdict(update_rules),
            defaults=asdict(UpdateRules()),
        ),
        Stage(
            *stage_topics.SCALER,
            open=_scaler(settings, place),
            refuse=refuse,
            ahead=ahead,
            program=scaler_settings.PROGRAM,
            rules=asdict(settings.nodes),
            defaults=asdict(ScalerSettings()),
        ),
        Stage(
            *stage_topics.FORECASTER,
            open=_forecaster(settings, place),
            refuse=refuse,
            ahead=ahead,
            program=forecaster_settings.PROGRAM,
            rules=asdict(settings.replicas),
            defaults=asdict(ForecasterSettings()),
        ),
    )


def _recommender(code: ResolvedPolicies, place: Callable[[str], int]) -> Callable[[int], State]:
    """How to open a partition of the stage that sizes containers."""

    def opened(partition: int) -> State:
        # Here and in the three below: loading all stages takes a third of a second, and a command that reads needs one or none.
        from agents.logic.vertical.recommender_stage import Recommender

        return Recommender(code.settings, partition, code.policy_of, lambda vpa: place(vpa.target) == partition)

    return opened


def _updater(settings: Settings, place: Callable[[str], int]) -> Callable[[int], State]:
    """How to open a partition of the stage that plans changes of pods."""

    def opened(partition: int) -> State:
        from agents.logic.updates.updater import Updater

        return Updater(settings.updates, partition, settings.vertical.recommender, lambda vpa: place(vpa.cluster) == partition)

    return opened


def _scaler(settings: Settings, place: Callable[[str], int]) -> Callable[[int], State]:
    """How to open a partition of the stage that scales groups of nodes."""

    def opened(partition: int) -> State:
        from agents.logic.nodes.scaler.scaler_stage import Scaler

        return Scaler(settings.nodes, partition, lambda cluster: place(cluster) == partition)

    return opened


def _forecaster(settings: Settings, place: Callable[[str], int]) -> Callable[[int], State]:
    """How to open a partition of the stage that forecasts load and plans replicas for it."""

    def opened(partition: int) -> State:
        from agents.logic.replicas.forecaster import Forecaster

        return Forecaster(settings.replicas, partition, place)

    return opened
