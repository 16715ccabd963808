"""The real stages of the pipeline, with settings under which much is done within minutes of event time."""

from agents.engine.stage import Stage
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.vertical.vertical_settings import VerticalSettings
from agents.run import pipeline
from agents.settings.all_settings import Settings, TopicSettings
from schemas.units import Fraction, Seconds

VERTICAL = VerticalSettings(
    cpu_half_life=Seconds(90.0),
    memory_half_life=Seconds(90.0),
    memory_window=Seconds(60.0),
    cpu_confidence=Seconds(60.0),
    memory_confidence=Seconds(60.0),
    interval=Seconds(20.0),
)
UPDATES = UpdateSettings(
    interval=Seconds(20.0),
    lifetime=Seconds(45.0),
    warm_up=Seconds(30.0),
    cool_down=Seconds(60.0),
    expires=Seconds(200.0),
    unchanged_pause=Seconds(120.0),
    resize_deferred=Seconds(60.0),
    budget=Fraction(0.5),
)


def settings(partitions: int) -> Settings:
    """Of a log with so many partitions, which stages keyed by cluster know."""
    return Settings(vertical=VERTICAL, updates=UPDATES, topics=TopicSettings(partitions=partitions))


def stages(partitions: int) -> tuple[Stage, ...]:
    """The pipeline over such a log."""
    return pipeline.stages(settings(partitions))
